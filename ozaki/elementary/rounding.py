"""From a text's number to a float: rounded once, or left to a longer text (Ziv 1991)."""

from __future__ import annotations

from fractions import Fraction
from math import inf, nan
from typing import Any

import numpy as np

from multiword.formats import FORMATS
from multiword.rounding import round_to, two_sum
from ozaki.elementary.cores import Machine
from ozaki.elementary.many import Many
from ozaki.elementary.record import Function
from ozaki.elementary.values import bits, fma, power, single, unbits, where
from ozaki.elementary.words import Number, ordered_sum

FIRST, LAST = {True: 48, False: 70}, 105
"""Bits of the first text, of float32 and of float64, and of the last."""

FORMATS_OF = {f.dtype: f for f in FORMATS.values() if f.name != "tf32"}

MARGIN = {48: 3, 70: 3, 105: 12}
"""Results are good to so many bits less than these."""


def rounded(function: Function, of_single: bool, last: bool, *x: Any) -> tuple[Any, Any]:
    """Return a function's values, and whether they are undecided, of float64 arrays or traced values."""
    value, undecided = by_text(function, of_single, last, *x)
    value, found = beside_text(function, of_single, value, *x)
    return value, undecided & ~found


def by_text(function: Function, of_single: bool, last: bool, *x: Any) -> tuple[Any, Any]:
    """Return the same as the text alone has it: anything where the value stands beside it."""
    m = Machine(LAST if last else FIRST[of_single], of_single)
    number = function.text(m, where(_outside(function, x[0]), function.safe, x[0]), *x[1:])
    number, e = number if isinstance(number, tuple) else (number, 0)
    e = None if type(e) is int and e == 0 else e
    error = error_of(function, m, of_single)
    result, undecided = (_to_single if of_single else _to_double)(m, number, e, error)
    for condition in m.doubts:
        undecided = undecided | condition
    return result, undecided


def beside_text(function: Function, of_single: bool, otherwise: Any, *x: Any) -> tuple[Any, Any]:
    """Return the values that stand beside the text, `otherwise` elsewhere, and which are such values.

    So are those of all arguments that the text does not take.
    """
    near_0 = ((_near_0, _half_of_single if of_single else _half),) if function.halved else ()
    rules = (*near_0, *function.special)
    outside = _outside(function, x[0])
    rules = (*rules, (lambda *_: outside, nan)) if function.nan_outside else ((_nan, nan), *rules)
    result, found = otherwise, outside
    for condition, value in rules:
        holds = condition(*x)
        result = where(holds, value(*x) if callable(value) else value, result)
        found = found | holds
    return result, found


def _outside(function: Function, x: Any) -> Any:
    """Return where a text does not take an argument."""
    if function.nan_outside:
        return ~(abs(x) <= function.high)  # or NaN
    return _nan(x) | (x < function.low) | (x > function.high)


def error_of(function: Function, m: Machine, of_single: bool) -> float:
    """Return the relative error that a text's number is taken to have, at most.

    It is more than twice the largest error measured, of some hundred arguments of each text, many of them
    where errors are largest (tests/elementary/test_errors.py), but for arguments from which on a function
    changes no more, where rounding is certain. float32 functions of one argument need no such bound: all of
    them are compared with exact values.
    """
    return 2.0 ** -(m.bits - MARGIN[m.bits] - function.loss[2 if m.last else not of_single])


def _nan(x: Any, y: Any = 0.0) -> Any:
    return (x != x) | (y != y)


def _near_0(x: Any) -> Any:
    return abs(x) < 2.0**-60


def _half_of_single(x: Any) -> Any:
    """Return x/2 and a little more, which is then rounded to float32: up, where x/2 is half way."""
    return x * 0.5 + abs(x) * 2.0**-50


def _half(x: Any) -> Any:
    """Return x/2, of two float64 numbers as near the upper one."""
    half = x * 0.5
    smallest = 2.0**-1074
    upper = where(x < 0.0, (abs(x) - smallest) * -0.5, (x + smallest) * 0.5)  # -0, too
    return where(half + half == x, half, upper)


def _scaled(x: Any, e: Any) -> Any:
    """Return x·2**e, by two powers of two, neither of which leaves the range."""
    half = e >> 1
    return x * power(half) * power(e - half)


def _to_single(m: Machine, x: Number, e: Any, error: float) -> tuple[Any, Any]:
    if e is not None:  # beyond such powers of two results are 0 or Inf
        unit = power(where(e > 300, 300, where(e < -300, -300, e)))
    hi = x.hi if e is None else x.hi * unit
    if not m.pairs:
        return hi, _near_middle(hi, error)
    lo = 0.0 if x.lo is None else x.lo if e is None else x.lo * unit
    margin = (abs(hi) if m.beside is None else m.beside) * error
    result = single(_odd_sum(hi, lo + margin))
    undecided = result != single(_odd_sum(hi, lo - margin))
    for tie in m.ties:
        result, undecided = where(tie, hi, result), undecided & ~tie
    return where(result == 0.0, x.hi * 0.0, result), undecided


