"""Sums of a few numbers, by `math.fsum` or in Python's integers: arrays of temporaries would cost more."""

from __future__ import annotations

from collections.abc import Sequence
from math import copysign, frexp, fsum, inf, ldexp, prod

import numpy as np

from multiword.formats import Format
from multiword.runtime.arrays import to_float64
from ozaki.rounding.conversion import narrow
from ozaki.sums.exact.fixed_point import Integers, Rounding
from ozaki.sums.exact.summands import Summands

LARGEST = 1 << 11
"""The most terms of all outputs together for which this pays."""

FSUM = 384  # the most numbers that `math.fsum` adds sooner than arrays do
_HUGE = 2.0**1000
_BITS = 42  # of a level
_LEVELS = 4


def rounded_sums(summands: Sequence[Summands], reduced: int, rounding: Rounding) -> np.ndarray | None:
    """Return the sums over the first `reduced` axes, rounded; None where Inf, NaN or −0 may come of them."""
    shape = summands[0].shape[reduced:]
    factors = summands[0].factors
    sums: Integers | None = None
    if len(summands) == len(factors) == 1 and _is_float(factors[0]):
        x = to_float64(factors[0])
        if x.ndim == reduced and (x.size > FSUM or rounding.divisor > 1):
            few = _by_levels(x.reshape(-1))
            rows = [few] if few else None
        else:
            rows = [x.tolist()] if x.ndim == reduced == 1 else _outputs_first(x, reduced).tolist()
        if rows and rounding.divisor > 1:
            sums = [_total(terms) for terms in _integers(np.array(rows)) or ()]
        elif rows is not None and rounding.divisor == 1:
            rounded = [_sum(row, rounding.target) for row in rows]
            if None not in rounded:
                return narrow(np.array(rounded, np.float64), rounding.target.dtype).reshape(shape)
    sums = sums or integer_sums(summands, reduced)
    if sums is None or not (rounding.root or all(v for v, _ in sums)):
        return None
    values = [rounding.ratio(v, rounding.divisor, e) for v, e in sums]
    return narrow(np.array(values, np.float64), rounding.target.dtype).reshape(shape)


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


def _by_levels(x: np.ndarray) -> list[float] | None:
    """A few numbers that have a vector's exact sum; None for numbers of too many sizes.

    Each is the sum of what `extraction` takes at one level, which is a float64: the bits of a level and
    those of LARGEST are 53.
    """
    largest = np.maximum.reduce(np.abs(x))
    if not 0 < largest < _HUGE:
        return None
    sums, level = [], frexp(largest)[1] + 52 - _BITS
    for _ in range(_LEVELS):
        sigma = ldexp(1.5, max(level, -1022))
        part = x + sigma
        part -= sigma
        sums.append(float(np.add.reduce(part)))
        x = x - part
        if not np.count_nonzero(x):
            return sums
        level -= _BITS + 1
    return None


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
    if not abs(total) < inf:
        return None
    if target.precision < 53:
        midpoint = ldexp(frexp(total)[0], target.precision + 1) % 2 == 1
        if midpoint or not ldexp(1, target.emin) <= abs(total) <= target.maximum:
            return None
        # As the exact sum rounds; conversions to bfloat16 would go by way of float32, and round twice.
        significand, exponent = frexp(total)
        total = ldexp(round(ldexp(significand, target.precision)), exponent - target.precision)
    return total
