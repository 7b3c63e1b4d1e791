"""Exact sums of NumPy arrays in compiled loops: the extraction of `extraction`, element by element.

Wants numba (extra `fast`). Loops compile when a kind of array first needs them. A sum that they do not
hold is left to the NumPy form: the bits are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import numpy as np
from numba import boolean, float64, from_dtype, int64, njit, typeof, uint8
from numba.core.types import Array
from numba.extending import intrinsic

from multiword.runtime.forking import loading
from ozaki.sums.extraction import CARRY, HIGHEST, LEVEL_BITS, LOWEST, NOTHING, PartialSums
from ozaki.sums.fixed_point import (
    DIGIT_BITS,
    MINUS_INFINITY,
    MINUS_ZERO,
    NAN,
    ORDINARY,
    PLUS_INFINITY,
    DigitRange,
    FixedPoint,
)
from ozaki.sums.summands import Summands, as_floats, factor_pairs

typeof(np.empty(0))  # imports what the first call would import, while forks wait
_DTYPES = (np.dtype(np.float64), np.dtype(np.float32))

_BLOCK = 1 << 11
_FRACTION = (1 << 52) - 1
_MAGNITUDE = (1 << 63) - 1
_DIGIT = (1 << DIGIT_BITS) - 1
_BINS = 1 << 12  # a sign and 11 bits of exponent
_COUNT = 40  # bits below a bin's count: of 2**20 upper halves of fractions
_FULL = (1 << 20) - _BLOCK
_PATIENCE = 64  # blocks that are binned without another look, after one that had to be
_TINY, _HUGE = 2.0**-900, 2.0**1000  # products between have an error that is a float64
_ORDINARY, _MINUS_ZERO = int(ORDINARY), int(MINUS_ZERO)
_SPECIAL = (int(PLUS_INFINITY), int(MINUS_INFINITY), int(NAN))

_inlined = njit(nogil=True, error_model="numpy")


@intrinsic
def _fma(context: Any, x: Any, y: Any, z: Any) -> Any:
    """x·y + z, rounded once."""
    return float64(float64, float64, float64), lambda _, builder, signature, values: builder.fma(*values)


@_inlined
def _bits(x):
    return np.float64(x).view(np.int64)


@_inlined
def _load(x, values):
    """Copy to float64; return the largest magnitude, as a bit pattern."""
    largest = np.int64(0)
    for i in range(len(x)):
        values[i] = x[i]
        largest = max(largest, _bits(values[i]) & _MAGNITUDE)
    return largest


@_inlined
def _load_products(x, y, sign, products, errors):
    """TwoProduct of ±x and y. Return the largest product and error, and whether every error is a float64."""
    largest, largest_error, unsafe = np.int64(0), np.int64(0), np.int64(0)
    for i in range(len(x)):
        a, b = sign * np.float64(x[i]), np.float64(y[i])
        p = a * b
        products[i] = p
        errors[i] = _fma(a, b, -p)  # type: ignore[call-arg]  # numba passes the context
        size = abs(p)
        zero = ((a == 0) | (b == 0)) & (p == 0)
        unsafe |= np.int64(not (zero | ((size >= _TINY) & (size <= _HUGE))))
        largest = max(largest, _bits(p) & _MAGNITUDE)
        largest_error = max(largest_error, _bits(errors[i]) & _MAGNITUDE)
    return largest, largest_error, unsafe == 0


@_inlined
def _window(largest):
    """The exponent k of sigma = 1.5·2**k for numbers up to `largest`, or 0 with False."""
    exponent = (largest >> 52) - 1022
    k = max(exponent + 1 + CARRY, LOWEST)
    return k, exponent <= HIGHEST


@_inlined
def _power(k):
    """1.5·2**k."""
    return np.int64(((k + 1023) << 52) | (1 << 51)).view(np.float64)


@_inlined
def _extract(values, sigma, tau):
    """ExtractVector at two levels. Return the integer sums of both, and whether nothing is left."""
    high, low, rest = np.int64(0), np.int64(0), np.int64(0)
    for i in range(len(values)):
        v = values[i]
        shifted = v + sigma
        high += _bits(shifted)
        v -= shifted - sigma
        shifted = v + tau
        low += _bits(shifted)
        rest |= _bits(v - (shifted - tau))
    n = len(values)
    return high - n * _bits(sigma), low - n * _bits(tau), rest & _MAGNITUDE == 0


@_inlined
def _leave_rest(values, sigma, tau):
    """Replace numbers by what both levels leave of them; return the largest magnitude, as a bit pattern."""
    largest = np.int64(0)
    for i in range(len(values)):
        v = values[i]
        v -= (v + sigma) - sigma
        v -= (v + tau) - tau
        values[i] = v
        largest = max(largest, _bits(v) & _MAGNITUDE)
    return largest


@_inlined
def _extract_twice(values, largest, high, low, k):
    """Sum a vector in a window, and what that leaves of it in a second one.

    Return how many windows there are, and whether they hold everything; if not, the rest is in `values`.
    """
    for window in range(2):
        k[window], fits = _window(largest)
        if not fits:
            return window, False
        sigma, tau = _power(k[window]), _power(k[window] - LEVEL_BITS)
        high[window], low[window], complete = _extract(values, sigma, tau)
        if complete:
            return window + 1, True
        largest = _leave_rest(values, sigma, tau)
    return 2, False


@_inlined
def _extract_rows(x, sigma, tau, high, low):
    """As _extract for every column of two rows; return what is left."""
    rest = np.int64(0)
    for j in range(x.shape[1]):
        v, w = np.float64(x[0, j]), np.float64(x[1, j])
        v_shifted, w_shifted = v + sigma, w + sigma
        high[j] += _bits(v_shifted) + _bits(w_shifted)
        v -= v_shifted - sigma
        w -= w_shifted - sigma
        v_shifted, w_shifted = v + tau, w + tau
        low[j] += _bits(v_shifted) + _bits(w_shifted)
        rest |= _bits(v - (v_shifted - tau)) | _bits(w - (w_shifted - tau))
    return rest & _MAGNITUDE


@_inlined
def _zero_flag(values):
    """MINUS_ZERO for zeros that are all negative."""
    for i in range(len(values)):
        if _bits(values[i]) >= 0:
            return np.uint8(_ORDINARY)
    return np.uint8(_MINUS_ZERO)


@_inlined
def _scatter(digits, integer, position):
    """Add integer·2**position to digits of base 2**32."""
    place, shift = position >> 5, position & 31
    low, high = (integer & _DIGIT) << shift, (integer >> 32) << shift
    digits[place] += low & _DIGIT
    digits[place + 1] += (low >> 32) + (high & _DIGIT)
    digits[place + 2] += high >> 32


@_inlined
def _bin(values, bins):
    """Add the fractions of numbers of the same sign and exponent: lower half, upper half and their count."""
    for i in range(len(values)):
        pattern = _bits(values[i])
        place = np.uint64(pattern) >> np.uint64(52)
        bins[place, 0] += pattern & _DIGIT
        bins[place, 1] += ((pattern >> 32) & (_FRACTION >> 32)) + (1 << _COUNT)


@_inlined
def _empty_bins(bins, digits, lowest):
    """Add the bins to the digits and clear them. Return flags."""
    flags = np.uint8(0)
    for place in range(_BINS):
        count = bins[place, 1] >> _COUNT
        if count == 0:
            continue
        low, high = bins[place, 0], bins[place, 1] & ((1 << _COUNT) - 1)
        bins[place, 0] = bins[place, 1] = 0
        negative, exponent = place >> 11, place & 0x7FF
        if exponent == 0x7FF:
            flags |= np.uint8(_SPECIAL[2] if low | high else _SPECIAL[negative])
            continue
        flags |= np.uint8(_ORDINARY if exponent | low | high or not negative else _MINUS_ZERO)
        if exponent:
            high += count << 20
        sign = 1 - 2 * negative
        position = max(exponent, 1) - 1075 - lowest
        _scatter(digits, sign * low, position)
        _scatter(digits, sign * high, position + 32)
    return flags


@_inlined
def _add_block(values, largest, sums, digits, lowest):
    """Add to digits what two windows hold of a block; return whether that is all, or leave the rest."""
    windows, complete = _extract_twice(values, largest, sums[0], sums[1], sums[2])
    for i in range(windows):
        position = sums[2, i] - 52 - lowest
        _scatter(digits, sums[0, i], position)
        _scatter(digits, sums[1, i], position - LEVEL_BITS)
    return complete


def _long_sum(x, digits, lowest):
    """Add a vector of any length to digits, the first of which weighs 2**lowest; return flags."""
    buffer, sums, bins = np.empty(_BLOCK), np.empty((3, 2), np.int64), np.zeros((_BINS, 2), np.int64)
    flags, waiting, binned = np.uint8(0), 0, 0
    for start in range(0, len(x), _BLOCK):
        part = x[start : start + _BLOCK]
        if waiting:
            waiting -= 1
            _bin(part, bins)
        else:
            values = buffer[: len(part)]
            largest = _load(part, values)
            if largest == 0:
                flags |= _zero_flag(values)
                continue
            if _add_block(values, largest, sums, digits, lowest):
                flags |= np.uint8(_ORDINARY)
                continue
            _bin(values, bins)
            waiting = _PATIENCE
        binned += len(part)
        if binned > _FULL:
            flags |= _empty_bins(bins, digits, lowest)
            binned = 0
    return flags | _empty_bins(bins, digits, lowest) if binned else flags


def _long_dot(x, y, sign, digits, lowest):
    """Add the products of ±x and y to digits; return flags, or 0 for products that this does not hold."""
    products, errors = np.empty(_BLOCK), np.empty(_BLOCK)
    sums, bins = np.empty((3, 2), np.int64), np.zeros((_BINS, 2), np.int64)
    flags, binned = np.uint8(0), 0
    for start in range(0, len(x), _BLOCK):
        part = x[start : start + _BLOCK]
        p, e = products[: len(part)], errors[: len(part)]
        largest, largest_error, safe = _load_products(part, y[start : start + _BLOCK], sign, p, e)
        if not safe:
            return np.uint8(0)
        flags |= np.uint8(_ORDINARY) if largest else _zero_flag(p)
        for values, top in ((p, largest), (e, largest_error)):
            if top and not _add_block(values, top, sums, digits, lowest):
                _bin(values, bins)
                binned += len(values)
        if binned > _FULL - _BLOCK:
            _empty_bins(bins, digits, lowest)
            binned = 0
    if binned:
        _empty_bins(bins, digits, lowest)
    return flags


def _vector_sums(x, high, low, k, flags):
    """Sum the rows of (m, n), each in its own windows: (m, 2). Return how many are needed, 0 for more."""
    values, most = np.empty(x.shape[1]), 1
    high[:], low[:], k[:] = 0, 0, LOWEST
    for j in range(x.shape[0]):
        largest = _load(x[j], values)
        windows, complete = _extract_twice(values, largest, high[j], low[j], k[j])
        if not complete:
            return 0
        most = max(most, windows)
        flags[j] = np.uint8(_ORDINARY) if largest else _zero_flag(values)
    return most


def _vector_dots(x, y, sign, high, low, k, flags):
    """As _vector_sums, of products and of their errors, after one another: (2, m, 2)."""
    both, most = np.empty((2, x.shape[1])), 1
    high[:], low[:], k[:] = 0, 0, LOWEST
    for j in range(x.shape[0]):
        largest, largest_error, safe = _load_products(x[j], y[j], sign, both[0], both[1])
        if not safe:
            return 0
        flags[j] = np.uint8(_ORDINARY) if largest else _zero_flag(both[0])
        for i, top in enumerate((largest, largest_error)):
            windows, complete = _extract_twice(both[i], top, high[i, j], low[i, j], k[i, j])
            if not complete:
                return 0
            most = max(most, windows)
    return most


def _column_sums(x, high, low, k, flags):
    """Sum the columns of (n, m) in one window for all; return whether it holds all numbers."""
    n, m = x.shape
    largest = np.int64(0)
    for i in range(n):
        for j in range(m):
            largest = max(largest, _bits(x[i, j]) & _MAGNITUDE)
    k[:], fits = _window(largest)
    if not fits:
        return False
    sigma, tau, rest = _power(k[0]), _power(k[0] - LEVEL_BITS), np.int64(0)
    high[:], low[:] = -n * _bits(sigma), -n * _bits(tau)
    for i in range(0, n - 1, 2):
        rest |= _extract_rows(x[i : i + 2], sigma, tau, high, low)
    for j in range(m if n & 1 else 0):
        one_high, one_low, complete = _extract(x[n - 1, j : j + 1].astype(np.float64), sigma, tau)
        high[j] += one_high + _bits(sigma)
        low[j] += one_low + _bits(tau)
        rest |= not complete
    for j in range(m):
        flags[j] = np.uint8(_ORDINARY) if high[j] | low[j] else _zero_flag(x[:, j])
    return rest == 0


_digits, _flags = int64[::1], uint8[::1]
_SIGNATURES: dict[Callable, Callable] = {
    _long_sum: lambda t: uint8(_given(t, 1), _digits, int64),
    _long_dot: lambda t: uint8(_given(t, 1), _given(t, 1), float64, _digits, int64),
    _vector_sums: lambda t: int64(_given(t, 2), *[int64[:, ::1]] * 3, _flags),
    _vector_dots: lambda t: int64(_given(t, 2), _given(t, 2), float64, *[int64[:, :, ::1]] * 3, _flags),
    _column_sums: lambda t: boolean(_given(t, 2), *[int64[::1]] * 3, _flags),
}
"""The kernels' signatures, for arrays of float64 or of float32."""


