"""Row statistics, compiled: the exponent of `statistics`, and the sums relative to it, row by row."""

import math
from functools import cache

import numpy as np
from numba import float64, from_dtype, int32, int64, types, uint8, void

from multiword.runtime.compiled import BIAS, POWERS
from multiword.runtime.jit import jit
from ozaki.scaling.statistics import BITS, LEVELS, NONFINITE, ZERO

MAGNITUDE, INFINITE = (1 << 63) - 1, 0x7FF
"""The bits of a float64 but its sign, and the exponent field of Inf and NaN."""

DEEPEST = LEVELS[-1] + 1
"""Octaves in which numbers are counted; what is smaller is one more."""

OF_LEVELS = np.array(LEVELS)

LINES, APART = 16, 8
"""Strided rows that are copied together, two lines of the cache of each row of a row-major matrix; and
numbers between them, without which rows a power of two apart would drive one another out of the cache."""

INPUT = types.Array(float64, 2, "C", readonly=True)
SUMS = int32[::1], int64[::1], int64[::1], int32[:, :]
SCRATCH = int64[:, ::1], uint8[::1]
ROW = types.Array(float64, 1, "C", readonly=True)


@jit(void(ROW, int64, *SUMS, *SCRATCH), inner=True)
def statistics_of_row(row, i, exponent, total, square, counts, bins, octaves):
    """Fill in the statistics of row i.

    Two rows of bins are counted in alternately: a processor waits for a count that it has just written.
    """
    largest = np.int64(0)
    for h in range(row.shape[0]):
        magnitude = np.float64(row[h]).view(np.int64) & MAGNITUDE
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
        return
    some = (BITS - e) >> 1  # one factor might overflow
    one, other = POWERS[some + BIAS], POWERS[BITS - e - some + BIAS]
    first = second = np.int64(0)
    for h in range(row.shape[0]):
        scaled = math.fabs(row[h]) * one * other
        octave = 1023 + BITS - 1 - (np.float64(scaled).view(np.int64) >> 52)
        octaves[h] = octave if octave < DEEPEST else DEEPEST
        t = np.int64(np.int32(scaled)) + 1
        first += t
        second += t * t
    exponent[i], total[i], square[i] = e, first, second
    for q in range(bins.shape[1]):
        bins[0, q] = bins[1, q] = 0
    for h in range(row.shape[0]):
        bins[h & 1, octaves[h]] += 1
    reached, octave = np.int64(0), np.int64(0)
    for level in range(len(OF_LEVELS)):
        while octave <= OF_LEVELS[level]:
            reached += bins[0, octave] + bins[1, octave]
            octave += 1
        counts[level, i] = reached


@jit(void(INPUT, *SUMS, *SCRATCH))
def row_statistics(x, exponent, total, square, counts, bins, octaves):
    """Fill in the statistics of contiguous rows; `bins` and `octaves` are scratch memory."""
    for i in range(x.shape[0]):
        statistics_of_row(x[i], i, exponent, total, square, counts, bins, octaves)


def _strided_row_statistics(real, imaginary, exponent, total, square, counts, bins, octaves, lines):
    """Fill in the statistics of rows anywhere; `imaginary` has no columns for real ones."""
    rows, step = real.shape[0], real.shape[1] + imaginary.shape[1] + APART
    for first in range(0, rows, LINES):
        last, before = min(first + LINES, rows), np.int64(0)
        for part in (real, imaginary):
            if last - first == LINES:  # of a number of rows that the compiler knows
                for h in range(part.shape[1]):
                    for i in range(LINES):
                        lines[i * step + before + h] = part[first + i, h]
            else:
                for h in range(part.shape[1]):
                    for i in range(last - first):
                        lines[i * step + before + h] = part[first + i, h]
            before += part.shape[1]
        for i in range(first, last):
            row = lines[(i - first) * step : (i - first + 1) * step - APART]
            statistics_of_row(row, i, exponent, total, square, counts, bins, octaves)


@cache
def strided_row_statistics(dtype):
    """Return the compiled function for parts of float32 or float64."""
    part = types.Array(from_dtype(dtype), 2, "A", readonly=True)
    return jit(void(part, part, *SUMS, *SCRATCH, float64[::1]))(_strided_row_statistics)


def line_memory(length: int) -> np.ndarray:
    """Return the memory that `strided_row_statistics` copies lines to."""
    return np.empty(LINES * (length + APART))


def work_arrays(length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return scratch memory for rows of that length."""
    return np.empty((2, DEEPEST + 1), np.int64), np.empty(length, np.uint8)
