"""Stacks of small products, compiled: a product of the stack in each lane of a vector.

What nearly all products need, from the statistics of rows to rounded sums. Products that need more are left:
those whose first octaves do not prove that integers of norm scales are wide enough, unless nothing can; those
with a row of extreme size, an Inf or NaN; and those with a sum that may not be rounded for certain.
"""

import math
from functools import lru_cache

import numpy as np
from numba import boolean, float64, int8, int64, types, void
from numba.extending import register_jitable

from multiword.runtime.addresses import BLOCK, matrix_at, read_double, transpose, write_double
from multiword.runtime.compiled import BIAS
from multiword.runtime.jit import jit
from ozaki.certificate.counted import ANYTHING
from ozaki.certificate.counting_numba import FEW, MARGIN
from ozaki.definition.decision import EVERYTHING
from ozaki.definition.statistics import BITS
from ozaki.execution.contract import FURTHEST
from ozaki.execution.in_floats_numba import (
    ONE,
    add_product,
    bound_of_lost,
    power,
    rounded,
    scaled,
)
from ozaki.execution.lanes_numba import add_quickly
from ozaki.execution.small_products import LANES, TO_DECIDE, UNDECIDED, WRITTEN
from ozaki.scaling.statistics_numba import EVERY, MAGNITUDE

MATRICES = types.Array(float64, 3, "A", readonly=True, aligned=False)
LINE, LINES, LONG, LONGS = float64[::1], float64[:, ::1], int64[::1], int64[:, ::1]

NOTHING, EXTREME = -FURTHEST - 1, FURTHEST + 1
"""In place of exponents: of rows of zeros, and of extreme ones."""

LOWEST = FEW - 2
"""A number in octave d below the top adds 2**-d to a lower bound. Beyond the first octaves are as many, at
least, as in the last of these: together they add 2**-LOWEST, as the one before."""

ALIGNED = 8
"""Numbers of a line of the cache, at whose beginning vectors begin: from two of them reading takes longer."""

OF_ROWS, OF_PRODUCTS = 5, 15
"""Lines of scratch memory that the measuring of a row takes, and others of a product."""


@register_jitable
def sizes(m, k, n):
    """Return the shapes of scratch memory: for rows, for columns, and for other lines."""
    # An odd number of vectors apart, numbers do not drive one another out of the cache.
    of_rows = OF_ROWS * max(m, n) + m + n + OF_PRODUCTS
    return (k, (m | 1) * LANES), (k, (n | 1) * LANES), (of_rows, LANES)


@lru_cache(256)
def needed(m, k, n):
    """Return how many numbers of scratch memory products of (m, k) rows and (n, k) columns take."""
    return sum(x * y for x, y in sizes(m, k, n)) + ALIGNED - 1


