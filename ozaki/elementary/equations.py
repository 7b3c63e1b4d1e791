"""erf and its tails by Taylor's polynomials around points of a table, from their differential equations."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ozaki.elementary import digits, tables
from ozaki.elementary.digits import Big
from ozaki.elementary.tables import fraction, words
from ozaki.elementary.values import fma, nearest
from ozaki.elementary.words import Number, Words

_BITS, _TERMS = 200, 30


class Equation(NamedTuple):
    """A function whose coefficients at c are y_(j+1) = (c·y_j + s_j·y_(j-1))·factor/(j + 1).

    Attributes
    ----------
    steps, end : rows of its table to a unit, and the last point.
    factor : as above.
    slope : y_1 is factor·c·y_0 less this constant, s_j 1; without, the table has y_1, and s_j is (j - 1)/j.
    """

    steps: int
    end: int
    factor: int
    slope: str | None = None

    def share(self, j: int) -> Fraction:
        """Return s_j."""
        return Fraction(1) if self.slope else Fraction(j - 1, j)

    def points(self) -> Iterator[Big]:
        """Yield the points of its table."""
        return (Big.of(Fraction(i, self.steps), _BITS) for i in range(self.steps * self.end + 1))


EQUATIONS = {
    "erf": Equation(128, 6, -2),
    "tail": Equation(64, 28, 2, "2/sqrt(pi)"),
    "normal_tail": Equation(64, 40, 1, "1/sqrt(2*pi)"),
}
"""erf, y'' = -2x·y'; exp(x²)·erfc(x), y' = 2x·y - 2/√π; exp(x²/2)·Q(x), y' = x·y - 1/√(2π)."""


@cache
def points(name: str) -> np.ndarray:
    """The values of an equation's function at its points, and erf's derivatives, each in two words."""
    equation = EQUATIONS[name]
    if name == "erf":
        scale = (4 / digits.pi(_BITS)).sqrt()
        rows = [[digits.erf(c), scale * digits.exp(-(c * c))] for c in equation.points()]
    elif name == "tail":
        rows = [[digits.erfcx(c)] for c in equation.points()]
    else:
        root = Big.of(2, _BITS).sqrt()
        rows = [[digits.erfcx(c / root).scaled(-1)] for c in equation.points()]
    return np.array([[w for x in row for w in words(fraction(x), 2)] for row in rows])


@cache
def largest_terms(name: str) -> list[float]:
    """What terms are of the sum, at most."""
    equation, table = EQUATIONS[name], points(name)
    c, h = np.arange(len(table)) / equation.steps, 0.5 / equation.steps
    terms = [table[:, 0]]
    if equation.slope:
        terms.append(equation.factor * c * terms[0] - float(tables.constant(equation.slope)))
        least = terms[0]
    else:
        terms.append(table[:, 2])
        least = np.where(c == 0.0, terms[1] * h, terms[0] - terms[1] * h)
    for j in range(1, _TERMS):
        terms.append((c * terms[j] + float(equation.share(j)) * terms[j - 1]) * equation.factor / (j + 1))
    return [float(np.max(abs(y) / least)) * h**j for j, y in enumerate(terms)]


def value(m: Any, name: str, x: Any) -> Number:
    """Return a function's value from its equation, for values from 0 to the end of its table.

    Terms are in float64 from where its rounding errors are no more than some ten times the machine's; `loss`
    has these.
    """
    equation, table, sizes = EQUATIONS[name], points(name), largest_terms(name)
    n, i = nearest(x * float(equation.steps))
    c, plain = n * (1 / equation.steps), Words(0)
    h, terms = m.number(x - c), [m.row(name, table, i, 0)]
    if equation.slope:
        terms.append(terms[0] * (c * equation.factor) - m.constant(equation.slope))
    else:
        terms.append(m.row(name, table, i, 2))
    for j in range(1, next(j for j in range(_TERMS) if max(sizes[j:]) < 2.0 ** -(m.bits + 2)) - 1):
        (before, last), share, ratio = terms[-2:], equation.share(j), Fraction(equation.factor, j + 1)
        if m.pairs and sizes[j + 1] > 2.0 ** (56.5 - m.bits):
            terms.append((last * c + before * m.number(share)) * m.number(ratio))
        else:
            terms.append(Number(plain, fma(c, last.hi, before.hi * float(share)) * float(ratio)))
    total = terms.pop()
    while terms:
        total = terms.pop().plus_product(h, total)
    return total.tidy()
