"""Small exact products, compiled: integers cut into digits of 23 bits, whose products float64 sums exactly.

    A' = Σ_p A'_p·2**(23 p),   B' = Σ_q B'_q·2**(23 q),   C' = Σ_r (Σ_{p+q=r} A'_p·B'_q)·2**(23 r)

with symmetric digits, |A'_p|, |B'_q| <= 2**22: the inner sums stay within 53 bits while min(p, q)·k is at
most `MOST_TERMS`. Products whose rounding is not proved to be correct here are undecided.
"""

import math

import numpy as np
from numba import boolean, float64, int32, void

from multiword.runtime.compiled import BIAS, POWERS
from multiword.runtime.jit import jit

DIGIT = 23
"""Bits of a digit."""

BASE = 2.0**DIGIT
"""The base of the digits."""

MOST_DIGITS, MOST_TERMS = 6, 1 << 53 - 2 * (DIGIT - 1)
"""Digits of an integer, at most, and products of digits that are added up in float64."""

RUN = 16
"""Numbers of whole vectors in an unrolled loop: rows of digits are padded to a multiple of this."""

WEIGHTS = 2.0 ** (DIGIT * np.arange(2 * MOST_DIGITS))
"""The weights of the digits."""


@jit("UniTuple(int64, 3)(int32[::1], int32[::1], int64, int64)", inner=True)
def extremes(scale, width, first, last):
    """The smallest and the largest scale of some rows, and how many digits their integers take."""
    smallest = largest = np.int64(scale[first])
    longest = np.int64(width[first])
    for i in range(first, last):
        smallest = scale[i] if scale[i] < smallest else smallest
        largest = scale[i] if scale[i] > largest else largest
        longest = width[i] if width[i] > longest else longest
    return smallest, largest, longest // DIGIT + 1


@jit("void(float64[:, ::1], int64, int64, int64, float64[::1], int64, int64, int64)", inner=True)
def split_row(x, i, scale, count, digits, start, step, digit_step):
    """Write the digits of the integers RN(x_ih·2**scale), the least significant first, from `start` on."""
    half = scale >> 1  # a power of two alone might overflow
    first, second, row = POWERS[half + BIAS], POWERS[scale - half + BIAS], x[i]
    for h in range(len(row)):
        index, rest = np.uint64(start + h * step), np.rint(row[h] * first * second)
        for _ in range(count - 1):
            upper = np.rint(rest * (1 / BASE))
            digits[index] = rest - upper * BASE
            index, rest = index + np.uint64(digit_step), upper
        digits[index] = rest


@jit(
    "void(float64[::1], float64[::1], float64[::1], int64, int64, int64, int64)",
    fastmath={"contract"},
    inner=True,
)
def multiply_row(total, a, b, k, count, columns, length):
    """The sums of one row of C'; digits of a and b are (k, p) and (k, length), k a multiple of 4."""
    for j in range((count - 1) * columns + length):
        total[j] = 0.0
    for h in range(0, k, 4):
        b0, b1 = b[h * length : (h + 1) * length], b[(h + 1) * length : (h + 2) * length]
        b2, b3 = b[(h + 2) * length : (h + 3) * length], b[(h + 3) * length : (h + 4) * length]
        for p in range(count):
            i = h * count + p
            a0, a1, a2, a3 = a[i], a[i + count], a[i + 2 * count], a[i + 3 * count]
            of_digit = total[p * columns : p * columns + length]
            for j in range(length):
                of_digit[j] += a0 * b0[j] + a1 * b1[j] + a2 * b2[j] + a3 * b3[j]


