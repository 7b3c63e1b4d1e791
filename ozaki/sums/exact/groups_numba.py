"""The loops of sums by group, compiled with numba: three words of each group."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import void
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from multiword.runtime.addresses import I8, prefetched
from multiword.runtime.jit import inlined
from ozaki.sums.exact.extraction_numba import MAGNITUDE, bits_of, sigma_of
from ozaki.sums.exact.fixed_point import MINUS_INFINITY, MINUS_ZERO, NAN, ORDINARY, PLUS_INFINITY
from ozaki.sums.exact.levels import GROUPS, HIGHEST
from ozaki.tuning import GROUPS_AHEAD

EQUALS = {
    "largest_number": "sums.rounded_sum",
    "grouped": "sums.rounded_sum",
    "carried": "sums.rounded_sum",
    "levels_of_groups": "sums.rounded_sum",
    "flagged_groups": "sums.rounded_sum",
}
"""The function of `ozaki.definition` that each form, or the sum it is a step of, has the bits of."""

GAP, LIMIT = GROUPS.bits, GROUPS.limit
_BEYOND, _INFINITY = (HIGHEST + LIMIT) << 52, 2047 << 52


def _prefetch(context: Any, table: Any, index: Any) -> Any:
    """Ask for the cache line of table[index], a row of up to 64 bytes, which is written soon."""

    def request(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        array = make_array(signature.args[0])(context, builder, values[0])
        (stride, _) = cgutils.unpack_tuple(builder, array.strides)
        start = builder.bitcast(array.data, I8.as_pointer())
        prefetched(builder, builder.gep(start, [builder.mul(values[1], stride)]), written=True, near=3)
        return context.get_dummy_value()

    return void(table, index), request


prefetch: Any = intrinsic(_prefetch)


def largest_number(x):
    """Return the bit pattern of the largest magnitude that some window holds; −1 where none holds any."""
    largest = -1
    for i in range(len(x)):
        magnitude = bits_of(np.float64(x[i])) & MAGNITUDE
        magnitude = magnitude if magnitude < _BEYOND else -1
        largest = magnitude if magnitude > largest else largest
    return largest


@inlined
def _special(v):
    """The flag of Inf or NaN."""
    return NAN if v != v else PLUS_INFINITY if v > 0 else MINUS_INFINITY


@inlined
def lane_of(labels, i, bits):
    """The index of the words of a number: neighbours go to different ones of the 2**bits lanes of a group."""
    return (labels[i] << bits) | (i & ((1 << bits) - 1))


def grouped(x, labels, k, lane_bits, words, lowest, flags, rest, rest_labels, noted):
    """Add the multiples of a window's units in numbers to their groups' words, and Inf and NaN to flags.

    What is above the window, or left by it, goes to `rest`. Noted are how much that is, whether there is a
    −0, and whether a label is none of a group's: nothing is added from there on.
    """
    sigma, tau, rho = sigma_of(k), sigma_of(k - GAP), sigma_of(k - 2 * GAP)
    upper, lower, limit, left = bits_of(sigma), bits_of(tau), (k + LIMIT) << 52, 0
    outside, smallest, groups = False, 0, np.uint64(len(flags))
    for i in range(len(x)):
        g, v, lane = labels[i], np.float64(x[i]), lane_of(labels, i, lane_bits)
        prefetch(words, lane_of(labels, min(i + GROUPS_AHEAD, len(x) - 1), lane_bits))
        if np.uint64(g) >= groups:
            outside = True
            break
        smallest = min(smallest, bits_of(v))  # no number has smaller bits than −0
        magnitude = bits_of(v) & MAGNITUDE
        if magnitude < limit:
            shifted = v + sigma
            words[lane, 1] += bits_of(shifted) - upper
            v -= shifted - sigma
            shifted = v + tau
            words[lane, 0] += bits_of(shifted) - lower
            v -= shifted - tau
        elif magnitude >= _INFINITY:
            flags[g] |= _special(v)
            v = np.float64(0.0)
        if v != 0:  # seldom
            if magnitude < limit:
                shifted = v + rho
                lowest[g] += bits_of(shifted) - bits_of(rho)
                v -= shifted - rho
            if v != 0:
                rest[left], rest_labels[left] = v, g
                left += 1
    noted[0], noted[1], noted[2] = left, smallest == ~MAGNITUDE, outside


def carried(words, lowest):
    """Bring the lower words into [0, 2**GAP), and return the largest magnitude of the others."""
    largest = 0
    for i in range(len(words)):
        words[i, 1] += words[i, 0] >> GAP
        words[i, 0] &= (1 << GAP) - 1
        largest = max(largest, abs(words[i, 1]))
    for g in range(len(lowest)):
        largest = max(largest, abs(lowest[g]))
    return largest


def levels_of_groups(words, lowest, flags, levels, undecided):
    """Write the sums of each group's words to its three levels, lowest first, and note which have a sum.

    undecided[0] becomes 1 where nothing is known of a group yet but, perhaps, that it has −0.
    """
    lanes = len(words) // max(len(lowest), 1)
    for g in range(len(lowest)):
        low = high = 0
        for i in range(g * lanes, (g + 1) * lanes):
            low += words[i, 0]
            high += words[i, 1]
        levels[0, g], levels[1, g], levels[2, g] = lowest[g], low, high
        if lowest[g] | low | high:
            flags[g] |= ORDINARY
        if (flags[g] | MINUS_ZERO) == MINUS_ZERO:
            undecided[0] = 1


def flagged_groups(x, labels, flags):
    """Note for each group whether it has −0, and whether it has anything else."""
    for i in range(len(x)):
        minus_zero = bits_of(np.float64(x[i])) == ~MAGNITUDE
        flags[labels[i]] |= MINUS_ZERO if minus_zero else ORDINARY
