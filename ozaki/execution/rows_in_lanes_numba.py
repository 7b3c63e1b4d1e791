"""Rows of a matrix as lines of LANES numbers, compiled: a row in each lane, or one whose numbers take turns.

They are copied, as float64, unless they lie so.
"""

from numba import boolean, float64, int64, types, void

from multiword.runtime.addresses import (
    BLOCK,
    doubles_at,
    read_double,
    read_single,
    transpose,
    transpose_singles,
    write_double,
)
from multiword.runtime.jit import inlined, jit
from ozaki.execution.lanes_numba import (
    LINE_BYTES,
    every_second_double,
    every_second_single,
    fetch,
    read_doubles,
    read_singles,
)
from ozaki.execution.small_products import LANES
from ozaki.scaling.statistics_numba import copy_lines

LINE = float64[::1]

ENDLESS = -(1 << 63)
"""The step from one row to the next of a row that is alone, and has zeros up to the end of its last line."""

AHEAD = 512
"""Bytes between what is read of a row and what is fetched meanwhile."""

PIECE = 1 << 13
"""Lines that are copied, and added up, at a time: a million bytes."""


@inlined
def lines_of(k, shared):
    """Return how many lines k numbers of a row take, which has a lane, or all if they are `shared`."""
    return (k + LANES - 1) // LANES if shared else k


@jit(void(types.UniTuple(int64, 5), int64, int64, int64, LINE), inner=True)
def copy_row(operand, i, begin, size, line):
    """Copy numbers of row i, from number `begin` on; the parts of one take turns."""
    at, row_step, inner_step, single, parts = operand
    if inner_step == 8 and not single and parts == 1:
        numbers = doubles_at(at + i * row_step + 8 * begin, size)
        for h in range(size):
            line[h] = numbers[h]
        return
    for part in range(parts):
        first = at + i * row_step + begin // parts * inner_step + part * (4 if single else 8)
        copy_lines(first, row_step, inner_step, single, 1, size // parts, part, parts, line)


@jit(void(*[int64] * 8), inner=True)
def copy_across(at, row_step, inner_step, single, rows, count, to, apart):
    """Copy so many numbers of up to LANES rows to lines, a row in each lane, and zeros to the others.

    Bytes from a line to the next are `apart`.
    """
    whole, size = 0, 4 if single else 8
    if rows == LANES and row_step == size:
        whole = count
        if single:
            read_singles(at, inner_step, count, to, apart)
        else:
            read_doubles(at, inner_step, count, to, apart)
    elif rows == LANES and row_step == 2 * size:  # parts of complex numbers, or every second row
        whole = count
        if single:
            every_second_single(at, inner_step, count, to, apart)
        else:
            every_second_double(at, inner_step, count, to, apart)
    elif rows == LANES and inner_step == size:
        whole = count // BLOCK * BLOCK
        for r in range(0, LANES, BLOCK):  # rows a power of two apart share eight places of the first cache
            for h in range(0, whole, BLOCK):
                here, there = at + r * row_step + h * inner_step, to + h * apart + 8 * r
                for ahead in range(BLOCK):  # more rows than a processor foresees
                    fetch(here + ahead * row_step + AHEAD)
                if single:
                    transpose_singles(here, row_step, there, apart)
                else:
                    transpose(here, row_step, there, apart)
    for h in range(whole, count):
        for r in range(LANES):
            x = 0.0
            if r < rows:
                here = at + r * row_step + h * inner_step
                x = read_single(here) if single else read_double(here)
            write_double(to + h * apart + 8 * r, x)


ROWS = types.UniTuple(int64, 5), int64, int64, boolean, int64, LINE
"""An operand, the first of some rows and how many, whether all lanes are one row's, the numbers of a row, and
memory for lines."""


@jit(int64(*ROWS, int64, int64, boolean), inner=True)
def lines_at(operand, first, many, shared, k, lines, begin, count, copying):
    """Return the address of `count` lines of some rows, from line `begin` on.

    They are copied to `lines`, if `copying`, unless they lie as they should; else they were before.
    """
    at, row_step, inner_step, single, parts = operand
    if shared:
        size = min(count * LANES, k - begin * LANES)
        as_it_is = not single and parts == 1 and inner_step == 8
        if as_it_is and (size == count * LANES or row_step == ENDLESS):
            return at + first * row_step + begin * LINE_BYTES
        if copying:
            copy_row(operand, first, begin * LANES, size, lines)
            for h in range(size, count * LANES):
                lines[h] = 0.0
    elif copying:
        for part in range(parts):
            here = at + first * row_step + begin // parts * inner_step + part * (4 if single else 8)
            there, apart = lines.ctypes.data + part * LINE_BYTES, parts * LINE_BYTES
            copy_across(here, row_step, inner_step, single, many, count // parts, there, apart)
    return lines.ctypes.data
