"""Exact sums of NumPy arrays in compiled loops: the extraction of `extraction`, element by element.

Wants numba (extra `fast`). A loop is compiled when an array of its kind first comes. A window, the two
levels below some sigma, is kept as long as it holds what comes, so that most elements are read once. Those
of a long vector that no window holds are added up by sign and exponent, as in Neal's superaccumulator
(Fast exact summation using small and large superaccumulators); where a loop does not hold a sum, the
NumPy form does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
from llvmlite import ir
from numba import boolean, float64, from_dtype, int64, njit, none, typeof, uint64
from numba.core.types import Array, Tuple
from numba.extending import intrinsic

from multiword.runtime.forking import loading
from ozaki.sums.extraction import CARRY, HIGHEST, LEVEL_BITS, LOWEST, NOTHING, PartialSums, zero_flags
from ozaki.sums.fixed_point import DIGIT_BITS, MINUS_INFINITY, NAN, ORDINARY, PLUS_INFINITY, FixedPoint
from ozaki.sums.summands import Summands, as_floats, factor_pairs

typeof(np.empty(0))  # imports what the first call would import, while forks wait
_DTYPES = (np.dtype(np.float64), np.dtype(np.float32))

_BLOCK = 1 << 11  # elements that go into a window together, or not at all
_SPAN = 1 << 17  # elements that a loop is given: the sums of a level stay below 2**62
LAST_PLACE = LOWEST - 52 - LEVEL_BITS  # the exponent of the smallest subnormal, and of no window's unit below
_FRACTION = (1 << 52) - 1
_MAGNITUDE = (1 << 63) - 1
_EXPONENTS = 1 << 11
_WINDOWS = 4  # that a block of columns is tried with
_PRODUCTS = 1 << 15  # as many, and their errors, which are kept
_SLACK = 2  # bits by which what follows may be larger than what a window was made for
_TINY, _HUGE = 2.0**-900, 2.0**1000  # products between these have an error that is a float64

_inlined = njit(nogil=True, error_model="numpy")
_instruction: Callable[[Callable], Any] = intrinsic


@_instruction
def _bits(context: Any, x: Any) -> Any:
    """The bit pattern of a float64 as an int64."""
    return int64(float64), lambda _, builder, signature, values: builder.bitcast(values[0], ir.IntType(64))


@_instruction
def _sigma(context: Any, k: Any) -> Any:
    """1.5·2**k, from its bit pattern."""

    def pattern(_: Any, builder: Any, signature: Any, values: Any) -> Any:
        word = ir.IntType(64)
        exponent = builder.shl(builder.add(values[0], word(1023)), word(52))
        return builder.bitcast(builder.or_(exponent, word(1 << 51)), ir.DoubleType())

    return float64(int64), pattern


@_instruction
def _fma(context: Any, x: Any, y: Any, z: Any) -> Any:
    """x·y + z, rounded once."""
    return float64(float64, float64, float64), lambda _, builder, signature, values: builder.fma(*values)


def _window(x):
    """The exponent k of a sigma = 1.5·2**k for numbers up to somewhat above these, if there is one."""
    largest = 0
    for i in range(len(x)):
        magnitude = _bits(x[i]) & _MAGNITUDE
        largest = magnitude if magnitude > largest else largest
    k = (largest >> 52) - 1022 + _SLACK + 1 + CARRY
    return k if LOWEST < k <= HIGHEST + 1 + CARRY else LOWEST


@_inlined
def _extract(x, k):
    """ExtractVector at two levels: the integer sums of both, and whether anything is above or below them.

    What sigma takes of an element is below 2**45 units of its last place, or seen to be outside.
    """
    sigma, tau, half = _sigma(k), _sigma(k - LEVEL_BITS), 1 << (LEVEL_BITS - 1)
    high = low = above = below = 0
    for i in range(len(x)):
        v = np.float64(x[i])
        shifted = v + sigma
        high += _bits(shifted)
        above |= (_bits(shifted) + half) ^ _bits(sigma)
        v -= shifted - sigma
        shifted = v + tau
        low += _bits(shifted)
        below |= _bits(v - (shifted - tau))
    high, low = high - len(x) * _bits(sigma), low - len(x) * _bits(tau)
    return high, low, above >> LEVEL_BITS != 0, below & _MAGNITUDE != 0


def _leave_rest(x, k, rest):
    """What two levels leave of numbers that are not above them."""
    sigma, tau = _sigma(k), _sigma(k - LEVEL_BITS)
    for i in range(len(x)):
        v = np.float64(x[i])
        v -= (v + sigma) - sigma
        rest[i] = v - ((v + tau) - tau)


@_inlined
def _bin(x, bins):
    """Add the significands of float64 numbers to those of their sign and exponent: 64 bits and the carry."""
    for i in range(len(x)):
        pattern = np.uint64(_bits(x[i]))
        place = pattern >> np.uint64(52)
        normal = np.uint64((place & np.uint64(_EXPONENTS - 1)) != 0)
        significand = (pattern & np.uint64(_FRACTION)) | (normal << np.uint64(52))
        total = bins[0, place] + significand
        bins[0, place] = total
        if total < significand:
            bins[1, place] += np.uint64(1)


def _products(x, y, p, e):
    """TwoProduct, x·y = p + e. Return whether every product and error is a finite float64."""
    unsafe = False
    for i in range(len(x)):
        a, b = np.float64(x[i]), np.float64(y[i])
        p[i] = a * b
        e[i] = _fma(a, b, -p[i])
        magnitude = abs(p[i])
        unsafe |= (not magnitude <= _HUGE) | ((magnitude < _TINY) & (a != 0) & (b != 0))
    return not unsafe


def _vector_sum(x, k, bins):
    """Sum the blocks that window k holds, at two levels; put the others, if there are any, in bins."""
    high, low, waiting, patience, binned = 0, 0, 0, 1, False
    for start in range(0, len(x), _BLOCK):
        part = x[start : start + _BLOCK]
        if waiting == 0:
            part_high, part_low, above, below = _extract(part, k)
            if not (above or below):
                high, low, patience = high + part_high, low + part_low, 1
                continue
            waiting, patience, binned = patience, 2 * patience, True
        waiting -= 1
        _bin(part, bins)
    return high, low, binned


def _row_sums(x, k, high, low):
    """Sum the rows of (m, n). Return whether anything is above or below the window."""
    any_above = any_below = False
    for j in range(len(x)):
        high[j], low[j], above, below = _extract(x[j], k)
        any_above |= above
        any_below |= below
    return any_above, any_below


def _column_sums(x, k, high, low):
    """As _row_sums, of the columns of (n, m): _extract with as many sums."""
    sigma, tau, half = _sigma(k), _sigma(k - LEVEL_BITS), 1 << (LEVEL_BITS - 1)
    n, m = x.shape
    above = below = 0
    for j in range(m):
        high[j], low[j] = -n * _bits(sigma), -n * _bits(tau)
    for i in range(n):
        for j in range(m):
            v = np.float64(x[i, j])
            shifted = v + sigma
            high[j] += _bits(shifted)
            above |= (_bits(shifted) + half) ^ _bits(sigma)
            v -= shifted - sigma
            shifted = v + tau
            low[j] += _bits(shifted)
            below |= _bits(v - (shifted - tau))
    return above >> LEVEL_BITS != 0, below & _MAGNITUDE != 0


_Sums = int64[::1]
_Values = float64[::1]
_SIGNATURES: dict[Callable, Callable] = {
    _window: lambda x, xs: int64(x),
    _leave_rest: lambda x, xs: none(x, int64, _Values),
    _products: lambda x, xs: boolean(x, x, _Values, _Values),
    _vector_sum: lambda x, xs: Tuple((int64, int64, boolean))(x, int64, uint64[:, ::1]),
    _row_sums: lambda x, xs: Tuple((boolean, boolean))(xs, int64, _Sums, _Sums),
    _column_sums: lambda x, xs: Tuple((boolean, boolean))(xs, int64, _Sums, _Sums),
}
"""The loops' signatures, for a vector and a matrix of float64 or of float32."""


