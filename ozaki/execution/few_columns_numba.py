"""Products of long rows with few columns, compiled: a row is added up in LANES sums (`in_floats_numba`).

What their low floats lose is bounded beforehand, from the norms, and watched only where that does not decide.
"""

import numpy as np
from numba import boolean, float64, int32, int64, types, void

from multiword.runtime.jit import jit
from ozaki.execution.few_columns import LANES
from ozaki.execution.in_floats import SMALLEST
from ozaki.execution.in_floats_numba import add_product, power, rounded
from ozaki.sums.exact.enclosure_numba import two_sum
from ozaki.sums.exact.extraction_numba import fma

ROWS = types.Array(float64, 2, "C", readonly=True)
LINE = float64[::1]


@jit(void(LINE, LINE, LINE, LINE), inner=True)
def add_quickly(row, column, high, low):
    """Add up row·column; the first of high and of low have the sum."""
    for j in range(LANES):
        high[j] = low[j] = 0.0
    for first in range(0, row.shape[0], LANES):
        x, y = row[first : first + LANES], column[first : first + LANES]
        for j in range(LANES):
            p = x[j] * y[j]
            high[j], rest = two_sum(high[j], p)
            low[j] += rest + fma(x[j], y[j], -p)
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
        *(ROWS, int32[::1], boolean, float64[:, ::1], int32[::1], float64, boolean),
        *(float64[:, :], LINE, float64[:, ::1]),
    )
)
def multiply(x, scale, whole, columns, column_scale, bound, single, out, line, sums):
    """Write the products of scaled rows with (n, k') scaled columns; return how many are undecided.

    whole, single : as in `ozaki.execution.short_rows_numba.multiply`. bound : of what is lost.
    line : (k',), and sums : (3, LANES), scratch memory, with k' the length of a row filled up to whole lanes.
    """
    k, undecided = x.shape[1], 0
    high, low, lost = sums[0], sums[1], sums[2]
    for h in range(k, line.shape[0]):
        line[h] = 0.0
    for i in range(x.shape[0]):
        row, up = x[i], power(np.int64(scale[i]))
        for h in range(k):
            y = row[h] * up
            undecided += (abs(y) < SMALLEST) & (row[h] != 0) & (not whole)
            line[h] = np.rint(y) if whole else y
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
