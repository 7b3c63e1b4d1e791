"""Sums over windows that move along a row, compiled with numba: two levels of integers, and their enclosures.

Digits (`windows_numba`) hold any numbers, one after another; numbers of similar sizes take vector
instructions here. A row is cut into parts, each of which begins with its own first window: what has gone by
leaves no trace. The theorem of `levels` makes two integers of each number of a part, and their sums over
windows are differences of running sums, exact since integers wrap around. Two such sums are high + low with
an error in floating point, which is divided and rounded.

A variance is (n·Σd² − (Σd)²)/(n·(n − ddof)), where d = x − c: c lies among the numbers of a part if these
are so close together that all of d are exact (Sterbenz' lemma), and else is 0. d² = p + e, which are float64
numbers and go to levels, too.

What levels do not hold, or an enclosure does not decide, is left to digits.
"""

from __future__ import annotations

import numpy as np

from multiword.runtime.jit import inlined
from ozaki.sums.exact import levels
from ozaki.sums.exact.enclosure_numba import divided_by, root_of, rounded, two_sum
from ozaki.sums.exact.extraction_numba import MAGNITUDE, bits_of, fma, number_of, sigma_of

EQUALS = {
    "windows_enclosed": "sums.rounded_variance",
}
"""The function of `ozaki.definition` that each form, or the sum it is a step of, has the bits of."""

PART = 1 << 13
"""Results of a part, at least. It has eight windows, so that its first one costs little."""

BLOCK = 256
"""Results at a time, whose sums stay in the innermost cache."""

SUMS = 5
HIGH, LOW, SQUARES_HIGH, SQUARES_LOW, MISSING = range(SUMS)
"""Running sums: of the levels of numbers and of squares, and how many NaN there are."""

COLUMNS = 8
"""Numbers of a result on its way: count, divisor, and two enclosures."""

_INFINITY = 2047 << 52
_MINUS_ZERO = ~MAGNITUDE
_LOWEST, _HIGHEST = -600, 900  # exponents between which no product here, nor its error, leaves its range
_LARGEST = 2.0**53  # divisors are float64 numbers below
_WIDER = 1 + 2.0**-20  # makes up for the roundings of an error bound
_CUT = 12  # bits of an upper level that leave fewer than 52


_bits_between = inlined(levels.bits_between)


@inlined
def _number(i):
    """An integer below 2**51 in magnitude, as float64."""
    return number_of(i + bits_of(sigma_of(52))) - sigma_of(52)


@inlined
def _power(exponent):
    """2**exponent, a normal number."""
    return number_of((exponent + levels.BIAS) << 52)


@inlined
def _scan(x):
    """The bits of the least and the largest magnitude; the sign, or 0 for both; are there −0, NaN.

    NaN have no magnitude and no sign.
    """
    least, largest, lowest, negative, positive, missing = MAGNITUDE, 0, 0, 0, 0, 0
    for i in range(len(x)):
        pattern = bits_of(x[i])
        magnitude = pattern & MAGNITUDE
        present = magnitude <= _INFINITY
        missing |= _INFINITY - magnitude  # the only ones below 0
        least = min(least, magnitude)
        largest = max(largest, magnitude if present else 0)
        lowest = min(lowest, pattern)  # no number has smaller bits than −0
        negative |= pattern if present else 0
        positive |= ~pattern if present else 0
    sign = (positive < 0) - (negative < 0)
    return least, largest, sign, lowest == _MINUS_ZERO, missing < 0


@inlined
def _centre(least, largest, sign):
    """Return c with c/2 <= x <= 2·c for numbers of one sign, and the largest |x − c|; 0 if there is no c."""
    low, high = number_of(least), number_of(largest)
    if not high <= 3 * low:
        return 0.0, high
    c = low / 2 + high / 2
    return sign * c, max(high - c, c - low)


@inlined
def _enter(x, sign, c, squared, k, bits, high, low):
    """Add the levels of d = x − c, or of d² = p + e, to sums, or take them away; return the bits of the rest.

    Of e, which is at most 2**-53 of p, the upper level has nothing.
    """
    sigma, tau, left = sigma_of(k), sigma_of(k - bits), 0
    for j in range(len(x)):
        d = x[j] - c
        p = d if d == d else 0.0
        e = 0.0
        if squared:
            d, p = p, p * p
            e = fma(d, d, -p)
        shifted = p + sigma
        high[j] += sign * (bits_of(shifted) - bits_of(sigma))
        p -= shifted - sigma
        shifted = p + tau
        lower, left = bits_of(shifted) - bits_of(tau), left | bits_of(p - (shifted - tau))
        if squared:
            shifted = e + tau
            lower, left = lower + bits_of(shifted) - bits_of(tau), left | bits_of(e - (shifted - tau))
        low[j] += sign * lower
    return left & MAGNITUDE


