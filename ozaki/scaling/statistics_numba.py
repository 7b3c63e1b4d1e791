"""Row statistics, compiled: the exponent of `statistics`, and the sums relative to it, row by row.

Rows lie anywhere: what is not contiguous float64 is copied, a few rows at a time, in pieces that stay in the
cache. Octaves are bytes, eight to a word: subtracted from a word of levels, each keeps its highest bit if it
is at most the level, so that a word of eight flags is one subtraction, one `and`, one shift.
"""

import math

import numpy as np
from numba import float64, int32, int64, uint64, void

from multiword.runtime.addresses import (
    BLOCK,
    DOUBLES,
    bytes_at,
    doubles_at,
    longs_at,
    plus,
    read_double,
    read_single,
    singles_at,
    transpose,
    transpose_singles,
    write_double,
)
from multiword.runtime.compiled import BIAS, POWERS
from multiword.runtime.jit import jit
from ozaki.definition.statistics import BITS, FINE, LEVELS
from ozaki.scaling.statistics import NONFINITE, ZERO

EQUALS = {
    "row_statistics": "statistics.statistics_of",
}
"""The function of `ozaki.definition` that each form, or the sum it is a step of, has the bits of."""

MAGNITUDE, INFINITE = (1 << 63) - 1, 0x7FF
"""The bits of a float64 but its sign, and the exponent field of Inf and NaN."""

DEEPEST = LEVELS[-1] + 1
"""Octaves in which numbers are counted; what is smaller is one more, as are the bytes that fill a word up."""

WORDS = 248
"""Words of a block of octaves: sums of so many flags, 0 or 1, fit a byte."""

FIELD = 6
"""Bits of a word for the numbers of each fine octave, of rows of fewer than 2**FIELD numbers."""

EVERY = 0x0101010101010101
TOP, EVEN = np.uint64(128 * EVERY), np.uint64(0x00FF00FF00FF00FF)
TOP_OF_LEVEL = np.array([(128 | level) * EVERY for level in LEVELS], np.uint64)
SUM_OF_FOUR = np.uint64(0x0001000100010001)
"""A word of four 16-bit numbers times this has their sum at the top."""

LINES, APART, PIECE = 16, 8, 1 << 13
"""Rows that are copied together, two lines of the cache of each row of a row-major matrix; numbers between
them, without which rows a power of two apart would drive one another out of the cache; and numbers of a row
that are copied at a time."""

SUMS = int32[::1], int64[::1], int64[::1], int32[:, :]


@jit(int64(DOUBLES), inner=True)
def largest_magnitude(row):
    """Return the bits of the largest |x| of a row."""
    largest = np.int64(0)
    for h in range(row.shape[0]):
        magnitude = np.float64(row[h]).view(np.int64) & MAGNITUDE
        largest = magnitude if magnitude > largest else largest
    return largest


@jit(void(int64, int64, *SUMS), inner=True)
def begin_row(largest, i, exponent, total, square, counts):
    """Write the exponent of row i, and sums of nothing."""
    e = (largest >> 52) - 1022
    if e == -1022:  # subnormal numbers
        e = np.int64(-1074)
        while largest >> (e + 1074):
            e += 1
    if largest == 0:
        e = np.int64(ZERO)
    elif largest >> 52 == INFINITE:
        e = np.int64(NONFINITE)
    exponent[i], total[i], square[i] = e, 0, 0
    for level in range(counts.shape[0]):
        counts[level, i] = 0


@jit(void(DOUBLES, int64, float64, float64, *SUMS[1:]), inner=True)
def add_few(row, i, one, other, total, square, counts):
    """Do what `add_numbers` does, of so few numbers that a word has a field for those of each fine octave."""
    first, second, octaves = 0.0, 0.0, np.int64(0)
    for h in range(row.shape[0]):
        scaled = math.fabs(row[h]) * one * other
        octave = 1023 + BITS - 1 - (np.float64(scaled).view(np.int64) >> 52)
        octaves += np.int64(1) << (FIELD * (octave if octave < FINE else FINE))  # there, sums overflow
        t = np.floor(scaled) + 1.0
        first, second = plus(first, t), plus(second, t * t)
    total[i] += np.int64(first)
    square[i] += np.int64(second)
    counted = np.int64(0)
    for level in range(FINE):
        counted += (octaves >> (FIELD * level)) & ((1 << FIELD) - 1)
        counts[level, i] += counted


