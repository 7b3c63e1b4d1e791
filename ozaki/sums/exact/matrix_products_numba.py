"""Numbers of a matrix cut at powers of two, as `matrix_products` cuts them: compiled with numba."""

from __future__ import annotations

import numpy as np
from numba import float64, int64, void

from multiword.runtime.addresses import read_double, read_single
from multiword.runtime.compiled import BIAS, POWERS
from multiword.runtime.jit import jit

MAGNITUDE, FRACTION = np.int64((1 << 63) - 1), np.int64((1 << 52) - 1)
INFINITE = 2047

MATRIX = (int64,) * 6
"""The address of a matrix, its rows and columns, bytes from one to the next, and whether they are float32."""

LINE = float64[::1]


@jit(void(*MATRIX, int64[::1]))
def places(address, rows, columns, row_step, column_step, single, found):
    """Write what the kernel `places_of_matrix` does."""
    most, last, others = np.int64(0), np.int64(0), np.int64(0)
    for i in range(rows):
        for j in range(columns):
            at = address + i * row_step + j * column_step
            magnitude = np.float64(read_single(at) if single else read_double(at)).view(np.int64) & MAGNITUDE
            field, odd = magnitude >> 52, magnitude & FRACTION
            if field == INFINITE:
                others = np.int64(1)
            elif magnitude:
                normal = np.int64(field > 0)
                odd |= normal << 52
                place = field + 1 - normal - 1075 + (np.float64(odd & -odd).view(np.int64) >> 52) - 1023
                last = max(last, 2048 - place)
                most = max(most, magnitude)
    found[0], found[1], found[2] = most, last, others


@jit(void(LINE, LINE, int64), inner=True)
def cut_line(rest, part, exponent):
    """Write the integers of rest·2**−exponent, cut towards zero, and take them off, by factors in range."""
    some = exponent >> 1
    up, again = POWERS[BIAS - some], POWERS[BIAS - (exponent - some)]
    down, further = POWERS[BIAS + some], POWERS[BIAS + exponent - some]
    for j in range(len(rest)):
        part[j] = np.trunc(rest[j] * up * again)
        rest[j] -= part[j] * down * further


@jit(void(*MATRIX, int64, int64, float64[:, :, :], LINE, LINE))
def cut(address, rows, columns, row_step, column_step, single, last, bits, parts, rest, part):
    """Write what the kernel `cut_matrix` does; rest and part have room for a row."""
    for i in range(rows):
        for j in range(columns):
            at = address + i * row_step + j * column_step
            number = read_single(at) if single else read_double(at)
            rest[j] = number if number - number == 0 else 0.0
        for s in range(parts.shape[0] - 1, -1, -1):
            cut_line(rest, part, last + bits * s)
            for j in range(columns):
                parts[s, i, j] = part[j]
