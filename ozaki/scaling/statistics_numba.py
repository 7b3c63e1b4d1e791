"""Row statistics, compiled: the sums of `statistics`, row by row."""

import math

import numba
import numpy as np
from numba import float64, int32, int64, types, void

from multiword.runtime.compiled import CALLED
from ozaki.scaling.statistics import BITS, LEVELS, NONFINITE, ZERO

MAGNITUDE, INFINITE = (1 << 63) - 1, 0x7FF
"""The bits of a float64 but its sign, and the exponent field of Inf and NaN."""

DEEPEST = LEVELS[-1] + 1
"""Octaves in which numbers are counted; what is smaller is one more."""

OF_LEVELS = np.array(LEVELS)

INPUT = types.Array(float64, 2, "C", readonly=True)


@numba.njit(void(INPUT, int64[::1]), **CALLED)
def largest_magnitudes(x, largest):
    """Let largest[i] be at least the magnitudes of row i, all as bit patterns."""
    for i in range(x.shape[0]):
        most = np.int64(0)
        for h in range(x.shape[1]):
            most = max(most, np.float64(x[i, h]).view(np.int64) & MAGNITUDE)
        largest[i] = max(largest[i], most)


@numba.njit(void(INPUT, int32[::1], int64[::1], int64[::1], int32[:, :], int64[:, ::1], int64[::1]), **CALLED)
def add_rows(x, exponent, total, square, counts, bins, octaves):
    """Add each row's sums relative to its exponent. `bins` and `octaves` are scratch memory.

    Two rows of bins are counted in alternately: a processor waits for a count that it has just written.
    """
    for i in range(x.shape[0]):
        e = exponent[i]
        if e in (ZERO, NONFINITE):
            continue
        some = (BITS - e) >> 1  # one factor might overflow
        one, other = math.ldexp(1.0, some), math.ldexp(1.0, BITS - e - some)
        first = second = np.int64(0)
        for h in range(x.shape[1]):
            scaled = math.fabs(x[i, h]) * one * other
            octaves[h] = min(1023 + BITS - 1 - (np.float64(scaled).view(np.int64) >> 52), DEEPEST)
            t = np.int64(np.int32(scaled)) + 1
            first += t
            second += t * t
        total[i] += first
        square[i] += second
        bins[:] = 0
        for h in range(x.shape[1]):
            bins[h & 1, octaves[h]] += 1
        reached, octave = np.int64(0), 0
        for level in range(len(OF_LEVELS)):
            while octave <= OF_LEVELS[level]:
                reached += bins[0, octave] + bins[1, octave]
                octave += 1
            counts[level, i] += reached
