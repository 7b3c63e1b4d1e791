"""The loops of sums by group, compiled with numba (extra `fast`): two words of each group."""

from __future__ import annotations

import numpy as np
from numba import njit

from multiword.runtime.compiled import INNER
from ozaki.sums.exact.extraction_numba import MAGNITUDE, bits_of, sigma_of
from ozaki.sums.exact.fixed_point import MINUS_INFINITY, MINUS_ZERO, NAN, ORDINARY, PLUS_INFINITY
from ozaki.sums.exact.groups import BEYOND, GAP, LIMIT

_BEYOND, _INFINITY = BEYOND << 52, 2047 << 52

_inlined = njit(**INNER)


def largest_number(x):
    """Return the bit pattern of the largest magnitude that some window holds; −1 where none holds any."""
    largest = -1
    for i in range(len(x)):
        magnitude = bits_of(np.float64(x[i])) & MAGNITUDE
        magnitude = magnitude if magnitude < _BEYOND else -1
        largest = magnitude if magnitude > largest else largest
    return largest


@_inlined
def _special(v):
    """The flag of Inf or NaN."""
    return NAN if v != v else PLUS_INFINITY if v > 0 else MINUS_INFINITY


def grouped(x, labels, k, words, flags, rest, rest_labels):
    """Add the multiples of a window's two units in numbers to their groups' words; return how many are left.

    What is above the window, or left by it, goes to `rest`, which may lie where x does; Inf and NaN to flags.
    """
    sigma, tau, limit, left = sigma_of(k), sigma_of(k - GAP), (k + LIMIT) << 52, 0
    upper, lower = bits_of(sigma), bits_of(tau)
    for i in range(len(x)):
        g, v = labels[i], np.float64(x[i])
        magnitude = bits_of(v) & MAGNITUDE
        if magnitude < limit:
            shifted = v + sigma
            words[g, 1] += bits_of(shifted) - upper
            v -= shifted - sigma
            shifted = v + tau
            words[g, 0] += bits_of(shifted) - lower
            v -= shifted - tau
        elif magnitude >= _INFINITY:
            flags[g] |= _special(v)
            v = np.float64(0.0)
        if v != 0:
            rest[left], rest_labels[left] = v, g
            left += 1
    return left


def flagged_groups(x, labels, flags):
    """Note for each group whether it has −0, and whether it has anything else."""
    for i in range(len(x)):
        minus_zero = bits_of(np.float64(x[i])) == ~MAGNITUDE
        flags[labels[i]] |= MINUS_ZERO if minus_zero else ORDINARY


def any_outside(labels, groups):
    """Return whether a label is none of 0 to groups − 1."""
    outside = False
    for i in range(len(labels)):
        outside |= (labels[i] < 0) | (labels[i] >= groups)
    return outside
