"""Products with few columns, compiled: all steps, from the statistics of rows to rounded sums, in one call.

Rows are copied some at a time to lines, a row in each lane. Of few rows each is taken by itself, and its
numbers take turns in the lanes. Some rows are measured and multiplied before the next. Until the counts of
all rows are there, their integers are taken to be those of norm scales, as nearly always.
"""

import math
from functools import lru_cache

import numpy as np
from numba import boolean, float64, int32, int64, types, uint8, void

from multiword.runtime.addresses import DOUBLES, doubles_at, matrix_at
from multiword.runtime.compiled import BIAS, POWERS
from multiword.runtime.jit import jit
from ozaki.certificate.counted import ANYTHING
from ozaki.certificate.counting_numba import MARGIN, norm_scale, weighted_overlap
from ozaki.definition.decision import EVERYTHING, OCTAVES
from ozaki.definition.statistics import BITS
from ozaki.execution.contract import FURTHEST
from ozaki.execution.in_floats import SMALLEST
from ozaki.execution.in_floats_numba import add_product, bound_of_lost, power, rounded, scaled
from ozaki.execution.lanes_numba import (
    LINE_BYTES,
    add_lines_quickly,
    add_quickly,
    add_statistics,
    raise_largest,
    scale_lines,
)
from ozaki.execution.rows_in_lanes_numba import ENDLESS, PIECE, ROWS, copy_row, lines_at, lines_of
from ozaki.execution.small_products import LANES, TO_DECIDE, UNCERTAIN, UNDECIDED, WRITTEN
from ozaki.execution.thin import LEVELS_AT_FIRST, OUT_OF_RANGE, SUMS, WATCHED_LANES
from ozaki.scaling.statistics import ZERO
from ozaki.scaling.statistics_numba import INFINITE
from ozaki.sums.exact.enclosure_numba import two_sum

LINE, LONGS, TABLE = float64[::1], int64[::1], int64[:, ::1]
INTS = types.Array(int32, 1, "C", readonly=True)

COUNTED = 240
"""Lines that are counted together: so many fit a byte."""

FEWEST_TOGETHER = LANES // 2
"""Rows from which they lie side by side."""

LONG = 1 << 11
"""Numbers of rows from which each is taken by itself, if it need not be copied then."""

SCALED = 64
"""Lines that are scaled at a time, and stay in the first cache."""

ALIGNED = 8
"""Numbers of a line of the cache, at whose beginning vectors begin: from two of them reading takes longer."""

ROOM = 7 + SUMS + 1
"""Lines of scratch memory for what is measured of rows: their largest magnitudes, what brings them to a size,
three lines of `add_statistics`, scales, which results are doubtful, SUMS lines of sums, those of one row."""


def padded(k):
    """Return k, filled up to whole steps of `add_carefully`, and of lines."""
    return (k + 2 * WATCHED_LANES - 1) // (2 * WATCHED_LANES) * (2 * WATCHED_LANES)


