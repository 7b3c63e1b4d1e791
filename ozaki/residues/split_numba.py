"""Residues of the integers of an operand, compiled: `_residues_host` of `split`."""

import math

import numpy as np
from numba import boolean, float64, int32, int64, types, void

from multiword.runtime.jit import jit
from ozaki.residues.reduction import QUOTIENT, SPLIT
from ozaki.scaling.statistics import NONFINITE_ROW

EQUALS = {
    "split_rows": "remainders.symmetric_residue",
}
"""The function of `ozaki.definition` that each form, or the sum it is a step of, has the bits of."""

UPPER = 1.5 * 2.0 ** (SPLIT + 52)
"""The last place of a sum with it is 2**SPLIT."""

INPUT = types.Array(float64, 2, "C", readonly=True)


@jit(
    void(INPUT, int32[::1], float64[:, ::1], boolean, int64, float64[:, ::1], float64[:, ::1]),
    fastmath={"contract"},  # products are exact
)
def split_rows(x, scale, factors, long, first, out, halves):
    """Write the residues of the integers A' = RN(x·2**scale), |A'| <= 2**78, to out[t], from `first` on.

    factors[t] are p_t, 1/p_t, and the residues of the weight of p_t and of that times 2**SPLIT. Upper halves
    of integers are reduced first if `long`. halves is scratch memory for as many rows as go together.
    """
    columns = x.shape[1]
    together = halves.shape[1] // columns
    for start in range(0, x.shape[0], together):
        stop = min(start + together, x.shape[0])
        for i in range(start, stop):
            some = 0 if scale[i] == NONFINITE_ROW else scale[i] >> 1  # one factor might overflow
            one, other = math.ldexp(1.0, some), math.ldexp(1.0, scale[i] - some)
            row, at = x[i], (i - start) * columns
            low, high = halves[0, at : at + columns], halves[1, at : at + columns]
            for h in range(columns):  # of slices: an index that might be negative would not be vectorized
                value = 0.0 if scale[i] == NONFINITE_ROW else np.rint(row[h] * one * other)
                upper = (value + UPPER) - UPPER
                low[h], high[h] = value - upper, upper * 2.0**-SPLIT
        begin, size = first + start * columns, (stop - start) * columns
        for t in range(factors.shape[0]):
            p, inverse, low_factor, high_factor = factors[t, 0], factors[t, 1], factors[t, 2], factors[t, 3]
            result = out[t, begin : begin + size]
            for h in range(size):
                upper = halves[1, h]
                if long:
                    upper -= ((upper * inverse + QUOTIENT) - QUOTIENT) * p
                y = upper * high_factor + halves[0, h] * low_factor
                result[h] = y - ((y * inverse + QUOTIENT) - QUOTIENT) * p