@jit(types.UniTuple(LINES, 3)(LINE, int64, int64, int64), inner=True)
def cut(memory, m, k, n):
    """Return scratch memory for rows, for columns, and for other lines."""
    first, second, third = sizes(m, k, n)
    begin = memory.ctypes.data
    begin += 8 * (-(begin // 8) % ALIGNED)
    middle = begin + 8 * first[0] * first[1]
    end = middle + 8 * second[0] * second[1]
    return (
        matrix_at(begin, first[0], first[1]),
        matrix_at(middle, second[0], second[1]),
        matrix_at(end, third[0], third[1]),
    )


@jit(void(MATRICES, int64, LINES), inner=True)
def load(x, first, lines):
    """Write number h of the rows of LANES products to line h, the last product again where there is none."""
    step, last = x.strides[0], x.shape[0] - 1 - first
    at, to = x.ctypes.data + first * step, lines.ctypes.data
    outer, inner = (x.shape[1], x.strides[1], 8 * LANES), (x.shape[2], x.strides[2], lines.strides[0])
    if abs(outer[1]) < abs(inner[1]):  # in the order in which numbers lie
        outer, inner = inner, outer
    whole = inner[0] // BLOCK * BLOCK if inner[1] == 8 and last >= LANES - 1 else 0
    for i in range(outer[0]):
        here, there = at + i * outer[1], to + i * outer[2]
        for h in range(0, whole, BLOCK):
            for r in range(0, LANES, BLOCK):
                transpose(here + r * step + 8 * h, step, there + h * inner[2] + 8 * r, inner[2])
        for h in range(whole, inner[0]):
            for r in range(LANES):
                y = read_double(here + min(r, last) * step + h * inner[1])
                write_double(there + h * inner[2] + 8 * r, y)


@jit(void(LINES, LONG), inner=True)
def take_exponents(lines, exponent):
    """Write e with 2**(e - 1) <= x < 2**e for the largest x of each row, NOTHING, or EXTREME."""
    for r in range(exponent.shape[0]):
        exponent[r] = 0
    for h in range(lines.shape[0]):
        bits = lines[h].view(np.int64)
        for r in range(exponent.shape[0]):
            exponent[r] = max(exponent[r], bits[r] & MAGNITUDE)
    for r in range(exponent.shape[0]):
        e, zero = (exponent[r] >> 52) - BIAS, exponent[r] == 0
        exponent[r] = NOTHING if zero else e if abs(e) <= FURTHEST else EXTREME


@jit(void(LINES, LONG, LINE, LINE, LINE, LONG, LONG), inner=True)
def take_norms(lines, exponent, limits, total, square, width, counts):
    """Write how many bits integers of norm scales have, bounds of Σ|a'|, and counts.

    Byte d of a word is how many numbers are known to be at least 2**(top - d), as in `count`.
    """
    significand, limit = limits[0] / 32, int(limits[1])
    for r in range(width.shape[0]):
        total[r], square[r], counts[r] = 0.0, 0.0, 0
    for h in range(lines.shape[0]):
        line = lines[h]
        for r in range(width.shape[0]):
            y = abs(line[r]) * power(BITS - exponent[r])
            t = np.floor(y) + 1.0
            total[r] += t
            square[r] += t * t
            octave = ONE + BITS - 1 - (np.float64(y).view(np.int64) >> 52)
            counts[r] += np.int64(EVERY if octave < FEW else 0) << (8 * min(octave, np.int64(FEW - 1)))
    for r in range(width.shape[0]):
        high = (np.float64(square[r]).view(np.int64) >> 52) - ONE
        over = square[r] > significand * power(high)
        width[r] = ((limit - high - over) >> 1) + BITS
        total[r] *= power(width[r] - BITS)
        below = max(np.int64(0), limit // 2 + 1 - width[r])  # octaves of the largest number below the first
        counts[r] = counts[r] << (8 * below) if below < FEW else 0


@jit(void(LINES, LONGS, LINE, int64, LINE, LONG, LONG, LONG, LINES), inner=True)
def measure(lines, scales, limits, width, largest, widest, least, left, room):
    """Write the scales of rows, or columns, and what bounds those of each product.

    largest, widest, least : the largest bound of Σ|a'|, the most bits of integers, and the least counts.
    left : products with an extreme row are marked.
    room : (OF_ROWS·rows, LANES), scratch memory.
    """
    rows, count = scales.shape[0], scales.shape[0] * LANES
    numbers = room[: OF_ROWS * rows].reshape((OF_ROWS, rows, LANES))
    integers, total, square = numbers[2:].view(np.int64), numbers[0].reshape(count), numbers[1].reshape(count)
    exponent, widths, counts = (
        integers[0].reshape(count),
        integers[1].reshape(count),
        integers[2].reshape(count),
    )
    scale, lowest = scales.reshape(count), least.view(np.uint8)
    take_exponents(lines, exponent)
    if width == 0:
        take_norms(lines, exponent, limits, total, square, widths, counts)
    for r in range(count):
        widths[r] = width if width else widths[r]
        scale[r] = widths[r] - exponent[r]
        counts[r] = -1 if exponent[r] == NOTHING else counts[r]
    for r in range(LANES):
        largest[r], widest[r], least[r] = 0.0, 1, -1
    for i in range(rows):
        e, of_numbers, of_bits = integers[0, i], numbers[0, i], integers[1, i]
        for r in range(LANES):
            zero = e[r] == NOTHING
            largest[r] = max(largest[r], 0.0 if zero else of_numbers[r])
            widest[r] = max(widest[r], np.int64(1) if zero else of_bits[r])
            left[r] |= e[r] == EXTREME
        bytes_ = integers[2, i].view(np.uint8)
        for r in range(8 * LANES):
            lowest[r] = min(lowest[r], bytes_[r])


@jit(int64(LINES, LONGS, int64, LINE, LONG), inner=True)
def find_unproved(largest, least, k, limits, unproved):
    """Mark products whose counts do not prove that their integers are wide enough; return how many.

    As `weighted_overlap` and `missing_bits` do.
    """
    x, y, of_rows, of_columns, count = largest[0], largest[1], least[0], least[1], 0
    for r in range(LANES):
        unproved[r] = 0
    for i in range(FEW):
        for j in range(FEW):
            shift = 2 * LOWEST - min(i, LOWEST) - min(j, LOWEST)
            for r in range(LANES):
                overlap = ((of_rows[r] >> (8 * i)) & 255) + ((of_columns[r] >> (8 * j)) & 255) - k
                unproved[r] += max(np.int64(0), overlap) << shift
    unit = math.ldexp(limits[2], 2 * (int(limits[1]) // 2 - 1 - LOWEST))
    for r in range(LANES):
        upper = 0.25 * k + 0.5 * x[r] + 0.5 * y[r]
        unproved[r] = (x[r] > 0) & (y[r] > 0) & (upper * (1 + MARGIN) > unproved[r] * unit)
        count += unproved[r]
    return count


@jit(void(LINES, LONGS), inner=True)
def take_places(lines, places):
    """Write where rows have numbers that are not 0, a bit for each."""
    for i in range(places.shape[0]):
        word = places[i]
        for r in range(LANES):
            word[r] = 0
        for h in range(lines.shape[0]):
            numbers = lines[h, i * LANES : (i + 1) * LANES]
            for r in range(LANES):
                word[r] |= np.int64(numbers[r] != 0) << h


@jit(void(LINES, LINES, int64, LONG, LONG, LONGS), inner=True)
def lose_nothing(rows, columns, m, unproved, whole, places):
    """Take numbers as they are where a row and a column have none in common: no integers would be enough.

    Such products need no proof. places : scratch memory, a line for each of m rows and each column.
    """
    take_places(rows, places[:m])
    take_places(columns, places[m:])
    for i in range(m):
        for j in range(m, places.shape[0]):
            x, y = places[i], places[j]
            for r in range(LANES):
                apart = (x[r] != 0) & (y[r] != 0) & (x[r] & y[r] == 0)
                whole[r] &= (not apart) | (unproved[r] == 0)
    for r in range(LANES):
        unproved[r] &= whole[r]


@jit(void(LINES, LONGS, LONG, LONG, LINES), inner=True)
def scale_rows(lines, scales, whole, left, room):
    """Bring rows into their scales; products are marked in which numbers are too small not to be rounded."""
    rows, count = scales.shape[0], scales.shape[0] * LANES
    flags, scale = room[: 2 * rows].view(np.int64).reshape((2, rows, LANES)), scales.reshape(count)
    is_whole, small = flags[0].reshape(count), flags[1].reshape(count)
    for r in range(count):
        is_whole[r], small[r] = whole[r % LANES], 0
    for h in range(lines.shape[0]):
        line = lines[h]
        for r in range(count):
            line[r], is_small = scaled(line[r], power(scale[r]), is_whole[r] != 0)
            small[r] += is_small
    for r in range(count):
        left[r % LANES] |= small[r] > 0


@jit(int64(*[LINE] * 4, LONG, LONG, boolean, LINE, LONG), inner=True)
def round_sums(high, low, start, lost, scale, other, single, to, doubtful):
    """Write what sums that began at `start` round to, and which of them may not; return how many."""
    count = 0
    for r in range(LANES):
        to[r], certain = rounded(high[r] - start[r], low[r], lost[r], scale[r] + other[r], single)
        doubtful[r] = not certain
        count += not certain
    return count


@jit(void(LINES, int64, LINES, int64, LINES), inner=True)
def add_carefully(rows, i, columns, j, sums):
    """Add up the products of a row and a column, and how much is lost at most."""
    high, low, lost = sums[0], sums[1], sums[2]
    for r in range(LANES):
        high[r] = low[r] = lost[r] = 0.0
    for h in range(rows.shape[0]):
        x, y = rows[h, i * LANES : (i + 1) * LANES], columns[h, j * LANES : (j + 1) * LANES]
        for r in range(LANES):
            high[r], low[r], lost[r] = add_product(x[r], y[r], high[r], low[r], lost[r])


@jit(void(LINES, int64, LONG, LINES, LONGS, LINES, boolean, LINES, LONG, LINES, LONG), inner=True)
def multiply_row(rows, i, scale, columns, scales, begin, single, results, left, sums, doubtful):
    """Write the results of row i with all columns.

    begin : what high and low floats begin with, zeros, and what the latter lose at most.
    """
    k, row_step, column_step = rows.shape[0], rows.shape[1] // LANES, columns.shape[1] // LANES
    row, high, low = rows.ctypes.data + 8 * LANES * i, sums[0], sums[1]
    for j in range(results.shape[0]):
        column, back = columns.ctypes.data + 8 * LANES * j, (scale, scales[j], single, results[j], doubtful)
        add_quickly(row, row_step, column, column_step, k, begin.ctypes.data, sums.ctypes.data)
        if round_sums(high, low, begin[0], begin[2], *back):
            add_carefully(rows, i, columns, j, sums)
            if round_sums(high, low, begin[1], sums[2], *back):
                for r in range(LANES):
                    left[r] |= doubtful[r]


@jit(void(MATRICES, MATRICES, LINE, int64, int64, boolean, LINES, int8[::1], LINE))
def multiply_side_by_side(left, right, limits, bits, width, single, out, outcomes, memory):
    """Write products as `multiply_stack` does, or leave them undecided.

    bits : TO_DECIDE or EVERYTHING, or 0: no scales are raised here.
    memory : scratch memory of `needed(m, k, n)` numbers; k is below 256.
    """
    s, m, k, n = left.shape[0], left.shape[1], left.shape[2], right.shape[1]
    rows, columns, lines = cut(memory, m, k, n)
    largest, begin, sums, integers = lines[:2], lines[2:5], lines[5:8], lines[8:].view(np.int64)
    widest, least, scales, room = integers[:2], integers[2:4], integers[7 : 7 + m + n], lines[15 + m + n :]
    unwritten, doubtful, whole, results = integers[4], integers[5], integers[6], room[:n]
    of_rows, of_columns, decide = scales[:m], scales[m:], (bits == TO_DECIDE) & (limits[2] != ANYTHING)
    for first in range(0, s, LANES):
        load(left, first, rows)
        load(right, first, columns)
        for r in range(LANES):
            unwritten[r], whole[r] = 0, bits != EVERYTHING
        given = limits, width
        measure(rows, of_rows, *given, largest[0], widest[0], least[0], unwritten, room)
        measure(columns, of_columns, *given, largest[1], widest[1], least[1], unwritten, room)
        if decide and find_unproved(largest, least, k, limits, doubtful):
            if k < 64:
                lose_nothing(rows, columns, m, doubtful, whole, room[: m + n].view(np.int64))
            for r in range(LANES):
                unwritten[r] |= doubtful[r]
        some, taken = min(np.int64(LANES), s - first), 0
        for r in range(LANES):
            begin[0, r] = power(widest[0, r] + widest[1, r] + 2 + math.frexp(np.float64(k))[1])
            begin[1, r], begin[2, r] = 0.0, bound_of_lost(k, 1, begin[0, r])
            taken += unwritten[r] == 0
        if taken:
            scale_rows(rows, of_rows, whole, unwritten, room)
            scale_rows(columns, of_columns, whole, unwritten, room)
            for i in range(m):
                of_row = rows, i, scales[i], columns, of_columns, begin, single
                multiply_row(*of_row, results, unwritten, sums, doubtful)
                for r in range(some):
                    to = out[(first + r) * m + i]
                    for j in range(n):
                        to[j] = results[j, r]
        for r in range(some):
            outcomes[first + r] = UNDECIDED if unwritten[r] else WRITTEN
