"""Numbers of a matrix cut at a power of two, as `matrix_products` cuts them: compiled with numba."""

from __future__ import annotations

import numpy as np
from numba import float64, int64, types

from multiword.runtime.jit import jit

MAGNITUDE = np.int64((1 << 63) - 1)

Numbers = types.Array(float64, 1, "C", readonly=True)
Words = types.Array(int64, 1, "C", readonly=True)


@jit(int64(Words))
def largest(x):
    """Return the bits of the largest magnitude of float64 numbers: that of Inf or NaN if one is among them.

    Bits of magnitudes are in their order, and integers are compared in vectors.
    """
    most = np.int64(0)
    for i in range(len(x)):
        most = max(most, x[i] & MAGNITUDE)
    return most


@jit(float64(float64, float64, Numbers, float64[::1], float64[::1]))
def cut(up, down, x, part, rest):
    """Write the integers of x·up, towards zero, and the rest of x; return 0 if that is nothing.

    down : 1/up, a power of two. rest : may be x.
    """
    some = 0
    for i in range(len(x)):
        integer = np.trunc(x[i] * up)
        part[i] = integer
        rest[i] = x[i] - integer * down
        some += rest[i] != 0
    return float(some)