def _given(element: Any, ndim: int) -> Any:
    """The type of an input, which may be read-only."""
    return Array(element, ndim, "C", readonly=True)


def _contiguous(x: np.ndarray) -> np.ndarray:
    x = np.ascontiguousarray(x)
    return x if x.flags.aligned else x.copy()


@cache
def _compiled(kernel: Callable, dtype: np.dtype) -> Callable:
    with loading:
        return njit(_SIGNATURES[kernel](from_dtype(dtype)), nogil=True, error_model="numpy")(kernel)


def block_sums(block: Summands) -> list[PartialSums] | None:
    """Sum the columns of (n, m) factors exactly, or return None."""
    found = [_block_sums(factors, block.sign) for factors in _readable(block)]
    return None if None in found else [sums for some in found for sums in some or ()]


def long_sums(blocks: Iterable[Summands], digits: DigitRange) -> FixedPoint | None:
    """Sum factors of shape (n, 1), of any length, or return None."""
    sums = np.zeros((digits.digits + 3, 1), np.int64)
    flags = np.zeros(1, np.uint8)
    for block in blocks:
        for factors in _readable(block):
            kernel = _compiled(_long_dot if len(factors) == 2 else _long_sum, factors[0].dtype)
            xs = [_contiguous(x[:, 0]) for x in factors]
            signed = (*xs, float(block.sign)) if len(xs) == 2 else xs
            flag = kernel(*signed, sums[:, 0], digits.exponent)
            if not flag:
                return None
            flags |= flag
    used = np.flatnonzero(sums)
    low, high = (int(used[0]), int(used[-1]) + 1) if used.size else (0, 1)
    return FixedPoint(sums[low:high], DIGIT_BITS, digits.exponent + DIGIT_BITS * low, flags)


