"""Digits added to those of a superaccumulator, compiled with numba: in one pass, where NumPy takes twelve."""

from __future__ import annotations

import numpy as np
from numba import int64, types, void

from multiword.runtime.jit import jit
from ozaki.sums.exact.fixed_point import DIGIT_BITS, DIGIT_MASK

_READ = types.Array(int64, 2, "C", readonly=True)


@jit(void(_READ, int64, int64, int64, int64, int64, int64[:, ::1], int64))
def add_digits(digits, begin, end, down, up, first, sums, start):
    """Add the digits of columns from begin to end, moved down or up by some bits, to those of sums.

    digits : (count, n). up : fewer than 32 bits.
    first : the row of `sums`, (rows, m), that the first digit begins in; each reaches into two more.
    start : which of its columns the first one goes to.
    """
    for i in range(digits.shape[0]):
        row = first + i
        for j in range(np.uint64(begin), np.uint64(end)):
            digit, to = digits[i, j] >> down, np.uint64(start) + j
            low, high = (digit & DIGIT_MASK) << up, (digit >> DIGIT_BITS) << up
            sums[row, to] += low & DIGIT_MASK
            sums[row + 1, to] += (low >> DIGIT_BITS) + (high & DIGIT_MASK)
            sums[row + 2, to] += high >> DIGIT_BITS