@jit(
    "boolean(float64[::1], int64, float64, boolean, float64[:, ::1], float64[:, ::1], int64)",
    inner=True,
)
def round_row(total, count, factor, single, work, out, i):
    """Round a row of C', times powers of two, to out[i]; False if a number may be wrong.

    The digits are added up from above, and the errors of these sums, whose own errors have a bound: what
    rounds to the same number from both ends of it is that number. work[3] are the powers of two of the
    columns, the rest of it is scratch memory.
    """
    high, low, size, factors = work[0], work[1], work[2], work[3]
    columns = out.shape[1]
    for j in range(columns):
        high[j] = low[j] = size[j] = 0.0
    for r in range(count - 1, -1, -1):
        terms, weight = total[r * columns : (r + 1) * columns], WEIGHTS[r]
        for j in range(columns):
            term = terms[j] * weight
            leading = high[j] + term
            other = leading - high[j]
            error = (high[j] - (leading - other)) + (term - other)
            lower = low[j] + error
            other = lower - low[j]
            size[j] += math.fabs((low[j] - (lower - other)) + (error - other))
            high[j], low[j] = leading, lower
    undecided = 0
    for j in range(columns):
        margin = 2 * size[j] + math.fabs(low[j]) * 2.0**-51 if size[j] > 0 else 0.0
        value = high[j] + (low[j] - margin)
        undecided += value != high[j] + (low[j] + margin)
        out[i, j] = value * factor * factors[j]
        if single:  # what lies half way between two numbers of float32 may stand for others, on either side
            other = value - high[j]
            error = (high[j] - (value - other)) + (low[j] - other)
            below, above = out[i, j] * (1 - 2.0**-52), out[i, j] * (1 + 2.0**-52)
            undecided += (error != 0 or margin > 0) and np.float32(below) != np.float32(above)
    return undecided == 0


@jit(
    void(
        *(float64[:, ::1], int32[::1], int32[::1], boolean[::1], boolean, float64[:, ::1]),
        *(float64[::1], float64[::1], float64[::1], float64[:, ::1]),
    ),
    fastmath={"contract"},
)
def products(x, scale, width, undecided, single, out, left, right, total, work):
    """The products of the left rows and then right columns of a stack that are not undecided[s].

    Integers of row i have the scale scale[i] and at most width[i] bits; results are rounded to float32 if
    `single`. undecided[s] becomes True for those whose integers take too many digits, or whose results might
    underflow, overflow or be rounded wrong. What follows `out` is scratch memory.
    """
    stack, k, n = undecided.shape[0], x.shape[1], out.shape[1]
    m, padded = out.shape[0] // stack, (k + 3) // 4 * 4
    for s in range(stack):
        if undecided[s]:
            continue
        undecided[s] = True
        of_a, of_b = s * m, stack * m + s * n
        smallest_a, largest_a, p = extremes(scale, width, of_a, of_a + m)
        smallest_b, largest_b, q = extremes(scale, width, of_b, of_b + n)
        if p > MOST_DIGITS or q > MOST_DIGITS or (p if p < q else q) * k > MOST_TERMS:
            continue
        # No factor of C' may be below float64's range, or bring a number above it.
        if largest_a > 1022 or largest_b > 1022 or largest_a + largest_b > 1022:
            continue
        lowest = DIGIT * (p + q) - 1000
        if smallest_a < lowest or smallest_b < lowest or smallest_a + smallest_b < lowest:
            continue
        length = (q * n + RUN - 1) // RUN * RUN
        for h in range(padded * p):
            left[h] = 0.0
        for h in range(padded * length):
            right[h] = 0.0
        for j in range(n):
            split_row(x, of_b + j, scale[of_b + j], q, right, j, length, n)
            work[3, j] = POWERS[BIAS - scale[of_b + j]]
        sure = True
        for i in range(of_a, of_a + m):
            split_row(x, i, scale[i], p, left, 0, p, 1)
            multiply_row(total, left, right, padded, p, n, length)
            sure &= round_row(total, p + q - 1, POWERS[BIAS - scale[i]], single, work, out, i)
        undecided[s] = not sure


def work_arrays(k: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the scratch memory of `products`."""
    length = MOST_DIGITS * n + RUN
    left, right = np.empty((k + 4) * MOST_DIGITS), np.empty((k + 4) * length)
    return left, right, np.empty(MOST_DIGITS * n + length), np.empty((4, n))
