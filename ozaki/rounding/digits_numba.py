"""`digits.round_digits`, compiled: number by number, the same roundings."""

import math

import numpy as np
from numba import float32, float64, int64, types, uint64, void

from multiword.runtime.compiled import BIAS, POWERS
from multiword.runtime.jit import jit

EQUALS = {
    "round_digits": "rounding.nearest",
}
"""The function of `ozaki.definition` that each form, or the sum it is a step of, has the bits of."""

_DIGITS = types.Array(int64, 2, "C", readonly=True)
_ONE = np.uint64(1)
_LARGEST_SINGLE = 2.0**127  # below, nothing is rounded to more than fp32 has
_LARGEST_EXPONENT = 900  # at which a sum of two digits of 60 bits does not overflow


@jit(int64(uint64), inner=True)
def bit_length(x):
    """Bits of an integer: 0 for 0."""
    bits = 0
    while x:
        x >>= _ONE
        bits += 1
    return bits


@jit(float64(uint64, uint64, int64, int64, int64, int64), inner=True)
def round_window(window, rest, rest_bits, scale, precision, last_place):
    """RN((window·2**rest_bits + rest)·2**scale), all integers. As `digits._round_window`."""
    length = bit_length(window) + rest_bits
    shift = max(length - precision, last_place - scale, 0)
    if shift > rest_bits + 64:
        return 0.0
    if shift <= rest_bits:
        low = uint64(shift)
        rounded = window << (uint64(rest_bits) - low) | rest >> low
        cut, half, sticky = rest & ((_ONE << low) - _ONE), (_ONE << low) >> _ONE, False
    else:
        high = uint64(shift - rest_bits)
        rounded = window >> high if high < 64 else uint64(0)
        cut = window & ((_ONE << high) - _ONE) if high < 64 else window
        half, sticky = _ONE << (high - _ONE), rest != 0
    up = cut > half or (cut == half and half != 0 and (sticky or rounded & _ONE == _ONE))
    return math.ldexp(float64(rounded + uint64(up)), min(max(scale + shift, -(2**20)), 2**20))


@jit(float64(int64, int64, int64, int64, int64), inner=True)
def sum_of_two(high, low, base_bits, exponent, precision):
    """RN((high·2**base_bits + low)·2**exponent), by one addition of float64 numbers, or NaN.

    To fp64 that is where these are numbers of it; to fp32 where the addition is exact, too.
    """
    if (abs(high) | abs(low)) >> 53 or not -BIAS <= exponent <= _LARGEST_EXPONENT:
        return np.nan
    a, b = high * POWERS[base_bits + BIAS], float64(low)
    total = a + b
    result, rest = total * POWERS[exponent + BIAS], total - a
    if precision == 53:
        return result
    exact = precision == 24 and (a - (total - rest)) + (b - rest) == 0 and abs(result) < _LARGEST_SINGLE
    return float64(float32(result)) if exact else np.nan


@jit(void(_DIGITS, int64, types.Array(int64, 1, "C", readonly=True), int64, int64, int64[::1], float64[::1]))
def round_digits(digits, base_bits, exponents, precision, last_place, carried, out):
    """Write what `digits.round_digits` returns for (L, m) digits; `carried` is scratch memory, L numbers."""
    last = len(digits) - 1
    mask, room = (1 << base_bits) - 1, _ONE << uint64(64 - base_bits)
    for i in range(len(out)):
        two = last > 0
        for j in range(last - 1):
            two &= digits[j, i] == 0
        if two:
            exponent = exponents[i] + base_bits * (last - 1)
            out[i] = sum_of_two(digits[last, i], digits[last - 1, i], base_bits, exponent, precision)
            if out[i] == out[i]:
                continue
        more = 0
        for j in range(last):
            more = (digits[j, i] + more) >> base_bits
        sign, more = 1 | ((digits[last, i] + more) >> 63), 0
        for j in range(last):  # of the magnitude
            x = sign * digits[j, i] + more
            carried[j], more = x & mask, x >> base_bits
        carried[last] = sign * digits[last, i] + more
        window, rest, dropped = uint64(carried[last]), uint64(0), 0
        for j in range(last - 1, -1, -1):
            digit = uint64(carried[j])
            if window < room:
                window = window << uint64(base_bits) | digit
                continue
            rest = digit << _ONE if dropped == 0 else rest | uint64(digit != 0)
            dropped += base_bits
        scale = exponents[i] + dropped - (base_bits + 1)
        out[i] = sign * round_window(window, rest, base_bits + 1, scale, precision, last_place)
