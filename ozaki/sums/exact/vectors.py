"""Sums that have one output, of long vectors: compiled loops that read each number once.

A window of an exact level encloses the sum: what the level leaves is added in floating point, with a bound
of its error. Where both ends of the enclosure round to one number, that is the result (Ziv); else the sum is
added up exactly. Either is a Python integer, in units of 2**-UNIT, or 2**(-2·UNIT) for products.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter

import numpy as np

from multiword.runtime.arrays import is_cupy
from multiword.runtime.compiled import compiled
from ozaki.rounding.conversion import narrow
from ozaki.sums.exact.extraction import LOOPS, READABLE, contiguous, readable, zero_flags
from ozaki.sums.exact.fixed_point import DIGIT_BITS, ORDINARY, FixedPoint, Rounding, flagged, flags_of
from ozaki.sums.exact.levels import ERROR, LEVEL_BITS, LOWEST, WINDOW_BLOCK, window_above
from ozaki.sums.exact.summands import Summands, tiles
from ozaki.tuning import SIGNS_AT_FIRST, SIGNS_AT_MOST, VECTOR_BLOCK

UNIT = 1074  # of sums: 2**-UNIT, and its square for those of products
EXPONENTS = 1 << 11  # of float64
_DIGITS = 138  # for 2**64 products, of which any is three digits
_DIGITS_OF_NUMBERS = 70  # for 2**64 of them
_WORDS = 8  # that the loops leave: two totals of three words, the largest number, whether it is unsafe

Total = tuple[int, int, int]
"""A value, its error, both in units of 2**-UNIT for each factor of the terms, and flags."""


def rounded(summands: Sequence[Summands], reduced: int, rounding: Rounding) -> np.ndarray | None:
    """Return the sum of all terms, rounded; None where outputs are kept, or loops do not hold the terms."""
    if reduced < len(summands[0].shape):
        return None
    exponent = -UNIT * len(summands[0].factors)
    for exact in (False, True):
        if (total := _total(summands, exact)) is None:
            return None
        value, error, flags = total
        if (nearest := _rounded(value, error, exponent, rounding)) is not None:
            break
    result = np.array(nearest)
    if flags != ORDINARY:
        result = flagged(result, np.array(flags, np.uint8))
    return narrow(result, rounding.target.dtype)


def _rounded(value: int, error: int, exponent: int, rounding: Rounding) -> float | None:
    """What both ends round to; None where they differ, or lie on both sides of zero."""
    if not error:
        return rounding.ratio(value, rounding.divisor, exponent)
    if abs(value) <= error:
        return None
    low, high = (rounding.ratio(value + e, rounding.divisor, exponent) for e in (-error, error))
    return low if low == high else None


def vector_sum(summands: Sequence[Summands]) -> FixedPoint | None:
    """Return the exact sum of all terms; None without compiled code."""
    total = _total(summands, exact=True)
    if total is None:
        return None
    value, _, flag = total
    zeros = (value & -value).bit_length() - 1 if value else 0
    flags = np.array([flag], np.uint8)
    digits = FixedPoint.of([(value >> zeros, 0)], flags).digits
    return FixedPoint(digits, DIGIT_BITS, zeros - UNIT * len(summands[0].factors), flags)


def _total(summands: Sequence[Summands], exact: bool) -> Total | None:
    """The sum of all terms, or None; unless exact, what is far below the largest number is but bounded."""
    if compiled(LOOPS) is None or is_cupy(summands[0].factors[0]):
        return None
    value = error = flags = 0
    for terms in summands:
        for part in _vectors(terms):
            for factors in readable(part.factors):
                sums = _sum_of([contiguous(x) for x in factors], terms.sign, exact)
                if sums is None:
                    return None
                value, error, flags = value + sums[0], error + sums[1], flags | sums[2]
    return value, error, flags


def _vectors(terms: Summands) -> Iterator[Summands]:
    """The terms as vectors, in blocks where they would have to be copied."""
    if all(x.flags.c_contiguous and x.dtype in READABLE for x in terms.factors):
        yield terms.apply(lambda x: x.reshape(-1))
        return
    for rows in tiles(terms.shape, VECTOR_BLOCK):
        yield terms.apply(itemgetter(rows)).apply(np.ravel)


def _sum_of(xs: list[np.ndarray], sign: int, exact: bool) -> Total | None:
    """The sum of a vector, or of sign·x·y."""
    value, error, special = _in_windows(xs, exact)
    if special:
        flags = int(np.bitwise_or.reduce(flags_of(sign * _special(xs))))
    else:
        flags = _zero_flags(xs, sign, value or error)
    return sign * value, error, flags


def _special(xs: list[np.ndarray]) -> np.ndarray:
    """The terms x, or x·y, of which a factor is Inf or NaN."""
    chosen = ~np.logical_and.reduce([np.isfinite(x) for x in xs])
    with np.errstate(all="ignore"):
        return np.multiply.reduce([x[chosen].astype(np.float64) for x in xs])


def _in_windows(xs: list[np.ndarray], exact: bool) -> tuple[int, int, bool]:
    """The sum of x, or x·y, in units of 2**-UNIT for each factor, its error, and whether there is Inf or NaN.

    Block by block: a window that does not hold a block moves to where the block's largest number is; if
    that does not help the block is added outside of windows, and so are more and more of those that follow.
    """
    loops, product, n = compiled(LOOPS), len(xs) == 2, len(xs[0])
    add, words = loops.vector_sum if exact else loops.enclosed_sum, np.zeros(_WORDS, np.int64)
    loop = loops.loop(add, xs[0].dtype, product)
    outside, unit = _Outside(xs[0].dtype, product), LOWEST - UNIT * product
    total = error = start = 0
    k, skip, all_finite = LOWEST, WINDOW_BLOCK, False
    while start < n:
        j = max(k - 53, LOWEST)  # of the errors of products: half a unit of the last place at most
        count = loop(xs[0][start:], xs[1][start:] if product else None, k, j, words)
        *sums, largest, unsafe = words.tolist()
        if count:
            total += (_words(*sums[:3]) << (k - unit)) + (_words(*sums[3:]) << (j - unit))
            error = max(error, 0 if exact else ERROR * (n + WINDOW_BLOCK) << (k - unit))
            start, skip = start + count, WINDOW_BLOCK
            words[:6] = 0
            if start == n:
                break
        fitting = window_above(largest)
        if unsafe or k == fitting:
            if not all_finite:
                finite = np.logical_and.reduce([np.isfinite(x) for x in xs])
                if not (all_finite := bool(finite.all())):
                    others = [np.where(finite, x, x.dtype.type(0)) for x in xs]
                    return (*_in_windows(others, exact)[:2], True) if exact else (0, 0, True)
            outside.add([x[start : start + skip] for x in xs])
            start, skip = start + skip, 8 * skip
        k = fitting
    value, special = outside.total()
    return total + value, error, special


def _words(high: int, middle: int, low: int) -> int:
    """The total that three words hold."""
    return (((high << LEVEL_BITS) + middle) << LEVEL_BITS) + low


class _Outside:
    """What windows do not hold: numbers in bins by sign and exponent, products as integers in digits."""

    def __init__(self, dtype: np.dtype, product: bool) -> None:
        self.dtype, self.product, self.special = dtype, product, False
        self.memory: np.ndarray | None = None

    def add(self, xs: list[np.ndarray]) -> None:
        """Add a vector, or x·y."""
        loops = compiled(LOOPS)
        if self.memory is None:
            shape = _DIGITS if self.product else (2, 2 * EXPONENTS)
            self.memory = np.zeros(shape, np.int64 if self.product else np.uint64)
        if self.product:
            self.special |= loops.loop(loops.integer_products, self.dtype)(*xs, self.memory)
        else:
            loops.loop(loops.binned, self.dtype)(*xs, self.memory)

    def total(self) -> tuple[int, bool]:
        """Return the sum in the units of `_in_windows`, and whether there is Inf or NaN."""
        if self.memory is None:
            return 0, False
        if self.product:
            words = enumerate(self.memory.tolist())
            return sum([word << (DIGIT_BITS * i) for i, word in words if word]), self.special
        loops, digits = compiled(LOOPS), np.zeros(_DIGITS_OF_NUMBERS, np.int64)
        loops.loop(loops.unbinned, np.dtype(np.float64))(self.memory, digits)
        value = int.from_bytes(digits.astype("<i4").tobytes(), "little", signed=True)
        return value, bool(self.memory[:, EXPONENTS - 1 :: EXPONENTS].any())


def _zero_flags(xs: list[np.ndarray], sign: int, value: int) -> int:
    """The flags of a finite vector, or of products, whose sum has this value in some units."""
    ordinary = value or (xs[0].size and all(x[0] for x in xs))
    flags, start, span = int(ORDINARY) if ordinary else 0, 0, SIGNS_AT_FIRST
    while start < len(xs[0]) and flags != ORDINARY:
        parts = [x[start : start + span, None] for x in xs]
        flags = int(zero_flags(np.array([True]), parts, sign)[0])
        start, span = start + span, min(8 * span, SIGNS_AT_MOST)
    return flags
