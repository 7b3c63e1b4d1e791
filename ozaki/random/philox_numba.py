"""Philox 4×32-10, compiled with numba: `philox.rounds` for a counter after the other."""

from __future__ import annotations

import numpy as np
from numba import types, uint32, uint64

from multiword.runtime.jit import jit, pasted
from ozaki.random import philox

_rounds = pasted(philox.rounds)


@jit(types.void(uint64, uint64, uint64, uint32[:, ::1]))
def fill(seed, call, begin, result):
    """Write the four words of each counter from `begin` on to a row."""
    for i in range(len(result)):
        x, y, z, w = _rounds(seed, call, begin + np.uint64(i))
        result[i, 0], result[i, 1], result[i, 2], result[i, 3] = x, y, z, w
