"""Sums of real vectors, and their dot products and norms, compiled: in one pass, with Ziv's test."""

import numpy as np
from numba import float64, types, void

from multiword.runtime.addresses import plus
from multiword.runtime.jit import inlined, jit
from ozaki.sparse.limits import SMALLEST
from ozaki.sparse.sums_numba import bound_of, extract, largest_of
from ozaki.sums.exact.enclosure_numba import add, root_of, rounded

EQUALS = {
    "dots": "sums.rounded_dot",
    "enclose": "sums.rounded_dot",
    "dots_of_parts": "sums.rounded_dot",
    "add_scaled": "sums.scaled_sum",
}
"""The function of `ozaki.definition` that each form, or the sum it is a step of, has the bits of."""

BLOCK = 512
"""Numbers with one sigma: so few that they are near when they are read again."""

_VECTOR, _TWO = types.Array(float64, 1, "C", readonly=True), types.UniTuple(float64, 2)


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
def _enclosed(x, y):
    """Return Σ x·y as an enclosure."""
    high, low, error = 0.0, 0.0, 0.0
    for first in range(0, len(x), BLOCK):
        upper, lower, bound = _of_block(x[first : first + BLOCK], y[first : first + BLOCK])
        high, low, error = add(lower, *add(upper, high, low, error + bound, False), False)
    return high, low, error


@inlined
def _both(high, low, error):
    """Return what a sum, and its square root, round to."""
    return rounded(high, low, error, False), rounded(*root_of(high, low, error), False)


@jit(_TWO(_VECTOR, _VECTOR))
def dots(x, y):
    """Return Σ x·y and its square root, both rounded once; NaN where that is undecided."""
    return _both(*_enclosed(x, y))


@jit(void(_VECTOR, _VECTOR, float64[::1]))
def enclose(x, y, part):
    """Write high, low and error of Σ x·y, a part of a sum."""
    part[0], part[1], part[2] = _enclosed(x, y)


@jit(_TWO(float64[:, ::1]))
def dots_of_parts(parts):
    """Return what `dots` does of vectors whose parts are enclosed."""
    high, low, error = 0.0, 0.0, 0.0
    for i in range(np.uint64(len(parts))):
        high, low, error = add(parts[i, 0], high, low, error + parts[i, 2], False)
        high, low, error = add(parts[i, 1], high, low, error, False)
    return _both(high, low, error)


@jit(void(_VECTOR, float64, _VECTOR, float64[::1]))
def add_scaled(x, a, y, out):
    """Write x + a·y, with two roundings."""
    for i in range(np.uint64(len(out))):
        out[i] = x[i] + a * y[i]
