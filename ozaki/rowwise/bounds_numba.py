"""What functions of float32 rows share on a CPU: errors of float64 sums, and results within bounds."""

from __future__ import annotations

import numpy as np
from numba import boolean, float32, float64, types

from multiword.runtime.jit import inlined, jit

ROWS, ROW = (types.Array(float32, n, "C", readonly=True) for n in (2, 1))

U = 2.0**-53
"""The unit of errors."""

BLOCK = 256
"""Numbers that are added up before their sum is added to others: fewer additions follow one another."""

IN_ANY_ORDER = {"reassoc", "nsz"}
"""How compilers may add up numbers: with vectors."""


@inlined
def additions_of(n):
    """Return how many additions of n numbers follow one another: their relative error, if positive, in U."""
    return min(n, BLOCK) + n // BLOCK + 1


@jit(boolean(float64[::1], float64, float64, float32[::1]), inner=True)
def write_products(x, least, greatest, out):
    """Write products, rounded; return whether those with both factors differ."""
    unlike = False
    for j in range(len(out)):
        low, high = np.float32(x[j] * least), np.float32(x[j] * greatest)
        unlike |= low != high
        out[j] = low
    return unlike
