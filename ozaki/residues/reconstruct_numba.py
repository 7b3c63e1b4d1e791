"""Reconstruction from residues in float64, compiled: `_round_floats` of `reconstruct`, row by row."""

import math

import numba
import numpy as np
from numba import boolean, float64, int64, types, void

from multiword.runtime.compiled import CALLED
from ozaki.residues.reconstruct import RELATIVE_MARGIN
from ozaki.residues.system import QUOTIENT

TERMS = types.Array(float64, 3, "A", readonly=True)
TABLE = types.Array(float64, 2, "C", readonly=True)
VECTOR = types.Array(float64, 1, "C", readonly=True)


@numba.njit(
    void(
        *(TERMS, VECTOR, TABLE, VECTOR, float64, int64, VECTOR, TABLE),
        *(float64[:, ::1], boolean[:, ::1], float64[:, ::1]),
    ),
    fastmath={"contract"},  # products are exact, or their rounding is in the margin
    **CALLED,
)
def round_rows(terms, moduli, of_moduli, of_product, margin, cut, of_rows, of_columns, value, doubtful, work):
    """Round the integers with the residues terms[t, i, j], times powers of two, to value[i, j].

    of_moduli, of_product and margin are those of `_floats`; the powers of two are of_rows[i] and of_columns,
    one row for all i or one for each. doubtful[i, j] is whether value[i, j] may be wrong, `cut` the bits by
    which float64 is longer than the target. work is scratch memory: N + 2 rows.
    """
    residue, quotient, sums = work[0], work[1], work[2:]
    parts, columns = len(of_product), value.shape[1]
    for i in range(value.shape[0]):
        work[:] = 0.0
        for t in range(len(moduli)):
            p, inverse = moduli[t], of_moduli[0, t]
            for j in range(columns):
                term = terms[t, i, j]
                residue[j] = term - ((term * inverse + QUOTIENT) - QUOTIENT) * p
                quotient[j] += residue[j] * inverse
            for m in range(parts):
                factor, part = of_moduli[m + 1, t], sums[m]
                for j in range(columns):
                    part[j] += residue[j] * factor
        for m in range(parts):
            factor, part = of_product[m], sums[m]
            for j in range(columns):
                part[j] -= ((quotient[j] + QUOTIENT) - QUOTIENT) * factor
        leading, low = sums[0], sums[parts - 1]
        for m in range(1, parts - 1):
            part = sums[m]
            for j in range(columns):  # an error-free sum: `leading` is a multiple of the part's last place
                total = leading[j] + part[j]
                low[j] += part[j] - (total - leading[j])
                leading[j] = total
        factor, factors = of_rows[i], of_columns[min(i, len(of_columns) - 1)]
        for j in range(columns):
            bound = margin + math.fabs(leading[j]) * RELATIVE_MARGIN
            lower, upper = leading[j] + (low[j] - bound), leading[j] + (low[j] + bound)
            halfway = cut > 0 and np.float64(lower).view(np.int64) & ((1 << cut) - 1) == 1 << (cut - 1)
            doubtful[i, j] = lower != upper or halfway
            value[i, j] = lower * factor * factors[j]