def _near_middle(x: Any, error: float) -> Any:
    """Return whether x may be on the other side of a middle of two float32 numbers.

    Such a middle has a 1 and zeros in the last 29 bits; of a subnormal number, after the smallest normal one
    has been added to it. An error is less than so many times 2**53 units.
    """
    units = int(error * 2.0**53)
    magnitude = abs(x)
    placed = where(magnitude < 2.0**-126, magnitude + 2.0**-126, x)
    return ((bits(placed) + (units - (1 << 28))) & ((1 << 29) - 1)) <= 2 * units


def _odd_sum(a: Any, b: Any) -> Any:
    """Return a + b rounded to odd, so that it can be rounded again (Boldo and Melquiond 2008)."""
    s, e = ordered_sum(a, b)
    pattern = bits(s)
    odd = pattern + where((e > 0.0) == (s > 0.0), 1, -1)
    return unbits(where((e != 0.0) & ((pattern & 1) == 0), odd, pattern))


def _to_double(m: Machine, x: Number, e: Any, error: float) -> tuple[Any, Any]:
    lo = 0.0 if x.lo is None else x.lo
    if not m.last and m.beside is None:
        return _at_once(x.hi, lo, e, error)
    margin = (abs(x.hi) if m.beside is None else m.beside) * error
    result = x.hi + (lo + margin)
    undecided = result != x.hi + (lo - margin)
    if e is None:
        return result, undecided
    result = _scaled(result, e)
    subnormal = abs(result) < 2.0**-1022
    small, unsure = _subnormal(x.hi, lo, margin, where(e < -1200, -1200, where(e > -60, -60, e)))
    small = where(small == 0.0, x.hi * 0.0, small)  # with its sign
    return where(subnormal, small, result), where(subnormal, unsure, undecided)


def _at_once(hi: Any, lo: Any, e: Any, error: float) -> tuple[Any, Any]:
    """Return hi·2**e, and whether that is undecided: unless it is normal, and hi + lo·(1 + δ) rounds to hi.

    Let h be half the gap between hi and its neighbour on the side of lo: |hi| <= 2**54·h. Where
    |lo|·(1 + δ) <= h, |lo| + error·|hi| <= h/(1 + δ) + 2**54·error·h < h for 1 + δ > 1/(1 - 2**54·error), and
    no number within the error rounds to another. 1.01·2**54·error is such a δ while it is below 1/128.
    """
    undecided = fma(lo, 1.0 + 1.01 * 2.0**54 * error, hi) != hi
    if e is None:
        return hi, undecided
    pattern = bits(hi)
    exponent = ((pattern >> 52) & 2047) + e
    return unbits(pattern + (e << 52)), undecided | (exponent < 1) | (exponent > 2046)


def _subnormal(hi: Any, lo: Any, margin: Any, e: Any) -> tuple[Any, Any]:
    """Return (hi + lo)·2**e rounded to a multiple of 2**-1074, and whether that is undecided."""
    unit = power(e + 1074)
    shift = where(
        hi < 0.0, -(2.0**52), 2.0**52
    )  # sums with it are integers, up to the smallest normal number
    n = (hi * unit + shift) - shift
    rest = hi * unit - n

    def whole(more: Any) -> tuple[Any, Any]:
        """Return n or its neighbour, whichever is nearest to rest + more, and whether none is."""
        s, e = two_sum(rest, more)  # e tells the side of a middle that s alone would hide
        above, below = (s > 0.5) | ((s == 0.5) & (e > 0.0)), (s < -0.5) | ((s == -0.5) & (e < 0.0))
        return n + where(above, 1.0, where(below, -1.0, 0.0)), (abs(s) == 0.5) & (e == 0.0)

    (up, tie), (down, other) = whole((lo + margin) * unit), whole((lo - margin) * unit)
    return up * 2.0**-537 * 2.0**-537, (up != down) | tie | other


# integers ---------------------------------------------------------------------------------------------

MOST = 4000
"""Bits with which no value but a tie is undecided."""


def decided(function: Function, dtype: np.dtype, *x: float) -> Any:
    """Return a function's value of one argument, by numbers of ever more bits."""
    if function.exact is not None and (rational := function.exact(*x)) is not None:
        return nearest(rational, dtype)
    bits_ = 160
    while True:
        many = Many(bits_)
        value = function.text(many, *x)
        value, e = value if isinstance(value, tuple) else (value, 0)
        exact = Fraction(value.m) * Fraction(2) ** (value.e + int(e))
        error = abs(exact) / 2 ** max(0, bits_ - 24 - many.lost)
        low, high = nearest(exact - error, dtype), nearest(exact + error, dtype)
        if low == high and many.lost < bits_:
            return low
        if bits_ > MOST:  # the exact value is half way between two numbers, as 10**23 is
            place = Fraction(2) ** (value.top + int(e) - 64)
            return nearest(round(exact / place) * place, dtype)
        bits_ *= 2


def nearest(x: Fraction, dtype: np.dtype) -> Any:
    """Return the number of a dtype nearest to x, of ties the even one."""
    try:
        result = np.float64(float(x))
    except OverflowError:
        return dtype.type(inf if x > 0 else -inf)
    if dtype == np.float64:
        return result
    rest, pattern = x - Fraction(float(result)), int(result.view(np.int64))
    if rest and not pattern & 1:  # rounded to odd, it can be rounded again
        pattern += 1 if (rest > 0) == (x > 0) else -1
    return round_to(np.int64(pattern).view(np.float64), FORMATS_OF[dtype])[()]
