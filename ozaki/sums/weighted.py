"""Weighted variances of exact sums, rounded once.

A number x_k counts f_k times with the reliability a_k, as in `numpy.cov`: w = f·a. With the exact sums
S_0 = Σw, S_1 = Σw·x, S_2 = Σw·|x|² and A = Σw·a the variance is (S_0·S_2 − |S_1|²)/(S_0² − ddof·A).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import inf, nan
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, as_array, check_same_device, is_cupy, real_parts, where_lies
from multiword.runtime.options import exactly
from multiword.runtime.readback import anywhere
from ozaki.rounding.conversion import narrow
from ozaki.sums.arguments import columns_of, weights_along
from ozaki.sums.exact import moments, rows
from ozaki.sums.exact.enclosure import Enclosure
from ozaki.sums.exact.fixed_point import Rounding
from ozaki.sums.exact.powers import Factors, product_sums, rounded_of_sums

Weights = tuple[Array, ...]
"""Frequencies, reliabilities, or both, in float64, none negative; reliabilities are the last."""


def checked_weights(
    x: Array, fweights: Any, aweights: Any, axes: tuple[int, ...], where: Array | None = None
) -> Weights:
    """Return the weights that are given, in the shape of x, 0 where a mask is False.

    TypeError for weights that are not real, and frequencies that are no integers, ValueError for negative
    ones and shapes that do not fit.
    """
    given = {"fweights": fweights, "aweights": aweights}
    arrays = {name: as_array(w, name) for name, w in given.items() if w is not None}
    xp, found = check_same_device(x=x, **arrays), []
    for name, w in arrays.items():
        w = xp.broadcast_to(weights_along(x, w, axes, name), x.shape)
        w = exactly(name, w, np.float64)
        if name == "fweights" and anywhere(w != xp.floor(w)):
            raise TypeError("fweights must be integers; aweights may be any numbers that are not negative")
        if anywhere(w < 0):
            raise ValueError(f"{name} must not be negative")
        found.append(w if where is None else xp.where(where, w, 0.0))
    return tuple(found)


def divisor(weights: Weights, reliable: bool, ddof: Fraction) -> tuple[Fraction, Fraction]:
    """Return S_0 and S_0 − ddof·A/S_0 of vectors of weights, exactly; ZeroDivisionError for S_0 = 0."""
    columns = tuple(w.reshape(-1, 1) for w in weights)
    total, squares = (_fraction(product_sums(*f)) for f in (columns, _reliabilities(columns, reliable)))
    if not total:
        raise ZeroDivisionError("weights must not sum to zero")
    return total, total - ddof * squares / total


def _fraction(sums: Any) -> Fraction:
    ((value, unit),) = sums.on_host().integers()
    return value * Fraction(2) ** unit


def _reliabilities(weights: Weights, reliable: bool) -> Weights:
    """The factors of A = Σw·a."""
    return (*weights, weights[-1]) if reliable else weights


def weighted_variances(
    x: Array, weights: Weights, reliable: bool, axes: tuple[int, ...], ddof: Fraction, rounding: Rounding
) -> Array:
    """Return the variances over axes, or their roots, rounded, as a vector in the dtype of the format.

    x, weights : of one shape.
    reliable : whether the last weights are reliabilities.
    """
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    columns, weights = exactly("x", columns_of(x, axes), wide), tuple(columns_of(w, axes) for w in weights)

    def of_sums(x: Array, weights: Weights) -> Array:
        values = _of_sums(real_parts(x), weights, reliable, ddof, rounding)
        return where_lies(x, narrow(values, rounding.target.dtype))

    found = None
    if len(weights) == 1 and is_cupy(x):
        found = moments.weighted_variances(columns, weights[0], reliable, ddof, rounding)
    elif len(weights) == 1:
        found = rows.weighted_variances(real_parts(columns), weights[0], reliable, ddof, rounding)
    if found is None:
        return of_sums(columns, weights)
    result, undecided = found
    if len(undecided):
        result[undecided] = of_sums(columns[:, undecided], tuple(w[:, undecided] for w in weights))
    return result


def _of_sums(
    parts: list[Array], weights: Weights, reliable: bool, ddof: Fraction, rounding: Rounding
) -> np.ndarray:
    """The same of columns, as float64 numbers on the host, from sums that it has or encloses."""
    terms: list[Factors] = [weights, _reliabilities(weights, reliable)]
    terms += [(*weights, part) for part in parts] + [(*weights, part, part) for part in parts]
    if parts[0].shape[1] > 0 == len(parts[0]):
        raise ZeroDivisionError("weights must not sum to zero")

    def exact(sums: Sequence[tuple[int, int]]) -> float:
        unit = min(0, *(e for _, e in sums))
        total, reliability, *moments = (v << (e - unit) for v, e in sums)
        first, second = moments[: len(parts)], moments[len(parts) :]
        if not total:
            raise ZeroDivisionError("weights must not sum to zero")
        above = total * sum(second) - sum(s * s for s in first)
        below = total * total * ddof.denominator - (reliability * ddof.numerator << -unit)
        if below <= 0:
            return inf if above else nan
        return rounding.ratio(above * ddof.denominator, below)

    def enclosed(sums: list[Enclosure]) -> Enclosure:
        (total, reliability), moments = sums[:2], sums[2:]
        first, second = moments[: len(parts)], moments[len(parts) :]
        above = [s.times(total).less(f.times(f)) for f, s in zip(first, second, strict=True)]
        above = [above[0]] if len(above) == 1 else [above[0].less(above[1].negative())]
        correction = reliability.times(Enclosure.exactly(np.array([float(ddof)])).normalized())
        below = total.times(total).less(correction)
        quotient = above[0].over(below)
        quotient = quotient.root() if rounding.root else quotient
        return replace(quotient, error=np.where(below.high > below.error, quotient.error, inf))

    simple = ddof.denominator == 1 and abs(ddof) < 1 << 53
    return rounded_of_sums(terms, rounding.target, exact, enclosed if simple else None)
