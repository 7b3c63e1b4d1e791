"""Dot products and norms of short vectors, compiled: in one pass, with Ziv's test."""

import numpy as np
from numba import boolean, float64, types

from multiword.runtime.jit import inlined, jit
from ozaki.sparse.sums_numba import add_carefully, add_quickly, bound_of
from ozaki.sums.exact.enclosure_numba import root_of, rounded

EQUALS = {"short_dot": "sums.rounded_dot"}
"""The function of `ozaki.definition` that each form has the bits of."""

_VECTOR = types.Array(float64, 1, "C", readonly=True)


def _of_vectors(add):
    """Return the function that adds up products of the numbers of two vectors."""

    @inlined
    def add_up(x, y):
        high, low, error = 0.0, 0.0, 0.0
        for i in range(np.uint64(len(x))):
            high, low, error = add(x[i], y[i], high, low, error)
        return high, low, error

    return add_up


_dot, _dot_again = _of_vectors(add_quickly), _of_vectors(add_carefully)


@jit(float64(_VECTOR, _VECTOR, boolean))
def short_dot(x, y, root):
    """Return Σ x·y, or its square root, rounded once; NaN where that is undecided.

    x, y : vectors of at most LONGEST numbers.
    """
    high, low, total = _dot(x, y)
    error = bound_of(total, np.uint64(len(x)))
    if root:
        high, low, error = root_of(high, low, error)
    value = rounded(high, low, error, False)
    if value != value:
        high, low, error = _dot_again(x, y)
        if root:
            high, low, error = root_of(high, low, error)
        value = rounded(high, low, error, False)
    return value
