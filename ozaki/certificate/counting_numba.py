"""Norm scales and the counting bound of products, compiled.

The same integers as `ozaki.scaling.scales` gives, and the same decision as `certify_by_counting`, or none:
then a product is left to that.
"""

import math

import numpy as np
from numba import float64, int32, int64, void

from multiword.runtime.compiled import BIAS, POWERS
from multiword.runtime.jit import inlined, jit
from ozaki.certificate.counted import ANYTHING
from ozaki.definition.decision import OCTAVES
from ozaki.definition.statistics import BITS, FINE, LEVELS, STEP
from ozaki.scaling.scales import LEAST_SQUARE, filling_bits
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

MARGIN = 2.0**-40
"""More than the relative rounding error of the counting bound here."""


_filling_bits = inlined(filling_bits)


@jit("UniTuple(int64, 2)(int64, int64, int64, int64)", inner=True)
def norm_scale(exponent, square, significand, limit):
    """Return the norm scale of a row with a nonzero number, and how many bits its integers have at most."""
    high = LEAST_SQUARE
    while square >> high > 1:
        high += 1
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


@jit(
    void(
        *(int32[::1], int64[::1], int64[::1], int32[:, :], int64, int64, float64[::1]),
        *(int32[::1], int32[::1], int64[::1], float64[:, ::1]),
    ),
)
def certified_scales(exponent, total, square, counts, length, columns, limits, scale, width, bits, reached):
    """Fill in the norm scales of the rows of a stack's left matrices, then of the columns of its right ones.

    Those of product s are widened by bits[s], as its counting bound asks for: 0, `some` or `more`; or -1 if
    those are too few, if it is undecided, or if there is an Inf or NaN. width[i] is how many bits integers of
    row i have at most. There are `columns` columns in a product and `length` numbers in a row. limits is
    significand, bits, tolerance, some, more: the norm limit is 2**bits·significand/32. reached is scratch
    memory, (2, OCTAVES).
    """
    significand, limit, tolerance = int(limits[0]), int(limits[1]), limits[2]
    stack, top = bits.shape[0], limit // 2
    rows = scale.shape[0] // stack - columns
    for s in range(stack):
        # How many scaled magnitudes of each row are at least 2**(top - d), and the largest Σ|a'|.
        upper, empty, finite = 0.25 * length, False, True
        for side in range(2):
            first = s * rows if side == 0 else stack * rows + s * columns
            for d in range(OCTAVES):
                reached[side, d] = length
            largest = 0.0
            for i in range(first, first + (rows if side == 0 else columns)):
                if square[i] == 0:  # no number that counts
                    scale[i], width[i] = 0 if exponent[i] == ZERO else NONFINITE_ROW, 0
                    finite &= exponent[i] == ZERO
                    continue
                scale[i], width[i] = norm_scale(exponent[i], square[i], significand, limit)
                bound = total[i] * POWERS[width[i] - BITS + BIAS]
                largest = bound if bound > largest else largest
                for d in range(OCTAVES):
                    octave = width[i] - 1 - top + d
                    count = counts[LEVEL_OF[octave], i] if octave >= 0 else 0
                    reached[side, d] = count if count < reached[side, d] else reached[side, d]
            upper += 0.5 * largest
            empty |= largest == 0
        lower = weighted_overlap(reached, length) * math.ldexp(tolerance, 2 * (top - 1))
        if not finite:
            bits[s] = -1
        elif empty or tolerance == ANYTHING:  # no error, or none that is to be certified
            bits[s] = 0
        else:
            bits[s] = missing_bits(upper, lower, int(limits[3]), int(limits[4]))
        if bits[s] > 0:
            for h in range(rows + columns):
                i = s * rows + h if h < rows else stack * rows + s * columns + h - rows
                scale[i] += bits[s]
                width[i] += bits[s]
