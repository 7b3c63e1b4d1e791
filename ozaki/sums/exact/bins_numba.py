"""What windows do not hold, compiled with numba: bins for numbers, digits for products.

Numbers are added up by sign and exponent, as in Neal's superaccumulator (Fast exact summation using small and
large superaccumulators), products as integers in digits of 32 bits.
"""

from __future__ import annotations

import numpy as np

from multiword.runtime.jit import inlined
from ozaki.sums.exact.extraction_numba import MAGNITUDE, bits_of
from ozaki.sums.exact.fixed_point import DIGIT_BITS
from ozaki.sums.exact.levels import WINDOW_BLOCK
from ozaki.sums.exact.vectors import EXPONENTS

EQUALS = {
    "binned": "sums.rounded_sum",
    "unbinned": "sums.rounded_sum",
    "integer_products": "sums.rounded_dot",
}
"""The function of `ozaki.definition` that each form, or the sum it is a step of, has the bits of."""

_DIGIT = (1 << DIGIT_BITS) - 1
_FRACTION = (1 << 52) - 1


@inlined
def _put(x, bins):
    """Add 2**52 and the fraction of a float64 to those of its sign and exponent: 64 bits and the carry."""
    pattern = np.uint64(bits_of(x))
    index, significand = pattern >> np.uint64(52), pattern & np.uint64(_FRACTION) | np.uint64(_FRACTION + 1)
    total = bins[0, index] + significand
    bins[0, index] = total
    if total < significand:
        bins[1, index] += np.uint64(1)


@inlined
def _take_back(x, bins):
    """Subtract the 2**52 of zeros and subnormal numbers, which have none."""
    plus = minus = 0
    for i in range(len(x)):
        pattern = bits_of(np.float64(x[i]))
        plus += (pattern >= 0) & (pattern <= _FRACTION)
        minus += (pattern < 0) & (pattern & MAGNITUDE <= _FRACTION)
    for index, count in ((0, plus), (EXPONENTS, minus)):
        excess = np.uint64(count) << np.uint64(52)
        bins[1, index] -= np.uint64(bins[0, index] < excess)
        bins[0, index] -= excess


def binned(x, bins):
    """Add numbers to bins by sign and exponent."""
    for start in range(0, len(x), WINDOW_BLOCK):
        block = x[start : start + WINDOW_BLOCK]
        before = bins[0, 0] + bins[0, EXPONENTS]
        for i in range(len(block)):
            _put(np.float64(block[i]), bins)
        if bins[0, 0] + bins[0, EXPONENTS] != before:
            _take_back(block, bins)


@inlined
def _add(digits, value, position):
    """Add an int64 times 2**position."""
    index, shift = position >> 5, position & 31
    low, high = (value & _DIGIT) << shift, (value >> DIGIT_BITS) << shift
    digits[index] += low & _DIGIT
    digits[index + 1] += (low >> DIGIT_BITS) + (high & _DIGIT)
    digits[index + 2] += high >> DIGIT_BITS


def unbinned(bins, digits):
    """Turn what is in bins into digits in units of 2**-UNIT, all but the last one below 2**DIGIT_BITS."""
    for index in range(EXPONENTS - 1):
        position = max(index - 1, 0)  # subnormal numbers have the unit of the smallest others
        for sign in range(2):
            total, carries = bins[0, sign * EXPONENTS + index], np.int64(bins[1, sign * EXPONENTS + index])
            if total != 0 or carries != 0:
                factor = 1 - 2 * sign
                _add(digits, factor * np.int64(total & np.uint64(_DIGIT)), position)
                _add(digits, factor * np.int64(total >> np.uint64(DIGIT_BITS)), position + DIGIT_BITS)
                _add(digits, factor * carries, position + 2 * DIGIT_BITS)
    for i in range(len(digits) - 1):
        digits[i + 1] += digits[i] >> DIGIT_BITS
        digits[i] &= _DIGIT


@inlined
def _significand(x):
    """A float64 as an integer, in two parts of up to 27 bits, and the position of its unit."""
    pattern = bits_of(x)
    exponent = (pattern >> 52) & (EXPONENTS - 1)
    significand = (pattern & _FRACTION) | ((exponent > 0) << 52)
    sign = 1 | (pattern >> 63)
    return sign * (significand >> 26), sign * (significand & ((1 << 26) - 1)), max(exponent - 1, 0)


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
