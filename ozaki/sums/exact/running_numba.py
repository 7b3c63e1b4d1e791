"""Running sums, compiled with numba: an expansion grows by one number at a time, and is rounded each time.

An expansion is a few numbers of increasing magnitude whose bits do not overlap: their sum is exact, and its
largest number nearly the rounded sum (Shewchuk, Adaptive precision floating-point arithmetic and fast robust
geometric predicates, Theorem 10, GROW-EXPANSION without zeros).
"""

from __future__ import annotations

import numpy as np

from multiword.runtime.jit import inlined
from ozaki.sums.exact.enclosure_numba import two_sum
from ozaki.sums.exact.extraction_numba import MAGNITUDE, bits_of, number_of

EQUALS = {
    "running_sums": "sums.rounded_sum",
}
"""The function of `ozaki.definition` that each form, or the sum it is a step of, has the bits of."""

_MINUS_ZERO = ~MAGNITUDE
_LARGEST = 2.0**1021  # nothing overflows below


@inlined
def _grown(expansion, count, v):
    """Add a number to an expansion, and return how many numbers it has then."""
    left = 0
    for i in range(count):
        v, rest = two_sum(v, expansion[i])
        if rest != 0:
            expansion[left] = rest
            left += 1
    if v != 0:
        expansion[left] = v
        left += 1
    return left


@inlined
def _to_odd(high, low):
    """The one of two neighbours, between which high + low lies, whose last bit is odd; high if low is 0."""
    if low == 0 or bits_of(high) & 1 == 1:
        return high
    return number_of(bits_of(high) + (1 if (low > 0) == (high > 0) else -1))


@inlined
def _rounded(expansion, count, to_odd):
    """The sum of an expansion, rounded to nearest, ties to even; or to odd, to be rounded again."""
    n = count - 1
    high, low = expansion[n], 0.0
    while n > 0 and low == 0:
        n -= 1
        high, low = two_sum(high, expansion[n])
    if to_odd:
        return _to_odd(high, low)
    if n > 0 and (low > 0) == (expansion[n - 1] > 0):  # what is left decides if low is half an ulp
        doubled = 2 * low
        above = high + doubled
        if above - high == doubled:
            return above
    return high


@inlined
def _pair_rounded(high, low, to_odd):
    """The sum of two numbers, rounded likewise."""
    if not to_odd:
        return high + low
    high, low = two_sum(high, low)
    return _to_odd(high, low)


def running_sums(x, to_odd, expansion, result):
    """Round the sums of (l, n, k) numbers over k and up to each of n, to (l, n); return whether they are all.

    Those beyond _LARGEST are not. Inf and NaN are added to one another, and then are the sum. As long as two
    numbers hold a sum, as they mostly do, it is their sum.
    """
    for j in range(len(x)):
        count, high, low, special, minus_zero = 0, 0.0, 0.0, 0.0, True
        for i in range(x.shape[1]):
            for part in range(x.shape[2]):
                v = np.float64(x[j, i, part])
                minus_zero &= bits_of(v) == _MINUS_ZERO
                if not abs(v) < np.inf:
                    special += v
                    continue
                if count == 0:
                    total, rest = two_sum(high, v)
                    more, lost = two_sum(low, rest)
                    if lost == 0:
                        high, low = total, more
                        continue
                    count = _grown(expansion, _grown(expansion, 0, low), high)
                count = _grown(expansion, count, v)
                high = expansion[count - 1] if count > 0 else 0.0
                if count <= 2:
                    low = expansion[0] if count == 2 else 0.0
                    count = 0
            if not abs(high) < _LARGEST:
                return False
            if special != 0:
                result[j, i] = special if special == special else np.nan
            elif minus_zero:
                result[j, i] = -0.0
            elif count == 0:
                result[j, i] = _pair_rounded(high, low, to_odd)
            else:
                result[j, i] = _rounded(expansion, count, to_odd)
    return True
