"""Numbers of a matrix cut at powers of two, as `matrix_products` cuts them: compiled with numba."""

from __future__ import annotations

import numpy as np
from numba import float64, int64, void

from multiword.runtime.addresses import (
    WRITTEN,
    doubles_at,
    read_double,
    read_single,
    singles_at,
    to_doubles_at,
)
from multiword.runtime.compiled import BIAS, POWERS
from multiword.runtime.jit import jit

MAGNITUDE, FRACTION = np.int64((1 << 63) - 1), np.int64((1 << 52) - 1)
INFINITE = 2047

MATRIX = (int64,) * 6
"""The address of a matrix, its rows and columns, bytes from one to the next, and whether they are float32."""

LINE = float64[::1]


@jit(int64(*MATRIX, int64, LINE), inner=True)
def read_row(address, rows, columns, row_step, column_step, single, i, line):
    """Copy a row to a line, with 0 for what is not finite; return whether there is such a number."""
    at = address + i * row_step
    if single and column_step == 4:
        row = singles_at(at, columns)
        for j in range(columns):
            line[j] = row[j]
    elif column_step == 8 and not single:
        numbers = doubles_at(at, columns)
        for j in range(columns):
            line[j] = numbers[j]
    else:
        for j in range(columns):
            line[j] = read_single(at + j * column_step) if single else read_double(at + j * column_step)
    others = np.int64(0)
    for j in range(columns):
        finite = line[j] - line[j] == 0
        line[j] = line[j] if finite else 0.0
        others |= np.int64(not finite)
    return others


@jit(void(*MATRIX, int64[::1], LINE))
def places(address, rows, columns, row_step, column_step, single, found, line):
    """Write what the kernel `places_of_matrix` does; of float32 numbers a multiple that all have."""
    most, last, others = np.int64(0), np.int64(0), np.int64(0)
    given = address, rows, columns, row_step, column_step, single
    for i in range(rows):
        others |= read_row(*given, i, line)
        of_row, least = np.int64(0), np.int64(INFINITE)
        for j in range(columns):
            magnitude = np.float64(line[j]).view(np.int64) & MAGNITUDE
            field = magnitude >> 52 if magnitude else np.int64(INFINITE)
            of_row = magnitude if magnitude > of_row else of_row
            least = field if field < least else least
        most = max(most, of_row)
        if single:  # of 24 bits, or of fewer
            last = max(last, 2048 + 1023 + 23 - least if of_row else np.int64(0))
        else:
            for j in range(columns):
                magnitude = np.float64(line[j]).view(np.int64) & MAGNITUDE
                normal = np.int64(magnitude >> 52 > 0)
                odd = magnitude & FRACTION | normal << 52
                place = (magnitude >> 52) + 1 - normal + (np.float64(odd & -odd).view(np.int64) >> 52)
                last = max(last, 2048 + 1075 + 1023 - place if magnitude else np.int64(0))
    found[0], found[1], found[2] = most, last, others


@jit(void(LINE, WRITTEN, int64), inner=True)
def cut_line(rest, part, exponent):
    """Write the integers of rest·2**−exponent, cut towards zero, and take them off, by factors in range."""
    some = exponent >> 1
    up, again = POWERS[BIAS - some], POWERS[BIAS - (exponent - some)]
    down, further = POWERS[BIAS + some], POWERS[BIAS + exponent - some]
    for j in range(len(rest)):
        integer = np.trunc(rest[j] * up * again)
        part[j] = integer
        rest[j] -= integer * down * further


@jit(void(*MATRIX, int64, int64, float64[:, :, :], LINE))
def cut(address, rows, columns, row_step, column_step, single, last, bits, parts, line):
    """Write what the kernel `cut_matrix` does; rows of parts are contiguous, and `line` has room for one."""
    given = address, rows, columns, row_step, column_step, single
    for i in range(rows):
        read_row(*given, i, line)
        for s in range(parts.shape[0] - 1, -1, -1):
            part = to_doubles_at(parts.ctypes.data + s * parts.strides[0] + i * parts.strides[1], columns)
            cut_line(line, part, last + bits * s)