@cache
def _compiled(loop: Callable, dtype: np.dtype) -> Callable:
    vector, matrix = (Array(from_dtype(dtype), ndim, "C", readonly=True) for ndim in (1, 2))
    with loading:
        return njit(_SIGNATURES[loop](vector, matrix), nogil=True, error_model="numpy")(loop)


def readable(x: np.ndarray) -> bool:
    """Whether the loops read this dtype as it is."""
    return x.dtype in _DTYPES


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


def vector_sum(terms: Summands) -> tuple[int, int] | None:
    """Sum vectors: an integer in units of 2**LAST_PLACE, and flags. None for some products."""
    total, flags, narrow = 0, 0, len(terms.factors) == 1 or terms.narrow()
    for factors in _readable(terms.factors):
        xs = [_contiguous(x) for x in factors]
        value, special = _vector(xs, narrow)
        if special and len(xs) == 2:
            return None
        total += terms.sign * value
        flags |= _special_flags(xs[0]) if special else _zero_flags(xs, terms.sign, value)
    return total, flags


def _vector(xs: list[np.ndarray], narrow: bool) -> tuple[int, bool]:
    """The sum of a vector, or of the products of two, in units of 2**LAST_PLACE; and if there is more to it.

    That is Inf or NaN, or a product that has no float64 as its error.
    """
    total, bins, any_binned = 0, np.zeros((2, 2, _EXPONENTS), np.uint64), False
    span = _SPAN if len(xs) == 1 else _PRODUCTS
    for start in range(0, len(xs[0]), span):
        parts = [x[start : start + span] for x in xs]
        if len(parts) == 2:
            parts = _two_products(parts[0], parts[1], narrow)
            if not parts:
                return 0, True
        for part in parts:
            k = _compiled(_window, part.dtype)(part[:_BLOCK])
            high, low, binned = _compiled(_vector_sum, part.dtype)(part, k, bins.reshape(2, -1))
            any_binned |= binned
            total += ((high << LEVEL_BITS) + low) << (k - LOWEST)
    if not any_binned:
        return total, False
    return total + _sum_of_bins(bins), bool(bins[:, :, -1].any())


