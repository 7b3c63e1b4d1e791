"""Sums of a few numbers, by `math.fsum`, from intervals, or in Python's integers: other forms cost more."""

from __future__ import annotations

from collections.abc import Sequence
from math import copysign, fsum, inf, ldexp, nan, nextafter, prod, sqrt

import numpy as np

from multiword.formats import Format
from multiword.runtime.arrays import to_float64
from ozaki.rounding.conversion import narrow
from ozaki.sums.exact import interval
from ozaki.sums.exact.fixed_point import Integers, Rounding, rounded_again
from ozaki.sums.exact.interval import Interval, intervals
from ozaki.sums.exact.summands import Summands

LARGEST = interval.LARGEST
"""The most terms of all outputs together for which this pays."""

_SPLIT = 2.0**27 + 1  # by which a float64 is cut into halves
_LARGEST_DIVISOR = 1 << 26  # below it, products of divisors with halves are exact
FSUM = 128  # the most numbers that `math.fsum` adds sooner than arrays do


def rounded_sums(
    summands: Sequence[Summands], reduced: int, rounding: Rounding, integers: bool = True
) -> np.ndarray | None:
    """Return the sums over the first `reduced` axes, rounded; None where Inf, NaN or −0 may come of them.

    integers : whether sums may be computed in Python's integers; if not, None where they would have to be.
    """
    factors = summands[0].factors
    alone = len(summands) == len(factors) == rounding.divisor == 1 and _is_float(factors[0])
    if factors[0].ndim == reduced and not (alone and factors[0].size <= FSUM):
        value = _by_intervals(summands, rounding)
        if value is not None:
            return narrow(np.array(value), rounding.target.dtype)
        if not integers:
            return None
    shape = summands[0].shape[reduced:]
    if alone:
        x = to_float64(factors[0])
        rows = [x.tolist()] if reduced == x.ndim == 1 else _outputs_first(x, reduced).tolist()
        rounded = [_sum(row, rounding.target) for row in rows]
        if None not in rounded:
            return narrow(np.array(rounded, np.float64), rounding.target.dtype).reshape(shape)
    sums = integer_sums(summands, reduced)
    if sums is None or not (rounding.root or all(v for v, _ in sums)):
        return None
    values = [rounding.ratio(v, rounding.divisor, e) for v, e in sums]
    return narrow(np.array(values, np.float64), rounding.target.dtype).reshape(shape)


@np.errstate(all="ignore")
def _by_intervals(summands: Sequence[Summands], rounding: Rounding) -> float | None:
    """The sum of all summands, if what is known of it before it is exact tells what it rounds to."""
    found = [pair for terms in summands if (pair := intervals(terms))]
    if len(found) < len(summands):
        return None
    value = _settled([interval for interval, _ in found], rounding)
    if value is not None:
        return value
    more = [interval for _, narrower in found if (interval := narrower())]
    return _settled(more, rounding) if len(more) == len(found) else None


def _settled(found: Sequence[Interval], rounding: Rounding) -> float | None:
    """What a sum of intervals rounds to, if both ends agree."""
    plain = rounding.target.precision == 53 and rounding.divisor < _LARGEST_DIVISOR
    low, high = (plain and _ends(found, rounding)) or _rounded_ends(found, rounding)
    return low if low == high else None


def _ends(found: Sequence[Interval], rounding: Rounding) -> tuple[float, float] | None:
    """Of a sum of intervals, rounded to float64; None where units differ."""
    low, high = [], []
    for parts, error, scale, exact in found:
        if scale:
            return None
        radius = 0.0 if exact else ldexp(1.0, error)
        low += [*parts, -radius]
        high += [*parts, radius]
    if rounding.divisor == 1 and not rounding.root:
        return fsum(low), fsum(high)
    return _proved(low, high, rounding)


def _proved(low: list[float], high: list[float], rounding: Rounding) -> tuple[float, float]:
    """As `_ends`, of sums divided by an integer below 2**26, or of their roots; NaN if these may differ.

    With f(r) = r² or r·divisor, both are r if both sums lie between f(r - h) and f(r + h), where h is half
    the step from r to the next number toward zero. `fsum` has the sign of what it adds up exactly.
    """
    value = max(fsum(high), 0.0) if rounding.root else fsum(high)
    r = sqrt(value) if rounding.root else value / rounding.divisor
    if not r:
        return nan, nan
    r += fsum([*high, *_minus(r, rounding)]) / (2 * r if rounding.root else rounding.divisor)
    h = abs(r - nextafter(r, 0.0)) / 2
    step = 2 * r * h if rounding.root else rounding.divisor * h
    minus = [*_minus(r, rounding), -h * h if rounding.root else 0.0]
    known = fsum([*low, *minus, step]) > 0 > fsum([*high, *minus, -step])
    return (r, r) if known else (nan, nan)


