"""What the certificate takes of each row and of each pair, compiled: as `counting` and `pairwise` say."""

import math

import numpy as np
from numba import float32, float64, int8, int32, int64, types, void

from multiword.runtime.compiled import BIAS, POWERS
from multiword.runtime.jit import jit
from ozaki.certificate.counting_numba import LEVEL_OF
from ozaki.certificate.magnitudes import LARGEST
from ozaki.certificate.pairwise import SLACK
from ozaki.definition.decision import OCTAVES
from ozaki.definition.statistics import BITS
from ozaki.scaling.statistics import NONFINITE, NONFINITE_ROW

EQUALS = {
    "row_bounds": "decision.pairwise_error",
    "truncate": "decision.pairwise_error",
    "largest_error": "decision.pairwise_error",
}
"""The function of `ozaki.definition` that each form, or the sum it is a step of, has the bits of."""

BITS_OF_LARGEST = LARGEST.bit_length() - 1

NUMBERS = types.Array(float64, 2, "C", readonly=True)

TOTALS, OFFSETS = (types.Array(kind, 1, "C", readonly=True) for kind in (float64, int32))


@jit(
    void(
        *(int32[::1], int64[::1], int64[::1], int32[:, :], int32[::1], int64, int64, int64),
        *(float64[::1], int32[::1], int32[::1], float64[:, ::1], int64[:, ::1]),
    )
)
def row_bounds(
    exponent, total, square, counts, scale, length, root, top, totals, truncation, offsets, largest, reached
):
    """Fill in `RowBounds` of a stack's rows, and by matrix: whether there is an Inf or NaN, the largest total
    and log2 of a square, and how many magnitudes of every row are at least 2**(top - d).

    root is isqrt(length); the last row of `reached` is scratch memory.
    """
    stack = largest.shape[0]
    rows, at_least = scale.shape[0] // stack, reached[stack]
    for s in range(stack):
        largest[s, 0] = largest[s, 1] = largest[s, 2] = 0.0
        for d in range(OCTAVES):
            reached[s, d] = length
        for i in range(s * rows, (s + 1) * rows):
            totals[i], truncation[i], offsets[i] = 0.0, scale[i], 0
            if square[i] == 0:
                largest[s, 0] = 1.0 if exponent[i] == NONFINITE else largest[s, 0]
                continue
            e = exponent[i] + scale[i]
            totals[i] = math.ldexp(np.float64(total[i]), e - BITS)
            largest[s, 1] = max(largest[s, 1], totals[i])
            largest[s, 2] = max(largest[s, 2], math.log2(np.float64(square[i])) + 2.0 * (e - BITS))
            for d in range(OCTAVES):
                octave = min(e - 1 - top + d, np.int64(len(LEVEL_OF) - 1))
                at_least[d] = counts[LEVEL_OF[octave], i] if octave >= 0 else 0
                reached[s, d] = min(reached[s, d], at_least[d])
            wanted = min(root, max(np.int64(1), (at_least[OCTAVES - 1] + 1) // 2))
            d = 0
            while d < OCTAVES - 1 and at_least[d] < wanted:
                d += 1
            d = d if at_least[d] >= wanted else 0
            offsets[i] = top - d - BITS_OF_LARGEST
            truncation[i] = scale[i] - offsets[i]


def of_kinds(signature, *kinds):
    """A decorator that compiles a function for arrays of several kinds: a dict of functions by dtype."""
    return lambda function: {kind.name: jit(signature(kind))(function) for kind in kinds}


@of_kinds(lambda kind: void(NUMBERS, int32[::1], int64, kind[:, ::1]), float32, float64, int8)
def truncate(x, scale, start, out):
    """min(LARGEST, ⌊|x|·2**scale⌋) to the columns of `out` from `start` on; 0 of rows with an Inf or NaN."""
    for i in range(x.shape[0]):
        if scale[i] == NONFINITE_ROW:
            for h in range(x.shape[1]):
                out[i, start + h] = 0.0
            continue
        shift = min(max(np.int64(scale[i]), np.int64(-2 * BIAS)), np.int64(2 * BIAS))
        one, other = POWERS[(shift >> 1) + BIAS], POWERS[shift - (shift >> 1) + BIAS]
        for h in range(x.shape[1]):
            number = np.floor(math.fabs(x[i, h]) * one * other)
            out[i, start + h] = np.int8(number if number < LARGEST else np.float64(LARGEST))


def _pairs(kind):
    return float64(types.Array(kind, 2, "A", readonly=True), TOTALS, TOTALS, float64, OFFSETS, OFFSETS)


@of_kinds(_pairs, int32, float32, float64)
def largest_error(y, of_a, of_b, half_length, offset_a, offset_b):
    """The largest T / |A||B| of all pairs, as `pairwise.compare_pairs` computes it."""
    largest = 0.0
    for i in range(y.shape[0]):
        if of_a[i] == 0:
            continue
        for j in range(y.shape[1]):
            lower = np.float64(y[i, j]) * SLACK * POWERS[offset_a[i] + offset_b[j] + BIAS]
            error = ((of_a[i] + of_b[j]) / 2 + half_length) / lower if of_b[j] > 0 else 0.0
            largest = error if error > largest else largest
    return largest
