"""Sums of real vectors, and their dot products and norms, compiled: in one pass, with Ziv's test."""

import numpy as np
from numba import boolean, float64, types, void

from multiword.runtime.jit import inlined, jit
from ozaki.sparse.limits import SMALLEST
from ozaki.sparse.sums_numba import add_carefully, bound_of, extract, largest_of
from ozaki.sums.exact.enclosure_numba import add, root_of, rounded
from ozaki.sums.exact.extraction_numba import plus

EQUALS = {"dots": "sums.rounded_dot"}
"""The function of `ozaki.definition` that each form has the bits of."""

BLOCK = 512
"""Numbers with one sigma: so few that they are near when they are read again."""

_VECTOR = types.Array(float64, 1, "C", readonly=True)


@inlined
def _of_block(x, y):
    """Return Σ x·y by `extract` as high, low and a bound of what is missing."""
    n = np.uint64(len(x))
    high, low, sigma = 0.0, 0.0, 4 * np.float64(n) * (largest_of(x) * largest_of(y)) + SMALLEST
    for i in range(n):
        upper, lower = extract(x[i], y[i], sigma)
        high, low = plus(high, upper), plus(low, lower)
    return high, low, bound_of(sigma, n)


@inlined
def _both(high, low, error):
    """Return what a sum, and its square root, round to."""
    return rounded(high, low, error, False), rounded(*root_of(high, low, error), False)


@jit(types.UniTuple(float64, 2)(_VECTOR, _VECTOR, boolean))
def dots(x, y, root):
    """Return Σ x·y and its square root, both rounded once; NaN where that is undecided.

    root : whether the second one is wanted.
    """
    high, low, error = 0.0, 0.0, 0.0
    for first in range(0, len(x), BLOCK):
        upper, lower, bound = _of_block(x[first : first + BLOCK], y[first : first + BLOCK])
        high, low, error = add(lower, *add(upper, high, low, error + bound, False), False)
    value, of_root = _both(high, low, error)
    if value != value or (root and of_root != of_root):
        high, low, error = 0.0, 0.0, 0.0
        for i in range(np.uint64(len(x))):
            high, low, error = add_carefully(x[i], y[i], high, low, error)
        value, of_root = _both(high, low, error)
    return value, of_root


@jit(void(_VECTOR, float64, _VECTOR, float64[::1]))
def add_scaled(x, a, y, out):
    """Write x + a·y, with two roundings."""
    for i in range(np.uint64(len(out))):
        out[i] = x[i] + a * y[i]