@jit(void(DOUBLES, int64, *SUMS, uint64[::1]), inner=True)
def add_numbers(row, i, exponent, total, square, counts, words):
    """Add numbers of row i to its sums; `words` is scratch memory, WORDS or more.

    counts : of some first levels, or of all; of none where nothing is to be certified: counting takes half of
        the time.
    """
    e, bytes_ = np.int64(exponent[i]), bytes_at(words.ctypes.data, 8 * len(words))
    if e == ZERO or e == NONFINITE:  # noqa: SIM109  numba takes longer for a tuple
        return
    some = (BITS - e) >> 1  # one factor might overflow
    one, other = POWERS[some + BIAS], POWERS[BITS - e - some + BIAS]
    if row.shape[0] < 1 << FIELD and counts.shape[0] == FINE:
        add_few(row, i, one, other, total, square, counts)
        return
    for begin in range(0, row.shape[0], 8 * WORDS):
        block = row[begin : begin + 8 * WORDS]
        first = second = 0.0  # exact sums of integers, in whatever order
        if counts.shape[0] == 0:
            for h in range(block.shape[0]):
                t = np.floor(math.fabs(block[h]) * one * other) + 1.0
                first, second = plus(first, t), plus(second, t * t)
            total[i] += np.int64(first)
            square[i] += np.int64(second)
            continue
        for h in range(block.shape[0]):
            scaled = math.fabs(block[h]) * one * other
            octave = 1023 + BITS - 1 - (np.float64(scaled).view(np.int64) >> 52)
            bytes_[h] = octave if octave < DEEPEST else DEEPEST
            t = np.floor(scaled) + 1.0
            first, second = plus(first, t), plus(second, t * t)
        total[i] += np.int64(first)
        square[i] += np.int64(second)
        filled = (block.shape[0] + 7) >> 3
        for h in range(block.shape[0], 8 * filled):
            bytes_[h] = DEEPEST
        octaves = words[:filled]
        for level in range(counts.shape[0]):
            flags, top = np.uint64(0), TOP_OF_LEVEL[level]
            for h in range(octaves.shape[0]):
                flags += ((top - octaves[h]) & TOP) >> np.uint64(7)
            pairs = (flags & EVEN) + ((flags >> np.uint64(8)) & EVEN)
            counts[level, i] += np.int64((pairs * SUM_OF_FOUR) >> np.uint64(48))


@jit(void(DOUBLES, int64, *SUMS, uint64[::1]), inner=True)
def statistics_of_row(row, i, exponent, total, square, counts, words):
    """Fill in the statistics of row i."""
    begin_row(largest_magnitude(row), i, exponent, total, square, counts)
    add_numbers(row, i, exponent, total, square, counts, words)


@jit(void(*[int64] * 8, float64[::1]), inner=True)
def copy_lines(at, row_step, inner_step, single, rows, inner, to, step_to, lines):
    """Copy numbers of up to LINES rows to every so many numbers of lines, from number `to` of each on."""
    step, first = len(lines) // LINES, lines.ctypes.data + 8 * to
    if single and inner_step == 4 and step_to == 1:
        for i in range(rows):
            row, line = singles_at(at + i * row_step, inner), lines[i * step + to : i * step + to + inner]
            for h in range(inner):
                line[h] = row[h]
    elif rows == LINES:  # which the compiler knows
        itemsize = 4 if single else 8
        whole = inner // BLOCK * BLOCK if row_step == itemsize and step_to == 1 else 0
        for h in range(0, whole, BLOCK):
            for i in range(0, LINES, BLOCK):
                x, y = at + itemsize * i + h * inner_step, first + 8 * (i * step + h)
                if single:
                    transpose_singles(x, inner_step, y, 8 * step)
                else:
                    transpose(x, inner_step, y, 8 * step)
        for h in range(whole, inner):
            for i in range(LINES):
                x = at + i * row_step + h * inner_step
                y = read_single(x) if single else read_double(x)
                write_double(first + 8 * (i * step + h * step_to), y)
    else:
        for h in range(inner):
            for i in range(rows):
                x = at + i * row_step + h * inner_step
                y = read_single(x) if single else read_double(x)
                write_double(first + 8 * (i * step + h * step_to), y)


@jit(void(*[int64] * 7, *SUMS, float64[::1], uint64[::1]), inner=True)
def statistics_of_rows(
    real, imaginary, row_step, inner_step, single, parts, inner, exponent, total, square, counts, lines, words
):
    """Fill in the statistics of rows; their numbers are as in `row_statistics`."""
    rows, step = exponent.shape[0], len(lines) // LINES
    if parts == 1 and single == 0 and inner_step == 8:
        for i in range(rows):
            row = doubles_at(real + i * row_step, inner)
            statistics_of_row(row, i, exponent, total, square, counts, words)
        return
    largest, piece = longs_at(words[WORDS:].ctypes.data, LINES), (step - APART) // parts
    for first in range(0, rows, LINES):
        many = min(np.int64(LINES), rows - first)
        for i in range(many):
            largest[i] = 0
        for turn in range(2):  # one for the exponents, one for the sums
            for h in range(0, inner, piece):
                size, at = min(piece, inner - h), first * row_step + h * inner_step
                if turn == 0 or inner > piece:
                    copy_lines(real + at, row_step, inner_step, single, many, size, 0, 1, lines)
                    if parts == 2:
                        copy_lines(imaginary + at, row_step, inner_step, single, many, size, size, 1, lines)
                for i in range(many):
                    row = doubles_at(lines.ctypes.data + 8 * i * step, parts * size)
                    if turn == 0:
                        largest[i] = max(largest[i], largest_magnitude(row))
                    else:
                        add_numbers(row, first + i, exponent, total, square, counts, words)
            if turn == 0:
                for i in range(many):
                    begin_row(largest[i], first + i, exponent, total, square, counts)


@jit(void(int64[::1], *SUMS, float64[::1], uint64[::1]))
def row_statistics(operand, exponent, total, square, counts, lines, words):
    """Fill in the statistics of rows.

    operand : the address of the real parts and of the imaginary ones, bytes from one row to the next and from
    one number, whether numbers are float32 (or else float64), the parts, 1 or 2, and the length of a row.
    lines, words : scratch memory of `work_arrays`.
    """
    statistics_of_rows(
        operand[0],
        operand[1],
        operand[2],
        operand[3],
        operand[4],
        operand[5],
        operand[6],
        exponent,
        total,
        square,
        counts,
        lines,
        words,
    )


def work_arrays(length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return scratch memory of a thread for rows of that length, or for 0 if they are read as they lie."""
    return np.empty(LINES * (min(length, PIECE) + APART)), np.empty(WORDS + LINES, np.uint64)
