"""The loops of `extraction`, compiled with numba (extra `fast`): element by element, in one pass.

A window is the two levels below some sigma. It holds numbers that are small enough, and multiples of its
unit. Elements of a vector that the window does not hold are added up by sign and exponent, as in Neal's
superaccumulator (Fast exact summation using small and large superaccumulators). Each loop is compiled
when an array of its kind first comes.
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

typeof(np.empty(0))  # imports what the first call would import, while forks wait
DTYPES = (np.dtype(np.float64), np.dtype(np.float32))

BLOCK = 1 << 11  # elements that go into a window together, or not at all
SPAN = 1 << 17  # the most elements of a vector: its sums of a level stay below 2**62
_FRACTION = (1 << 52) - 1
_MAGNITUDE = (1 << 63) - 1
EXPONENTS = 1 << 11  # of float64
SLACK = 2  # bits by which what follows may be larger than what a window was made for
_TINY, _HUGE = 2.0**-900, 2.0**1000  # products between these have an error that is a float64

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
def _fma(context: Any, x: Any, y: Any, z: Any) -> Any:
    """x·y + z, rounded once."""
    return float64(float64, float64, float64), lambda _, builder, signature, values: builder.fma(*values)


def window(x):
    """The exponent k of a sigma = 1.5·2**k for numbers up to somewhat above these, if there is one."""
    largest = 0
    for i in range(len(x)):
        magnitude = _bits(x[i]) & _MAGNITUDE
        largest = magnitude if magnitude > largest else largest
    k = (largest >> 52) - 1022 + SLACK + 1 + CARRY
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


def leave_rest(x, k, rest):
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
        normal = np.uint64((place & np.uint64(EXPONENTS - 1)) != 0)
        significand = (pattern & np.uint64(_FRACTION)) | (normal << np.uint64(52))
        total = bins[0, place] + significand
        bins[0, place] = total
        if total < significand:
            bins[1, place] += np.uint64(1)


def products(x, y, p, e):
    """TwoProduct, x·y = p + e. Return whether every product and error is a finite float64."""
    unsafe = False
    for i in range(len(x)):
        a, b = np.float64(x[i]), np.float64(y[i])
        p[i] = a * b
        e[i] = _fma(a, b, -p[i])
        magnitude = abs(p[i])
        unsafe |= (not magnitude <= _HUGE) | ((magnitude < _TINY) & (a != 0) & (b != 0))
    return not unsafe


def vector_sum(x, k, bins):
    """Sum the blocks that window k holds, at two levels; put the others, if there are any, in bins."""
    high, low, waiting, patience, binned = 0, 0, 0, 1, False
    for start in range(0, len(x), BLOCK):
        part = x[start : start + BLOCK]
        if waiting == 0:
            part_high, part_low, above, below = _extract(part, k)
            if not (above or below):
                high, low, patience = high + part_high, low + part_low, 1
                continue
            waiting, patience, binned = patience, 8 * patience, True
        waiting -= 1
        _bin(part, bins)
    return high, low, binned


def row_sums(x, k, high, low):
    """Sum the rows of (m, n). Return whether anything is above or below the window."""
    any_above = any_below = False
    for j in range(len(x)):
        high[j], low[j], above, below = _extract(x[j], k)
        any_above |= above
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


_SIGNATURES: dict[Callable, Callable] = {
    window: lambda x, xs: int64(x),
    leave_rest: lambda x, xs: none(x, int64, _Values),
    products: lambda x, xs: boolean(x, x, _Values, _Values),
    vector_sum: lambda x, xs: Tuple((int64, int64, boolean))(x, int64, uint64[:, ::1]),
    row_sums: lambda x, xs: Tuple((boolean, boolean))(xs, int64, _Sums, _Sums),
    column_sums: lambda x, xs: Tuple((boolean, boolean))(xs, int64, _Sums, _Sums),
    running_sums: lambda x, xs: Tuple((int64, int64, boolean))(x, *[int64] * 3, *[float64] * 2, _Values),
}
"""The loops' signatures, for a vector and a matrix of float64 or of float32."""


@cache
def compiled_loop(loop: Callable, dtype: np.dtype) -> Callable:
    """A loop for arrays of this dtype, compiled in its first call; forks wait until it is."""
    vector, matrix = (Array(from_dtype(dtype), ndim, "C", readonly=True) for ndim in (1, 2))
    with loading:
        return njit(_SIGNATURES[loop](vector, matrix), **CALLED)(loop)


compiled_loop(window, DTYPES[0])  # every sum needs it: if numba does not work here, this says so
