"""Products in two floats, compiled: a sum in each lane of a vector (`in_floats_numba`).

For many short rows, rows that lie across memory, and small products.
"""

from functools import lru_cache

import numpy as np
from numba import boolean, float64, int32, int64, types, void
from numba.extending import register_jitable

from multiword.runtime.addresses import matrix_at
from multiword.runtime.jit import jit
from ozaki.execution.in_floats import ROWS, TERMS
from ozaki.execution.in_floats_numba import (
    add_product,
    add_product_quickly,
    bound_of_lost,
    power,
    rounded,
    scaled,
)

MATRIX = types.Array(float64, 2, "A", readonly=True)
LINE, LINES = float64[::1], float64[:, ::1]


@jit(int64(MATRIX, int64, int64, int64, LINE, boolean, LINES), inner=True)
def load(x, first, start, width, up, whole, lines):
    """Write the scaled numbers of some rows, from the one at `start` on, to the columns of `lines`.

    Zeros follow the last row and the last number. Returns how many numbers are too small not to be rounded.
    """
    rows, too_small = x[first : first + width], 0
    for h in range(lines.shape[0]):
        line, count = lines[h], rows.shape[0] if start + h < x.shape[1] else 0
        for r in range(count):
            line[r], is_small = scaled(rows[r, start + h], up[r], whole)
            too_small += is_small
        for r in range(count, width):
            line[r] = 0.0
    return too_small


@jit(void(LINE, float64), inner=True)
def fill(line, x):
    """Write a number to all places of a line; numba takes longer to compile line[:] = x."""
    for r in range(line.shape[0]):
        line[r] = x


@jit(void(LINES, LINE, LINE, LINE), inner=True)
def add_lines_quickly(lines, column, high, low):
    """Add lines times the numbers of a column to the sums of all rows."""
    for h in range(0, lines.shape[0], 4):
        x0, x1, x2, x3 = lines[h], lines[h + 1], lines[h + 2], lines[h + 3]
        y0, y1, y2, y3 = column[h], column[h + 1], column[h + 2], column[h + 3]
        for r in range(high.shape[0]):
            a, b = add_product_quickly(x0[r], y0, high[r], low[r])
            a, b = add_product_quickly(x1[r], y1, a, b)
            a, b = add_product_quickly(x2[r], y2, a, b)
            high[r], low[r] = add_product_quickly(x3[r], y3, a, b)


@jit(void(LINES, LINE, LINE, LINE, LINE), inner=True)
def add_lines(lines, column, high, low, lost):
    """The same, and how much is lost at most."""
    for h in range(lines.shape[0]):
        x, y = lines[h], column[h]
        for r in range(high.shape[0]):
            high[r], low[r], lost[r] = add_product(x[r], y, high[r], low[r], lost[r])


@jit(int64(LINE, LINE, LINE, int32[::1], int64, boolean, float64[:]), inner=True)
def round_sums(high, low, lost, scale, back, single, out):
    """Write what the sums of some rows round to; return how many are undecided."""
    undecided = 0
    for r in range(out.shape[0]):
        high[r], certain = rounded(high[r], low[r], lost[r], scale[r] + back, single)
        undecided += not certain
    for r in range(out.shape[0]):  # not in the loop of vectors: results may lie far apart
        out[r] = high[r]
    return undecided


@register_jitable
def blocks(k):
    """Return into how many blocks rows of k numbers are cut, and how many numbers a block is filled up to."""
    count = (k + TERMS - 1) // TERMS
    return count, ((k + count - 1) // count + 3) // 4 * 4


def padded(k):
    """Return k, filled up to whole blocks."""
    count, length = blocks(k)
    return count * length


@register_jitable
def sizes(k, rows, columns):
    """Return the shapes of scratch memory: of lines, of sums, and of scaled columns."""
    (count, length), width = blocks(k), min(ROWS, (rows + 3) // 4 * 4)
    slots = 1 if count == 1 else columns
    return (length, width), (2 * slots + 2, width), (columns, count * length)


@lru_cache(256)
def needed(k, rows, columns):
    """Return how many numbers of scratch memory so many rows and columns of k numbers take."""
    return sum(m * n for m, n in sizes(k, rows, columns))


@jit(types.UniTuple(LINES, 3)(LINE, int64, int64, int64), inner=True)
def cut(memory, k, rows, columns):
    """Return scratch memory for lines, for sums, and for the scaled columns."""
    lines, sums, left = sizes(k, rows, columns)
    at = memory.ctypes.data
    then = at + 8 * lines[0] * lines[1]
    return (
        matrix_at(at, lines[0], lines[1]),
        matrix_at(then, sums[0], sums[1]),
        matrix_at(then + 8 * sums[0] * sums[1], left[0], left[1]),
    )


GIVEN = MATRIX, int32[::1], boolean, LINES, int32[::1], float64, boolean, float64[:, :]


@jit(int64(*GIVEN, LINES, LINES), inner=True)
def multiply_rows(x, scale, whole, columns, column_scale, start, single, out, lines, sums):
    """Write the products of rows with columns, as `multiply` does."""
    k, count, at_once, undecided = x.shape[1], len(columns), lines.shape[0], 0
    up, all_lost, slots = sums[-1], sums[-2], (len(sums) - 2) // 2
    bound = bound_of_lost(k, 1, start)
    for first in range(0, x.shape[0], lines.shape[1]):
        rows = min(np.int64(lines.shape[1]), x.shape[0] - first)
        width, of_rows = (rows + 3) // 4 * 4, scale[first : first + rows]
        lost = all_lost[:width]
        for r in range(rows):
            up[r] = power(np.int64(of_rows[r]))
        for begin in range(0, k, at_once):
            undecided += load(x, first, begin, width, up, whole, lines)
            for j in range(count):
                high, low = sums[2 * (j % slots), :width], sums[2 * (j % slots) + 1, :width]
                if begin == 0:
                    fill(high, start)
                    fill(low, 0.0)
                add_lines_quickly(lines, columns[j, begin : begin + at_once], high, low)
                if begin + at_once < k:
                    continue
                for r in range(width):
                    high[r] -= start
                    lost[r] = bound
                to, back = out[first : first + rows, j], np.int64(column_scale[j])
                if round_sums(high, low, lost, of_rows, back, single, to):
                    fill(high, 0.0)
                    fill(low, 0.0)
                    fill(lost, 0.0)
                    for again in range(0, k, at_once):  # the last lines are there again when this ends
                        load(x, first, again, width, up, whole, lines)
                        add_lines(lines, columns[j, again : again + at_once], high, low, lost)
                    undecided += round_sums(high, low, lost, of_rows, back, single, to)
    return undecided


@jit(int64(*GIVEN, LINE))
def multiply(x, scale, whole, columns, column_scale, start, single, out, memory):
    """Write the products of scaled rows with (n, k') scaled columns; return how many are undecided.

    whole : whether scaled numbers are rounded to integers, as those of the columns already are; else nothing
    is lost, and none of them may be below SMALLEST.
    start : at least four times a bound of Σ|a'b'|, a power of two.
    single : whether results will be rounded to float32.
    k' : `padded(k)`. memory : of `needed(k, m, n)` numbers.
    """
    lines, sums, _ = cut(memory, x.shape[1], x.shape[0], len(columns))
    return multiply_rows(x, scale, whole, columns, column_scale, start, single, out, lines, sums)
