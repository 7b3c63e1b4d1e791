"""Products of "normwise" accuracy of small matrices, as texts: the definition's integers, in three slices.

    x·2**s = h·2**44 + m·2**22 + l,   |m|, |l| <= 2**21,   |h| < 2**23

The integers of rows of up to `LONGEST` numbers are below 2**66 (`definition.scales`). A product of slices has
at most 45 bits, and a sum of as many of these as a row has numbers at most 53: five float64 sums are exact in
any order. They are rounded once.

An operand is an array of (4·rows, length): the numbers, then their slices, the high ones first. Of complex
numbers a row has the real parts, then the imaginary ones; a right operand then has rows [u, -v] and, after
all of these, [v, u], whose products with [re, im] are the real and the imaginary parts.
"""

from __future__ import annotations

import math

import numpy as np

from multiword.rounding import two_sum
from ozaki.definition.scales import NORM_LIMITS
from ozaki.definition.statistics import BITS
from ozaki.linalg.small.language import across, bits, exponent, from_bits, number, parts_of, text

text(two_sum)

LONGEST = 256
"""Real numbers of a row, at most."""

SHORTEST, SHORT = 4, 16
(S4, B4), (S16, B16), (S256, B256) = (
    (limit.significand / 32, limit.bits) for limit in (NORM_LIMITS["fp64"][k] for k in (4, 16, LONGEST))
)
"""Norm limits, of rows of up to 4, 16 and 256 numbers."""

NONFINITE = 1 << 20
"""The scale of a row with an Inf or a NaN."""

SLICE, HALF = 22, 44
UP, DOWN = 2.0**SLICE, 2.0**-SLICE
UP_HALF, DOWN_HALF = 2.0**HALF, 2.0**-HALF
LEAST_NORMAL = 2.0**-1022


@text
def power(e):
    """Return 2**e, a normal number."""
    return from_bits((e + 1023) << 52)


@text
def exponent_field(x):
    """Return e with 2**e <= x < 2**(e + 1), of a normal number."""
    return (bits(x) >> 52) - 1023


@text
def load(x, transposed, conjugate, rows):
    """Write rows of x, or its columns, perhaps conjugate, as those of a left operand."""
    count = x.shape[1] if transposed else x.shape[0]
    k = x.shape[0] if transposed else x.shape[1]
    for r in range(count):
        for h in across(k):
            z = x[h, r] if transposed else x[r, h]
            rows[r, h] = z.real
            if parts_of(x) == 2:
                rows[r, k + h] = -z.imag if conjugate else z.imag


@text
def load_right(x, transposed, rows):
    """Write columns of x, or its rows, as those of a right operand."""
    count = x.shape[0] if transposed else x.shape[1]
    k = x.shape[1] if transposed else x.shape[0]
    for c in range(count):
        for h in across(k):
            z = x[c, h] if transposed else x[h, c]
            rows[c, h] = z.real
            if parts_of(x) == 2:
                rows[c, k + h] = -z.imag
                rows[count + c, h] = z.imag
                rows[count + c, k + h] = z.real


@text
def scale_of(row):
    """Return the norm scale of a row of numbers, 0 of zeros, or `NONFINITE`: as `definition.scales`."""
    largest, length = 0.0, len(row)
    for h in range(length):
        a = abs(row[h])
        largest = a if a > largest or a != a else largest
    if not largest < math.inf:
        return NONFINITE
    if largest == 0:
        return 0
    e, square = exponent(largest), 0.0
    half = (BITS - e) >> 1
    one, other = power(half), power(BITS - e - half)
    for h in range(length):
        t = np.floor(abs(row[h]) * one * other) + 1.0
        square += t * t
    significand = S4 if length <= SHORTEST else S16 if length <= SHORT else S256
    limit = B4 if length <= SHORTEST else B16 if length <= SHORT else B256
    high = exponent_field(square)
    over = 1 if square > significand * power(high) else 0
    return ((limit - high - over) >> 1) + BITS - e


@text
def split(rows, scales):
    """Write the scales of an operand's rows, and its slices."""
    m = len(rows) // 4
    for r in across(m):
        numbers, first, second, third = rows[r], rows[m + r], rows[2 * m + r], rows[3 * m + r]
        scale = scale_of(numbers)
        scales[r] = scale
        half = scale >> 1 if scale != NONFINITE else 0
        one, other = power(half), power(scale - half) if scale != NONFINITE else 0.0
        for h in range(len(numbers)):
            y = np.rint(numbers[h] * one * other)
            high = np.rint(y * DOWN_HALF)
            y = y - high * UP_HALF
            middle = np.rint(y * DOWN)
            first[h] = high
            second[h] = middle
            third[h] = y - middle * UP


