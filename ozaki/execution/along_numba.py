"""Products in two floats, compiled: the terms of a sum in the lanes of a vector (`in_floats_numba`).

For long contiguous rows with few columns.
"""

import numpy as np
from numba import boolean, float64, int32, int64, types, void

from multiword.runtime.jit import jit
from ozaki.execution.in_floats import LANES
from ozaki.execution.in_floats_numba import add_product, add_product_quickly, power, rounded, scaled
from ozaki.sums.exact.enclosure_numba import two_sum

ROWS = types.Array(float64, 2, "C", readonly=True)
LINE, LINES = float64[::1], float64[:, ::1]


def padded(k):
    """Return k, filled up to whole lanes."""
    return (k + LANES - 1) // LANES * LANES


def needed(k, rows, columns):
    """Return how many numbers of scratch memory rows of k numbers take, however many they are."""
    return padded(k) + 3 * LANES


@jit(void(LINE, LINE, LINE, LINE), inner=True)
def add_quickly(row, column, high, low):
    """Add up row·column; the first of high and of low have the sum."""
    for j in range(LANES):
        high[j] = low[j] = 0.0
    for first in range(0, row.shape[0], LANES):
        x, y = row[first : first + LANES], column[first : first + LANES]
        for j in range(LANES):
            high[j], low[j] = add_product_quickly(x[j], y[j], high[j], low[j])
    count = LANES
    while count > 1:
        count //= 2
        for j in range(count):
            high[j], rest = two_sum(high[j], high[j + count])
            low[j] += low[j + count] + rest


@jit(void(LINE, LINE, LINE, LINE, LINE), inner=True)
def add_carefully(row, column, high, low, lost):
    """The same, and how much is lost at most."""
    for j in range(LANES):
        high[j] = low[j] = lost[j] = 0.0
    for first in range(0, row.shape[0], LANES):
        x, y = row[first : first + LANES], column[first : first + LANES]
        for j in range(LANES):
            high[j], low[j], lost[j] = add_product(x[j], y[j], high[j], low[j], lost[j])
    for j in range(1, LANES):
        high[0], rest = two_sum(high[0], high[j])
        low[0], first_lost = two_sum(low[0], rest)
        low[0], second_lost = two_sum(low[0], low[j])
        lost[0] += lost[j] + (abs(first_lost) + abs(second_lost))


@jit(
    int64(
        *(ROWS, int32[::1], boolean, LINES, int32[::1], float64, boolean),
        *(float64[:, :], LINE),
    )
)
def multiply(x, scale, whole, columns, column_scale, bound, single, out, memory):
    """As `across_numba.multiply`, of contiguous rows; k' is `padded(k)`.

    memory : of `needed(k, m, n)` numbers.
    """
    k, undecided = x.shape[1], 0
    high, low, lost = memory[:LANES], memory[LANES : 2 * LANES], memory[2 * LANES : 3 * LANES]
    line = memory[3 * LANES :]
    for h in range(k, line.shape[0]):
        line[h] = 0.0
    for i in range(x.shape[0]):
        row, up = x[i], power(np.int64(scale[i]))
        for h in range(k):
            line[h], is_small = scaled(row[h], up, whole)
            undecided += is_small
        for j in range(columns.shape[0]):
            back = np.int64(scale[i]) + column_scale[j]
            add_quickly(line, columns[j], high, low)
            result, certain = rounded(high[0], low[0], bound, back, single)
            if not certain:
                add_carefully(line, columns[j], high, low, lost)
                result, certain = rounded(high[0], low[0], lost[0], back, single)
            out[i, j] = result
            undecided += not certain
    return undecided