def _readable(block: Summands) -> Iterator[tuple[np.ndarray, ...]]:
    """The factors as float64 or float32, of which 64-bit integers are sums."""
    if all(x.dtype == block.factors[0].dtype and x.dtype in _DTYPES for x in block.factors):
        yield block.factors
    elif len(block.factors) == 2:
        yield from factor_pairs(*block.factors)
    else:
        yield from ((x,) for x in as_floats(*block.factors))


def _block_sums(factors: tuple[np.ndarray, ...], sign: int) -> list[PartialSums] | None:
    n, m = factors[0].shape
    if not n * m:
        return None
    flags = np.empty(m, np.uint8)
    if len(factors) == 1 and abs(factors[0].strides[0]) > abs(factors[0].strides[1]):
        high, low, k = np.empty((3, m), np.int64)
        kernel = _compiled(_column_sums, factors[0].dtype)
        if kernel(_contiguous(factors[0]), high, low, k, flags):
            return [PartialSums(high, low, int(k[0]) - 52 - LEVEL_BITS, *NOTHING, flags, weight=n)]
    xs = [_contiguous(x.T) for x in factors]
    high, low, k = np.empty((3, len(xs), m, 2), np.int64)
    if len(xs) == 1:
        windows = _compiled(_vector_sums, xs[0].dtype)(*xs, high[0], low[0], k[0], flags)
    else:
        windows = _compiled(_vector_dots, xs[0].dtype)(*xs, float(sign), high, low, k, flags)
    k -= 52 + LEVEL_BITS
    return [
        _partial_sums(high[part, :, i], low[part, :, i], k[part, :, i], flags * (part == i == 0), n)
        for part in range(len(xs))
        for i in range(windows)
    ] or None


def _partial_sums(
    high: np.ndarray, low: np.ndarray, exponent: np.ndarray, flags: np.ndarray, weight: int
) -> PartialSums:
    """Those of one vector have an exponent in common."""
    common = int(exponent[0]) if len(exponent) == 1 else exponent
    return PartialSums(high, low, common, *NOTHING, flags, weight=weight)
