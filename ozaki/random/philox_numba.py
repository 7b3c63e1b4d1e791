"""Philox 4×32-10, compiled with numba: `philox.rounds` for a counter after the other."""

from __future__ import annotations

import numpy as np
from numba import types, uint32, uint64

from multiword.runtime.jit import jit
from ozaki.random import philox

_A, _B = map(np.uint64, philox.FACTORS)
_V, _W = map(np.uint64, philox.BUMPS)
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_ROUNDS = philox.ROUNDS


@jit(types.void(uint64, uint64, uint64, uint32[:, ::1]))
def fill(seed, call, begin, result):
    """Write the four words of each counter from `begin` on to a row."""
    for i in range(len(result)):
        counter = begin + np.uint64(i)
        x, y, z, w = counter & _LOW, counter >> _HALF, call & _LOW, call >> _HALF
        k, m = seed & _LOW, seed >> _HALF
        for _ in range(_ROUNDS):
            a, b = x * _A, z * _B
            x, y, z, w = (b >> _HALF) ^ y ^ k, b & _LOW, (a >> _HALF) ^ w ^ m, a & _LOW
            k, m = (k + _V) & _LOW, (m + _W) & _LOW
        result[i, 0], result[i, 1], result[i, 2], result[i, 3] = x, y, z, w
