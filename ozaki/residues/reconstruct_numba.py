"""Reconstruction from residues in float64, compiled; `_round_exactly` of `reconstruct` is the definition."""

import math

import numpy as np
from numba import boolean, float64, int32, int64, types

from multiword.formats import FORMATS
from multiword.runtime.jit import jit
from ozaki.residues.reconstruct import RELATIVE_MARGIN
from ozaki.residues.reduction import QUOTIENT

EQUALS = {
    "round_rows": "remainders.reconstructed",
}
"""The function of `ozaki.definition` that each form, or the sum it is a step of, has the bits of."""

TOGETHER = 6
"""Terms that are added up at once, residues and the quotient: they are padded with zeros to a multiple."""

LOWEST = FORMATS["fp64"].emin
"""The exponent of the least power of two, by which float64 integers can be multiplied without an error."""

TABLE = types.Array(float64, 2, "C", readonly=True)
ROWS, COLUMNS = (types.Array(int32, dimensions, "C", readonly=True) for dimensions in (1, 2))


@jit(
    int64(
        *(TABLE, int64, TABLE, float64, int64, int64, float64, int64, ROWS, COLUMNS),
        *(float64[:, ::1], boolean[:, ::1], float64[:, ::1], float64[:, ::1]),
    ),
    fastmath={"contract"},  # products are exact, or their rounding is in the margin
)
def round_rows(
    terms,
    first,
    table,
    margin,
    mask,
    half,
    least,
    highest,
    row_scale,
    column_scale,
    value,
    undecided,
    residues,
    sums,
):
    """Round the integers with residues terms[t], times powers of two; return how many are undecided.

    value[i, j] becomes the integer in row first + i of terms, times 2**-(row_scale[i] + column_scale[s, j])
    with s = 0 or i. undecided[i, j] is whether it may be wrong: bounds round to two numbers of the target, or
    one lies half way between two, where what it bounds may lie on either side; or it is below `least`, the
    target's least normal number; or that power's exponent is below LOWEST or not below `highest`. table and
    margin are those of `_floats`, padded. The bits of a float64 that the target lacks are those of `mask`,
    which are `half` between two of its numbers. residues and sums are scratch memory for the rows that go
    together; rows of residues that pad them must be zeros.
    """
    count, parts = terms.shape[0], table.shape[0] - 2
    rows, columns = value.shape
    together, left = sums.shape[1] // columns, 0
    for start in range(0, rows, together):
        stop = min(start + together, rows)
        size, begin = (stop - start) * columns, (first + start) * columns
        for t in range(count):
            p, inverse = table[0, t], table[1, t]
            row = terms[t, begin : begin + size]
            for j in range(size):  # of a slice: an index that might be negative would not be vectorized
                x = row[j]
                residues[t, j] = x - ((x * inverse + QUOTIENT) - QUOTIENT) * p
        for j in range(size):
            residues[count, j] = 0.0
        for m in range(parts + 1):
            for j in range(size):
                sums[m, j] = 0.0
            for t in range(0, count + 1, TOGETHER):
                a, b, c = table[m + 1, t], table[m + 1, t + 1], table[m + 1, t + 2]
                d, e, f = table[m + 1, t + 3], table[m + 1, t + 4], table[m + 1, t + 5]
                for j in range(size):
                    more = residues[t, j] * a + residues[t + 1, j] * b + residues[t + 2, j] * c
                    more += residues[t + 3, j] * d + residues[t + 4, j] * e + residues[t + 5, j] * f
                    sums[m, j] += more
            if m == 0:  # multiples of P
                for j in range(size):
                    residues[count, j] = QUOTIENT - (sums[0, j] + QUOTIENT)
        for m in range(2, parts):
            for j in range(size):  # an error-free sum: sums[1] is a multiple of the last place of sums[m]
                both = sums[1, j] + sums[m, j]
                sums[parts, j] += sums[m, j] - (both - sums[1, j])
                sums[1, j] = both
        for i in range(start, stop):
            at, before, s = (i - start) * columns, left, min(i, column_scale.shape[0] - 1)
            highs, lows = sums[1, at : at + columns], sums[parts, at : at + columns]
            of_row, of_columns = row_scale[i], column_scale[s]
            results, flags = value[i], undecided[i]
            for j in range(columns):
                high, low = highs[j], lows[j]
                bound = margin + math.fabs(high) * RELATIVE_MARGIN
                lower, upper = high + (low - bound), high + (low + bound)
                exponent = np.int64(-of_row - of_columns[j])
                normal = (exponent >= LOWEST) & (exponent < highest)
                below, above = np.float64(lower).view(np.int64), np.float64(upper).view(np.int64)
                flag = (below & mask == half) | (above & mask == half) | ((not normal) & (lower != 0))
                flag |= (below + half) & ~mask != (above + half) & ~mask
                power = np.int64((exponent + 1023) << 52).view(np.float64)
                rounded = np.int64((below + (half & mask)) & ~mask).view(
                    np.float64
                )  # of float64 it is `lower`
                results[j] = rounded * power if normal else 0.0
                flag |= (math.fabs(results[j]) < least) & (lower != 0)
                flags[j] = flag
                left += flag
            if left > before:  # zeros are exact, though their sums leave them undecided
                for j in range(columns):
                    zero = undecided[i, j]
                    for t in range(count):
                        zero &= residues[t, at + j] == 0
                    if zero:
                        value[i, j], undecided[i, j] = 0.0, False
                        left -= 1
    return left