@inlined
def _move(x, sign, place, part, spread, sums):
    """Have numbers enter windows, the first that at `place` of the sums, or leave them."""
    c, k, of_squares, bits, missing = part
    left = below = 0
    if len(x) > 0:
        left = _enter(x, sign, c, False, k, bits, sums[HIGH, place:], sums[LOW, place:])
        if spread:
            high, low = sums[SQUARES_HIGH, place:], sums[SQUARES_LOW, place:]
            below = _enter(x, sign, c, True, of_squares, bits, high, low)
        if missing:
            count = sums[MISSING, place:]
            for j in range(len(x)):
                count[j] += sign * np.int64(x[j] != x[j])
    return left, below


@inlined
def _accumulate(sums, before):
    """Make running sums of what enters and leaves, from before[0] on, which becomes the last."""
    total = before[0]
    for j in range(len(sums)):
        total += sums[j]
        sums[j] = total
    before[0] = total


@inlined
def _enclose(upper, lower, bits, unit, lost, counts, high, low, error):
    """Write high + low and its error for two levels, of whose numbers each has left `lost` at most."""
    step, top, mask = unit * _power(bits), unit * _power(bits + _CUT), (1 << _CUT) - 1
    for j in range(len(counts)):
        above, rest = upper[j] + (lower[j] >> bits), lower[j] & ((1 << bits) - 1)
        last = (number_of(rest | bits_of(2.0**52)) - 2.0**52) * unit
        middle, last = two_sum(_number(above & mask) * step, last)
        high[j], middle = two_sum(_number(above >> _CUT) * top, middle)
        low[j], last = two_sum(middle, last)
        error[j] = abs(last) + counts[j] * lost


@inlined
def _spread(counts, squares, below, unknown, high, low, error):
    """Replace Σd by n·Σd² − (Σd)²: of squares + below and high + low, with their errors."""
    for j in range(len(counts)):
        n, q, r = counts[j], squares[j], below[j]
        s, t, of_sum = high[j], low[j], error[j]
        a, p, c, f = n * q, s * s, n * r, 2 * s * t
        b, e = fma(n, q, -a), fma(s, s, -p)
        lost = n * unknown[j] + 2 * of_sum * (abs(s) + abs(t) + of_sum)
        lost += abs(fma(n, r, -c)) + abs(fma(2 * s, t, -f)) + t * t
        upper, lower = two_sum(a, -p)
        lower, first = two_sum(lower, b)
        lower, second = two_sum(lower, -e)
        lower, third = two_sum(lower, c)
        lower, fourth = two_sum(lower, -f)
        lost += abs(first) + abs(second) + abs(third) + abs(fourth)
        upper, lower = two_sum(upper, lower)
        alone = n == 1  # what is lost would leave open that this is 0
        high[j], low[j] = 0.0 if alone else upper, 0.0 if alone else lower
        error[j] = 0.0 if alone else lost * _WIDER


@inlined
def _divide(divisors, high, low, error):
    """Divide enclosures."""
    for j in range(len(divisors)):
        high[j], low[j], lost = divided_by(high[j], low[j], error[j], divisors[j])
        error[j] = lost / divisors[j] * _WIDER


@inlined
def _take_roots(high, low, error):
    """Replace enclosures by their square roots."""
    for j in range(len(high)):
        high[j], low[j], error[j] = root_of(high[j], low[j], error[j])


@inlined
def _round(counts, fewest, high, low, error, single, zero, result, certain):
    """Round enclosures, of fewer numbers to NaN, and note which are undecided. A sum of 0 becomes `zero`."""
    undecided = 0
    for j in range(len(result)):
        value = rounded(high[j], low[j], error[j], single)
        value = value if value != 0 else zero
        few = counts[j] < fewest
        result[j] = np.nan if few else value
        undecided += (not few) & (value != value)
    if undecided > 0:
        for j in range(len(result)):
            certain[j] = counts[j] < fewest or result[j] == result[j]


