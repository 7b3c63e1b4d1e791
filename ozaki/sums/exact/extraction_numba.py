"""The loops of `extraction`, compiled with numba (extra `fast`): element by element, in one pass.

A window is the two levels below some sigma. It holds numbers that are small enough, and multiples of its
unit. What a window does not hold is added up by sign and exponent, as in Neal's superaccumulator (Fast exact
summation using small and large superaccumulators), and products as integers in digits of 32 bits. Each loop
is compiled when an array of its kind first comes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import boolean, float64, from_dtype, int64, njit, none, typeof, uint64
from numba.core.types import Array, Tuple
from numba.extending import intrinsic

from multiword.runtime.compiled import CALLED, INNER
from multiword.runtime.forking import loading
from ozaki.sums.exact.extraction import CARRY, HIGHEST, LEVEL_BITS, LOWEST
from ozaki.sums.exact.fixed_point import DIGIT_BITS

typeof(np.empty(0))  # imports what the first call would import, while forks wait
DTYPES = (np.dtype(np.float64), np.dtype(np.float32))

BLOCK = 1 << 11  # elements that go into a window together, or not at all
UNIT = 1074  # of vectors' sums: 2**-UNIT, and its square for those of products
DIGITS = 138  # for 2**64 products, of which any is three digits
_DIGIT = (1 << DIGIT_BITS) - 1
_LEVEL = (1 << LEVEL_BITS) - 1
_FRACTION = (1 << 52) - 1
_MAGNITUDE = (1 << 63) - 1
EXPONENTS = 1 << 11  # of float64
LARGEST = 1023 - CARRY - 1  # and k: the exponent field of what a window does not hold
SLACK = 2  # bits by which what follows may be larger than what a window was made for
TINY, _HUGE = 2.0**-900, 2.0**1000  # products between these have an error that is a float64

_inlined = njit(**INNER)
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
def fma(context: Any, x: Any, y: Any, z: Any) -> Any:
    """x·y + z, rounded once."""
    return float64(float64, float64, float64), lambda _, builder, signature, values: builder.fma(*values)


def held(largest):
    """The exponent k of a sigma = 1.5·2**k for what is somewhat above this bit pattern, if there is one."""
    k = (largest >> 52) - 1022 + SLACK + 1 + CARRY
    return k if LOWEST < k <= HIGHEST + 1 + CARRY else LOWEST


_held = _inlined(held)


def window(x):
    """A k for numbers like these."""
    largest = 0
    for i in range(len(x)):
        magnitude = _bits(x[i]) & _MAGNITUDE
        largest = magnitude if magnitude > largest else largest
    return _held(largest)


@_inlined
def _extract(x, k):
    """ExtractVector at two levels: the integer sums of both, the largest magnitude, and whether any is below.

    What sigma takes of an element is below 2**45 units of its last place, or seen to be outside.
    """
    sigma, tau = _sigma(k), _sigma(k - LEVEL_BITS)
    high = low = largest = below = 0
    for i in range(len(x)):
        v = np.float64(x[i])
        magnitude = _bits(v) & _MAGNITUDE
        largest = magnitude if magnitude > largest else largest
        shifted = v + sigma
        high += _bits(shifted)
        v -= shifted - sigma
        shifted = v + tau
        low += _bits(shifted)
        below |= _bits(v - (shifted - tau))
    high, low = high - len(x) * _bits(sigma), low - len(x) * _bits(tau)
    return high, low, largest, below & _MAGNITUDE != 0


def leave_rest(x, k, rest):
    """What two levels leave of numbers that are not above them."""
    sigma, tau = _sigma(k), _sigma(k - LEVEL_BITS)
    for i in range(len(x)):
        v = np.float64(x[i])
        v -= (v + sigma) - sigma
        rest[i] = v - ((v + tau) - tau)


@_inlined
def _carry(sums, place, high, low):
    """Add the sums of a block to three words, of which the last two are below 2**LEVEL_BITS."""
    low += sums[place + 2]
    high += sums[place + 1] + (low >> LEVEL_BITS)
    sums[place] += high >> LEVEL_BITS
    sums[place + 1] = high & _LEVEL
    sums[place + 2] = low & _LEVEL


def vector_sum(x, k, exact, sums):
    """Add the blocks of a vector that a window holds, up to the first that it does not; return where that is.

    exact : the window does not hold a block if anything of it is below.
    sums : three words of a total, three that are not used; whether anything was below; the largest magnitude
        of the last block.
    """
    for start in range(0, len(x), BLOCK):
        high, low, sums[7], below = _extract(x[start : start + BLOCK], k)
        if sums[7] >> 52 >= k + LARGEST or (exact and below):
            return start
        sums[6] |= below
        _carry(sums, 0, high, low)
    return len(x)


@_inlined
def _put(x, bins):
    """Add the significand of a float64 to those of its sign and exponent: 64 bits and the carry."""
    pattern = np.uint64(_bits(np.float64(x)))
    place, fraction = pattern >> np.uint64(52), pattern & np.uint64(_FRACTION)
    normal = fraction | np.uint64(_FRACTION + 1)
    significand = normal if place & np.uint64(EXPONENTS - 1) else fraction
    total = bins[0, place] + significand
    bins[0, place] = total
    if total < significand:
        bins[1, place] += np.uint64(1)


def binned(x, bins):
    """Add numbers to bins by sign and exponent, four at a time."""
    whole = len(x) // 4 * 4
    for start in range(0, whole, 4):
        for i in range(4):
            _put(x[np.uint64(start + i)], bins)
    for i in range(whole, len(x)):
        _put(x[i], bins)


def products(x, y, p, e):
    """TwoProduct, x·y = p + e. Return whether every product and error is a finite float64."""
    unsafe = False
    for i in range(len(x)):
        a, b = np.float64(x[i]), np.float64(y[i])
        p[i] = a * b
        e[i] = fma(a, b, -p[i])
        magnitude = abs(p[i])
        unsafe |= (not magnitude <= _HUGE) | ((magnitude < TINY) & (a != 0) & (b != 0))
    return not unsafe


@_inlined
def _significand(x):
    """A float64 as an integer, in two parts of up to 27 bits, and the place of its unit."""
    pattern = _bits(x)
    exponent = (pattern >> 52) & (EXPONENTS - 1)
    significand = (pattern & _FRACTION) | ((exponent > 0) << 52)
    sign = 1 | (pattern >> 63)
    return sign * (significand >> 26), sign * (significand & ((1 << 26) - 1)), max(exponent - 1, 0)


@_inlined
def _add(digits, value, position):
    """Add an int64 times 2**position."""
    place, shift = position >> 5, position & 31
    low, high = (value & _DIGIT) << shift, (value >> DIGIT_BITS) << shift
    digits[place] += low & _DIGIT
    digits[place + 1] += (low >> DIGIT_BITS) + (high & _DIGIT)
    digits[place + 2] += high >> DIGIT_BITS


@_inlined
def _extract_products(x, y, k, j):
    """As `_extract`, of products at two levels below k, and of their errors at two below j: four sums.

    Return also whether an error may be no float64.
    """
    sigma, tau = _sigma(k), _sigma(k - LEVEL_BITS)
    upper, lower = _sigma(j), _sigma(j - LEVEL_BITS)
    high = low = more = less = largest = below = 0
    tiny = False
    for i in range(len(x)):
        a, b = np.float64(x[i]), np.float64(y[i])
        p = a * b
        e = fma(a, b, -p)
        magnitude = _bits(p) & _MAGNITUDE
        largest = magnitude if magnitude > largest else largest
        tiny |= (abs(p) < TINY) & (a != 0) & (b != 0)
        shifted = p + sigma
        high += _bits(shifted)
        p -= shifted - sigma
        shifted = p + tau
        low += _bits(shifted)
        below |= _bits(p - (shifted - tau))
        shifted = e + upper
        more += _bits(shifted)
        e -= shifted - upper
        shifted = e + lower
        less += _bits(shifted)
        below |= _bits(e - (shifted - lower))
    n = len(x)
    high, low = high - n * _bits(sigma), low - n * _bits(tau)
    more, less = more - n * _bits(upper), less - n * _bits(lower)
    return high, low, more, less, largest, below & _MAGNITUDE != 0, tiny


def product_sum(x, y, k, j, exact, sums):
    """As `vector_sum`, of products, in a window below k, and of their errors, in one below j.

    sums : as in `vector_sum`, of the errors in the second three words; and whether errors in the last block
        may be no float64, though `exact` asks for that.
    """
    for start in range(0, len(x), BLOCK):
        xs, ys = x[start : start + BLOCK], y[start : start + BLOCK]
        high, low, more, less, sums[7], below, tiny = _extract_products(xs, ys, k, j)
        sums[8] = exact and tiny
        if sums[8] or sums[7] >> 52 >= k + LARGEST or (exact and below):
            return start
        sums[6] |= below or tiny  # by less than the unit of any window
        _carry(sums, 0, high, low)
        _carry(sums, 3, more, less)
    return len(x)


def integer_products(x, y, digits):
    """Add the products of any numbers, as integers, to digits. Return whether there is Inf or NaN."""
    for i in range(len(x)):
        a, b = np.float64(x[i]), np.float64(y[i])
        if not (abs(a) < np.inf and abs(b) < np.inf):
            return True
        (high, low, e), (other_high, other_low, f) = _significand(a), _significand(b)
        _add(digits, high * other_high, e + f + 52)
        _add(digits, high * other_low + low * other_high, e + f + 26)
        _add(digits, low * other_low, e + f)
    return False


def row_sums(x, k, high, low):
    """Sum the rows of (m, n). Return whether anything is above or below the window."""
    any_above = any_below = False
    for j in range(len(x)):
        high[j], low[j], largest, below = _extract(x[j], k)
        any_above |= largest >> 52 >= k + LARGEST
        any_below |= below
    return any_above, any_below


def column_sums(x, k, high, low):
    """As row_sums, of the columns of (n, m): _extract with as many sums."""
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


def running_sums(x, k, high, low, coarse, fine, result):
    """Add numbers to high·coarse + low·fine, rounded each time. Return that, and whether the window held all.

    coarse and fine are the units of the levels. |high| is below 2**52 and |low| below 2**46, so that both
    products are exact, and the addition of these rounds once.
    """
    sigma, tau, half = _sigma(k), _sigma(k - LEVEL_BITS), 1 << (LEVEL_BITS - 1)
    above = below = 0
    for i in range(len(x)):
        v = np.float64(x[i])
        shifted = v + sigma
        high += _bits(shifted) - _bits(sigma)
        above |= (_bits(shifted) + half) ^ _bits(sigma)
        v -= shifted - sigma
        shifted = v + tau
        low += _bits(shifted) - _bits(tau)
        below |= _bits(v - (shifted - tau))
        carry = (low + half) >> LEVEL_BITS
        high += carry
        low -= carry << LEVEL_BITS
        result[i] = high * coarse + low * fine
    return high, low, (above >> LEVEL_BITS == 0) & (below & _MAGNITUDE == 0)


SIGNATURES: dict[Callable, Callable] = {
    window: lambda x: int64(x[1]),
    leave_rest: lambda x: none(x[1], int64, _Values),
    products: lambda x: boolean(x[1], x[1], _Values, _Values),
    vector_sum: lambda x: int64(x[1], int64, boolean, _Sums),
    product_sum: lambda x: int64(x[1], x[1], int64, int64, boolean, _Sums),
    binned: lambda x: none(x[1], uint64[:, ::1]),
    integer_products: lambda x: boolean(x[1], x[1], _Sums),
    row_sums: lambda x: Tuple((boolean, boolean))(x[2], int64, _Sums, _Sums),
    column_sums: lambda x: Tuple((boolean, boolean))(x[2], int64, _Sums, _Sums),
    running_sums: lambda x: Tuple((int64, int64, boolean))(x[1], *[int64] * 3, *[float64] * 2, _Values),
}
"""The loops' signatures, for arrays x[n] of n dimensions of float64 or of float32."""


@cache
def compiled_loop(loop: Callable, dtype: np.dtype) -> Callable:
    """A loop for arrays of this dtype, compiled in its first call; forks wait until it is."""
    arrays = [Array(from_dtype(dtype), ndim, "C", readonly=True) for ndim in range(3)]
    with loading:
        return njit(SIGNATURES[loop](arrays), **CALLED)(loop)


njit(none(), **CALLED)(lambda: None)  # if numba does not work here, this says so
