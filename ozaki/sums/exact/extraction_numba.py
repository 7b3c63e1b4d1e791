"""The loops of `extraction`, compiled with numba: element by element, in one pass.

A window is the two levels below some sigma. It holds numbers that are small enough, and multiples of its
unit; what it does not hold goes into bins (`bins_numba`). Where an enclosure is enough, only the upper level
is exact, and what that leaves is added up in floating point. Each loop is compiled when an array of its kind
first comes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float64, int64

from multiword.runtime.addresses import F64, I64, instruction, plus
from multiword.runtime.jit import inlined
from ozaki.sums.exact.extraction import HUGE, TINY
from ozaki.sums.exact.levels import LEVEL_BITS, REST, TWO, WINDOW_BLOCK, window_above

EQUALS = {
    "window": "sums.rounded_sum",
    "vector_sum": "sums.rounded_sum",
    "enclosed_sum": "sums.rounded_sum",
    "row_sums": "sums.rounded_sum",
    "column_sums": "sums.rounded_sum",
    "leave_rest": "sums.rounded_sum",
    "products": "sums.rounded_dot",
}
"""The function of `ozaki.definition` that each form, or the sum it is a step of, has the bits of."""

_LEVEL = (1 << LEVEL_BITS) - 1
MAGNITUDE = (1 << 63) - 1
LARGEST = TWO.limit  # and k: the exponent field of what a window does not hold


@instruction(int64(float64))
def bits_of(_: Any, builder: Any, x: Any) -> Any:
    """The bit pattern of a float64 as an int64."""
    return builder.bitcast(x, I64)


@instruction(float64(int64))
def number_of(_: Any, builder: Any, pattern: Any) -> Any:
    """The float64 of a bit pattern."""
    return builder.bitcast(pattern, F64)


@instruction(float64(int64))
def sigma_of(_: Any, builder: Any, k: Any) -> Any:
    """1.5·2**k, from its bit pattern."""
    exponent = builder.shl(builder.add(k, I64(1023)), I64(52))
    return builder.bitcast(builder.or_(exponent, I64(1 << 51)), F64)


@instruction(float64(float64, float64, float64))
def fma(_: Any, builder: Any, x: Any, y: Any, z: Any) -> Any:
    """x·y + z, rounded once."""
    return builder.fma(x, y, z)


_window_above = inlined(window_above)


@inlined
def _largest(x, y):
    """The bit pattern of the largest magnitude of numbers, or of x·y."""
    largest = 0
    for i in range(len(x)):
        v = np.float64(x[i])
        if y is not None:
            v *= np.float64(y[i])
        magnitude = bits_of(v) & MAGNITUDE
        largest = magnitude if magnitude > largest else largest
    return largest


def window(x):
    """A k for numbers like these."""
    return _window_above(_largest(x, None))


@inlined
def _extract(x, y, k, j):
    """ExtractVector at two levels below k, of numbers, or of x·y and, at two below j, of their errors.

    Return the integer sums of the four levels, the largest magnitude, whether any is below, and whether an
    error may be no float64. What sigma takes of an element is below 2**45 units of its last place, or noticed
    to be outside.
    """
    sigma, tau = sigma_of(k), sigma_of(k - LEVEL_BITS)
    upper, lower = sigma_of(j), sigma_of(j - LEVEL_BITS)
    high = low = more = less = largest = below = 0
    tiny = False
    for i in range(len(x)):
        v = np.float64(x[i])
        if y is not None:
            a, b = v, np.float64(y[i])
            v = a * b
            e = fma(a, b, -v)
            tiny |= (abs(v) < TINY) & (a != 0) & (b != 0)
            shifted = e + upper
            more += bits_of(shifted)
            e -= shifted - upper
            shifted = e + lower
            less += bits_of(shifted)
            below |= bits_of(e - (shifted - lower))
        magnitude = bits_of(v) & MAGNITUDE
        largest = magnitude if magnitude > largest else largest
        shifted = v + sigma
        high += bits_of(shifted)
        v -= shifted - sigma
        shifted = v + tau
        low += bits_of(shifted)
        below |= bits_of(v - (shifted - tau))
    n = len(x)
    high, low = high - n * bits_of(sigma), low - n * bits_of(tau)
    more, less = more - n * bits_of(upper), less - n * bits_of(lower)
    return high, low, more, less, largest, below & MAGNITUDE != 0, tiny


def leave_rest(x, k, rest):
    """What two levels leave of numbers that are not above them."""
    sigma, tau = sigma_of(k), sigma_of(k - LEVEL_BITS)
    for i in range(len(x)):
        v = np.float64(x[i])
        v -= (v + sigma) - sigma
        rest[i] = v - ((v + tau) - tau)


@inlined
def _carry(sums, first, high, low):
    """Add the sums of a block to three words, of which the last two are below 2**LEVEL_BITS."""
    low += sums[first + 2]
    high += sums[first + 1] + (low >> LEVEL_BITS)
    sums[first] += high >> LEVEL_BITS
    sums[first + 1] = high & _LEVEL
    sums[first + 2] = low & _LEVEL


def vector_sum(x, y, k, j, sums):
    """Add the blocks of x, or of x·y, that a window holds, up to the first that it does not; return where.

    y : as x, or None.
    sums : three words of a total, three of that of the products' errors, in a window below j; the largest
        magnitude of the last block, and whether errors in it may be no float64.
    """
    for start in range(0, len(x), WINDOW_BLOCK):
        xs = x[start : start + WINDOW_BLOCK]
        ys = None if y is None else y[start : start + WINDOW_BLOCK]
        high, low, more, less, sums[6], below, sums[7] = _extract(xs, ys, k, j)
        if sums[7] or sums[6] >> 52 >= k + LARGEST or below:
            return start
        _carry(sums, 0, high, low)
        if y is not None:
            _carry(sums, 3, more, less)
    return len(x)


@inlined
def _enclose(sums, k, high, rest):
    """Add the sum of a block, and the rest, what sigma left of it, cut to a multiple of 2**7 units."""
    tau = sigma_of(k - REST)
    _carry(sums, 0, high, (bits_of(rest + tau) - bits_of(tau)) << (LEVEL_BITS - REST))


def products(x, y, p, e):
    """TwoProduct, x·y = p + e. Return whether every product and error is a finite float64."""
    unsafe = False
    for i in range(len(x)):
        a, b = np.float64(x[i]), np.float64(y[i])
        p[i] = a * b
        e[i] = fma(a, b, -p[i])
        magnitude = abs(p[i])
        unsafe |= (not magnitude <= HUGE) | ((magnitude < TINY) & (a != 0) & (b != 0))
    return not unsafe


def enclosed_sum(x, y, k, _, sums):
    """As `vector_sum`, of numbers, or of x·y, within ERROR units for each of them, in whole blocks: `levels`.

    The errors of products, half of 2**(k - 53) at most, are added to what sigma leaves, and hardly rounded
    there; the error of a tiny product is off by less than a unit of any window.
    """
    sigma = sigma_of(k)
    for start in range(0, len(x), WINDOW_BLOCK):
        xs = x[start : start + WINDOW_BLOCK]
        ys = xs if y is None else y[start : start + WINDOW_BLOCK]
        high = outside = 0
        rest = 0.0
        for i in range(len(xs)):
            a = np.float64(xs[i])
            v = a if y is None else a * np.float64(ys[i])
            shifted = v + sigma
            pattern = bits_of(shifted)
            high += pattern
            outside |= pattern ^ bits_of(sigma)
            left = v - (shifted - sigma)
            rest = plus(rest, left if y is None else left + fma(a, np.float64(ys[i]), -v))
        if outside >> 52 != 0:
            sums[6] = _largest(xs, None) if y is None else _largest(xs, ys)
            return start
        _enclose(sums, k, high - len(xs) * bits_of(sigma), rest)
    return len(x)


def row_sums(x, k, high, low):
    """Sum the rows of (m, n). Return whether anything is above or below the window."""
    any_above = any_below = False
    for j in range(len(x)):
        high[j], low[j], _, _, largest, below, _ = _extract(x[j], None, k, k)
        any_above |= largest >> 52 >= k + LARGEST
        any_below |= below
    return any_above, any_below


def column_sums(x, k, high, low):
    """As row_sums, of the columns of (n, m): _extract with as many sums."""
    sigma, tau, half = sigma_of(k), sigma_of(k - LEVEL_BITS), 1 << (LEVEL_BITS - 1)
    n, m = x.shape
    above = below = 0
    for j in range(m):
        high[j], low[j] = -n * bits_of(sigma), -n * bits_of(tau)
    for i in range(n):
        for j in range(m):
            v = np.float64(x[i, j])
            shifted = v + sigma
            high[j] += bits_of(shifted)
            above |= (bits_of(shifted) + half) ^ bits_of(sigma)
            v -= shifted - sigma
            shifted = v + tau
            low[j] += bits_of(shifted)
            below |= bits_of(v - (shifted - tau))
    return above >> LEVEL_BITS != 0, below & MAGNITUDE != 0