@inlined
def _results(t, n, asked, part, lost, fewest, zero, sums, floats, result, certain):
    """Write the results of windows, the first of which ends with number t, from their running sums."""
    _, k, of_squares, bits, _ = part
    m = len(result)
    counts, divisors, high, low, error = (
        floats[0, :m],
        floats[1, :m],
        floats[2, :m],
        floats[3, :m],
        floats[4, :m],
    )
    missing = sums[MISSING, :m]
    for j in range(m):
        end = t + j + 1
        counts[j] = _number(min(end, n) - max(0, end - asked.window) - missing[j])
    _enclose(sums[HIGH], sums[LOW], bits, _power(k - 52 - bits), lost[0], counts, high, low, error)
    if asked.spread:
        squares, rest, unknown = floats[5, :m], floats[6, :m], floats[7, :m]
        unit = _power(of_squares - 52 - bits)
        _enclose(sums[SQUARES_HIGH], sums[SQUARES_LOW], bits, unit, lost[1], counts, squares, rest, unknown)
        _spread(counts, squares, rest, unknown, high, low, error)
    if asked.divided:
        for j in range(m):
            divisors[j] = counts[j] * (counts[j] - asked.ddof) if asked.spread else counts[j]
        _divide(divisors, high, low, error)
    if asked.root:
        _take_roots(high, low, error)
    _round(counts, fewest, high, low, error, asked.single, zero, result, certain)


@inlined
def _levels(x, terms, asked):
    """Return the levels of a part's numbers for sums of so many: c, k, k of squares, bits between, any NaN?

    Return also whether levels hold these numbers, and whether there are −0.
    """
    least, largest, sign, minus_zero, missing = _scan(x)
    c, most = 0.0, number_of(largest)
    if asked.spread and sign != 0:
        c, most = _centre(least, largest, sign)
    exponent = (bits_of(most) >> 52) - levels.BIAS + 1 if most > 0 else 0  # numbers are below 2**exponent
    bits = _bits_between(2 * terms)  # of a square there are two
    k, of_squares = exponent + 53 - bits, (2 * exponent if asked.spread else exponent) + 53 - bits
    divisor = np.float64(terms) * (terms + abs(asked.ddof))
    held = largest < _INFINITY and min(k, of_squares) - 52 - bits >= _LOWEST
    held = held and max(k, of_squares) <= _HIGHEST and divisor < _LARGEST
    return (c, k, of_squares, bits, missing), held, minus_zero


@inlined
def _part(x, start, stop, asked, sums, before, floats, result, certain):
    """Write the results of elements of a row from `start` to `stop`, and which are certain."""
    n, window, ahead, spread = len(x), asked.window, asked.ahead, asked.spread
    first, end = max(0, start + ahead + 1 - window), stop + ahead
    part, held, minus_zero = _levels(x[first : min(n, end)], min(window, n), asked)
    _, k, of_squares, bits, _ = part
    certain[start:stop] = held
    if not held:
        return
    fewest = np.float64(max(asked.min_count, np.int64(asked.divided), asked.ddof + 1 if spread else 0))
    zero = np.nan if minus_zero and not spread else 0.0
    lost, t = (0.0, 0.0), first
    before[:] = 0
    while t < end:
        until = min(t + BLOCK, start + ahead if t < start + ahead else end)  # the first window, then results
        sums[:, : until - t] = 0
        left, below = _move(x[t : min(until, n)], 1, 0, part, spread, sums)
        lost = (
            _power(k - 52 - bits) if left else lost[0],
            2 * _power(of_squares - 52 - bits) if below else lost[1],
        )
        leaving = max(first, t - window)
        _move(x[leaving : max(leaving, until - window)], -1, leaving + window - t, part, spread, sums)
        for i in range(SUMS):
            _accumulate(sums[i, : until - t], before[i:])
        if t >= start + ahead:
            where = slice(t - ahead, until - ahead)
            _results(t, n, asked, part, lost, fewest, zero, sums, floats, result[where], certain[where])
        t = until


def windows_enclosed(x, begin, finish, length, asked, sums, before, floats, result, certain):
    """Write sums, means, variances or deviations of windows of rows, and which of them are certain.

    begin, finish, length : which parts, of so many results, of all rows.
    asked : as in `windows_numba.rolled`.
    sums, before, floats : scratch, of shapes (SUMS, BLOCK), (SUMS,) and (COLUMNS, BLOCK).
    """
    n = x.shape[1]
    parts = -(-n // length)
    for i in range(begin, finish):
        row, start = i // parts, i % parts * length
        stop = min(start + length, n)
        _part(x[row], start, stop, asked, sums, before, floats, result[row], certain[row])
