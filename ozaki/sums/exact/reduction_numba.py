"""Exact sums of NumPy arrays by compiled loops: `reduction` takes this form where numba is installed.

Sums that the loops do not hold, of Inf, NaN and some products, are left to the NumPy form.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from math import copysign, isfinite, ldexp, prod
from typing import NamedTuple

import numpy as np

from ozaki.sums.exact.bins_numba import (
    DIGITS,
    EXPONENTS,
    VECTOR_DIGITS,
    binned,
    integer_products,
    unbinned,
)
from ozaki.sums.exact.enclosure_numba import LANES, WIDTH, rounded_products, rounded_sums
from ozaki.sums.exact.extraction import CARRY, LEVEL_BITS, LOWEST, NOTHING, PartialSums, zero_flags
from ozaki.sums.exact.extraction_numba import (
    BLOCK,
    DTYPES,
    ERROR,
    SLACK,
    UNIT,
    column_sums,
    compiled_loop,
    enclosed_product_sum,
    enclosed_sum,
    held,
    leave_rest,
    product_sum,
    products,
    row_sums,
    running_sums,
    vector_sum,
    window,
)
from ozaki.sums.exact.fixed_point import (
    DIGIT_BITS,
    MINUS_INFINITY,
    NAN,
    ORDINARY,
    PLUS_INFINITY,
    Rounding,
)
from ozaki.sums.exact.summands import Summands, as_floats, factor_pairs

_SPAN, _LONGEST_SPAN = 1 << 8, 1 << 17  # elements whose signs are looked at together, at first and later
_RUNNING_BITS = 14  # 2**14 running sums at a time
_SUMS = 8  # words that loops over vectors leave
_HALF = 1 << (LEVEL_BITS - 1)
_MANY, _SAMPLE = 1 << 16, 1 << 8  # numbers of which the first few tell how the others spread
_FAR = 2.0**-80  # what of the largest is far below it
_NARROW = 8  # columns that are too few for loops over rows
_LONG = 512  # numbers of a row that take longer than adding up lanes
_RUNNING_TOP = 900  # of windows of running sums, which stay far from overflow


def readable(x: np.ndarray) -> bool:
    """Whether the loops read this dtype as it is."""
    return x.dtype in DTYPES


def _readable(factors: tuple[np.ndarray, ...]) -> Iterator[tuple[np.ndarray, ...]]:
    """The factors as float64 or float32, of which 64-bit integers are sums."""
    if readable(factors[0]) and factors[0].dtype == factors[-1].dtype:
        yield factors
    elif len(factors) == 2:
        yield from factor_pairs(*factors)
    else:
        yield from ((x,) for x in as_floats(*factors))


def _contiguous(x: np.ndarray) -> np.ndarray:
    return x if x.flags.c_contiguous and x.flags.aligned else np.require(x, requirements=("C", "A"))


def sum_of_vectors(terms: Summands, exact: bool) -> VectorSum | None:
    """Sum vectors. None for products of Inf or NaN.

    exact : or else what is far below the largest number is bounded, not added.
    """
    total = NOTHING_ADDED
    for factors in _readable(terms.factors):
        xs = [_contiguous(x) for x in factors]
        product = len(xs) == 2
        value, error, special = _sum_of_products(xs[0], xs[1], exact) if product else _sum(xs[0], exact)
        if special and product:
            return None
        flags = _special_flags(xs[0]) if special else _zero_flags(xs, terms.sign, value or error)
        found = VectorSum(terms.sign * value, error, flags)
        total = total.plus(found) if total.flags else found
    return total


class VectorSum(NamedTuple):
    """A value within an error, both in units of `unit(terms)`, and flags."""

    value: int
    error: int
    flags: int

    def plus(self, other: VectorSum) -> VectorSum:
        """The sum of both."""
        return VectorSum(self.value + other.value, self.error + other.error, self.flags | other.flags)


NOTHING_ADDED = VectorSum(0, 0, 0)


def _sum(x: np.ndarray, exact: bool) -> tuple[int, int, bool]:
    """The sum of a vector in units of 2**-UNIT, a bound of its error, and whether there is Inf or NaN."""
    total = error = start = 0
    k, skip, bins = LOWEST, BLOCK, None
    if exact and _spread(x):
        value, special = _sum_of_bins(_in_bins(x))
        return value, 0, special
    loop, sums = compiled_loop(vector_sum if exact else enclosed_sum, x.dtype), np.zeros(_SUMS, np.int64)
    while start < len(x):
        count = loop(x[start:], k, sums)
        *words, largest, _ = sums.tolist()
        if count:
            total += _words(*words[:3]) << (k - LOWEST)
            error = max(error, _error(x, exact) << (k - LOWEST))
            start, skip = start + count, BLOCK
            if start == len(x):
                break
            sums[:6] = 0
        wanted = held(largest)
        if k == wanted:  # which does not hold the next block
            bins = _in_bins(x[start : start + skip], bins)
            start, skip = start + skip, 8 * skip
        k = wanted
    value, special = (0, False) if bins is None else _sum_of_bins(bins)
    return total + value, error, special


def _error(x: np.ndarray, exact: bool) -> int:
    """A bound of the error of the sum of a vector, in units of the window."""
    return 0 if exact else ERROR * (len(x) + BLOCK)


def _spread(x: np.ndarray) -> bool:
    """Whether most of the first of many numbers are far below the largest, so that no window holds them."""
    if len(x) < _MANY:
        return False
    sample = sorted(x[:_SAMPLE].tolist())
    far = _FAR * max(-sample[0], sample[-1])
    return bool(-far < sample[_SAMPLE // 4] and sample[3 * _SAMPLE // 4] < far)


def _sum_of_products(x: np.ndarray, y: np.ndarray, exact: bool) -> tuple[int, int, bool]:
    """As `_sum`, of products, in units of 2**(-2·UNIT)."""
    total = error = start = 0
    k, skip, digits = LOWEST, BLOCK, None
    loop = compiled_loop(product_sum if exact else enclosed_product_sum, x.dtype)
    sums = np.zeros(_SUMS, np.int64)
    while start < len(x):
        j = max(k - 53, LOWEST)  # an error is at most half a unit of the last place
        count = loop(x[start:], y[start:], *((k, j) if exact else (k,)), sums)
        *words, largest, unsafe = sums.tolist()
        if count:
            total += _words(*words[:3]) << (k - LOWEST) + UNIT
            total += _words(*words[3:]) << (j - LOWEST) + UNIT
            error = max(error, _error(x, exact) << (k - LOWEST) + UNIT)
            start, skip = start + count, BLOCK
            if start == len(x):
                break
            sums[:6] = 0
        wanted = held(largest)
        if unsafe or k == wanted:
            digits = np.zeros(DIGITS, np.int64) if digits is None else digits
            part = slice(start, start + skip)
            if compiled_loop(integer_products, x.dtype)(x[part], y[part], digits):
                return 0, 0, True
            start, skip = start + skip, 8 * skip
        k = wanted
    return total + (0 if digits is None else _integer(digits)), error, False


def _words(high: int, middle: int, low: int) -> int:
    """The total that three words hold."""
    return (((high << LEVEL_BITS) + middle) << LEVEL_BITS) + low


def _integer(digits: np.ndarray) -> int:
    """The integer of digits that weigh powers of 2**DIGIT_BITS."""
    return sum([digit << (DIGIT_BITS * i) for i, digit in enumerate(digits.tolist()) if digit])


def _in_bins(x: np.ndarray, bins: np.ndarray | None = None) -> np.ndarray:
    """Add a vector to bins, or to new ones."""
    bins = np.zeros((2, 2 * EXPONENTS), np.uint64) if bins is None else bins
    compiled_loop(binned, x.dtype)(x, bins)
    return bins


def _sum_of_bins(bins: np.ndarray) -> tuple[int, bool]:
    """What numbers in bins add up to in units of 2**-UNIT, and whether there is Inf or NaN."""
    digits = np.zeros(VECTOR_DIGITS, np.int64)
    compiled_loop(unbinned, DTYPES[0])(bins, digits)
    value = int.from_bytes(digits.astype("<i4").tobytes(), "little", signed=True)
    return value, bool(bins[:, EXPONENTS - 1 :: EXPONENTS].any())


def unit(terms: Summands) -> int:
    """The exponent of the unit of sums of vectors."""
    return -UNIT * len(terms.factors)


def _two_products(x: np.ndarray, y: np.ndarray, narrow: bool, results: np.ndarray) -> list[np.ndarray]:
    """The products and their errors, which are zero for narrow factors; nothing if those are no float64."""
    safe = compiled_loop(products, x.dtype)(*[x.reshape(-1) for x in (x, y, *results)])
    return [*results[: 1 if narrow else 2]] if safe else []


def _zero_flags(xs: list[np.ndarray], sign: int, value: int) -> int:
    """The flags of a finite vector, or of products, whose sum has this value in some units."""
    ordinary = value or (xs[0].size and all(x[0] for x in xs))
    flags, start, span = int(ORDINARY) if ordinary else 0, 0, _SPAN
    while start < len(xs[0]) and flags != ORDINARY:
        parts = [x[start : start + span, None] for x in xs]
        flags = int(zero_flags(np.array([True]), parts, sign)[0])
        start, span = start + span, min(8 * span, _LONGEST_SPAN)
    return flags


def _special_flags(x: np.ndarray) -> int:
    """The flags of a vector with Inf or NaN."""
    with np.errstate(invalid="ignore"):
        largest, smallest = x.max(), x.min()
    if np.isnan(largest):
        return int(NAN)
    return int(PLUS_INFINITY * (largest == np.inf) | MINUS_INFINITY * (smallest == -np.inf))


def rounded_in_memory(terms: Summands, reduced: int, rounding: Rounding) -> tuple[np.ndarray, int] | None:
    """Sum rows or columns as they lie in memory, and round: the results, and how many are NaN as not known.

    The axes that are kept are in the order of memory. None for other arrays, and other roundings.
    """
    target, product = rounding.target, len(terms.factors) == 2
    if terms.sign < 0 or (rounding.divisor > 1 if product else rounding.root):
        return None
    xs = _stacks(terms.factors, reduced) if all(x.dtype == target.dtype for x in terms.factors) else []
    blocks, n, m = xs[0].shape if xs and readable(xs[0]) else (0, 0, 0)
    if not n or (m < _NARROW if m != 1 else n < (LANES if product else _LONG)):
        return None
    result = np.empty((blocks, m), target.dtype)
    loop = compiled_loop(rounded_products if product else rounded_sums, target.dtype)
    rows, columns = [x.reshape(blocks, n * m) for x in xs], m if m > 1 else LANES
    last = rounding.root if product else float(rounding.divisor)
    unknown = loop(*rows, columns, last, target.precision < 53, np.empty((3, WIDTH)), result)
    return result.reshape(terms.shape[reduced:]), unknown


def _stacks(factors: tuple[np.ndarray, ...], reduced: int) -> list[np.ndarray]:
    """The factors as (l, n, m), the reduced axes in the middle, if they lie in memory like that."""
    shape, steps = factors[0].shape, [abs(s) for s in factors[0].strides]
    nearest = min(steps[:reduced], default=0)
    before = reduced + sum([step > nearest for step in steps[reduced:]])
    axes = range(reduced, before), range(reduced), range(before, len(shape))
    moved = [x.transpose(*chain(*axes)) for x in factors]
    whole = all(x.flags.c_contiguous and x.flags.aligned for x in moved)
    return [x.reshape([prod(shape[a] for a in part) for part in axes]) for x in moved] if whole else []


def block_sums(block: Summands) -> list[PartialSums] | None:
    """Sum the columns of (n, m) factors exactly, or return None."""
    found = [_block_sums(factors, block.sign, block.narrow()) for factors in _readable(block.factors)]
    return [sums for some in found for sums in some] if all(found) else None


def _block_sums(factors: tuple[np.ndarray, ...], sign: int, narrow: bool) -> list[PartialSums]:
    n, m = factors[0].shape
    if not n * m:
        return []
    by_rows = abs(factors[0].strides[0]) > abs(factors[0].strides[1])
    xs = [_contiguous(x if by_rows else x.T) for x in factors]
    terms = xs if len(xs) == 1 else _two_products(xs[0], xs[1], narrow, np.empty((2, *xs[0].shape)))
    sums = [_windows(x, by_rows) for x in terms]
    if not terms or not all(sums):
        return []
    high, low, _ = sums[0][0]
    flags = zero_flags((high | low) == 0, factors, sign)
    return [
        PartialSums(sign * high, sign * low, k - 52 - LEVEL_BITS, *NOTHING, flags * (i == 0), weight=n)
        for i, (high, low, k) in enumerate(chain(*sums))
    ]


def _windows(x: np.ndarray, by_rows: bool) -> list[tuple[np.ndarray, np.ndarray, int]]:
    """The high and low sums of columns in as many windows k as they need; nothing if a number is above all.

    x : (n, m), or (m, n) if not by_rows.
    """
    k, found, rest = compiled_loop(window, x.dtype)(x.reshape(-1)[:BLOCK]), [], np.empty(0)
    while True:  # the lowest window leaves nothing
        high, low = np.empty((2, x.shape[by_rows]), np.int64)
        loop = compiled_loop(column_sums if by_rows else row_sums, x.dtype)
        above, below = loop(x, k, high, low)
        if above:  # of what the first block is like
            k = compiled_loop(window, x.dtype)(x.reshape(-1))
            above, below = loop(x, k, high, low)
        if above:
            return []
        found.append((high, low, k))
        if not below:
            return found
        rest = rest if rest.size else np.empty(x.shape)
        compiled_loop(leave_rest, x.dtype)(x.reshape(-1), k, rest.reshape(-1))
        x, k = rest, max(k + 1 - 2 * LEVEL_BITS, LOWEST)


def running_sums_of(x: np.ndarray, before: np.ndarray | None = None) -> np.ndarray | None:
    """The running sums of a vector of float64 or float32 as float64, each rounded once; or None.

    The total so far, of a few float64 numbers before the first sum, is an integer in units of 2**-UNIT. A
    window holds it, and what is added to it.
    """
    earlier = [] if before is None else before.tolist()
    if not all(map(isfinite, earlier)):
        return None
    total, result, x = sum(map(_in_units, earlier)), np.empty(len(x)), _contiguous(x)
    for start in range(0, len(x), 1 << _RUNNING_BITS):
        part = x[start : start + (1 << _RUNNING_BITS)]
        largest = compiled_loop(window, x.dtype)(part) - SLACK - 1 - CARRY  # the exponent: |x| < 2**largest
        k = max(largest + _RUNNING_BITS, total.bit_length() - UNIT) + 2
        k, shift = max(k, LOWEST), max(k, LOWEST) - LOWEST
        if k > _RUNNING_TOP or total & ((1 << shift) - 1):
            return None
        low = ((total >> shift) + _HALF) % (2 * _HALF) - _HALF
        high = ((total >> shift) - low) >> LEVEL_BITS
        units = ldexp(1.0, k - 52), ldexp(1.0, k - 52 - LEVEL_BITS)
        loop = compiled_loop(running_sums, x.dtype)
        high, low, held = loop(part, k, high, low, *units, result[start : start + len(part)])
        if not held:
            return None
        total = ((high << LEVEL_BITS) + low) << shift
    if all(v == 0 and copysign(1.0, v) < 0 for v in earlier):
        first = next((i for i, v in enumerate(x) if v or not np.signbit(v)), len(x))
        result[:first] = -0.0  # the sums of −0 alone
    return result


def _in_units(x: float) -> int:
    """A finite number in units of 2**-UNIT."""
    numerator, denominator = x.as_integer_ratio()
    return numerator << (UNIT + 1 - denominator.bit_length())