def _two_products(x: np.ndarray, y: np.ndarray, narrow: bool) -> list[np.ndarray]:
    """The products and their errors, which are zero for narrow factors; nothing if those are no float64."""
    products = np.empty((2, *x.shape))
    safe = _compiled(_products, x.dtype)(*[x.reshape(-1) for x in (x, y, *products)])
    return [*products[: 1 if narrow else 2]] if safe else []


def _sum_of_bins(bins: np.ndarray) -> int:
    """The sum of finite significands, in units of 2**LAST_PLACE, from parts by sign and exponent."""
    low, carries = bins.astype("<u8")
    parts = [*np.moveaxis(low.view("<u2").reshape(2, _EXPONENTS, 4), 2, 0), carries]
    integers = np.array([part[0].astype(np.int64) - part[1].astype(np.int64) for part in parts])
    integers[:, 1] += integers[:, 0]  # of subnormal numbers, whose unit is the same
    integers[:, :-1], integers[:, -2:] = integers[:, 1:], 0
    digits = (integers.reshape(5, -1, DIGIT_BITS) << np.arange(DIGIT_BITS)).sum(axis=2)
    weighed = FixedPoint(digits.T, DIGIT_BITS, 0, np.empty(5, np.uint8)).integers()
    return sum(value << 16 * i for i, (value, _) in enumerate(weighed))


def _zero_flags(xs: list[np.ndarray], sign: int, value: int) -> int:
    """The flags of a finite vector, or of products, whose sum has this value in some units."""
    flags = int(ORDINARY) if value else 0
    for start in range(0, 0 if value else len(xs[0]), _SPAN):
        parts = [x[start : start + _SPAN, None] for x in xs]
        flags = int(zero_flags(np.array([True]), parts, sign)[0])
        if flags == ORDINARY:
            break
    return flags


def _special_flags(x: np.ndarray) -> int:
    """The flags of a vector with Inf or NaN."""
    with np.errstate(invalid="ignore"):
        largest, smallest = x.max(), x.min()
    if np.isnan(largest):
        return int(NAN)
    return int(PLUS_INFINITY * (largest == np.inf) | MINUS_INFINITY * (smallest == -np.inf))


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
    terms = xs if len(xs) == 1 else _two_products(xs[0], xs[1], narrow)
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
    """The high and low sums of columns in some windows k; nothing if those do not hold all numbers.

    x : (n, m), or (m, n) if not by_rows.
    """
    k, found, rest = _compiled(_window, x.dtype)(x.reshape(-1)[:_BLOCK]), [], np.empty(0)
    for _ in range(_WINDOWS):
        high, low = np.empty((2, x.shape[by_rows]), np.int64)
        loop = _compiled(_column_sums if by_rows else _row_sums, x.dtype)
        above, below = loop(x, k, high, low)
        if above:  # of what the first block is like
            k = _compiled(_window, x.dtype)(x.reshape(-1))
            above, below = loop(x, k, high, low)
        if above:
            break
        found.append((high, low, k))
        if not below:
            return found
        rest = rest if rest.size else np.empty(x.shape)
        _compiled(_leave_rest, x.dtype)(x.reshape(-1), k, rest.reshape(-1))
        x, k = rest, max(k + 1 - 2 * LEVEL_BITS, LOWEST)
    return []
