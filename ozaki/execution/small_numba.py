"""Small exact products, compiled: integers cut into digits of 23 bits, whose products float64 sums exactly.

    A' = Σ_p A'_p·2**(23 p),   B' = Σ_q B'_q·2**(23 q),   C' = Σ_r (Σ_{p+q=r} A'_p·B'_q)·2**(23 r)

with symmetric digits, |A'_p|, |B'_q| <= 2**22: the inner sums stay within 53 bits while min(p, q)·k is at
most `MOST_TERMS`. What is not certain to be rounded right here is left to the pipeline.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from ozaki.scaling.scales_numba import INNER, OPTIONS

DIGIT = 23
"""Bits of a digit."""

MOST_DIGITS, MOST_TERMS = 6, 1 << 53 - 2 * (DIGIT - 1)
"""Digits of an integer, at most, and products of digits that are added up in float64."""

WEIGHTS = 2.0 ** (DIGIT * np.arange(2 * MOST_DIGITS))
"""Those of the digits."""

RUN = 16
"""Numbers of whole vectors in an unrolled loop: rows of digits are padded to a multiple of this."""


@numba.njit("UniTuple(int64, 3)(int64[:, :, ::1], int64)", **INNER)
def extremes(of_rows, s):
    """The smallest and the largest scale of matrix s, and how many digits its integers take."""
    smallest = largest = of_rows[s, 0, 0]
    longest = 0
    for i in range(of_rows.shape[2]):
        scale, exponent = of_rows[s, 0, i], of_rows[s, 1, i]
        smallest = scale if scale < smallest else smallest
        largest = scale if scale > largest else largest
        longest = exponent if exponent > longest else longest
    return smallest, largest, longest // DIGIT + 1


@numba.njit(
    "void(float64[:, :, ::1], int64, int64, int64, int64, float64[::1], int64, int64, int64)", **INNER
)
def split_row(x, s, i, scale, count, digits, start, step, digit_step):
    """Write the digits of the integers RN(x_sih·2**scale), the least significant first, from `start` on."""
    half = scale >> 1  # a power of two alone might overflow
    first, second = math.ldexp(1.0, half), math.ldexp(1.0, scale - half)
    for h in range(x.shape[2]):
        place, rest = start + h * step, np.rint(x[s, i, h] * first * second)
        for _ in range(count - 1):
            upper = np.rint(rest * 2.0**-DIGIT)
            digits[place] = rest - upper * 2.0**DIGIT
            place, rest = place + digit_step, upper
        digits[place] = rest


@numba.njit(
    "void(float64[::1], float64[::1], float64[::1], int64, int64, int64, int64)",
    fastmath={"contract"},
    **INNER,
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


@numba.njit(
    "boolean(float64[::1], int64, float64, boolean, float64[:, ::1], float64[:, :, ::1], int64, int64)",
    **INNER,
)
def round_row(total, count, factor, single, work, out, s, i):
    """Round a row of C', times powers of two, to out[s, i]; False if a number may be another than it seems.

    The digits are added up from above, and the errors of these sums, whose own errors have a bound: what
    rounds to the same number from both ends of it is that number. work[3] are the powers of two of the
    columns, the rest of it is scratch memory.
    """
    high, low, size, factors = work[0], work[1], work[2], work[3]
    columns = out.shape[2]
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
    unsure = 0
    for j in range(columns):
        margin = 2 * size[j] + math.fabs(low[j]) * 2.0**-51 if size[j] > 0 else 0.0
        value = high[j] + (low[j] - margin)
        unsure += value != high[j] + (low[j] + margin)
        out[s, i, j] = value * factor * factors[j]
        if single:  # what lies half way between two numbers of float32 may stand for others, on either side
            other = value - high[j]
            error = (high[j] - (value - other)) + (low[j] - other)
            below, above = out[s, i, j] * (1 - 2.0**-52), out[s, i, j] * (1 + 2.0**-52)
            unsure += (error != 0 or margin > 0) and np.float32(below) != np.float32(above)
    return unsure == 0


@numba.njit(
    "void(float64[:, :, ::1], float64[:, :, ::1], int64[:, :, ::1], int64[:, :, ::1], boolean[::1], "
    "boolean, float64[:, :, ::1], float64[::1], float64[::1], float64[::1], float64[:, ::1])",
    **OPTIONS,
)
def products(a, b, of_a, of_b, undone, single, out, left, right, total, work):
    """The (s, m, n) products of (s, m, k) rows and (s, n, k) columns that are not yet undone[s].

    of_a[s, 0] and of_b[s, 0] are the scales, of_a[s, 1] and of_b[s, 1] the exponents of the largest integers;
    results are rounded to float32 if `single`. undone[s] becomes True for those left to the pipeline: their
    integers take too many digits, or results might underflow or overflow, or are not certain. What follows
    `out` is scratch memory.
    """
    m, k, n = a.shape[1], a.shape[2], b.shape[1]
    padded = (k + 3) // 4 * 4
    for s in range(a.shape[0]):
        if undone[s]:
            continue
        undone[s] = True
        smallest_a, largest_a, p = extremes(of_a, s)
        smallest_b, largest_b, q = extremes(of_b, s)
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
            split_row(b, s, j, of_b[s, 0, j], q, right, j, length, n)
            work[3, j] = math.ldexp(1.0, -of_b[s, 0, j])
        sure = True
        for i in range(m):
            split_row(a, s, i, of_a[s, 0, i], p, left, 0, p, 1)
            multiply_row(total, left, right, padded, p, n, length)
            factor = math.ldexp(1.0, -of_a[s, 0, i])
            if not round_row(total, p + q - 1, factor, single, work, out, s, i):
                sure = False
                break
        undone[s] = not sure


def work_arrays(k: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The scratch memory of `products`."""
    length = MOST_DIGITS * n + RUN
    sizes = (k + 4) * MOST_DIGITS, (k + 4) * length, MOST_DIGITS * n + length, (4, n)
    left, right, total, work = (np.empty(size) for size in sizes)
    return left, right, total, work
