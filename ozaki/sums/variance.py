"""Variances and covariances of exact sums, rounded once.

With S = Σx and Q = Σ|x|², both exact, the sum of squares about the exact mean is (n·Q − |S|²)/n: no
difference x − mean is ever rounded, and nothing cancels (Chan, Golub and LeVeque, Algorithms for computing
the sample variance, whose formula only rounding makes a bad one). Of pairs of numbers it is
(n·Σxy − Σx·Σy)/n.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import inf, isfinite, nan
from numbers import Rational, Real
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, namespace, where_lies
from ozaki.sums.exact.enclosure import Enclosure
from ozaki.sums.exact.fixed_point import NOT_FINITE, FixedPoint, Rounding
from ozaki.tuning import INTEGER_RATIOS

Counts = Sequence[int] | Array

_EXACT = 1 << 26  # n·(n − ddof) is a float64 below


def variances(
    squares: FixedPoint,
    sums: Sequence[FixedPoint],
    counts: Counts,
    ddof: Fraction,
    rounding: Rounding,
    skip_nan: bool = False,
) -> np.ndarray:
    """Return (n·Q − |S|²)/(n·(n − ddof)) of exact sums, or its root, rounded, as float64.

    Parameters
    ----------
    squares, sums : Q, and the real (and imaginary) parts of S. NaN where Inf or NaN has been added to Q.
    counts : n.
    skip_nan : NaN where n ≤ ddof, as in `nanvar`.
    """
    n = namespace(squares.flags).asarray(counts, np.int64)
    with np.errstate(all="ignore"):
        values, certain = _estimates(squares, sums, n.astype(np.float64), ddof, rounding)
    return _completed(values, certain, squares, sums, sums, n, ddof, rounding, skip_nan)


def covariances(
    products: FixedPoint, x: FixedPoint, y: FixedPoint, counts: Counts, ddof: Fraction, rounding: Rounding
) -> np.ndarray:
    """Return (n·Σxy − Σx·Σy)/(n·(n − ddof)) of exact sums, rounded, as float64; as `variances`."""
    n = namespace(products.flags).asarray(counts, np.int64)
    with np.errstate(all="ignore"):
        values, certain = _estimated_covariances(products, x, y, n.astype(np.float64), ddof, rounding)
    return _completed(values, certain, products, [x], [y], n, ddof, rounding)


def _completed(
    values: np.ndarray,
    certain: np.ndarray,
    products: FixedPoint,
    left: Sequence[FixedPoint],
    right: Sequence[FixedPoint],
    n: np.ndarray,
    ddof: Fraction,
    rounding: Rounding,
    skip_nan: bool = False,
) -> np.ndarray:
    """Return the values, with those that are not certain made of integers: (n·P − Σ S·T)/(n·(n − ddof)).

    products, left, right : P, and the S and T of which the products are added.
    """
    few = n <= 1  # of which the mean is the number itself
    values[few] = np.where((n[few] == 0) | (ddof >= 1), nan, 0.0)
    hard = np.flatnonzero(~(certain | few))
    of_left = [part.columns(hard).integers() for part in left]
    of_right = of_left if right is left else [part.columns(hard).integers() for part in right]
    results = []
    for i, (count, (p, e)) in enumerate(
        zip(n[hard].tolist(), products.columns(hard).integers(), strict=True)
    ):
        pairs = [(*s[i], *t[i]) for s, t in zip(of_left, of_right, strict=True)]
        unit = min(e, *(f + g for _, f, _, g in pairs))
        above = (count * p << (e - unit)) - sum(s * t << (f + g - unit) for s, f, t, g in pairs)
        results.append(_quotient(above, unit, count, count - ddof, rounding, skip_nan))
    values[hard] = where_lies(values, results)
    values[(products.flags & NOT_FINITE) != 0] = nan
    return values


def about_given(
    squares: FixedPoint, counts: Counts, ddof: Fraction, rounding: Rounding, skip_nan: bool
) -> np.ndarray:
    """Return Σ|x - m|²/(n - ddof) of exact sums about given means m, or its root, rounded, as float64.

    As `variances`; differs in that the sums of squares are about m already.
    """
    n = namespace(squares.flags).asarray(counts, np.int64)
    if ddof.denominator == 1:
        values = rounding.finite(squares, namespace(n).maximum(n - int(ddof), 1))
    else:
        exact = zip(squares.integers(), n.tolist(), strict=True)
        values = where_lies(
            n,
            [
                _quotient(q, e, 1, k - ddof, rounding, skip_nan) if k > ddof else float(q != 0)
                for (q, e), k in exact
            ],
        )
    few = n <= float(ddof)
    values[few] = np.where((n[few] == 0) | (values[few] == 0) | skip_nan, nan, inf)
    values[(squares.flags & NOT_FINITE) != 0] = nan
    return values


def _estimates(
    squares: FixedPoint, sums: Sequence[FixedPoint], n: np.ndarray, ddof: Fraction, rounding: Rounding
) -> tuple[np.ndarray, np.ndarray]:
    """Variances, or their roots, computed in float64 with bounds, and which of them are certain."""
    if not _worthwhile(n, ddof):
        return namespace(n).empty(n.shape), namespace(n).zeros(n.shape, bool)
    q = squares.enclosure()
    unit = (np.frexp(q.high)[1] + q.exponent) // 2
    difference = q.scaled(2 * unit).times(Enclosure(n, 0 * n, 0 * n, 0))
    for part in sums:
        s = part.enclosure().scaled(unit)
        difference = difference.minus(s.times(s))
    quotient = difference.divided(n * (n - int(ddof)))
    values, certain = (quotient.root() if rounding.root else quotient).rounded(rounding.target)
    return values, certain & (n > int(ddof))


def _estimated_covariances(
    products: FixedPoint, x: FixedPoint, y: FixedPoint, n: np.ndarray, ddof: Fraction, rounding: Rounding
) -> tuple[np.ndarray, np.ndarray]:
    """Covariances computed in float64 with bounds, and which of them are certain."""
    if not _worthwhile(n, ddof):
        return namespace(n).empty(n.shape), namespace(n).zeros(n.shape, bool)
    of_products, of_x, of_y = (part.enclosure().normalized() for part in (products, x, y))
    difference = of_products.times(Enclosure.exactly(n).normalized()).less(of_x.times(of_y))
    values, certain = difference.divided(n * (n - int(ddof))).rounded(rounding.target)
    return values + 0.0, certain & (n > int(ddof))  # a zero that is certain is exact, hence +0


def _worthwhile(n: np.ndarray, ddof: Fraction) -> bool:
    """Whether float64 numbers are quicker than integers, and hold n·(n − ddof)."""
    return n.size > INTEGER_RATIOS and ddof.denominator == 1 and max(int(n.max()), abs(int(ddof))) < _EXACT


def _quotient(
    above: int, exponent: int, n: int, divisor: Fraction, rounding: Rounding, skip_nan: bool
) -> float:
    """above·2**exponent/(n·divisor), or its root, rounded."""
    if divisor <= 0:
        return nan if skip_nan or not above else inf if above > 0 else -inf
    return rounding.ratio(above * divisor.denominator, n * divisor.numerator, exponent)


_fraction = lru_cache(64)(Fraction)
"""Integers as fractions, which take as long to make as a sum of hundreds of numbers."""


def exact_ddof(ddof: Any, correction: Any = None) -> Fraction:
    """Return ddof, or the same by its other name, as a fraction, which is not rounded.

    TypeError for what is no finite number, ValueError for both.
    """
    if correction is not None:
        if ddof != 0:
            raise ValueError("ddof and correction can't be provided simultaneously.")
        ddof = correction
    if type(ddof) is int:
        return _fraction(ddof)
    if isinstance(ddof, Rational):
        return Fraction(int(ddof.numerator), int(ddof.denominator))
    if not isinstance(ddof, Real) or not isfinite(ddof) or float(ddof) != ddof:
        raise TypeError(f"ddof must be a finite number that float64 holds, got {ddof!r}")
    return Fraction(float(ddof))
