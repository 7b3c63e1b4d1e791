"""Variances of exact sums, rounded once.

With S = Σx and Q = Σ|x|², both exact, the sum of squares about the exact mean is (n·Q − |S|²)/n: no
difference x − mean is ever rounded, and nothing cancels (Chan, Golub and LeVeque, Algorithms for computing
the sample variance, whose formula only rounding makes a bad one).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
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
    few = n <= 1  # of which the mean is the number itself
    values[few] = np.where((n[few] == 0) | (ddof >= 1), nan, 0.0)
    hard = np.flatnonzero(~(certain | few))
    exact = [part.columns(hard).integers() for part in (squares, *sums)]
    results = []
    for count, (q, e), *parts_of_s in zip(n[hard].tolist(), *exact, strict=True):
        unit = min(e, *(2 * f for _, f in parts_of_s))
        square = (count * q << (e - unit)) - sum(s * s << (2 * f - unit) for s, f in parts_of_s)
        results.append(_variance(square, unit, count, count - ddof, rounding, skip_nan))
    values[hard] = where_lies(values, results)
    values[(squares.flags & NOT_FINITE) != 0] = nan
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
                _variance(q, e, 1, k - ddof, rounding, skip_nan) if k > ddof else float(q != 0)
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
    if n.size <= INTEGER_RATIOS or ddof.denominator > 1 or max(int(n.max()), abs(int(ddof))) >= _EXACT:
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


def _variance(
    square: int, exponent: int, n: int, divisor: Fraction, rounding: Rounding, skip_nan: bool
) -> float:
    """square·2**exponent/(n·divisor), or its root, rounded."""
    if divisor <= 0:
        return inf if square and not skip_nan else nan
    return rounding.ratio(square * divisor.denominator, n * divisor.numerator, exponent)


def exact_ddof(ddof: Any, correction: Any = None) -> Fraction:
    """Return ddof, or the same by its other name, as a fraction, which is not rounded.

    TypeError for what is no finite number, ValueError for both.
    """
    if correction is not None:
        if ddof != 0:
            raise ValueError("ddof and correction can't be provided simultaneously.")
        ddof = correction
    if isinstance(ddof, Rational):
        return Fraction(int(ddof.numerator), int(ddof.denominator))
    if not isinstance(ddof, Real) or not isfinite(ddof) or float(ddof) != ddof:
        raise TypeError(f"ddof must be a finite number that float64 holds, got {ddof!r}")
    return Fraction(float(ddof))
