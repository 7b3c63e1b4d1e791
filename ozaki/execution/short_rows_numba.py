"""Norm scales and bounds of many short rows, compiled: rows side by side in vectors.

Counts of short rows are their numbers' depths in order: at least j of them are counted from the j-th on.
"""

import numpy as np
from numba import float64, int16, int32, int64, types, void

from multiword.runtime.jit import jit
from ozaki.certificate.counting_numba import missing_bits, weighted_overlap
from ozaki.certificate.pairwise import SLACK
from ozaki.certificate.pairwise_numba import BITS_OF_LARGEST
from ozaki.definition.decision import LARGEST, OCTAVES
from ozaki.definition.statistics import BITS, LEVELS
from ozaki.execution.contract import FURTHEST
from ozaki.execution.in_floats import ROWS
from ozaki.execution.in_floats_numba import ONE, power

SPARE = 6
"""Lines of ROWS numbers beside those of the rows' numbers."""

MAGNITUDE = (1 << 63) - 1
"""The bits of a float64 but its sign."""

NEVER = 1 << 10
"""A depth below all that are counted."""

LEVEL_AT = np.array([min((x for x in LEVELS if x >= q), default=NEVER) for q in range(LEVELS[-1] + 2)])
"""From which level on a number is counted that lies so many octaves below the row's largest."""

MATRIX = types.Array(float64, 2, "A", readonly=True)


@jit(void(MATRIX, int64, float64[:, ::1]), inner=True)
def load(x, first, lines):
    """Write ROWS rows to the columns of lines, zeros beyond the last."""
    rows = x[first : first + ROWS]
    for h in range(x.shape[1]):
        line = lines[h]
        for r in range(rows.shape[0]):
            line[r] = rows[r, h]
        for r in range(rows.shape[0], ROWS):
            line[r] = 0.0


@jit(int64(float64[:, ::1], int64, float64[::1], int64[::1]), inner=True)
def take_factors(lines, k, factor, lift):
    """Write 2**lift, which brings rows just below 2**BITS, 0 for zeros; return how many are out of range."""
    outside = 0
    for r in range(ROWS):
        lift[r] = 0
    for h in range(k):
        bits = lines[h].view(np.int64)
        for r in range(ROWS):
            lift[r] = max(lift[r], bits[r] & MAGNITUDE)
    for r in range(ROWS):
        e, zero = (lift[r] >> 52) - (ONE - 1), lift[r] == 0
        outside += 0 if zero or ((e >= -FURTHEST) & (e <= FURTHEST)) else 1
        lift[r] = BITS - e
        factor[r] = 0.0 if zero else power(lift[r])
    return outside


@jit(void(int16[:, ::1]), inner=True)
def sort(depths):
    """Bring the depths of each row into order."""
    for i in range(1, depths.shape[0]):
        for j in range(i, 0, -1):
            above, below = depths[j - 1], depths[j]
            for r in range(ROWS):
                x, y = above[r], below[r]
                above[r], below[r] = min(x, y), max(x, y)


@jit(int64(MATRIX, int64, float64[::1], float64[:, ::1], int16[:, ::1]), inner=True)
def measure_some(x, first, limits, lines, depths):
    """Write what `measure` takes of ROWS rows to the last lines; return 0 if one of them is out of range.

    These are bounds of Σ|a'| in the second one, in the fifth the shifts that make depths in order octaves
    below 2**top, and in the sixth norm scales.
    """
    significand, limit, k = limits[0] / 32, int(limits[1]), x.shape[1]
    factor, total, square = lines[k], lines[k + 1], lines[k + 2]
    lift, shift = lines[k + 3].view(np.int64), lines[k + 4].view(np.int64)
    scales = lines[k + 5].view(np.int64)
    load(x, first, lines)
    if take_factors(lines, k, factor, lift):
        return 0
    for r in range(ROWS):
        total[r] = square[r] = 0.0
    for h in range(k):
        line, depth = lines[h], depths[h]
        for r in range(ROWS):
            scaled = abs(line[r]) * factor[r]
            t = np.floor(scaled) + 1.0
            total[r] += t
            square[r] += t * t
            octave = ONE + BITS - 1 - (np.float64(scaled).view(np.int64) >> 52)
            depth[r] = LEVEL_AT[octave if octave < len(LEVEL_AT) else len(LEVEL_AT) - 1]
    sort(depths)
    for r in range(ROWS):
        high = (np.float64(square[r]).view(np.int64) >> 52) - ONE
        over = square[r] > significand * power(high)
        grown = ((limit - high - over) >> 1) + BITS
        zero = factor[r] == 0.0
        shift[r] = NEVER if zero else grown - 1 - limit // 2
        scales[r] = 0 if zero else grown - BITS + lift[r]
        bound = total[r] * power(grown - BITS)
        total[r] = 0.0 if zero else bound
    return 1


