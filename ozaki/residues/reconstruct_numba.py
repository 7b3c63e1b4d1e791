"""Reconstruction from residues in float64, compiled: `_round_floats` of `reconstruct`, row by row."""

import math

import numba
import numpy as np
from numba import boolean, float64, int64, types, void

from multiword.runtime.compiled import CALLED
from ozaki.residues.reconstruct import RELATIVE_MARGIN
from ozaki.residues.system import QUOTIENT

TOGETHER = 3
"""Residues that are added up at once: their rows are padded with zeros to a multiple of this."""

TABLE = types.Array(float64, 2, "C", readonly=True)
VECTOR = types.Array(float64, 1, "C", readonly=True)


@numba.njit(
    void(
        *(float64[:, :, ::1], int64, VECTOR, TABLE, VECTOR, float64, int64, VECTOR, TABLE),
        *(float64[:, ::1], boolean[:, ::1], float64[:, ::1], float64[:, ::1]),
    ),
    fastmath={"contract"},  # products are exact, or their rounding is in the margin
    **CALLED,
)
def round_rows(
    terms,
    first,
    moduli,
    of_moduli,
    of_product,
    margin,
    cut,
    of_rows,
    of_columns,
    value,
    doubtful,
    residues,
    sums,
):
    """Round the integers with the residues terms[t, first + i, j], times powers of two, to value[i, j].

    of_moduli, of_product and margin are those of `_floats`; the powers of two are of_rows[i] and of_columns,
    one row for all i or one for each. doubtful[i, j] is whether value[i, j] may be wrong, `cut` the bits by
    which float64 is longer than the target. residues and sums are scratch memory, N + 2 and M + 1 rows.
    """
    parts, columns = len(of_product), value.shape[1]
    residues[len(moduli) :] = 0.0
    last = len(moduli) - 1
    for i in range(value.shape[0]):
        for t in range(len(moduli)):
            p, inverse, row, residue = moduli[t], of_moduli[0, t], terms[t, first + i], residues[t]
            for j in range(columns):
                residue[j] = row[j] - ((row[j] * inverse + QUOTIENT) - QUOTIENT) * p
        for m in range(parts + 1):
            total = sums[m]
            total[:] = 0.0
            for t in range(0, len(moduli), TOGETHER):
                x, y, z = residues[t], residues[t + 1], residues[t + 2]
                a, b, c = of_moduli[m, t], of_moduli[m, min(t + 1, last)], of_moduli[m, min(t + 2, last)]
                for j in range(columns):
                    total[j] += x[j] * a + y[j] * b + z[j] * c
        quotient, leading, low = sums[0], sums[1], sums[parts]
        for m in range(1, parts + 1):
            factor, part = of_product[m - 1], sums[m]
            for j in range(columns):
                part[j] -= ((quotient[j] + QUOTIENT) - QUOTIENT) * factor
        for m in range(2, parts):
            part = sums[m]
            for j in range(columns):  # an error-free sum: `leading` is a multiple of the part's last place
                both = leading[j] + part[j]
                low[j] += part[j] - (both - leading[j])
                leading[j] = both
        factor, factors = of_rows[i], of_columns[min(i, len(of_columns) - 1)]
        for j in range(columns):
            bound = margin + math.fabs(leading[j]) * RELATIVE_MARGIN
            lower, upper = leading[j] + (low[j] - bound), leading[j] + (low[j] + bound)
            halfway = np.float64(lower).view(np.int64) & ((1 << cut) - 1) == 1 << cut >> 1
            doubtful[i, j] = (lower != upper) | halfway & (cut > 0)
            value[i, j] = lower * factor * factors[j]
