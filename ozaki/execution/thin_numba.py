"""Products with few columns, compiled: all steps, from the statistics of rows to rounded sums, in one call.

Rows are read where they lie, or copied some at a time in pieces that stay in the cache. Some rows are
measured and multiplied before the next. Until the counts of all rows are there, their integers are taken to
be those of norm scales, as nearly always.
"""

import math
from functools import lru_cache

import numpy as np
from numba import boolean, float64, int32, int64, types, uint64, void

from multiword.runtime.addresses import DOUBLES, doubles_at, plus
from multiword.runtime.compiled import BIAS, POWERS
from multiword.runtime.jit import inlined, jit
from ozaki.certificate.counted import ANYTHING
from ozaki.certificate.counting_numba import MARGIN, norm_scale, weighted_overlap
from ozaki.definition.decision import EVERYTHING, OCTAVES
from ozaki.definition.statistics import BITS
from ozaki.execution.contract import FURTHEST
from ozaki.execution.in_floats_numba import (
    add_product,
    add_quickly,
    bound_of_lost,
    power,
    rounded,
    scaled,
)
from ozaki.execution.small_products import LANES, TO_DECIDE, UNCERTAIN, UNDECIDED, WRITTEN
from ozaki.execution.thin import LEVELS_AT_FIRST, OUT_OF_RANGE, SUMS, WATCHED_LANES
from ozaki.scaling.statistics import ZERO
from ozaki.scaling.statistics_numba import APART, INFINITE, LINES, PIECE, copy_lines, largest_magnitude
from ozaki.sums.exact.enclosure_numba import two_sum

LINE, LONGS, TABLE = float64[::1], int64[::1], int64[:, ::1]
INTS = types.Array(int32, 1, "C", readonly=True)

COUNTED = 240
"""Numbers that are counted together: so many fit a byte."""

DIRECT = 1 << 14
"""Numbers of rows that are read where they lie between their steps: they stay in the cache."""


def padded(k):
    """Return k, filled up to whole steps of `add_carefully`, and of `add_quickly`."""
    return (k + 2 * WATCHED_LANES - 1) // (2 * WATCHED_LANES) * (2 * WATCHED_LANES)


@lru_cache(256)
def needed(k, columns):
    """Return how many numbers of scratch memory `multiply` takes."""
    piece = min(padded(k), PIECE)
    return (
        piece
        + LINES * (piece + APART)
        + 2 * (LINES * columns + 1) * LANES
        + 3 * WATCHED_LANES
        + OF_STATISTICS
    )


OF_STATISTICS = LINES * (1 + SUMS) + 2 * OCTAVES
"""Numbers of scratch memory for scales, sums, and what `needs_no_more` takes."""

BOUNDS = 2 * (1 + (OCTAVES + 1) * LEVELS_AT_FIRST)
"""Numbers that bound both sides, the rows and the columns, lowered by whatever is measured: minus the largest
Σ|a'|; then, of rows whose largest number lies so many octaves below 2**top, how many numbers each has at
least in its first octave, in the first two, and so on."""


@jit(types.UniTuple(int64, 3)(DOUBLES, float64), inner=True)
def add_block(row, up):
    """Return the total and square of some numbers of a row, as `RowStatistics` has them, and their octaves.

    Byte i has how many lie in octave i below the row's largest; beyond LEVELS_AT_FIRST, all others.
    """
    total = square = 0.0  # exact sums of integers
    octaves = uint64(0)
    for h in range(row.shape[0]):
        x = math.fabs(row[h]) * up
        t = np.floor(x) + 1.0
        total, square = plus(total, t), plus(square, t * t)
        octave = BIAS + BITS - (np.float64(x).view(np.int64) >> 52)
        octaves += uint64(1) << uint64(8 * (octave if octave < LEVELS_AT_FIRST else LEVELS_AT_FIRST))
    return np.int64(total), np.int64(square), np.int64(octaves)


@jit(void(DOUBLES, float64, LONGS), inner=True)
def add_numbers(row, up, sums):
    """Add numbers of a row to its total, its square, and its counts."""
    for begin in range(0, row.shape[0], COUNTED):
        count = min(np.int64(COUNTED), row.shape[0] - begin)
        total, square, octaves = add_block(doubles_at(row.ctypes.data + 8 * begin, count), up)
        sums[0] += total
        sums[1] += square
        for level in range(LEVELS_AT_FIRST):
            sums[2 + level] += (octaves >> (8 * level)) & 255


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
    reached = memory[: 2 * OCTAVES].reshape((2, OCTAVES))
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


@jit(types.UniTuple(float64, 2)(LINE, float64), inner=True)
def fold(lanes, start):
    """Return the sum of lanes that began at `start`, in two floats."""
    high, low, count = lanes[:LANES], lanes[LANES:], LANES
    for j in range(LANES):
        high[j] -= start
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


