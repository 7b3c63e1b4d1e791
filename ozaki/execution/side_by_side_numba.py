"""Stacks of small products, compiled: a product of the stack in each lane of a vector.

What nearly all products need, from the statistics of rows to rounded sums. Products that need more are left:
those whose first octaves do not prove that integers of norm scales are wide enough, those with a row of
extreme size, an Inf or NaN, and those with a sum that may not be rounded for certain.
"""

import math
from functools import lru_cache

import numpy as np
from numba import boolean, float64, int8, int64, types, void
from numba.extending import register_jitable

from multiword.runtime.compiled import BIAS
from multiword.runtime.jit import jit
from ozaki.certificate.counted import ANYTHING
from ozaki.certificate.counting_numba import FEW, MARGIN
from ozaki.definition.decision import EVERYTHING
from ozaki.definition.statistics import BITS, FINE
from ozaki.execution.contract import FURTHEST
from ozaki.execution.in_floats_numba import (
    ONE,
    add_product,
    add_quickly,
    bound_of_lost,
    power,
    rounded,
    scaled,
)
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

OF_ROWS, OF_PRODUCTS = 6, 14
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
    begin = -(memory.ctypes.data // 8) % ALIGNED
    middle = begin + first[0] * first[1]
    end = middle + second[0] * second[1]
    return (
        memory[begin:middle].reshape(first),
        memory[middle:end].reshape(second),
        memory[end : end + third[0] * third[1]].reshape(third),
    )


@jit(void(MATRICES, int64, LINES), inner=True)
def load(x, first, lines):
    """Write number h of the rows of LANES products to line h, a row after the other; the last product again
    where there are no more."""
    last = x.shape[0] - 1
    for r in range(LANES):
        rows = x[min(first + r, last)]
        for i in range(x.shape[1]):
            for h in range(x.shape[2]):
                lines[h, i * LANES + r] = rows[i, h]


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


@jit(void(LINES, LONG, LINE, LINE, LINE, LONG), inner=True)
def take_norms(lines, exponent, limits, total, square, width):
    """Write how many bits integers of norm scales have, and bounds of Σ|a'|."""
    significand, limit = limits[0] / 32, int(limits[1])
    for r in range(width.shape[0]):
        total[r] = square[r] = 0.0
    for h in range(lines.shape[0]):
        line = lines[h]
        for r in range(width.shape[0]):
            t = np.floor(abs(line[r]) * power(BITS - exponent[r])) + 1.0
            total[r] += t
            square[r] += t * t
    for r in range(width.shape[0]):
        high = (np.float64(square[r]).view(np.int64) >> 52) - ONE
        over = square[r] > significand * power(high)
        width[r] = ((limit - high - over) >> 1) + BITS
        total[r] *= power(width[r] - BITS)


@jit(void(LINES, LONG, LONG, LONG, LONG, int64, boolean), inner=True)
def scale_lines(lines, scale, width, counts, small, top, whole):
    """Scale numbers; count those from 2**(top - d) on in byte d, and those that are too small to be exact."""
    for h in range(lines.shape[0]):
        line = lines[h]
        for r in range(scale.shape[0]):
            y, up = line[r], power(scale[r])
            line[r], is_small = scaled(y, up, whole)
            small[r] += is_small
            e = ((np.float64(y * up).view(np.int64) & MAGNITUDE) >> 52) - ONE
            d = max(np.int64(0), top - e)
            counted = (d < FEW) & (e >= width[r] - FINE)
            counts[r] += np.int64(EVERY if counted else 0) << (8 * min(d, np.int64(FEW - 1)))


@jit(void(LINES, LONGS, LINE, int64, boolean, LINE, LONG, LONG, LONG, LINES), inner=True)
def measure(lines, scales, limits, width, whole, largest, widest, least, left, room):
    """Bring the rows, or columns, of products into their scales.

    largest, widest, least : of each product the largest bound of Σ|a'|, the most bits of integers, and the
    least counts.
    left : products to be left are marked.
    room : (OF_ROWS·rows, LANES), scratch memory.
    """
    rows = scales.shape[0]
    count = rows * LANES
    numbers = room[: OF_ROWS * rows].reshape((OF_ROWS, rows, LANES))
    total, square = numbers[0].reshape(count), numbers[1].reshape(count)
    integers, scale = numbers[2:].view(np.int64), scales.reshape(count)
    exponent, widths = integers[0].reshape(count), integers[1].reshape(count)
    counts, small = integers[2].reshape(count), integers[3].reshape(count)
    take_exponents(lines, exponent)
    if width == 0:
        take_norms(lines, exponent, limits, total, square, widths)
    for r in range(count):
        widths[r] = width if width else widths[r]
        counts[r], small[r], scale[r] = -1 if exponent[r] == NOTHING else 0, 0, widths[r] - exponent[r]
    scale_lines(lines, scale, widths, counts, small, int(limits[1]) // 2, whole)
    for r in range(LANES):
        largest[r], widest[r], least[r] = 0.0, 1, -1
    lowest = least.view(np.uint8)
    for i in range(rows):
        e, of_numbers, of_bits, few = integers[0, i], numbers[0, i], integers[1, i], integers[3, i]
        for r in range(LANES):
            zero = e[r] == NOTHING
            largest[r] = max(largest[r], 0.0 if zero else of_numbers[r])
            widest[r] = max(widest[r], np.int64(1) if zero else of_bits[r])
            left[r] |= (e[r] == EXTREME) | (few[r] > 0)
        bytes_ = integers[2, i].view(np.uint8)
        for r in range(8 * LANES):
            lowest[r] = min(lowest[r], bytes_[r])


@jit(void(LINES, LONGS, int64, LINE, LONG, LONG), inner=True)
def leave_unproved(largest, least, k, limits, sums, left):
    """Mark products whose counts do not prove that their integers are wide enough (`weighted_overlap`)."""
    x, y, of_rows, of_columns = largest[0], largest[1], least[0], least[1]
    for r in range(LANES):
        sums[r] = 0
    for i in range(FEW):
        for j in range(FEW):
            shift = 2 * LOWEST - min(i, LOWEST) - min(j, LOWEST)
            for r in range(LANES):
                overlap = ((of_rows[r] >> (8 * i)) & 255) + ((of_columns[r] >> (8 * j)) & 255) - k
                sums[r] += max(np.int64(0), overlap) << shift
    unit = math.ldexp(limits[2], 2 * (int(limits[1]) // 2 - 1 - LOWEST))
    for r in range(LANES):
        upper = 0.25 * k + 0.5 * x[r] + 0.5 * y[r]
        left[r] |= (x[r] > 0) & (y[r] > 0) & (upper * (1 + MARGIN) > sums[r] * unit)


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

    memory : scratch memory of `needed(m, k, n)` numbers; k is below 256.
    """
    s, m, k, n = left.shape[0], left.shape[1], left.shape[2], right.shape[1]
    whole, decide = bits != EVERYTHING, (bits == TO_DECIDE) & (limits[2] != ANYTHING)
    rows, columns, lines = cut(memory, m, k, n)
    largest, begin, sums, integers = lines[:2], lines[2:5], lines[5:8], lines[8:].view(np.int64)
    widest, least, scales, room = integers[:2], integers[2:4], integers[6 : 6 + m + n], lines[14 + m + n :]
    unwritten, doubtful, results = integers[4], integers[5], room[:n]
    given, of_rows, of_columns = (limits, width, whole), scales[:m], scales[m:]
    for first in range(0, s, LANES):
        load(left, first, rows)
        load(right, first, columns)
        for r in range(LANES):
            unwritten[r] = 0
        measure(rows, of_rows, *given, largest[0], widest[0], least[0], unwritten, room)
        measure(columns, of_columns, *given, largest[1], widest[1], least[1], unwritten, room)
        if decide:
            leave_unproved(largest, least, k, limits, doubtful, unwritten)
        for r in range(LANES):
            begin[0, r] = power(widest[0, r] + widest[1, r] + 2 + math.frexp(np.float64(k))[1])
            begin[1, r], begin[2, r] = 0.0, bound_of_lost(k, 1, begin[0, r])
        some, taken = min(np.int64(LANES), s - first), 0
        for r in range(some):
            taken += unwritten[r] == 0
        for i in range(m if taken else 0):
            of_row = rows, i, scales[i], columns, of_columns, begin, single
            multiply_row(*of_row, results, unwritten, sums, doubtful)
            for r in range(some):
                to = out[(first + r) * m + i]
                for j in range(n):
                    to[j] = results[j, r]
        for r in range(some):
            outcomes[first + r] = UNDECIDED if unwritten[r] else WRITTEN
