"""Row statistics, compiled: the exponent of `statistics`, and the sums relative to it, row by row."""

import math

import numpy as np
from numba import float64, int32, int64, types, uint8, void

from multiword.runtime.compiled import BIAS, POWERS
from multiword.runtime.jit import jit
from ozaki.scaling.statistics import BITS, LEVELS, NONFINITE, ZERO

MAGNITUDE, INFINITE = (1 << 63) - 1, 0x7FF
"""The bits of a float64 but its sign, and the exponent field of Inf and NaN."""

DEEPEST = LEVELS[-1] + 1
"""Octaves in which numbers are counted; what is smaller is one more."""

OF_LEVELS = np.array(LEVELS)

INPUT = types.Array(float64, 2, "C", readonly=True)


@jit(void(INPUT, int32[::1], int64[::1], int64[::1], int32[:, :], int64[:, ::1], uint8[::1]))
def row_statistics(x, exponent, total, square, counts, bins, octaves):
    """Fill in the statistics of the rows of x. `bins` and `octaves` are scratch memory.

    Two rows of bins are counted in alternately: a processor waits for a count that it has just written.
    """
    for i in range(x.shape[0]):
        largest = np.int64(0)
        for h in range(x.shape[1]):
            magnitude = np.float64(x[i, h]).view(np.int64) & MAGNITUDE
            largest = magnitude if magnitude > largest else largest
        e = (largest >> 52) - 1022
        if e == -1022:  # subnormal numbers
            e = np.int64(-1074)
            while largest >> (e + 1074):
                e += 1
        if largest == 0 or largest >> 52 == INFINITE:
            exponent[i] = ZERO if largest == 0 else NONFINITE
            total[i] = square[i] = 0
            for level in range(counts.shape[0]):
                counts[level, i] = 0
            continue
        some = (BITS - e) >> 1  # one factor might overflow
        one, other = POWERS[some + BIAS], POWERS[BITS - e - some + BIAS]
        first = second = np.int64(0)
        for h in range(x.shape[1]):
            scaled = math.fabs(x[i, h]) * one * other
            octave = 1023 + BITS - 1 - (np.float64(scaled).view(np.int64) >> 52)
            octaves[h] = octave if octave < DEEPEST else DEEPEST
            t = np.int64(np.int32(scaled)) + 1
            first += t
            second += t * t
        exponent[i], total[i], square[i] = e, first, second
        for q in range(bins.shape[1]):
            bins[0, q] = bins[1, q] = 0
        for h in range(x.shape[1]):
            bins[h & 1, octaves[h]] += 1
        reached, octave = np.int64(0), np.int64(0)
        for level in range(len(OF_LEVELS)):
            while octave <= OF_LEVELS[level]:
                reached += bins[0, octave] + bins[1, octave]
                octave += 1
            counts[level, i] = reached


def work_arrays(length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the scratch memory of `row_statistics`."""
    return np.empty((2, DEEPEST + 1), np.int64), np.empty(length, np.uint8)