@jit(void(*[int64] * 8, LINE), inner=True)
def copy_rows(at, row_step, inner_step, single, parts, rows, begin, size, lines):
    """Copy numbers of up to LINES rows, from number `begin` on, to lines; the parts of one take turns."""
    for part in range(parts):
        first = at + begin // parts * inner_step + part * (4 if single else 8)
        copy_lines(first, row_step, inner_step, single, rows, size // parts, part, parts, lines)


OPERAND = (int64,) * 5
"""A matrix: its address, the bytes from a row to the next and from a number to the next, whether numbers are
float32 (or else float64), and the parts of one, 1 or 2."""

COLUMNS = float64[:, ::1]

OF_COLUMNS = int64, boolean, LINE, int64, COLUMNS, LINE


@jit(boolean(*OPERAND, *OF_COLUMNS, LONGS))
def prepare(at, row_step, inner_step, single, parts, k, pairs, limits, bits, columns, bounds, sums):
    """Write columns in their scales, and these; begin the bounds; return False if one is out of range.

    k : real numbers of one. pairs : whether they are complex, so that each makes two. limits, bits : as in
    `multiply`. columns : (n, k' + 1), k' = `padded(k)`; the last is for the scale. bounds : BOUNDS numbers.
    sums : SUMS numbers of scratch memory.
    """
    whole, step, half = bits != EVERYTHING, 2 if pairs else 1, BOUNDS // 2
    bounds[:] = k + 1
    bounds[0] = bounds[half] = 0.0
    for j in range(0, columns.shape[0], step):
        to, here = columns[j + step - 1, :-1], at + j // step * row_step
        if single or parts == 2 or inner_step != 8:
            copy_rows(here, row_step, inner_step, single, parts, 1, 0, k, to)
            here = to.ctypes.data
        row = doubles_at(here, k)
        exponent = exponent_of(largest_magnitude(row))
        if exponent > FURTHEST:
            return False
        sums[:] = 0
        if exponent != ZERO:
            add_numbers(row, power(BITS - exponent), sums)
        scale = scale_of(exponent, sums, limits, bits, bounds[half:])
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


@inlined
def cut_integers(memory):
    """Return scratch memory for the scales and the sums of rows."""
    return memory[:LINES], memory[LINES : LINES * (1 + SUMS)].reshape((LINES, SUMS))


@inlined
def address(operand, first, i, begin, lines):
    """Return where row i of those from `first` on lies, or its copy, from number `begin` on."""
    if len(lines):
        return lines.ctypes.data + 8 * i * (len(lines) // LINES)
    return operand[0] + (first + i) * operand[1] + 8 * begin


@inlined
def copied(operand, first, many, begin, count, k, lines):
    """Copy some numbers of rows, unless they are there, or are read as they lie."""
    if len(lines) and (begin == 0 or k > PIECE):
        at, row_step, inner_step, single, parts = operand
        copy_rows(at + first * row_step, row_step, inner_step, single, parts, many, begin, count, lines)


ROWS = types.UniTuple(int64, 5), int64, int64, int64, LINE
"""An operand, the first of its rows and how many, their length, and the lines that they are copied to."""


@jit(boolean(*ROWS, LINE, int64, LINE, TABLE, LONGS), inner=True)
def measure_rows(operand, first, many, k, lines, limits, bits, bounds, sums, scales):
    """Write the scales of some rows, and lower the bounds; return False if one is out of range."""
    sums[:] = 0
    for begin in range(0, k, PIECE):
        count = min(np.int64(PIECE), k - begin)
        copied(operand, first, many, begin, count, k, lines)
        for i in range(many):
            magnitude = largest_magnitude(doubles_at(address(operand, first, i, begin, lines), count))
            scales[i] = max(scales[i] if begin else 0, magnitude)
    for i in range(many):
        scales[i] = exponent_of(scales[i])
        if scales[i] > FURTHEST:
            return False
    for begin in range(0, k, PIECE):
        count = min(np.int64(PIECE), k - begin)
        if k > PIECE:
            copied(operand, first, many, begin, count, k, lines)
        for i in range(many):
            if scales[i] != ZERO:
                row = doubles_at(address(operand, first, i, begin, lines), count)
                add_numbers(row, power(BITS - scales[i]), sums[i])
    for i in range(many):
        scales[i] = scale_of(scales[i], sums[i], limits, bits, bounds)
    return True


@jit(int64(*ROWS, boolean, COLUMNS, LONGS, COLUMNS, LINE), inner=True)
def add_rows(operand, first, many, k, lines, whole, columns, scales, lanes, line):
    """Add up the products of some rows with all columns in lanes; return how many numbers are too small.

    The last of the lanes are what all others begin with.
    """
    too_small, n, length = 0, columns.shape[0], columns.shape[1] - 1
    for begin in range(0, k, PIECE):
        count, filled = min(np.int64(PIECE), k - begin), min(np.int64(PIECE), length - begin)
        if k > PIECE:
            copied(operand, first, many, begin, count, k, lines)
        for i in range(many):
            row = doubles_at(address(operand, first, i, begin, lines), count)
            too_small += scale_numbers(row, power(scales[i]), whole, line, filled)
            for j in range(n):
                column = columns.ctypes.data + 8 * (j * (length + 1) + begin)
                sums = lanes[i * n + j].ctypes.data
                before = sums if begin else lanes[-1].ctypes.data
                add_quickly(line.ctypes.data, 1, column, 1, filled // LANES, before, sums)
    return too_small


@jit(void(*ROWS, int64, boolean, LINE, int64, COLUMNS, LINE), inner=True)
def add_row_carefully(operand, first, many, k, lines, i, whole, column, scale, careful, line):
    """Add up the product of row i of some with a column: high, low, and what is lost, the first of each."""
    high, low, lost = careful[0], careful[1], careful[2]
    careful[:] = 0.0
    for begin in range(0, k, PIECE):
        count, filled = min(np.int64(PIECE), k - begin), min(np.int64(PIECE), len(column) - begin)
        if k > PIECE:
            copied(operand, first, many, begin, count, k, lines)
        row = doubles_at(address(operand, first, i, begin, lines), count)
        scale_numbers(row, power(scale), whole, line, filled)
        add_carefully(line[:filled], column[begin:][:filled], high, low, lost)
    fold_carefully(high, low, lost)


@jit(int64(*ROWS, boolean, COLUMNS, LONGS, float64, COLUMNS, COLUMNS, LINE, boolean), inner=True)
def round_rows(
    operand, first, many, k, lines, whole, columns, scales, start, lanes, careful, line, to_single
):
    """Write what sums of some rows round to in the first of their lanes; return how many are undecided."""
    undecided, n, steps = 0, columns.shape[0], (columns.shape[1] - 1) // LANES
    bound, place = bound_of_lost(steps, LANES, start), (operand, first, many, k, lines)
    for i in range(many):
        for j in range(n):
            back, (high, low) = scales[i] + int(columns[j, -1]), fold(lanes[i * n + j], start)
            result, certain = rounded(high, low, bound, back, to_single)
            if not certain:
                add_row_carefully(*place, i, whole, columns[j, :-1], scales[i], careful, line)
                result, certain = rounded(careful[0, 0], careful[1, 0], careful[2, 0], back, to_single)
                undecided += not certain
            lanes[i * n + j, 0] = result
    return undecided


@jit(
    int64(
        *(*OPERAND, int64, *OPERAND, *OF_COLUMNS, boolean),
        *(INTS, float64, boolean, int64, int64, LINE, LINE),
    )
)
def multiply(
    at, row_step, inner_step, single, parts, rows,
    at_columns, column_step, inner_column_step, single_columns, column_parts,
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
    memory : scratch memory of `needed(k, n)` numbers.
    """
    n, length, whole, last = columns.shape[0], columns.shape[1] - 1, bits != EVERYTHING, 1 if pairs else 0
    operand, piece = (at, row_step, inner_step, single, parts), min(length, np.int64(PIECE))
    is_copied = single or parts == 2 or inner_step != 8
    size = LINES * (piece + APART) if is_copied else 0
    lines, line, rest = memory[:size], memory[size : size + piece], memory[size + piece :]
    integers, reached, rest = rest[: LINES * (1 + SUMS)], rest[LINES * (1 + SUMS) :], rest[OF_STATISTICS:]
    scales, sums = cut_integers(integers.view(np.int64))
    careful, lanes = rest[: 3 * WATCHED_LANES].reshape((3, WATCHED_LANES)), rest[3 * WATCHED_LANES :]
    lanes = lanes[: 2 * (LINES * n + 1) * LANES].reshape((LINES * n + 1, 2 * LANES))
    lanes[-1, :LANES], lanes[-1, LANES:] = start, 0.0
    of_columns = at_columns, column_step, inner_column_step, single_columns, column_parts
    if alone and not prepare(*of_columns, k, pairs, limits, bits, columns, bounds, sums[0]):
        return OUT_OF_RANGE
    at_once = np.int64(LINES) if is_copied else min(np.int64(LINES), max(np.int64(1), DIRECT // k))
    asked = uncertain = 0
    for first in range(0, rows, at_once):
        some = operand, first, min(at_once, rows - first), k, lines
        if len(known):
            copied(operand, first, some[2], 0, min(np.int64(PIECE), k), k, lines)
            for i in range(some[2]):
                scales[i] = known[first + i]
        elif not measure_rows(*some, limits, bits, bounds, sums, scales):
            return OUT_OF_RANGE
        if bits == TO_DECIDE and first >= asked:  # other rows only lower the bounds
            if not needs_no_more(bounds, k, limits, reached):
                return UNDECIDED
            asked = 2 * first + 1
        uncertain += add_rows(*some, whole, columns, scales, lanes, line)
        uncertain += round_rows(*some, whole, columns, scales, start, lanes, careful, line, to_single)
        for i in range(some[2]):
            for j in range(n):
                at_out = (first + i) * row_of_out + (j >> last) * column_of_out + (j & last)
                out[at_out] = lanes[i * n + j, 0]
    if alone and bits == TO_DECIDE and rows > at_once and not needs_no_more(bounds, k, limits, reached):
        return UNDECIDED
    return UNCERTAIN if uncertain else WRITTEN