@jit(int64(MATRIX, float64[::1], int32[::1], int64[::1], float64[::1], float64[:, ::1], int16[:, ::1]))
def measure(x, limits, scale, first_octaves, largest, lines, depths):
    """Write the norm scales of rows, and raise what bounds them; return 0 if one is out of range.

    first_octaves : (k,), from which octave below 2**top on at least one of the numbers of every row is
    counted, at least two, …, with top as in `Bounds`; beyond `OCTAVES`, none are.
    largest : (1,), the largest bound of Σ|a'|.
    limits : as in `certified_scales`. lines : (k + SPARE, ROWS) and depths : (k, ROWS), scratch memory.
    """
    k = x.shape[1]
    total, shift, scales = lines[k + 1], lines[k + 4].view(np.int64), lines[k + 5].view(np.int64)
    for first in range(0, x.shape[0], ROWS):
        if not measure_some(x, first, limits, lines, depths):
            return 0
        for r in range(min(np.int64(ROWS), x.shape[0] - first)):
            scale[first + r] = scales[r]
        for r in range(ROWS):
            largest[0] = max(largest[0], total[r])
        for h in range(k):
            depth, deepest = depths[h], first_octaves[h]
            for r in range(ROWS):
                deepest = max(deepest, depth[r] - shift[r])
            first_octaves[h] = deepest
    return 1


@jit(int64(int64[:, ::1], float64[:, ::1], float64[::1], float64[:, ::1]))
def counted_bits(first_octaves, largest, limits, reached):
    """Return the bits by which all integers grow as in `certified_scales`, or -1, from what is measured.

    reached : (2, OCTAVES), scratch memory.
    """
    length, top = first_octaves.shape[1], int(limits[1]) // 2
    for side in range(2):
        for d in range(OCTAVES):
            reached[side, d] = 0
            for j in range(length):
                reached[side, d] += first_octaves[side, j] <= d
    if largest[0, 0] == 0 or largest[1, 0] == 0:
        return 0
    upper = 0.25 * length + 0.5 * largest[0, 0] + 0.5 * largest[1, 0]
    lower = weighted_overlap(reached, length) * np.ldexp(limits[2], 2 * (top - 1))
    return missing_bits(upper, lower, int(limits[3]), int(limits[4]))


@jit(void(int16[:, ::1], int64[::1], int64, int64, int64[::1]), inner=True)
def take_offsets(depths, shift, root, top, offset):
    """Write the scale offsets of rows, as `RowBounds` has them, from depths in order."""
    k = depths.shape[0]
    for r in range(ROWS):
        counted = 0
        for h in range(k):
            counted += depths[h, r] - shift[r] < OCTAVES
        wanted = min(root, max(1, (counted + 1) // 2))
        octave = max(0, depths[wanted - 1, r] - shift[r])
        offset[r] = top - (octave if octave < OCTAVES else 0) - BITS_OF_LARGEST


@jit(
    float64(
        *(MATRIX, float64[::1], float64[:, ::1], float64[::1], int32[::1], int64),
        *(float64[:, ::1], int16[:, ::1], float64[:, ::1]),
    )
)
def largest_error(x, limits, columns, totals, offsets, root, lines, depths, magnitudes):
    """Return the largest T / |A||B| of all pairs of a row and a column, as `compare_pairs` computes it.

    columns : (n, k) magnitudes. totals, offsets : (n,), the columns' `RowBounds`. root : isqrt(k).
    lines, depths : as in `measure`. magnitudes : (k, ROWS), scratch memory.
    """
    k, top, largest = x.shape[1], int(limits[1]) // 2, 0.0
    total, shift, scales = lines[k + 1], lines[k + 4].view(np.int64), lines[k + 5].view(np.int64)
    product, offset = lines[k], lines[k + 3].view(np.int64)
    for first in range(0, x.shape[0], ROWS):
        measure_some(x, first, limits, lines, depths)
        take_offsets(depths, shift, root, top, offset)
        for h in range(k):
            line, magnitude = lines[h], magnitudes[h]
            for r in range(ROWS):
                y = np.floor(abs(line[r]) * power(scales[r] - offset[r]))
                magnitude[r] = min(y, np.float64(LARGEST))
        for j in range(columns.shape[0]):
            if totals[j] == 0.0:
                continue
            for r in range(ROWS):
                product[r] = 0.0
            for h in range(k):
                magnitude, other = magnitudes[h], columns[j, h]
                for r in range(ROWS):
                    product[r] += magnitude[r] * other
            for r in range(ROWS):
                lower = product[r] * SLACK * power(offset[r] + offsets[j])
                error = ((total[r] + totals[j]) / 2 + k / 4) / lower
                largest = max(largest, error if total[r] > 0.0 else 0.0)
    return largest
