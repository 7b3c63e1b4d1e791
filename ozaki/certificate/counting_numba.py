"""Norm scales and the counting bound of products, compiled.

The same integers as `ozaki.scaling.scales` gives, and the same decision as `certify_by_counting`, or none:
then a product is left to that.
"""

import math

import numpy as np
from numba import float64, int32, int64, types, void

from multiword.runtime.compiled import BIAS, POWERS
from multiword.runtime.jit import inlined, jit
from ozaki.certificate.counted import ANYTHING
from ozaki.definition.decision import OCTAVES
from ozaki.definition.statistics import BITS, FINE, LEVELS, STEP
from ozaki.scaling.scales import filling_bits
from ozaki.scaling.statistics import NONFINITE_ROW, ZERO

EQUALS = {
    "certified_scales": "decision.counting_error",
}
"""The function of `ozaki.definition` that each form, or the sum it is a step of, has the bits of."""

LEVEL_OF = np.array(
    [q if q < FINE else min(FINE - 1 + (q - (FINE - 1)) // STEP, len(LEVELS) - 1) for q in range(2 * OCTAVES)]
)
"""The index in LEVELS of the largest level that is not beyond an octave."""

WEIGHTS = 2.0 ** -np.minimum(np.arange(OCTAVES), OCTAVES - 2)
"""What a number in each octave adds to a lower bound, relative to the first."""

FEW = 8
"""Octaves that nearly always prove what all of them do, of rows of some numbers."""

MARGIN = 2.0**-40
"""More than the relative rounding error of the counting bound here."""


ONE = 1023
"""The exponent field of 1.0."""

_filling_bits = inlined(filling_bits)


@jit("UniTuple(int64, 2)(int64, int64, int64, int64)", inner=True)
def norm_scale(exponent, square, significand, limit):
    """Return the norm scale of a row with a nonzero number, and how many bits its integers have at most."""
    high = (np.float64(square).view(np.int64) >> 52) - ONE
    high -= square >> high == 0  # rounded up to a power of two
    grown = _filling_bits(square, high, significand, limit)
    return grown - exponent, grown


@jit("float64(float64[:, ::1], int64)", inner=True, fastmath=("contract", "reassoc"))
def weighted_overlap(reached, length):
    """Return the sum over pairs of octaves of how many numbers overlap there, in units of the first."""
    total, inner, before = 0.0, 0.0, -1.0
    for i in range(OCTAVES):
        short = length - reached[0, i]
        if short != before:  # short rows have few counts
            inner, before = 0.0, short
            for j in range(OCTAVES):
                overlap = reached[1, j] - short
                inner += (overlap if overlap > 0.0 else 0.0) * WEIGHTS[j]
        total += inner * WEIGHTS[i]
    return total


@jit("int64(float64, float64, int64, int64)", inner=True)
def missing_bits(upper, lower, some, more):
    """Return the fewest of 0, `some` and `more` bits that prove upper <= lower·2**bits; -1 if none does."""
    under, over = upper * (1 - MARGIN), upper * (1 + MARGIN)
    if over <= lower:
        return 0
    if lower < under and over < math.ldexp(lower, some):
        return some
    if math.ldexp(lower, some) <= under and over < math.ldexp(lower, more):
        return more
    return -1


SUMS = int32[::1], int64[::1], int64[::1], int32[:, :]


@jit(
    types.UniTuple(float64, 2)(
        *(*SUMS, int64, int64, int64, int64, int64),
        *(float64[::1], int32[::1], int32[::1], float64[:, ::1]),
    ),
    inner=True,
)
def count(
    exponent, total, square, counts, length, first, rows, second, columns, limits, scale, width, reached
):
    """Fill in the norm scales of some rows and columns; return both sides of what the counting bound proves.

    The integers do for an error of the tolerance where T is at most the lower bound of Σ|a'||b'| times that.
    T is 0 where a factor is zero, and infinite where there is an Inf or NaN. Where counts have no levels,
    because nothing is to be certified, that bound is 0; where they have FINE, it is one of FEW octaves, and
    of what these say of the others, that as many numbers are there, at least.
    """
    octaves = OCTAVES if counts.shape[0] == len(LEVELS) else FEW
    significand, limit = int(limits[0]), int(limits[1])
    # How many scaled magnitudes of each row are at least 2**(top - d), and the largest Σ|a'|.
    upper, empty, finite, top = 0.25 * length, False, True, limit // 2
    for side in range(2):
        begin, end = (first, first + rows) if side == 0 else (second, second + columns)
        for d in range(OCTAVES):
            reached[side, d] = length
        largest = 0.0
        for i in range(begin, end):
            if square[i] == 0:  # no number that counts
                scale[i], width[i] = 0 if exponent[i] == ZERO else NONFINITE_ROW, 0
                finite &= exponent[i] == ZERO
                continue
            scale[i], width[i] = norm_scale(exponent[i], square[i], significand, limit)
            bound = total[i] * POWERS[width[i] - BITS + BIAS]
            largest = bound if bound > largest else largest
            if not counts.shape[0]:
                continue
            for d in range(octaves):
                octave = width[i] - 1 - top + d
                found = counts[min(LEVEL_OF[octave], counts.shape[0] - 1), i] if octave >= 0 else 0
                reached[side, d] = found if found < reached[side, d] else reached[side, d]
        for d in range(octaves, OCTAVES):
            reached[side, d] = reached[side, octaves - 1]
        upper += 0.5 * largest
        empty |= largest == 0
    lower = (
        weighted_overlap(reached, length) * math.ldexp(limits[2], 2 * (top - 1)) if counts.shape[0] else 0.0
    )
    return np.inf if not finite else 0.0 if empty else upper, lower


@jit(int64(float64, float64, float64[::1]), inner=True)
def counted_bits(upper, lower, limits):
    """Return `missing_bits` for both sides of the counting bound; -1 where there is an Inf or NaN."""
    if upper == np.inf:
        return -1
    if upper == 0 or limits[2] == ANYTHING:  # no error, or none that is to be certified
        return 0
    return missing_bits(upper, lower, int(limits[3]), int(limits[4]))


OF_A_STACK = void(
    *(*SUMS, int64, int64, float64[::1]),
    *(int32[::1], int32[::1], int64[::1], float64[:, ::1]),
)


@jit(OF_A_STACK, inner=True)
def certify(exponent, total, square, counts, length, columns, limits, scale, width, bits, reached):
    """Do what `certified_scales` does, for compiled code."""
    stack = bits.shape[0]
    rows = scale.shape[0] // stack - columns
    for s in range(stack):
        sums, of_a, of_b = (exponent, total, square, counts, length), s * rows, stack * rows + s * columns
        upper, lower = count(*sums, of_a, rows, of_b, columns, limits, scale, width, reached)
        bits[s] = counted_bits(upper, lower, limits)
        if bits[s] > 0:
            for h in range(rows + columns):
                i = of_a + h if h < rows else of_b + h - rows
                scale[i] += bits[s]
                width[i] += bits[s]


@jit(OF_A_STACK)
def certified_scales(exponent, total, square, counts, length, columns, limits, scale, width, bits, reached):
    """Fill in the norm scales of the rows of a stack's left matrices, then of the columns of its right ones.

    Those of product s are widened by bits[s], as its counting bound asks for: 0, `some` or `more`; or -1 if
    those are too few, if it is undecided, or if there is an Inf or NaN. width[i] is how many bits integers of
    row i have at most. There are `columns` columns in a product and `length` numbers in a row. limits is
    significand, bits, tolerance, some, more: the norm limit is 2**bits·significand/32. reached is scratch
    memory, (2, OCTAVES).
    """
    certify(exponent, total, square, counts, length, columns, limits, scale, width, bits, reached)
