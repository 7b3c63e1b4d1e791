"""Tables and constants, computed in many digits at their first use: the same integers on every machine."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from math import comb, factorial

import numpy as np

from ozaki.elementary import digits
from ozaki.elementary.digits import Big

BITS = 256
"""Of the numbers that tables are made of."""

STEPS, TURN_STEPS = 128, 512
"""exp: numbers 2**(i/128). sin, cos: numbers at i·π/256."""

LOG_STEPS, LOG_SPLIT = 256, 106
"""log: intervals of m, of which those from LOG_SPLIT on are of m / 2, below 1."""

TURN_WORDS = 6
FIRST_TURN = 10

EXP = [Fraction(1, factorial(j + 1)) for j in range(40)]
"""(exp(r) - 1) / r."""
LOG = [Fraction((-1) ** j, j + 1) for j in range(60)]
"""log(1 + z) / z."""
SIN = [Fraction((-1) ** j, factorial(2 * j + 1)) for j in range(20)]
"""sin(r) / r, in r²."""
COS = [Fraction((-1) ** (j + 1), factorial(2 * j + 2)) for j in range(20)]
"""(cos(r) - 1) / r², in r²."""
SINH, COSH = ([abs(c) for c in series] for series in (SIN, COS))
"""sinh(r) / r and (cosh(r) - 1) / r², in r²."""
TAN = [Fraction(1)]
for _j in range(1, 30):  # tan' = 1 + tan²
    TAN.append(sum((TAN[i] * TAN[_j - 1 - i] for i in range(_j)), Fraction(0)) / (2 * _j + 1))
"""tan(r) / r, in r²."""
ATAN = [Fraction((-1) ** j, 2 * j + 1) for j in range(40)]
"""atan(z) / z, in z²."""
ASIN = [Fraction(comb(2 * j, j), 4**j * (2 * j + 1)) for j in range(40)]
"""asin(z) / z, in z²."""
ASINH = [(-1) ** j * c for j, c in enumerate(ASIN)]
"""asinh(z) / z, in z²."""
CBRT = [Fraction(1)]
for _j in range(60):
    CBRT.append(CBRT[-1] * (Fraction(1, 3) - _j) / (_j + 1))
"""(1 + z)**(1/3)."""


def fraction(x: Big) -> Fraction:
    """Return a number exactly."""
    return Fraction(x.m) * Fraction(2) ** x.e


def cut(x: Fraction, places: int) -> Fraction:
    """Return a number rounded to a multiple of 2**-places."""
    return Fraction(round(x * 2**places), 2**places)


def words(x: Fraction, count: int, places: int | None = None) -> list[float]:
    """Return the float64 numbers that add up to x, the first of them a multiple of 2**-places if given."""
    first = [] if places is None else [cut(x, places)]
    rest = x - sum(first)
    while len(first) < count:
        first.append(Fraction(float(rest)))
        rest -= first[-1]
    return [float(w) for w in first]


@cache
def constant(name: str, bits: int = BITS) -> Fraction:
    """Return a constant to so many bits."""
    one, ln2, pi = Big.of(1, bits), digits.ln2(bits), digits.pi(bits)
    log10 = digits.log(Big.of(10, bits))
    values = {
        "ln2": ln2,
        "ln10": log10,
        "1/ln2": one / ln2,
        "1/ln10": one / log10,
        "log10(2)": ln2 / log10,
        "pi": pi,
        "sqrt(2/pi)": (2 / pi).sqrt(),
        "2/sqrt(pi)": (4 / pi).sqrt(),
        "1/sqrt(2*pi)": (one / (2 * pi)).sqrt(),
    }
    return fraction(values[name])


@cache
def powers() -> np.ndarray:
    """2**(i/STEPS) in two words."""
    ln2 = digits.ln2(BITS)
    rows = [digits.exp(ln2 * i / STEPS) for i in range(STEPS)]
    return np.array([words(fraction(x), 2) for x in rows])


def _log_centres() -> Iterator[Fraction]:
    for i in range(LOG_STEPS):
        yield (1 + Fraction(2 * i + 1, 2 * LOG_STEPS)) / (2 if i >= LOG_SPLIT else 1)


@cache
def logs() -> np.ndarray:
    """r = 1/m for the centre of an interval, 1 around 1; -log r in three words, the first cut; and in one.

    r is a multiple of 1/256, so that m·r - 1 is a float64 number for every m of the interval.
    """
    rows = []
    for centre in _log_centres():
        r = 1.0 if abs(centre - 1) < Fraction(1, LOG_STEPS) else round(256 / centre) / 256
        minus_log = -fraction(digits.log(Big.of(r, BITS)))
        rows.append([r, *words(minus_log, 3, 42), float(minus_log)])
    return np.array(rows)


@cache
def cube_roots() -> np.ndarray:
    """The cube root of 2**j/r, r of `logs`, in row LOG_STEPS·j + i, in two words."""
    third = []
    for j in range(3):
        for r in logs()[:, 0]:
            log = digits.log(Big.of(float(r), BITS))
            third.append(digits.exp((digits.ln2(BITS) * j - log) / 3))
    return np.array([words(fraction(x), 2) for x in third])


@cache
def turns() -> np.ndarray:
    """sin and cos of i·π/256, each in two words."""
    half = TURN_STEPS // 2
    rows = [digits.sin_cos(Big.of(i / half, BITS), turns=True) for i in range(TURN_STEPS)]
    return np.array([[w for x in pair for w in words(fraction(x), 2)] for pair in rows])


@cache
def quarters() -> np.ndarray:
    """Row e: 2**(e + FIRST_TURN - 52)·64/π modulo STEPS, in words of 27 bits at most, and the last of 53."""
    per_turn = fraction(Big.of(1, 1400) / digits.pi(1400)) * (STEPS // 2)
    rows = []
    for e in range(FIRST_TURN, 1024):
        rest = per_turn * Fraction(2) ** (e - 52) % STEPS
        row = []
        for j in range(TURN_WORDS - 1):
            places = 27 * (j + 1) - 7
            row.append(Fraction(rest.numerator * 2**places // rest.denominator, 2**places))
            rest -= row[-1]
        rows.append([*map(float, row), float(rest)])
    return np.array(rows)


@cache
def arctangents() -> np.ndarray:
    """atan(i/128) in two words, to i = 128, and rows that nothing reads."""
    rows = [digits.atan(Big.of(min(i, 128) / 128, BITS)) for i in range(256)]
    return np.array([words(fraction(x), 2) for x in rows])


@cache
def arcsines() -> np.ndarray:
    """asin(i/128) and √(1 - (i/128)²), each in two words."""
    rows = []
    for i in range(128):
        sine = Big.of(i / 128, BITS)
        cosine = (1 - sine * sine).sqrt()
        rows.append([w for x in (digits.atan(sine / cosine), cosine) for w in words(fraction(x), 2)])
    return np.array(rows)
