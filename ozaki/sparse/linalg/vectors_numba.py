"""Dot products and norms of real vectors, compiled: in one pass, with Ziv's test."""

import numpy as np
from numba import boolean, float64, types

from multiword import rounding
from multiword.runtime.jit import inlined, jit
from ozaki.sparse.limits import SMALLEST
from ozaki.sparse.sums_numba import add_carefully, bound_of, extract, largest_of
from ozaki.sums.exact.enclosure_numba import root_of, rounded

EQUALS = {"dots": "sums.rounded_dot"}
"""The function of `ozaki.definition` that each form has the bits of."""

LANES = 32
"""Sums side by side, which become vectors' elements."""

_VECTOR = types.Array(float64, 1, "C", readonly=True)

_two_sum = inlined(rounding.two_sum)


@inlined
def _extracted(x, y, high, low):
    """Return Σ x·y by `extract` as high, low and a bound of what is missing.

    A lane has n terms, and loses at most 4(n + 1)²·u²·sigma. The 32 sums of high, of up to sigma/4, are added
    up by two_sum; 64 numbers, with the lanes' lows, make the rest, of at most 32(1.25n + 8)·u·sigma.
    What that loses is less than what 12 terms more in each lane add to the bound.
    """
    whole = len(x) // LANES * LANES
    terms = np.uint64(len(x) // LANES + 1)
    sigma = 4 * np.float64(terms) * (largest_of(x) * largest_of(y)) + SMALLEST
    for j in range(LANES):
        high[j], low[j] = sigma, 0.0
    for first in range(0, whole, LANES):
        of_x, of_y = x[first : first + LANES], y[first : first + LANES]
        for j in range(LANES):
            high[j], low[j] = extract(of_x[j], of_y[j], high[j], low[j])
    for j in range(len(x) - whole):
        high[j], low[j] = extract(x[whole + j], y[whole + j], high[j], low[j])
    total, rest = 0.0, 0.0
    for j in range(LANES):
        total, lost = _two_sum(total, high[j] - sigma)
        rest += lost + low[j]
    return total, rest, LANES * bound_of(sigma, terms + np.uint64(12))


@inlined
def _both(high, low, error):
    """Return what a sum, and its square root, round to."""
    return rounded(high, low, error, False), rounded(*root_of(high, low, error), False)


@jit(types.UniTuple(float64, 2)(_VECTOR, _VECTOR, float64[:, ::1], boolean))
def dots(x, y, sums, root):
    """Return Σ x·y and its square root, both rounded once; NaN where that is undecided.

    sums : (2, LANES) scratch. root : whether the second one is wanted.
    """
    value, of_root = _both(*_extracted(x, y, sums[0], sums[1]))
    if value != value or (root and of_root != of_root):
        high, low, error = 0.0, 0.0, 0.0
        for i in range(np.uint64(len(x))):
            high, low, error = add_carefully(x[i], y[i], high, low, error)
        value, of_root = _both(high, low, error)
    return value, of_root
