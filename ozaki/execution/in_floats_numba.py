"""Sums of products in two floats, compiled, and what they round to.

A sum is high + low. What the low one loses is bounded beforehand, from the sizes of the numbers, and watched
only where that does not decide. A sum is decided where both ends round to one number.
"""

import numpy as np

from multiword.runtime.jit import inlined
from ozaki.execution.in_floats import LEAST, LEAST_SINGLE, SMALLEST
from ozaki.sums.exact.enclosure_numba import two_sum
from ozaki.sums.exact.extraction_numba import fma

ONE = 1023
"""The exponent field of 1.0."""

BELOW_SINGLE, HALF_SINGLE = (1 << 29) - 1, 1 << 28
"""The bits of a float64 that a float32 has not, and half a unit of its last place."""


@inlined
def power(exponent):
    """Return 2**exponent, a normal number."""
    return np.int64((exponent + ONE) << 52).view(np.float64)


@inlined
def add_product_quickly(x, y, high, low):
    """Add x·y to high + low, where high began so large that it never doubles or halves (`bound_of_lost`).

    Then the difference of two highs is exact (Sterbenz).
    """
    total = fma(x, y, high)
    return total, low + fma(x, y, high - total)


@inlined
def add_product(x, y, high, low, lost):
    """Add x·y to any high + low, and the magnitudes of what these lose to `lost`."""
    p = x * y
    high, rest = two_sum(high, p)
    low, first = two_sum(low, rest)
    low, second = two_sum(low, fma(x, y, -p))
    return high, low, lost + (abs(first) + abs(second))


@inlined
def rounded(high, low, lost, back, single):
    """Return RN(x)·2**-back for x within `lost` of high + low, and whether that is certain; 2·lost is exact.

    single : whether the result will be rounded to float32.
    """
    # Twice what was lost, and more than the rounding of low ± margin, or nothing.
    margin = 2 * lost + 2.0**-51 * abs(low) if lost > 0 else 0.0
    value, other, half = high + (low - margin), high + (low + margin), back >> 1
    result = value * power(-half) * power(half - back)
    certain = value == other
    if single:  # both ends round to one of them, unless either is a tie between two, or was rounded to one
        a, b = np.float64(value).view(np.int64), np.float64(other).view(np.int64)
        tie = ((a & BELOW_SINGLE) == HALF_SINGLE) | ((b & BELOW_SINGLE) == HALF_SINGLE)
        exact = certain & (margin == 0) & (two_sum(high, low)[1] == 0)
        certain = exact | ((not tie) & ((a + HALF_SINGLE) >> 29 == (b + HALF_SINGLE) >> 29))
    certain &= (value == 0) | (abs(result) >= (LEAST_SINGLE if single else LEAST))
    return result, certain


@inlined
def bound_of_lost(steps, lanes, start):
    """Return a bound of what low floats of lanes lose in so many steps each, if high ones begin at `start`.

    Let u = 2**-53, and `start` a power of two that is at least 4·P for a bound P of Σ|a'b'|. High floats stay
    within 3/4 and 5/4 of `start`, so that each step leaves at most u·start to a low one. In h steps this is
    rounded h times, and added up by h roundings of at most h·u·start: a lane loses less than
    (h + 2)²/2·u²·start. Less their start, the lanes have sums of at most P, and low floats of at most
    h·u·start. Folding n <= 32 lanes takes log2(n) rounds of two roundings each, which lose at most
    10·n·h·u²·start and 25·u²·P. All of it is less than n/2·(h + 12)²·u²·start, half of what is returned.

    Where each lane begins anew p times, and its p sums are added up one by one, those of all lanes lose
    n·p/2·(h + 2)²·u²·start, their adding up 2·n·p·(p - 1)·(h + 1)·u²·start, and folding p times as much: p
    times as many lanes, and 3·(p - 1) steps more, are enough.
    """
    return lanes * np.float64(steps + 12) ** 2 * start * 2.0**-106


@inlined
def scaled(x, up, whole):
    """Return x times a power of two, rounded to an integer if `whole`, and whether it is too small if not."""
    y = x * up
    return (np.rint(y) if whole else y), (abs(y) < SMALLEST) & (x != 0) & (not whole)