@text
def dot(x, y, z, p, q, r):
    """Return Σ C·2**(22q), q = 4, 3, …, 0, as five integers C: of the slices of two rows."""
    c4, c3, c2, c1, c0 = 0.0, 0.0, 0.0, 0.0, 0.0
    for h in range(len(x)):
        c4 += x[h] * p[h]
        c3 += x[h] * q[h] + y[h] * p[h]
        c2 += x[h] * r[h] + y[h] * q[h] + z[h] * p[h]
        c1 += y[h] * r[h] + z[h] * q[h]
        c0 += z[h] * r[h]
    return c4, c3, c2, c1, c0


@text
def odd(x, rest):
    """Return x, or of the two numbers beside x + rest the one whose last bit is 1; x is the nearest one."""
    even = rest != 0 and (bits(x) & 1) == 0
    toward = 1 if (x > 0) == (rest > 0) else -1
    return from_bits(bits(x) + toward) if even else x


@text
def scaled_once(x, rest, e):
    """Return RN((x + rest)·2**e), where x is RN(x + rest)."""
    result = x * power(e) if -1023 < e < 1023 else math.ldexp(x, e)
    if abs(result) > LEAST_NORMAL or x == 0:
        return result
    y = math.ldexp(x, e + 1074)
    whole = np.rint(y)
    tie = y - whole  # which only `rest` decides
    if tie == 0.5 and rest > 0:
        whole += 1.0
    if tie == -0.5 and rest < 0:
        whole -= 1.0
    return math.ldexp(whole, -1074)


@text
def rounded(c4, c3, c2, c1, c0, e):
    """Return RN(Σ C_q·2**(22q + e)): digits, pairs of them, and the odd sum of what two roundings lose."""
    carry = np.rint(c0 * DOWN)
    c0, c1 = c0 - carry * UP, c1 + carry
    carry = np.rint(c1 * DOWN)
    c1, c2 = c1 - carry * UP, c2 + carry
    carry = np.rint(c2 * DOWN)
    c2, c3 = c2 - carry * UP, c3 + carry
    carry = np.rint(c3 * DOWN)
    c3, c4 = c3 - carry * UP, c4 + carry
    carry = np.rint(c4 * DOWN)
    c4 = c4 - carry * UP
    top, middle = (carry * UP + c4) * (UP_HALF * UP_HALF), (c3 * UP + c2) * UP_HALF
    high, low = two_sum(top, middle)
    low, lost = two_sum(low, c1 * UP + c0)
    high, low = two_sum(high, odd(low, lost))
    return scaled_once(high, low, e)


@text
def special_dot(a, b):
    """Return what IEEE arithmetic gives where an Inf or a NaN takes part, which only signs decide."""
    total = 0.0
    for h in range(len(a)):
        x, y = a[h], b[h]
        x = x if not abs(x) < math.inf else 1.0 if x > 0 else -1.0 if x < 0 else 0.0
        y = y if not abs(y) < math.inf else 1.0 if y > 0 else -1.0 if y < 0 else 0.0
        total += x * y
    return total


@text
def real_product(left, i, s, right, j, t):
    """Return the product of row i and row j of two operands, (4·rows, length), of scales s and t."""
    m, n = len(left) // 4, len(right) // 4
    if s == NONFINITE or t == NONFINITE:
        return special_dot(left[i], right[j])
    x, y, z = left[m + i], left[2 * m + i], left[3 * m + i]
    p, q, r = right[n + j], right[2 * n + j], right[3 * n + j]
    c4, c3, c2, c1, c0 = dot(x, y, z, p, q, r)
    return rounded(c4, c3, c2, c1, c0, -(s + t))


@text
def multiply(x, transposed, conjugate, y, turned, out, floats, integers):
    """Write X·Y to `out`; X, or Y, may be transposed, and X conjugate. The rest is scratch memory."""
    m, n, parts = out.shape[0], out.shape[1], parts_of(out)
    length = parts * (x.shape[0] if transposed else x.shape[1])
    rows = parts * n
    left = floats[: 4 * m * length].reshape(4 * m, length)
    right = floats[4 * m * length : 4 * (m + rows) * length].reshape(4 * rows, length)
    scales, others = integers[:m], integers[m:]
    load(x, transposed, conjugate, left)
    load_right(y, turned, right)
    split(left, scales)
    split(right, others)
    for index in across(m * n):
        i, j = index // n, index % n
        real = real_product(left, i, scales[i], right, j, others[j])
        if parts == 2:
            imaginary = real_product(left, i, scales[i], right, n + j, others[j])
            out[i, j] = number(out, real, imaginary)
        else:
            out[i, j] = number(out, real, 0.0)
