"""What the loops of every kernel do with numbers, one by one: copies, factors, rounding alone."""

import numpy as np

from multiword.engines.int8_cpu.kernels import INNER
from multiword.engines.int8_cpu.steps import GROUP
from multiword.runtime.addresses import (
    read_byte,
    read_double,
    read_int,
    read_long,
    read_single,
    write_double,
    write_single,
)
from multiword.runtime.jit import inlined

LINES = 16
"""Rows of an operand that are split together."""

BLOCK = LINES * INNER
"""Numbers in a block."""

NONFINITE_ROW = -(1 << 28)
"""The scale of rows that are taken as zero."""

DIGIT = 28
"""Bits of a digit of an integer that is rounded alone."""


@inlined
def power(e):
    """2**e, a normal number."""
    return np.int64((e + 1023) << 52).view(np.float64)


@inlined
def gather(x, row_step, inner_step, single, rows, inner, right, out):
    """Copy a block of numbers to out, (LINES, INNER) or, on the right, (INNER, LINES); zeros fill it."""
    of_row, of_inner = (1, LINES) if right else (INNER, 1)
    if rows < LINES or inner < INNER:
        for i in range(BLOCK):
            out[i] = 0.0
    if single:
        for i in range(rows):
            for h in range(inner):
                out[i * of_row + h * of_inner] = read_single(x + i * row_step + h * inner_step)
    else:
        for h in range(inner):
            for i in range(rows):
                out[i * of_row + h * of_inner] = read_double(x + i * row_step + h * inner_step)


@inlined
def write_factors(op, i, rows, factors):
    """Two factors of 2**scale of rows from i on, as `write_words` reads them; whether all are finite."""
    finite = True
    for j in range(LINES):
        scale = read_int(op.scales + 4 * (i + j)) if j < rows else np.int64(0)
        if scale == NONFINITE_ROW:
            finite, scale = False, np.int64(0)
        one, other = power(scale >> 1), power(scale - (scale >> 1))
        if op.right:
            factors[j], factors[GROUP + j] = one, other
        else:
            for c in range(2 * j * GROUP, (2 * j + 1) * GROUP):
                factors[c], factors[GROUP + c] = one, other
    return finite


@inlined
def clear_nonfinite(op, i, rows, x):
    """Zero the rows of a block that have an Inf or NaN."""
    for j in range(rows):
        if read_int(op.scales + 4 * (i + j)) == NONFINITE_ROW:
            for h in range(INNER):
                x[h * LINES + j if op.right else j * INNER + h] = 0.0


@inlined
def round_alone(y, step, p, exponent, sums):
    """RN(C'·2**exponent) in the target, from the residues of C' and digits of all P/p_t and of P."""
    size, quotient, digits = p.digit_count, 0.0, p.digits
    for d in range(size):
        sums[d] = 0
    for t in range(p.moduli + 1):
        row = digits + 8 * t * (size + 1)
        x = read_byte(y + t * step) if t < p.moduli else -np.int64(np.rint(quotient))
        quotient += x * read_double(row + 8 * size)
        for d in range(size):
            sums[d] += x * read_long(row + 8 * d)
    sign = 1.0
    for _ in range(2):
        for d in range(size - 1):
            carry = sums[d] >> DIGIT
            sums[d], sums[d + 1] = sums[d] - (carry << DIGIT), sums[d + 1] + carry
        if sums[size - 1] >= 0:
            break
        sign = -1.0
        for d in range(size):
            sums[d] = -sums[d]
    d = size - 1
    while d > 0 and sums[d] == 0:
        d -= 1
    # Up to 62 bits, those of the leading digit first, and whether any is left.
    value, bits = sums[d], np.int64(0)
    while sums[d] >> bits:
        bits += 1
    exponent += DIGIT * d
    rest = np.int64(0)
    for i in range(d - 1, -1, -1):
        more = min(np.int64(DIGIT), 62 - bits)
        value = value << more | sums[i] >> (DIGIT - more)
        rest |= sums[i] & ((np.int64(1) << (DIGIT - more)) - 1)
        bits, exponent = bits + more, exponent - more
    precision, last = p.precision, p.last_place
    drop = max(bits - precision, last - exponent)
    if drop > bits:
        return sign * 0.0
    if drop > 0:
        lost, half = value & ((np.int64(1) << drop) - 1), np.int64(1) << (drop - 1)
        value, exponent = value >> drop, exponent + drop
        if lost > half or (lost == half and (rest != 0 or value & 1)):
            value += 1
    exponent = min(exponent, np.int64(2000))
    return sign * value * power(exponent >> 1) * power(exponent - (exponent >> 1))


@inlined
def mirror(p, out, i0, i1, j0, j1, part):
    """Copy the conjugates of numbers below the diagonal across it; zeros stay positive."""
    for j in range(j0, j1):
        for i in range(max(i0, j + 1), i1):
            start, to = i * p.row_step + j * p.column_step, out + j * p.row_step + i * p.column_step
            if p.single:
                x = read_single(out + start)
                write_single(to, 0.0 - x if part else x)
            else:
                x = read_double(out + start)
                write_double(to, 0.0 - x if part else x)
