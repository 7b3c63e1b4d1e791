"""Sums of products in two float64 numbers, for compiled loops: added up quickly, or carefully.

A sum is high + low, and a bound of what is missing; what both of its ends round to is the result. The bound
of a quick sum is like that of Dot2 (Ogita, Rump and Oishi, Accurate sum and dot product, Proposition 5.5),
which costs the least. A careful one is an enclosure that watches what is lost.
"""

import numpy as np

from multiword.runtime.jit import inlined
from ozaki.sparse.limits import LOSSLESS, UNDERFLOW
from ozaki.sums.exact.enclosure_numba import RELATIVE, add_product
from ozaki.sums.exact.extraction_numba import MAGNITUDE, fma


@inlined
def add_quickly(a, b, high, low, total):
    """Add a product to high + low, and its magnitude to a total.

    `two_sum` has p − z with an error that is added to the product's own: fma(a, b, −z) is both, rounded
    once, so that two operations are saved. With u = 2**-53, n terms behind the first one and their total T,
    each adds at most u²·(4|high| + 4|p|) to what is lost, the sums of `low` (n² − 1)·u²T, and what is rounded
    at the end (n + 1)·u²T. All that is (n + 1)(n + 4)·u²T, at most 10/16 of 4(n + 1)²·u²T.
    """
    product = a * b
    result = high + product
    z = result - high
    low += (high - (result - z)) + fma(a, b, -z)
    return result, low, total + abs(product)


@inlined
def largest_of(x):
    """Return the largest magnitude of numbers; not a finite number where one of them is none."""
    largest = np.int64(0)
    for i in range(np.uint64(len(x))):
        largest = max(largest, np.float64(x[i]).view(np.int64) & MAGNITUDE)
    pattern = np.int64(largest)
    return pattern.view(np.float64)


FRACTION = (1 << 52) - 1
"""The bits of a float64's fraction."""


@inlined
def largest_and_unit_of(x):
    """Return the largest magnitude of numbers, as `largest_of`, and a power of two that divides all, or 0."""
    largest, smallest, together = np.int64(0), np.int64(MAGNITUDE), np.int64(0)
    for i in range(np.uint64(len(x))):
        bits = np.float64(x[i]).view(np.int64) & MAGNITUDE
        together |= bits
        largest = max(largest, bits)
        smallest = min(smallest, bits if bits != 0 else np.int64(MAGNITUDE))
    pattern, exponent, together = np.int64(largest), smallest >> 52, together & FRACTION
    if exponent <= 52:
        return pattern.view(np.float64), 0.0
    lowest, unit = (
        together & -together if together else np.int64(FRACTION + 1),
        np.int64((exponent - 52) << 52),
    )
    return pattern.view(np.float64), np.float64(lowest) * unit.view(np.float64)


@inlined
def extract(a, b, sigma):
    """Return a product as high, a multiple of sigma's last place, and low, what is left of it.

    In a sum of n products of at most M sigma is at least 4nM. So sigma + ab is rounded to a number between
    3/4 and 5/4 of sigma, whose difference from sigma is exact (Sterbenz), and every sum of some `high` is
    exact, in any order. This is the extraction of Rump, Ogita and Oishi (Accurate floating-point summation,
    part I), by fma. With u = 2**-53 each `low` is at most 1.25u·sigma, of which u times that is lost. n of
    them, their sums in any order, of at most 1.25nu·sigma each, and what is rounded at the end lose at most
    (1.25n² + 7n)·u²·sigma, less than 4(n + 1)²·u²·sigma.
    """
    high = fma(a, b, sigma) - sigma
    return high, fma(a, b, -high)


@inlined
def add_carefully(a, b, high, low, error):
    """Add a product to an enclosure."""
    return add_product(a, b, high, low, error, False)


@inlined
def bound_of(total, count):
    """Return a bound of what the sum of 1 + count terms has lost."""
    terms = np.float64(count + np.uint64(1)) * 2.0**-52
    return fma(total * terms, terms, UNDERFLOW)


@inlined
def bound_within(total, count, unit):
    """As `bound_of`; nothing, if a power of two that divides all terms, or 0, proves that (`LOSSLESS`)."""
    exact = total * (np.float64(count + np.uint64(1)) * 2.0**-52) * LOSSLESS < unit
    return 0.0 if exact else bound_of(total, count)


@inlined
def ends(high, low, bound, single):
    """Return what both ends of a sum round to, of which no more than a bound is missing."""
    if single:  # rounded twice
        bound += abs(high) * RELATIVE
    value, below = high + (low + bound), high + (low - bound)
    if single:
        value, below = np.float64(np.float32(value)), np.float64(np.float32(below))
    return value, below


@inlined
def not_minus_zero(value, single):
    """Return a sum that begins with +0: it is not −0, and if it is rounded to float32 that is not, either."""
    return (np.float64(np.float32(value)) if single else value) + 0.0
