"""Smooth functions by polynomials around the centres of intervals: erf and its tails.

Taylor coefficients come from the functions' differential equations, in many digits.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from ozaki.elementary import digits
from ozaki.elementary.digits import Big
from ozaki.elementary.tables import fraction, words
from ozaki.elementary.values import bits, nearest, take
from ozaki.elementary.words import Number, Words

ERF_STEPS, ERF_END = 16, 6
TAIL_OCTAVES, TAIL_SPLIT = 6, 32
TERMS = 30
_BITS = 700  # recurrences lose some 200


def _erf_ratio(c: Fraction) -> list[Big]:
    """Return Taylor's coefficients at c of erf(x)/x."""
    zero, one = Big(0, 0, _BITS), Big.of(1, _BITS)
    scale = (4 * one / digits.pi(_BITS)).sqrt()
    if c == 0:
        series, term = [], scale
        for j in range(TERMS):
            series += [term / (2 * j + 1), zero]
            term = -term / (j + 1)
        return series[:TERMS]
    at = Big.of(c, _BITS)
    density = [scale * digits.exp(-(at * at))]
    for j in range(TERMS):
        before = density[j - 1] if j else zero
        density.append(-(at * density[j] + before) * 2 / (j + 1))
    erf = [digits.erf(at)] + [density[j] / (j + 1) for j in range(TERMS)]
    ratio: list[Big] = []
    for j in range(TERMS):
        ratio.append((erf[j] - (ratio[-1] if j else zero)) / at)
    return ratio


def _tail(c: Fraction, normal: bool) -> list[Big]:
    """Return Taylor's coefficients at c of y = exp(x²)·erfc(x): y' = 2xy - 2/√π.

    normal : of exp(x²/2)·Q(x) instead, Q the normal distribution's tail: y' = xy - 1/√(2π).
    """
    one, at = Big.of(1, _BITS), Big.of(c, _BITS)
    pi = digits.pi(_BITS)
    if normal:
        y = [digits.erfcx(at * one / Big.of(2, _BITS).sqrt()) / 2]
        slope, factor = (one / (2 * pi)).sqrt(), 1
    else:
        y = [digits.erfcx(at)]
        slope, factor = (4 * one / pi).sqrt(), 2
    for j in range(TERMS - 1):
        following = at * y[j] * factor
        following = following + y[j - 1] * factor if j else following - slope
        y.append(following / (j + 1))
    return y


def _rows(
    centres: list[Fraction], widths: list[Fraction], coefficients: Any
) -> tuple[np.ndarray, list[Fraction]]:
    """Return a centre and two words of each coefficient in a row, and the largest relative terms."""
    rows, bounds = [], [Fraction(0)] * TERMS
    for c, width in zip(centres, widths, strict=True):
        exact = [fraction(x) for x in coefficients(c)]
        rows.append([float(c), 0.0] + [w for x in exact for w in words(x, 2)])
        bounds = [
            max(b, abs(x / exact[0]) * width**j) for j, (b, x) in enumerate(zip(bounds, exact, strict=True))
        ]
    return np.array(rows), bounds


@cache
def erf_ratios() -> tuple[np.ndarray, list[Fraction]]:
    """Coefficients of erf(x)/x for 0 <= x <= ERF_END, at multiples of 1/ERF_STEPS."""
    centres = [Fraction(i, ERF_STEPS) for i in range(ERF_STEPS * ERF_END + 1)]
    return _rows(centres, [Fraction(1, 2 * ERF_STEPS)] * len(centres), _erf_ratio)


@cache
def tails(normal: bool) -> tuple[np.ndarray, list[Fraction]]:
    """Coefficients of `_tail` for 1 <= x + 1 < 2**TAIL_OCTAVES, of which each octave has TAIL_SPLIT rows."""
    count = TAIL_OCTAVES * TAIL_SPLIT
    lows = [2 ** (i // TAIL_SPLIT) * (1 + Fraction(i % TAIL_SPLIT, TAIL_SPLIT)) for i in range(count)]
    widths = [Fraction(2 ** (i // TAIL_SPLIT), 2 * TAIL_SPLIT) for i in range(count)]
    centres = [low + width - 1 for low, width in zip(lows, widths, strict=True)]
    return _rows(centres, widths, lambda c: _tail(c, normal))


def _piece(m: Words, name: str, table: np.ndarray, bounds: list[Fraction], x: Any, i: Any) -> Number:
    """Return a function's value from the row of an interval."""
    z = m.number(x) - take(name, table, i, 0)

    def coefficient(j: int) -> Any:
        return lambda words: words.row(name, table, i, 2 + 2 * j)

    terms = [(b, coefficient(j)) for j, b in enumerate(bounds)]
    return m.polynomial(z, terms, 1.0, m.bits)


def erf_ratio(m: Words, x: Any) -> Number:
    """Return erf(x)/x for values 0 <= x <= 6."""
    _, i = nearest(x * float(ERF_STEPS))
    return _piece(m, "erf_ratios", *erf_ratios(), x, i)


def tail(m: Words, x: Any, normal: bool) -> Number:
    """Return exp(x²)·erfc(x), or exp(x²/2)·Q(x), for values 0 <= x < 62."""
    i = (bits(x + 1.0) >> 47) - (1023 << 5)
    return _piece(m, "normal_tails" if normal else "tails", *tails(normal), x, i)
