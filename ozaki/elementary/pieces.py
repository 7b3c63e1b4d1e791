"""erf and its tails by Taylor's polynomials around the centres of intervals.

Taylor coefficients come from the functions' differential equations, in many digits.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np

from ozaki.elementary import digits
from ozaki.elementary.digits import Big
from ozaki.elementary.tables import fraction, words
from ozaki.elementary.values import bits, fma, nearest, take
from ozaki.elementary.words import Number, Words

ERF_STEPS, ERF_END = 128, 6
TAIL_OCTAVES, TAIL_SPLIT = 6, 32
TERMS = 30
_BITS = 700  # recurrences lose some 200


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
def erfs() -> np.ndarray:
    """erf(c) and 2/√π·exp(-c²), each in two words, at multiples c of 1/ERF_STEPS."""
    scale = (4 / digits.pi(_BITS)).sqrt()
    centres = [Big.of(Fraction(i, ERF_STEPS), _BITS) for i in range(ERF_STEPS * ERF_END + 1)]
    pairs = [(digits.erf(c), scale * digits.exp(-(c * c))) for c in centres]
    return np.array([[w for x in pair for w in words(fraction(x), 2)] for pair in pairs])


@cache
def _erf_terms() -> list[tuple[float, list[Fraction]]]:
    """What the term of each d_j is of erf, at most, and d_j/(j + 1): d_(j+1) = -2·(c·d_j + d_(j-1))/(j + 1).

    d_j·j!·(-1)**j is Hermite's polynomial of c: in c² from the first coefficient on, times c where j is odd.
    """
    table, h = erfs(), 0.5 / ERF_STEPS
    c = np.arange(len(table)) / ERF_STEPS
    least = np.where(c == 0.0, table[:, 2] * h, table[:, 0] - table[:, 2] * h)
    size, smaller = np.ones(len(c)), np.zeros(len(c))
    row, before, terms = [Fraction(1)], [Fraction(0)], []
    for j in range(TERMS):
        bound = np.max(abs(size) * table[:, 2] * h ** (j + 1) / (j + 1) / least)
        terms.append((float(bound), [x / (j + 1) for x in row]))
        size, smaller = -2.0 * (c * size + smaller) / (j + 1), size
        shifted = row if j % 2 == 0 else [Fraction(0), *row]  # times c
        longer = [*before, *[Fraction(0)] * (len(shifted) - len(before))]
        row, before = [-2 * (a + b) / (j + 1) for a, b in zip(shifted, longer, strict=True)], row
    return terms


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


def erf(m: Words, x: Any) -> Number:
    """Return erf(c + h) = erf(c) + 2/√π·exp(-c²)·h·Σ d_j(c)/(j + 1)·h**j, for values 0 <= x <= 6."""
    n, i = nearest(x * float(ERF_STEPS))
    c = n * (1 / ERF_STEPS)
    h, square, table = Number(m, x - c), c * c, erfs()
    known, slope = m.row("erfs", table, i, 0), m.row("erfs", table, i, 2)

    def term(j: int, row: list[Fraction]) -> Callable[[Words], Number]:
        def at_c(words: Words) -> Number:
            exact = [(float(abs(x)), partial(Words.number, x=x)) for x in [*row, Fraction(0)]]
            d = words.polynomial(words.number(square), exact, ERF_END**2, max(words.bits, 53))
            return d * c if j % 2 else d

        return at_c

    terms = [(bound, term(j, row)) for j, (bound, row) in enumerate(_erf_terms())]
    if m.bits > 90:
        return known.plus_smaller(slope * (h * m.polynomial(h, terms, 1.0, m.bits)))
    # The terms from h² on are less than 2**-16 of erf: one float64 number is enough for them.
    rest = Words(0).polynomial(h, terms[1:], 1.0, min(m.bits - 16, 53)).hi
    step = m.number(h.hi, h.hi * h.hi * rest) if m.pairs else m.number(fma(h.hi * h.hi, rest, h.hi))
    return known.plus_product(slope, step).tidy()


def tail(m: Words, x: Any, normal: bool) -> Number:
    """Return exp(x²)·erfc(x), or exp(x²/2)·Q(x), for values 0 <= x < 62."""
    i = (bits(x + 1.0) >> 47) - (1023 << 5)
    return _piece(m, "normal_tails" if normal else "tails", *tails(normal), x, i)