def _minus(r: float, rounding: Rounding) -> list[float]:
    """Float64 numbers that are -r² or -r·divisor together: r is cut into halves of 26 bits (Veltkamp)."""
    upper = (r * _SPLIT) - (r * _SPLIT - r)
    lower = r - upper
    if rounding.root:
        return [-upper * upper, -2 * upper * lower, -lower * lower]
    return [-upper * rounding.divisor, -lower * rounding.divisor]


def _rounded_ends(found: Sequence[Interval], rounding: Rounding) -> tuple[float, float]:
    """Of a sum of intervals, rounded as one asks; NaN where its sign is not known."""
    unit = min(x.error + x.scale for x in found)
    shifted = [[end << (x.error + x.scale - unit) for end in x.integers()] for x in found]
    low, high = map(sum, zip(*shifted, strict=True))
    if low <= 0 <= high:
        return nan, nan
    return rounding.ratio(low, rounding.divisor, unit), rounding.ratio(high, rounding.divisor, unit)


def integer_sums(summands: Sequence[Summands], reduced: int) -> Integers | None:
    """Return the exact sums over the first `reduced` axes, or None where there are Inf, NaN or only −0."""
    rows: list[Integers] = [[] for _ in range(prod(summands[0].shape[reduced:]))]
    for source in summands:
        terms = _terms(source, reduced)
        if terms is None:
            return None
        for row, more in zip(rows, terms, strict=True):
            row += more
    sums = [_total(row) for row in rows]
    return sums if all(v for v, _ in sums) or not _only_minus_zeros(summands, reduced) else None


def _only_minus_zeros(summands: Sequence[Summands], reduced: int) -> bool:
    """Whether all the terms of an output are −0; not said of products, whose sums are not rounded alone."""
    x, *others = summands[0].factors
    if len(summands) > 1 or others or not _is_float(x):
        return False
    x = _outputs_first(to_float64(x), reduced)
    return bool(((x == 0) & np.signbit(x)).all(axis=1).any())


def _terms(source: Summands, reduced: int) -> list[Integers] | None:
    """The terms of each output."""
    first, last = source.factors[0], source.factors[-1]
    xs = _integers(_outputs_first(first, reduced))
    if len(source.factors) == 1:
        return xs
    ys = xs if last is first else _integers(_outputs_first(last, reduced))
    if xs is None or ys is None:
        return None
    sign = source.sign
    return [
        [(sign * x * y, e + f) for (x, e), (y, f) in zip(*pair, strict=True)]
        for pair in zip(xs, ys, strict=True)
    ]


def _total(terms: Integers) -> tuple[int, int]:
    """The sum of v·2**e."""
    unit = min((e for _, e in terms), default=0)
    return sum([v << (e - unit) for v, e in terms]), unit


def _outputs_first(x: np.ndarray, reduced: int) -> np.ndarray:
    """The array as (outputs, terms)."""
    terms = prod(x.shape[:reduced])
    return x.reshape(terms, prod(x.shape[reduced:])).T


def _is_float(x: np.ndarray) -> bool:
    return x.dtype.kind not in "iub"


def _integers(x: np.ndarray) -> list[Integers] | None:
    """The numbers of (m, n) as integers with exponents, row by row."""
    if not _is_float(x):
        return [[(int(v), 0) for v in row] for row in x.tolist()]
    x = to_float64(x)
    if not np.isfinite(x).all():
        return None
    fraction, exponent = np.frexp(x)
    whole = np.ldexp(fraction, 53).astype(np.int64).tolist()
    rows = zip(whole, (exponent - 53).tolist(), strict=True)
    return [list(zip(values, exponents, strict=True)) for values, exponents in rows]


def _sum(values: list[float], target: Format) -> float | None:
    """The sum, correctly rounded to the target, as a float64; or None."""
    try:
        total = fsum(values)
    except (OverflowError, ValueError):  # of a part of the sum, or Inf - Inf
        return None
    if total == 0:
        only_minus = values and all(v == 0 and copysign(1, v) < 0 for v in values)
        return -0.0 if only_minus else 0.0
    return rounded_again(total, target) if abs(total) < inf else None
