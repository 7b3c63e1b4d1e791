"""Determinants of triangular matrices, compiled: products in two words, rounded where their bounds tell.

What operations of two words lose is measured (as in `residual_numba`), so that an exact product is known to
be exact. A matrix whose result the bounds do not tell is left to the integers of `determinant`.
"""

import math
from fractions import Fraction

import numpy as np
from numba import boolean, float64, int64, types

import ozaki.linalg.small.texts_numba  # noqa: F401  by which `odd` is called
from multiword.runtime.jit import inlined, jit
from ozaki.linalg.small.products import odd
from ozaki.sums.exact.enclosure_numba import RELATIVE, two_sum
from ozaki.sums.exact.extraction_numba import fma

TINY = 2.0**-800
"""A product below this may have an error that is no float64."""

NEAR, FAR = 2.0**-100, 2.0**100
"""Between these the larger part of a product stays."""

LOGARITHM, QUOTIENT = 2.0**-94, 2.0**-96
"""Relative errors, at most, of logarithms and of quotients in two words: one operation has some 2**-103."""

TERMS, IN_TWO_WORDS = 21, 11
"""Of the series of atanh(t)/t for |t| <= 3 - √8, and those that one word is too short for."""

_INVERSES = [Fraction(1, 2 * j + 1) for j in range(TERMS)]
HIGH = tuple(float(x) for x in _INVERSES)
LOW = tuple(float(x - Fraction(y)) for x, y in zip(_INVERSES, HIGH, strict=True))
LOG2, LOW_LOG2 = 0.6931471805599453, 2.3190468138462996e-17

NUMBERS, PIVOTS = (types.Array(dtype, 2, "A", readonly=True) for dtype in (float64, int64))


@inlined
def added(high, low, other, low_other):
    """Return the sum of two numbers in two words, and what it loses."""
    s, t = two_sum(high, other)
    low, first = two_sum(low, low_other)
    t, second = two_sum(t, low)
    high, low = two_sum(s, t)
    return high, low, abs(first) + abs(second)


@inlined
def times(high, low, factor):
    """Return a number in two words times a float64, and what that loses; NaN where that may be no float64."""
    p, q = high * factor, low * factor
    rest, lost = two_sum(fma(high, factor, -p), q)
    tiny = factor != 0 and ((high != 0 and abs(p) < TINY) or (low != 0 and abs(q) < TINY))
    lost = math.nan if tiny else abs(lost) + abs(fma(low, factor, -q))
    high, low = two_sum(p, rest)
    return high, low, lost


@inlined
def sign_of(pivots):
    """Return the sign of a permutation by swaps of row j with row pivots[j]."""
    sign = 1.0
    for j in range(len(pivots)):
        sign = -sign if pivots[j] != j else sign
    return sign


@inlined
def product(real, imaginary):
    """Return the product as (x, low x, error) and (y, low y, error) and e: it is (x + iy)·2**e.

    Of complex numbers the errors are that of x + iy. They are NaN where they may be no float64.
    """
    x, low_x, y, low_y, of_x, of_y, e = 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0
    for j in range(len(real)):
        p, q = real[j], imaginary[j]
        exponent = math.frexp(max(abs(p), abs(q)))[1]
        c, d = math.ldexp(p, -exponent), math.ldexp(q, -exponent)
        if d == 0 and y == 0 and of_y == 0:
            x, low_x, lost = times(x, low_x, c)
            of_x = of_x * abs(c) + lost
        else:
            a, low_a, of_a = times(x, low_x, c)
            b, low_b, of_b = times(y, low_y, -d)
            f, low_f, of_f = times(x, low_x, d)
            g, low_g, of_g = times(y, low_y, c)
            x, low_x, first = added(a, low_a, b, low_b)
            y, low_y, second = added(f, low_f, g, low_g)
            of_x = of_x * math.sqrt(c * c + d * d) + (first + second + (of_a + of_b) + (of_f + of_g))
            of_y = of_x
        larger = max(abs(x), abs(y))
        shift = 0 if NEAR < larger < FAR or larger == 0 else math.frexp(larger)[1]
        if shift != 0:
            unit = math.ldexp(1.0, -shift)
            x, low_x, of_x = x * unit, low_x * unit, of_x * unit
            y, low_y, of_y = y * unit, low_y * unit, of_y * unit
        if not larger < math.inf or math.ldexp(c, exponent) != p or math.ldexp(d, exponent) != q:
            of_x = math.nan
        e += exponent + shift
    return (x, low_x, of_x * 2), (y, low_y, of_y * 2), e


@inlined
def margin_of(low, error):
    """Return at least the error, and what adding it to `low` loses."""
    return 0.0 if error == 0 else error + (error + abs(low)) * RELATIVE


@inlined
def ends(high, low, error):
    """Return the numbers that high + low ± error are rounded to."""
    margin = margin_of(low, error)
    return high + (low - margin), high + (low + margin)


