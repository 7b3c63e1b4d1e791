"""Softmax and its logarithms of float64 rows on a CPU, by the steps that define them, row by row.

Powers, their sum and its logarithm are loops that round correctly, and leave open what bounds do not tell.
"""

from __future__ import annotations

import numpy as np
from numba import boolean, float64, int64, types, uint8

from multiword.runtime.jit import inlined, jit
from ozaki.elementary.loops_numba import loop
from ozaki.sums.exact import enclosure_numba
from ozaki.sums.exact.rows import LANES

ROWS, ROW = (types.Array(float64, n, "C", readonly=True) for n in (2, 1))
TABLE, VECTOR = float64[:, ::1], float64[::1]
SCRATCH = TABLE, TABLE, uint8[::1]
"""(3, LANES) numbers; (2, 1), a sum and its logarithm; whether that is undecided."""

FINISH = int64(ROWS, VECTOR, TABLE, *SCRATCH, TABLE, uint8[::1])

exp_minus, log1p = loop("exp_minus", False, False), loop("log1p", False, False)
rounded_sums = inlined(enclosure_numba.rounded_sums)


@jit(boolean(ROW), inner=True)
def has_nan(x):
    """Return whether a number is NaN."""
    found = False
    for j in range(len(x)):
        found |= x[j] != x[j]
    return found


@jit(float64(ROW), inner=True, fastmath={"nnan", "nsz"})
def largest_of(x):
    """Return the largest of numbers without NaN: so compilers have vectors for it."""
    most = x[0]
    for j in range(len(x)):
        most = max(most, x[j])
    return most


@jit(int64(ROWS, VECTOR, VECTOR, TABLE, uint8[:, ::1]))
def begin(x, largest, of_row, powers, undecided):
    """Write e**(x − largest), the largest numbers of rows, and which powers are undecided; return how many.

    A largest number that is not finite is NaN, as that of a row with NaN, whose powers are not written.
    """
    count = 0
    for i in range(len(x)):
        most = np.nan if has_nan(x[i]) else largest_of(x[i])
        largest[i] = most if abs(most) < np.inf else np.nan
        if abs(most) < np.inf:
            of_row[:] = most
            count += exp_minus(x[i], of_row, powers[i], undecided[i])
        else:
            undecided[i] = 0
    return count


@jit(float64(TABLE, TABLE, TABLE), inner=True)
def sum_of(row, sums, cells):
    """Return the sum of a row, rounded, or NaN."""
    rounded_sums(row, None, LANES, 1.0, False, False, sums, cells[:1])
    return cells[0, 0]


@jit(float64(ROW, float64, TABLE, *SCRATCH), inner=True)
def logarithm_of(x, largest, row, sums, cells, flag):
    """Return log Σ e**(x − largest), or NaN where that is in doubt, and where the largest number is NaN.

    The first power of the largest number is left out of the sum: it is 1.
    """
    if largest != largest:
        return np.nan
    for j in range(len(x)):
        if x[j] == largest:
            row[0, j] = 0.0
            break
    total = sum_of(row, sums, cells)
    return np.nan if total != total or log1p(cells[0], cells[1], flag) else cells[1, 0]


@jit(FINISH)
def softmax(x, largest, powers, sums, cells, flag, out, doubt):
    """Replace powers by softmax; say which rows are in doubt, and return how many."""
    left = 0
    for i in range(len(x)):
        total = np.nan if largest[i] != largest[i] else sum_of(powers[i : i + 1], sums, cells)
        doubt[i] = total != total
        left += doubt[i]
        for j in range(x.shape[1]):
            out[i, j] = powers[i, j] / total
    return left


@jit(FINISH)
def log_softmax(x, largest, powers, sums, cells, flag, out, doubt):
    """As `softmax`, for its logarithm."""
    left = 0
    for i in range(len(x)):
        less = logarithm_of(x[i], largest[i], powers[i : i + 1], sums, cells, flag)
        doubt[i] = less != less
        left += doubt[i]
        for j in range(x.shape[1]):
            out[i, j] = (x[i, j] - largest[i]) - less
    return left


@jit(FINISH)
def logsumexp(x, largest, powers, sums, cells, flag, out, doubt):
    """As `softmax`, for the logarithm of the sum, one result a row."""
    left = 0
    for i in range(len(x)):
        more = logarithm_of(x[i], largest[i], powers[i : i + 1], sums, cells, flag)
        doubt[i] = more != more
        left += doubt[i]
        out[i, 0] = largest[i] + more
    return left
