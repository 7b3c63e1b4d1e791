"""Residues of the integers of an operand, compiled: `_residues_host` of `split`, row by row."""

import math

import numba
import numpy as np
from numba import boolean, float64, int32, int64, types, void

from multiword.runtime.compiled import CALLED
from ozaki.residues.system import QUOTIENT, SPLIT
from ozaki.scaling.scales import NONFINITE_ROW

UPPER = 1.5 * 2.0 ** (SPLIT + 52)
"""The last place of a sum with it is 2**SPLIT."""

INPUT = types.Array(float64, 2, "C", readonly=True)


@numba.njit(
    void(INPUT, int32[::1], float64[:, ::1], boolean, int64, float64[:, :, ::1], float64[:, ::1]),
    fastmath={"contract"},  # products are exact
    **CALLED,
)
def split_rows(x, scale, factors, long, first, out, halves):
    """Write the residues of A'_ih = RN(x_ih·2**scale_i), |A'| <= 2**78, modulo p_t to out[t, first + i, h].

    factors[t] are p, 1/p, and the residues of the weight of p and of that times 2**SPLIT. The upper half of
    an integer is reduced first if `long`. halves is scratch memory, two rows.
    """
    low, high = halves[0], halves[1]
    for i in range(x.shape[0]):
        if scale[i] == NONFINITE_ROW:
            out[:, first + i] = 0.0
            continue
        some = scale[i] >> 1  # one factor might overflow
        one, other = math.ldexp(1.0, some), math.ldexp(1.0, scale[i] - some)
        for h in range(x.shape[1]):
            value = np.rint(x[i, h] * one * other)
            upper = (value + UPPER) - UPPER
            low[h], high[h] = value - upper, upper * 2.0**-SPLIT
        for t in range(factors.shape[0]):
            p, inverse, low_factor, high_factor = factors[t, 0], factors[t, 1], factors[t, 2], factors[t, 3]
            row = out[t, first + i]
            for h in range(x.shape[1]):
                upper = high[h]
                if long:
                    upper -= ((upper * inverse + QUOTIENT) - QUOTIENT) * p
                y = upper * high_factor + low[h] * low_factor
                row[h] = y - ((y * inverse + QUOTIENT) - QUOTIENT) * p
