"""erf and its tails by Taylor's polynomials around points of a table, from their differential equations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ozaki.elementary import digits, tables
from ozaki.elementary.digits import Big
from ozaki.elementary.tables import fraction, words
from ozaki.elementary.values import fma, nearest
from ozaki.elementary.words import Number, Words, ordered_sum, two_product

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


def _coefficients(
    m: Words, equation: Equation, c: Any, row: Callable[[int], Number], count: int, pairs: int = 0
) -> list[Number]:
    """Return y_0, y_1, … at c, those before `pairs`, and the first two, in the words of m, others in one.

    row : the number in two columns of the table's row, from the given one on.
    """
    y, plain = [row(0)], Words(0)
    if equation.slope and m.quick:  # the constant is larger
        constant, of_c = m.number(tables.constant(equation.slope)), c * equation.factor
        p, e = two_product(y[0].hi, of_c)
        s, d = ordered_sum(-constant.hi, p)
        y.append(Number(m, *ordered_sum(s, d + (fma(y[0].lo, of_c, e) - constant.lo))))
    elif equation.slope:
        y.append(y[0] * (c * equation.factor) - m.number(tables.constant(equation.slope)))
    else:
        y.append(row(2))
    for j in range(1, count - 1):
        (before, last), share, ratio = y[-2:], equation.share(j), Fraction(equation.factor, j + 1)
        if j + 1 < pairs:
            y.append((last * c + before * m.number(share)) * m.number(ratio))
        else:
            y.append(Number(plain, fma(c, last.hi, before.hi * float(share)) * float(ratio)))
    return y


@cache
def largest_terms(name: str) -> list[float]:
    """What terms are of the sum, at most."""
    equation, table, plain = EQUATIONS[name], points(name), Words(0)
    c, h = np.arange(len(table)) / equation.steps, 0.5 / equation.steps
    y = [t.hi for t in _coefficients(plain, equation, c, lambda k: Number(plain, table[:, k]), _TERMS)]
    least = y[0] if equation.slope else np.where(c == 0.0, y[1] * h, y[0] - y[1] * h)
    return [float(np.max(abs(z) / least)) * h**j for j, z in enumerate(y)]


def value(m: Any, name: str, x: Any) -> Number:
    """Return a function's value Σ y_j(c)·(x - c)**j, for values from 0 to the end of its table.

    Its words may overlap.
    Terms are in float64 from where its rounding errors are no more than some ten times the machine's; `loss`
    has these.
    """
    equation, table, sizes = EQUATIONS[name], points(name), largest_terms(name)
    n, i = nearest(x * float(equation.steps))
    c = n * (1 / equation.steps)
    h, count = m.number(x - c), next(j for j in range(_TERMS) if max(sizes[j:]) < 2.0 ** -(m.bits + 2))
    pairs = sum(size > 2.0 ** (56.5 - m.bits) for size in sizes) if m.pairs else 0
    terms = _coefficients(m, equation, c, lambda k: m.row(name, table, i, k), count, pairs)
    total = terms.pop()
    while terms:
        total = terms.pop().plus_product(h, total)
    return total