@lru_cache(256)
def needed(k, columns, rows):
    """Return how many numbers of scratch memory `multiply` takes."""
    of_rows = k if rows >= FEWEST_TOGETHER else -(-k // LANES)
    lines = ROOM + 2 + 4 * columns + SCALED + min(of_rows, PIECE)
    return 2 * OCTAVES + 3 * WATCHED_LANES + LANES * lines + ALIGNED


BOUNDS = 2 * (1 + (OCTAVES + 1) * LEVELS_AT_FIRST)
"""Numbers that bound both sides, the rows and the columns, lowered by whatever is measured: minus the largest
Σ|a'|; then, of rows whose largest number lies so many octaves below 2**top, how many numbers each has at
least in its first octave, in the first two, and so on."""


@jit(int64(int64), inner=True)
def exponent_of(largest):
    """Return e with 2**(e - 1) <= x < 2**e for the bits of x; ZERO of 0, beyond FURTHEST if out of range."""
    if largest == 0:
        return np.int64(ZERO)
    e = (largest >> 52) - BIAS
    return e if largest >> 52 != INFINITE and abs(e) <= FURTHEST else np.int64(FURTHEST + 1)


@jit(int64(int64, LONGS, LINE, int64, LINE), inner=True)
def scale_of(exponent, sums, limits, bits, bounds):
    """Return the scale of a row for `bits` of `multiply`, and lower its side's bounds."""
    if exponent == ZERO:
        return np.int64(0)
    scale, width = norm_scale(exponent, sums[1], int(limits[0]), int(limits[1]))
    bounds[0] = min(bounds[0], -sums[0] * POWERS[width - BITS + BIAS])
    below = min(max(np.int64(0), int(limits[1]) // 2 + 1 - width), OCTAVES)
    counted = np.int64(0)
    for level in range(LEVELS_AT_FIRST):
        counted += sums[2 + level]
        at = 1 + below * LEVELS_AT_FIRST + level
        bounds[at] = min(bounds[at], np.float64(counted))
    return scale + (bits if 0 < bits < EVERYTHING else 0)


@jit(boolean(LINE, int64, LINE, LINE))
def needs_no_more(bounds, k, limits, memory):
    """Return whether counts prove that integers of norm scales are wide enough, as a decision then says, too.

    In octaves that were not counted there are at least as many numbers as above them. memory : scratch memory
    of 2·OCTAVES numbers.
    """
    half = BOUNDS // 2
    if limits[2] == ANYTHING or bounds[0] == 0 or bounds[half] == 0:
        return True
    reached = matrix_at(memory.ctypes.data, 2, OCTAVES)
    for side in range(2):
        least = bounds[side * half + 1 : (side + 1) * half].reshape((OCTAVES + 1, LEVELS_AT_FIRST))
        reached[side] = k
        for below in range(OCTAVES + 1):
            if least[below, 0] <= k:  # there are such rows
                for d in range(OCTAVES):
                    counted = least[below, min(d - below, LEVELS_AT_FIRST - 1)] if d >= below else 0.0
                    reached[side, d] = min(reached[side, d], counted)
    upper = 0.25 * k - 0.5 * (bounds[0] + bounds[half])
    lower = weighted_overlap(reached, k) * math.ldexp(limits[2], 2 * (int(limits[1]) // 2 - 1))
    return upper * (1 + MARGIN) <= lower


@jit(types.UniTuple(float64, 2)(LINE), inner=True)
def fold(lanes):
    """Return the sum of lanes, in two floats."""
    high, low, count = lanes[:LANES], lanes[LANES:], LANES
    while count > 1:
        count //= 2
        for j in range(count):
            high[j], rest = two_sum(high[j], high[j + count])
            low[j] += low[j + count] + rest
    return high[0], low[0]


@jit(void(LINE, LINE, LINE, LINE, LINE), inner=True)
def add_carefully(row, column, high, low, lost):
    """Add row·column to the sums in lanes, and how much is lost at most.

    Neighbours share a lane: the parts of complex numbers, whose products often cancel.
    """
    for first in range(0, row.shape[0], 2 * WATCHED_LANES):
        x, y = row[first : first + 2 * WATCHED_LANES], column[first : first + 2 * WATCHED_LANES]
        for j in range(WATCHED_LANES):
            a, b, c = add_product(x[2 * j], y[2 * j], high[j], low[j], lost[j])
            high[j], low[j], lost[j] = add_product(x[2 * j + 1], y[2 * j + 1], a, b, c)


@jit(void(LINE, LINE, LINE), inner=True)
def fold_carefully(high, low, lost):
    """Add up these lanes."""
    for j in range(1, WATCHED_LANES):
        high[0], rest = two_sum(high[0], high[j])
        low[0], first_lost = two_sum(low[0], rest)
        low[0], second_lost = two_sum(low[0], low[j])
        lost[0] += lost[j] + (abs(first_lost) + abs(second_lost))


@jit(int64(DOUBLES, float64, boolean, LINE, int64), inner=True)
def scale_numbers(row, up, whole, line, filled):
    """Write scaled numbers, and zeros up to `filled`; return how many are too small not to be rounded."""
    too_small = 0
    for h in range(row.shape[0]):
        line[h], is_small = scaled(row[h], up, whole)
        too_small += is_small
    for h in range(row.shape[0], filled):
        line[h] = 0.0
    return too_small


@jit(void(DOUBLES, float64, boolean, LINE, LINE), inner=True)
def scale_pairs(row, up, whole, real, imaginary):
    """Write complex numbers as the two columns whose products with complex rows have their two parts."""
    for h in range(0, row.shape[0], 2):
        x, y = scaled(row[h], up, whole)[0], scaled(row[h + 1], up, whole)[0]
        real[h], real[h + 1] = x, -y
        imaginary[h], imaginary[h + 1] = y, x


@jit(boolean(DOUBLES, float64), inner=True)
def has_small(row, up):
    """Return whether some numbers of a row are too small not to be rounded."""
    too_small = 0
    for h in range(row.shape[0]):
        too_small += scaled(row[h], up, False)[1]
    return too_small > 0


OPERAND = types.Array(uint8, 2, "A", readonly=True), *(int64,) * 4
"""A matrix: bytes at its address, how many there are from a row to the next and from a number to the next,
whether numbers are float32 (or else float64), and the parts of one, 1 or 2. A row that zeros follow to the
end of its last line has no next."""

COLUMNS = float64[:, ::1]

OF_COLUMNS = int64, boolean, LINE, int64, COLUMNS, LINE


@jit(void(int64, int64, COLUMNS, TABLE), inner=True)
def add_lines(at, count, room, sums):
    """Add lines to the totals, the squares and the counts of lanes."""
    up, found = room[1].ctypes.data, room[2:5]
    totals, squares, octaves = found[0], found[1], found[2].view(np.int64)
    for h in range(0, count, COUNTED):
        some = min(np.int64(COUNTED), count - h)
        add_statistics(at + h * LINE_BYTES, some, up, found.ctypes.data)
        for r in range(LANES):  # Σ(t + 1) and Σ(t + 1)²
            total = np.int64(totals[r]) + some
            sums[0, r] += total
            sums[1, r] += np.int64(squares[r] + totals[r]) + total
        for level in range(LEVELS_AT_FIRST):
            of_level = sums[2 + level]
            for r in range(LANES):
                of_level[r] += (octaves[r] >> (8 * level)) & 255


@jit(boolean(*ROWS, LINE, int64, LINE, COLUMNS, LONGS), inner=True)
def measure_rows(operand, first, many, shared, k, lines, limits, bits, bounds, room, scales):
    """Write the scales of some rows, and lower the bounds; return False if one is out of range.

    room : ROOM lines of scratch memory.
    """
    place, count, integers = (
        (operand, first, many, shared, k, lines),
        lines_of(k, shared),
        room.view(np.int64),
    )
    largest, up, sums, of_row = integers[0], room[1], integers[7 : 7 + SUMS], integers[7 + SUMS]
    largest[:] = 0
    for begin in range(0, count, PIECE):
        some = min(np.int64(PIECE), count - begin)
        raise_largest(lines_at(*place, begin, some, True), some, largest.ctypes.data)
    if shared:
        of_all = np.int64(0)
        for r in range(LANES):
            of_all = max(of_all, largest[r])
        largest[0] = of_all
    for r in range(LANES):
        scales[r] = exponent_of(largest[0 if shared else r])
        if scales[r] > FURTHEST:
            return False
        up[r] = power(BITS - scales[r]) if scales[r] != ZERO else 1.0
    for q in range(SUMS):
        sums[q] = 0
    for begin in range(0, count, PIECE):
        some = min(np.int64(PIECE), count - begin)
        add_lines(lines_at(*place, begin, some, count > PIECE), some, room, sums)
    if shared:
        for q in range(SUMS):
            total, of_lanes = np.int64(0), sums[q]
            for r in range(LANES):
                total += of_lanes[r]
            sums[q, 0] = total
        sums[0, 0] -= count * LANES - k  # zeros are 1 there
        sums[1, 0] -= count * LANES - k
    for i in range(many):
        for q in range(SUMS):
            of_row[q] = sums[q, i]
        scales[i] = scale_of(scales[i], of_row, limits, bits, bounds)
    for r in range(many, LANES):
        scales[r] = 0
    return True


@jit(boolean(*OPERAND, *OF_COLUMNS, COLUMNS))
def prepare(first, row_step, inner_step, single, parts, k, pairs, limits, bits, columns, bounds, room):
    """Write columns in their scales, and these; begin the bounds; return False if one is out of range.

    k : real numbers of one. pairs : whether they are complex, so that each makes two. limits, bits : as in
    `multiply`. columns : (n, k' + 1), k' = `padded(k)`; the last is for the scale. bounds : BOUNDS numbers.
    room : ROOM lines of scratch memory.
    """
    whole, step, half = bits != EVERYTHING, 2 if pairs else 1, BOUNDS // 2
    bounds[:] = k + 1
    bounds[0] = bounds[half] = 0.0
    scales = room[5].view(np.int64)
    for j in range(0, columns.shape[0], step):
        to = columns[j + step - 1, :-1]
        copy_row((first.ctypes.data, row_step, inner_step, single, parts), j // step, 0, k, to)
        to[k:] = 0.0
        column = (to.ctypes.data, np.int64(ENDLESS), np.int64(8), np.int64(0), np.int64(1))
        if not measure_rows(column, 0, 1, True, k, to, limits, bits, bounds[half:], room, scales):
            return False
        row, scale = doubles_at(to.ctypes.data, k), scales[0]
        if not whole and has_small(row, power(scale)):
            return False
        if pairs:
            scale_pairs(row, power(scale), whole, columns[j], to)
        else:
            scale_numbers(row, power(scale), whole, to, len(to))
        for i in range(j, j + step):
            columns[i, k:-1] = 0.0
            columns[i, -1] = scale
    return True


@jit(int64(int64, int64, int64), inner=True)
def count_small(lines, count, scaled_lines):
    """Return how many numbers of lines are too small, in their scales, not to be rounded."""
    too_small, x, y = 0, doubles_at(lines, count * LANES), doubles_at(scaled_lines, count * LANES)
    for h in range(count * LANES):
        too_small += (abs(y[h]) < SMALLEST) & (x[h] != 0)
    return too_small


@jit(int64(*ROWS, boolean, COLUMNS, float64, COLUMNS, COLUMNS, COLUMNS), inner=True)
def add_rows(operand, first, many, shared, k, lines, whole, columns, start, room, numbers, sums):
    """Add up the products of some rows with all columns in lanes; return how many numbers are too small.

    sums : (4n + 2, LANES), of each column the high and low floats of all lines and those of a piece; the last
    are what these begin with.
    """
    place, count, too_small = (operand, first, many, shared, k, lines), lines_of(k, shared), 0
    scaled_lines, up, to_next = numbers.ctypes.data, room[1].ctypes.data, columns.strides[0]
    across, n = 8 * LANES if shared else 8, columns.shape[0]
    for begin in range(0, count, PIECE):
        some = min(np.int64(PIECE), count - begin)
        at = lines_at(*place, begin, some, count > PIECE)
        for h in range(0, some, SCALED):
            few = min(np.int64(SCALED), some - h)
            scale_lines(at + h * LINE_BYTES, few, up, whole, scaled_lines)
            if not whole:
                too_small += count_small(at + h * LINE_BYTES, few, scaled_lines)
            for j in range(n):
                column = columns.ctypes.data + j * to_next + (begin + h) * across
                of_piece = sums[4 * j + 2].ctypes.data
                before = of_piece if h else sums[4 * n].ctypes.data
                if shared:
                    add_quickly(scaled_lines, 1, column, 1, few, before, of_piece)
                else:
                    add_lines_quickly(scaled_lines, column, few, before, of_piece)
        for j in range(n):
            high, low, of_piece, lower = sums[4 * j], sums[4 * j + 1], sums[4 * j + 2], sums[4 * j + 3]
            for r in range(LANES):
                x = of_piece[r] - start
                before, before_low = (high[r], low[r]) if begin else (0.0, 0.0)
                high[r], rest = two_sum(before, x)
                low[r] = before_low + (lower[r] + rest)
    return too_small


@jit(
    void(types.UniTuple(int64, 5), int64, int64, boolean, LINE, int64, COLUMNS, LINE),
    inner=True,
)
def add_row_carefully(operand, i, k, whole, column, scale, careful, line):
    """Add up the product of row i with a column: high, low, and what is lost, the first of each."""
    high, low, lost = careful[0], careful[1], careful[2]
    for q in range(3):
        careful[q] = 0.0
    for begin in range(0, k, len(line)):
        count, filled = min(len(line), k - begin), min(len(line), len(column) - begin)
        copy_row(operand, i, begin, count, line)
        scale_numbers(doubles_at(line.ctypes.data, count), power(scale), whole, line, filled)
        add_carefully(line[:filled], column[begin:][:filled], high, low, lost)
    fold_carefully(high, low, lost)


@jit(int64(LINE, LINE, LONGS, int64, float64, boolean, LONGS), inner=True)
def round_lanes(high, low, scales, back, lost, to_single, doubtful):
    """Write what sums round to, and which may not; return how many."""
    count = 0
    for r in range(LANES):
        high[r], certain = rounded(high[r], low[r], lost, scales[r] + back, to_single)
        doubtful[r] = not certain
        count += not certain
    return count


@jit(int64(*ROWS, boolean, COLUMNS, LONGS, float64, COLUMNS, COLUMNS, COLUMNS, LINE, boolean), inner=True)
def round_rows(
    operand,
    first,
    many,
    shared,
    k,
    lines,
    whole,
    columns,
    scales,
    start,
    room,
    sums,
    careful,
    line,
    to_single,
):
    """Write what sums of some rows round to in place of the high floats; return how many are undecided."""
    count, undecided, doubtful = lines_of(k, shared), 0, room[6].view(np.int64)
    pieces = (count + PIECE - 1) // PIECE
    steps, lanes = min(count, np.int64(PIECE)) + 3 * (pieces - 1), (LANES if shared else 1) * pieces
    bound = bound_of_lost(steps, lanes, start)
    for j in range(columns.shape[0]):
        high, low, back = sums[4 * j], sums[4 * j + 1], np.int64(columns[j, -1])
        if shared:
            both = sums[4 * j : 4 * j + 2].reshape(2 * LANES)
            high[0], low[0] = fold(both)
        if not round_lanes(high, low, scales, back, bound, to_single, doubtful):
            continue
        for i in range(many):
            if doubtful[i]:
                given = operand, first + i, k, whole, columns[j, :-1], scales[i], careful, line
                add_row_carefully(*given)
                high[i], certain = rounded(
                    careful[0, 0], careful[1, 0], careful[2, 0], scales[i] + back, to_single
                )
                undecided += not certain
    return undecided


@jit(
    int64(
        *(*OPERAND, int64, *OPERAND, *OF_COLUMNS, boolean),
        *(INTS, float64, boolean, int64, int64, LINE, LINE),
    )
)
def multiply(
    first_row, row_step, inner_step, single, parts, rows,
    first_column, column_step, inner_column_step, single_columns, column_parts,
    k, pairs, limits, bits, columns, bounds, alone,
    known, start, to_single, row_of_out, column_of_out, out, memory,
):  # fmt: skip
    """Write the products of rows with columns; return the largest of their outcomes, as `thin` has them.

    k, pairs, columns, bounds : as in `prepare`. limits : of `counting_limits`.
    bits : by which integers of norm scales grow; `EVERYTHING` if numbers are not rounded to integers;
    `TO_DECIDE` if counts have to prove that they need not grow.
    alone : whether these are all rows; else the columns are prepared, and who calls asks `needs_no_more`.
    known : the scales of all rows, or nothing where these are to be measured.
    start : at least four times a bound of Σ|a'b'|, a power of two. to_single : whether results will be
    rounded to float32.
    out : whose numbers are row_of_out and column_of_out apart, parts next to each other.
    memory : scratch memory of `needed(k, n, rows)` numbers.
    """
    n, whole, last = columns.shape[0], bits != EVERYTHING, 1 if pairs else 0
    operand = first_row.ctypes.data, row_step, inner_step, single, parts
    memory = memory[-(memory.ctypes.data // 8) % ALIGNED :]
    reached, rest = memory[: 2 * OCTAVES], memory[2 * OCTAVES :]
    careful, rest = rest[: 3 * WATCHED_LANES].reshape((3, WATCHED_LANES)), rest[3 * WATCHED_LANES :]
    rest = rest[: len(rest) // LANES * LANES].reshape((len(rest) // LANES, LANES))
    room, sums, rest = rest[:ROOM], rest[ROOM : ROOM + 4 * n + 2], rest[ROOM + 4 * n + 2 :]
    numbers, lines, scales = rest[:SCALED], rest[SCALED:].reshape(-1), room[5].view(np.int64)
    sums[4 * n], sums[4 * n + 1] = start, 0.0
    of_columns = first_column, column_step, inner_column_step, single_columns, column_parts
    if alone and not prepare(*of_columns, k, pairs, limits, bits, columns, bounds, room):
        return OUT_OF_RANGE
    shared = rows < FEWEST_TOGETHER or (k >= LONG and not single and parts == 1 and inner_step == 8)
    at_once, uncertain = 1 if shared else LANES, 0
    asked = 8 * at_once if alone else 0  # few rows are asked once
    for begin in range(0, rows, at_once):
        first = max(0, min(begin, rows - at_once))  # the last rows are some of those before, too
        some = operand, first, min(at_once, rows - first), shared, k, lines
        if len(known):
            scales[:] = 0
            for i in range(some[2]):
                scales[i] = known[first + i]
            if lines_of(k, shared) <= PIECE:
                lines_at(*some, 0, lines_of(k, shared), True)
        elif not measure_rows(*some, limits, bits, bounds, room, scales):
            return OUT_OF_RANGE
        if bits == TO_DECIDE and begin >= asked:  # other rows only lower the bounds
            if not needs_no_more(bounds, k, limits, reached):
                return UNDECIDED
            asked = 8 * (begin + at_once)
        for r in range(LANES):
            room[1, r] = power(scales[0 if shared else r])
        uncertain += add_rows(*some, whole, columns, start, room, numbers, sums)
        watched = careful, numbers.reshape(-1)
        uncertain += round_rows(*some, whole, columns, scales, start, room, sums, *watched, to_single)
        for i in range(some[2]):
            for j in range(n):
                at_out = (first + i) * row_of_out + (j >> last) * column_of_out + (j & last)
                out[at_out] = sums[4 * j, i]
    if alone and bits == TO_DECIDE and not needs_no_more(bounds, k, limits, reached):
        return UNDECIDED
    return UNCERTAIN if uncertain else WRITTEN
