"""Norm scales and the counting bound of small products, compiled.

The same integers as `ozaki.scaling.statistics` and `scales` give, and the same decision as
`certify_by_counting` of `ozaki.certificate.decision`, or none: then the product is left to those.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from ozaki.certificate.counting import OCTAVES
from ozaki.scaling.statistics import BITS, FINE, LEVELS, STEP

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
"""How functions are compiled that Python calls."""

INNER: dict[str, Any] = {**OPTIONS, "no_cpython_wrapper": True}
"""How those are that compiled ones call: without what a call from Python needs, and takes time to compile."""

DEEPEST = LEVELS[-1] + 1
"""Octaves below a row's largest magnitude in which numbers are counted; what is smaller is one more."""

COUNTS = FINE + (OCTAVES - FINE) // STEP * STEP + 2 * STEP
"""Counts of a row, by the octaves down to which they go: its integers are hardly above the norm limit."""

WEIGHTS = 2.0 ** -np.minimum(np.arange(OCTAVES), OCTAVES - 2)
"""What a number in each octave adds to a lower bound, relative to the first."""

CERTAIN = 2.0**-40
"""More than the relative rounding error of the counting bound here."""

MAGNITUDE, INFINITE = (1 << 63) - 1, 0x7FF
"""The bits of a float64 but its sign, and the exponent field of Inf and NaN."""

SMALLEST = 128
"""Rows whose largest exponent field is below this are left to NumPy: their subnormal numbers may count."""


@numba.njit(
    "void(float64[:, :, ::1], int64[:, :, ::1], int64, int64, int64[:, :, ::1], float64[:, ::1], int64[::1])",
    **INNER,
)
def norm_rows(x, patterns, significand, bits, of_rows, reached, counts):
    """Fill in the norm scales of the rows of (s, r, k) matrices, and what `counting_bits` needs.

    `patterns` are the bits of x, `counts` is scratch memory. of_rows[s, 0] become the scales of matrix s, and
    of_rows[s, 1] the exponents of the largest integers. reached[s, d] is how many scaled magnitudes of each
    row are at least 2**(bits // 2 - d), reached[s, OCTAVES] the largest Σ|a'|: -1 if it is left to NumPy.
    """
    top, columns = bits // 2, x.shape[2]
    for s in range(x.shape[0]):
        for d in range(OCTAVES):
            reached[s, d] = columns
        reached[s, OCTAVES] = 0.0
        for i in range(x.shape[1]):
            of_rows[s, 0, i] = of_rows[s, 1, i] = 0
            largest = 0
            for h in range(columns):
                magnitude = patterns[s, i, h] & MAGNITUDE
                if magnitude > largest:
                    largest = magnitude
            if largest == 0:
                continue
            field = largest >> 52
            if field < SMALLEST or field == INFINITE:
                reached[s, OCTAVES] = -1.0
                break
            for q in range(COUNTS):
                counts[q] = 0
            e = field - 1022
            factor = math.ldexp(1.0, BITS - e)
            total = square = np.int64(0)
            for h in range(columns):
                octave = field - (patterns[s, i, h] >> 52 & INFINITE)
                counts[octave if octave < DEEPEST else COUNTS] += 1  # the last is not read
                t = np.int64(math.fabs(x[s, i, h]) * factor) + 1
                total += t
                square += t * t
            length = 2 * (BITS - 1)  # the largest magnitude alone makes it that
            while square >> length > 1:
                length += 1
            threshold = (1 << length) + ((significand - 32) << (length - 5))
            scale = ((bits - length - (1 if square > threshold else 0)) >> 1) + BITS - e
            of_rows[s, 0, i], of_rows[s, 1, i] = scale, e + scale
            bound = math.ldexp(np.float64(total), e + scale - BITS)
            if bound > reached[s, OCTAVES]:
                reached[s, OCTAVES] = bound
            for q in range(1, FINE):
                counts[q] += counts[q - 1]
            for q in range(FINE, COUNTS, STEP):  # of these, every third is counted
                counts[q + STEP - 1] += counts[q - 1] + counts[q] + counts[q + 1]
                counts[q] = counts[q + 1] = counts[q - 1]
            first = top + 1 - e - scale
            for d in range(OCTAVES):
                count = counts[d - first] if d >= first else 0
                if count < reached[s, d]:
                    reached[s, d] = count


@numba.njit(
    "int64(float64[:, :, ::1], int64, int64, int64, float64, int64, int64)",
    fastmath={"contract", "reassoc"},
    **INNER,
)
def counting_bits(reached, s, length, top, tolerance, first, second):
    """The bits by which the counting bound widens the integers of product s: 0, `first` or `second`.

    -1 if those are too few, or if it is not sure. reached[0] and reached[1] are those of `norm_rows`.
    """
    largest_a, largest_b = reached[0, s, OCTAVES], reached[1, s, OCTAVES]
    if largest_a < 0 or largest_b < 0:
        return -1
    if largest_a == 0 or largest_b == 0:
        return 0
    total = 0.0
    for i in range(OCTAVES):
        short = length - reached[0, s, i]
        if short < reached[1, s, OCTAVES - 1]:
            inner = 0.0
            for j in range(OCTAVES):
                overlap = reached[1, s, j] - short
                inner += (overlap if overlap > 0.0 else 0.0) * WEIGHTS[j]
            total += inner * WEIGHTS[i]
    # The error is to become smaller by the factor upper / lower.
    lower = total * math.ldexp(tolerance, 2 * (top - 1))
    upper = 0.5 * (largest_a + largest_b) + 0.25 * length
    low, high = upper * (1 - CERTAIN), upper * (1 + CERTAIN)
    if high <= lower:
        return 0
    if lower < low and high < math.ldexp(lower, first):
        return first
    if math.ldexp(lower, first) <= low and high < math.ldexp(lower, second):
        return second
    return -1


@numba.njit(
    "void(float64[:, :, ::1], float64[:, :, ::1], int64[:, :, ::1], int64[:, :, ::1], int64, int64, float64, "
    "int64, int64, int64[:, :, ::1], int64[:, :, ::1], boolean[::1], float64[:, :, ::1], int64[::1])",
    **OPTIONS,
)
def certified_scales(
    a, b, a_bits, b_bits, significand, limit, tolerance, first, second, of_a, of_b, undone, reached, counts
):
    """Fill in the scales of (s, m, k) rows of A and (s, n, k) columns of B, widened as each product needs.

    a_bits and b_bits are the bits of a and b, the limit is 2**limit·significand/32. of_a and of_b become what
    `norm_rows` says, and undone[s] whether product s is left to NumPy. reached and counts are scratch memory.
    """
    norm_rows(a, a_bits, significand, limit, of_a, reached[0], counts)
    norm_rows(b, b_bits, significand, limit, of_b, reached[1], counts)
    for s in range(a.shape[0]):
        bits = counting_bits(reached, s, a.shape[2], limit // 2, tolerance, first, second)
        undone[s] = bits < 0
        for side in range(2):  # scales and exponents alike
            for i in range(a.shape[1]):
                of_a[s, side, i] += bits
            for j in range(b.shape[1]):
                of_b[s, side, j] += bits