@inlined
def single_part(number, sign, e):
    """Return sign·(high + low)·2**e rounded to float32; NaN where that is undecided."""
    high, low, error = number
    margin = margin_of(low, error)
    s, rest = two_sum(high, low - margin)
    t, other = two_sum(high, low + margin)
    first, second = np.float32(math.ldexp(odd(s, rest), e)), np.float32(math.ldexp(odd(t, other), e))
    if first != second or (s > 0) != (t > 0) or (s < 0) != (t < 0):
        return math.nan
    return sign * first if s != 0 else 0.0


@inlined
def part(number, sign, e):
    """Return sign·(high + low)·2**e rounded to nearest; NaN where that is undecided, or subnormal."""
    s, t = ends(*number)
    value = math.ldexp(s, e)
    if s != t or (abs(value) < 2.0**-1022 and math.ldexp(s, e + 60) != 0):
        return math.nan
    return sign * value if s != 0 else 0.0


@jit(int64(NUMBERS, NUMBERS, PIVOTS, boolean, float64[:, ::1], boolean[::1]))
def determinants(real, imaginary, pivots, single, values, undecided):
    """Write signs times products of diagonals, in one part or two; return how many are undecided."""
    count = 0
    for i in range(len(values)):
        x, y, e = product(real[i], imaginary[i])
        sign, doubt = sign_of(pivots[i]), False
        for j in range(values.shape[1]):
            number = y if j == 1 else x
            values[i, j] = single_part(number, sign, e) if single else part(number, sign, e)
            doubt |= math.isnan(values[i, j])
        undecided[i] = doubt
        count += doubt
    return count


@inlined
def multiplied(high, low, other, low_other):
    """Return the product of two numbers in two words: within 2**-103 of it."""
    p = high * other
    return two_sum(p, fma(high, other, -p) + (high * low_other + low * other))


@inlined
def divided(high, low, other, low_other):
    """Return the quotient: within 2**-102 of it."""
    q = high / other
    rest = (fma(-q, other, high) + low) - q * low_other
    return two_sum(q, rest / other)


@inlined
def square_root(high, low):
    """Return the square root: within 2**-102 of it."""
    s = math.sqrt(high)
    return two_sum(s, (fma(-s, s, high) + low) / (2 * s))


@inlined
def logarithm(high, low, error, e):
    """Return log((high + low)·2**e) in two words and its error; by log m = 2·atanh((m - 1)/(m + 1))."""
    exponent = math.frexp(high)[1]
    if math.ldexp(high, -exponent) < 0.7071067811865476:
        exponent -= 1
    unit = math.ldexp(1.0, -exponent)
    high, low, error, e = high * unit, low * unit, error * unit, e + exponent
    above, below, _ = added(high, low, -1.0, 0.0)
    t, low_t = divided(above, below, *added(high, low, 1.0, 0.0)[:2])
    w, low_w = multiplied(t, low_t, t, low_t)
    s, low_s = 0.0, 0.0
    for j in range(TERMS - 1, IN_TWO_WORDS - 1, -1):
        s = s * w + HIGH[j]
    for j in range(IN_TWO_WORDS - 1, -1, -1):
        s, low_s = multiplied(s, low_s, w, low_w)
        s, low_s, _ = added(s, low_s, HIGH[j], LOW[j])
    s, low_s = multiplied(s, low_s, 2 * t, 2 * low_t)
    n, low_n = multiplied(float64(e), 0.0, LOG2, LOW_LOG2)
    s, low_s, _ = added(n, low_n, s, low_s)
    return s, low_s, abs(s) * LOGARITHM + 2 * error


@inlined
def direction(number, sign, size, low_size, of_size):
    """Return sign·x/|z|, rounded to nearest; NaN where that is undecided."""
    high, low, error = number
    q, rest = divided(high, low, size, low_size)
    s, t = ends(q, rest, abs(q) * QUOTIENT + 4 * (error + abs(q) * of_size) / size)
    tiny = high != 0 and abs(high) < TINY
    return math.nan if s != t or tiny or (s == 0 and high != 0) else sign * (s + 0.0)


@jit(int64(NUMBERS, NUMBERS, PIVOTS, float64[:, ::1], float64[::1], boolean[::1]))
def logarithms(real, imaginary, pivots, signs, sizes, undecided):
    """Write the signs of determinants, in one part or two, and the logarithms of their sizes, likewise."""
    count = 0
    for i in range(len(sizes)):
        x, y, e = product(real[i], imaginary[i])
        sign, error = sign_of(pivots[i]), x[2] + y[2]
        xx, low_xx = multiplied(x[0], x[1], x[0], x[1])
        yy, low_yy = multiplied(y[0], y[1], y[0], y[1])
        square, low, _ = added(xx, low_xx, yy, low_yy)
        size, low_size = square_root(square, low)
        zero = square == 0 and error == 0
        one = error == 0 and y[0] == 0 and x[1] == 0 and abs(x[0]) == math.ldexp(1.0, -e)
        s, t = ends(*logarithm(square, low, 4 * error * size + square * QUOTIENT, 2 * e))
        sizes[i] = -math.inf if zero else 0.0 if one else s / 2
        doubt = not (zero or one or s == t)
        for j in range(signs.shape[1]):
            signs[i, j] = 0.0 if zero else direction(y if j == 1 else x, sign, size, low_size, error)
            doubt |= math.isnan(signs[i, j])
        undecided[i] = doubt
        count += doubt
    return count
