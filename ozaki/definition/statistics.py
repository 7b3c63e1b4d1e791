"""The statistics of a row: integers that depend on the set of its numbers alone.

Neither the order nor the cut of the inner dimension can show: the exponent is a maximum, and sums of integers
relative to it add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import floor, frexp, isfinite
from typing import NamedTuple

BITS = 16
"""Magnitudes are taken as integers of this many bits, relative to the largest in their row."""

FINE, COARSE, STEP = 10, 8, 3
LEVELS = (*range(FINE), *range(FINE - 1 + STEP, FINE + STEP * COARSE, STEP))
"""Octaves below a row's largest magnitude down to which its numbers are counted: each of the first,
where most numbers are, then every third, for numbers that spread far."""


class Statistics(NamedTuple):
    """What scales and the certificate know of a row; of a complex one, of all its real and imaginary parts.

    exponent : e with 2**(e - 1) <= max |x| < 2**e.
    total, square : Σ(t + 1) and Σ(t + 1)², for t = ⌊|x|·2**(BITS - e)⌋: bounds of Σ|x| and Σx² from above.
    counts : how many |x| >= 2**(e - 1 - q), for the q in LEVELS.
    """

    exponent: int
    total: int
    square: int
    counts: tuple[int, ...]


def statistics_of(row: Sequence[float]) -> Statistics | None:
    """Return the statistics of a row; None where it has an Inf or NaN, or nothing but zeros.

    >>> statistics_of([1.0, -3.0])[:3]
    (2, 65538, 2684485634)
    """
    if not all(map(isfinite, row)) or not any(row):
        return None
    exponents = [frexp(x)[1] for x in row if x]  # 2**(exponent - 1) <= |x| < 2**exponent
    e = max(exponents)
    unit = Fraction(2) ** (BITS - e)
    magnitudes = [floor(abs(Fraction(x)) * unit) + 1 for x in row]
    counts = [sum(exponent >= e - q for exponent in exponents) for q in LEVELS]
    return Statistics(e, sum(magnitudes), sum(t * t for t in magnitudes), tuple(counts))
