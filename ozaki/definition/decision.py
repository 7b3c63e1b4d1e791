"""How wide the integers of "fp64" and "fp32" must be: proved from the data, alike on every machine.

With scaled rows a' of A and columns b' of B, and every rounding at most one half,

    |C' − a'·b'| <= T = (Σ|a'| + Σ|b'|)/2 + k/4,

and the certificate is T <= tol·u·Σ|a'||b'| for every pair of a row and a column. Two bounds can prove it. The
few divisions and roots are float64's, of numbers that every machine has alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from multiword.formats import FORMATS
from ozaki.definition.scales import NormLimit, limit_of, norm_scale
from ozaki.definition.statistics import BITS, LEVELS, Statistics, statistics_of

OCTAVES = 44
"""Octaves below the norm limit over which scaled magnitudes are counted."""

LARGEST = 127
"""The largest truncated magnitude, of seven bits: what is larger counts as this."""

WIDENED_BY_COUNTING, WIDENED_IN_ALL = 7, 54
"""Bits by which the counting bound may widen all integers, for more cost more than a pairwise bound, and bits
by which that may."""

EVERYTHING = 1 << 20
"""Bits of integers that lose nothing: where no bound proves less to be enough."""

Rows = Sequence[Sequence[float]]
"""The rows of A, or the columns of B: of complex ones the real parts, then the imaginary parts."""


class Side(NamedTuple):
    """A factor: its rows, their statistics, and the norm scales that fill the limit."""

    rows: Rows
    statistics: list[Statistics | None]
    scales: list[int]

    @classmethod
    def of(cls, rows: Rows, limit: NormLimit) -> Side:
        """Return the side of some rows."""
        statistics = [statistics_of(row) for row in rows]
        return cls(rows, statistics, [norm_scale(s, limit) for s in statistics])

    def summed(self) -> list[int]:
        """Return the indices of the rows that count: those with a nonzero number and no Inf or NaN."""
        return [i for i, s in enumerate(self.statistics) if s is not None]

    def total(self, i: int) -> float:
        """Return an upper bound of Σ|a'| of a row."""
        s = self.statistics[i]
        assert s is not None
        return math.ldexp(s.total, s.exponent + self.scales[i] - BITS)

    def reach(self, i: int, top: int) -> list[int]:
        """Return of how many |a'| of a row it is known that they are at least 2**(top − d), d = 0, 1, …"""
        s = self.statistics[i]
        assert s is not None
        below = [s.exponent + self.scales[i] - 1 - (top - d) for d in range(OCTAVES)]
        return [s.counts[max(j for j, q in enumerate(LEVELS) if q <= x)] if x >= 0 else 0 for x in below]


def widening(sides: tuple[Side, Side], parts: int, target: str) -> tuple[int, tuple[Side, Side]]:
    """Return the bits by which all integers must grow, and the sides, equilibrated if that was done.

    sides : the rows of A and the columns of B. parts : 1 for real matrices, 2 for complex ones. target :
    "fp64" or "fp32".
    """
    length = len(sides[0].rows[0])
    limit, u = limit_of(target, length), FORMATS[target].unit_roundoff
    tolerance = min(length / 2, 12 * math.sqrt(length)) * u
    bits = bits_for(counting_error(sides, limit), tolerance, limit)
    if bits > WIDENED_BY_COUNTING and (others := equilibrated(sides, parts, limit)) is not None:
        sides, bits = others, bits_for(counting_error(others, limit), tolerance, limit)
    if bits > WIDENED_BY_COUNTING:
        ratio = pairwise_error(sides, parts, limit) / min(4 * math.sqrt(length), length / 2)
        bits = min(bits, bits_for(ratio, u, limit))
    return bits, sides


def bits_for(error: float, tolerance: float, limit: NormLimit) -> int:
    """Return the bits that bring an error below a tolerance, or up to three more: each bit halves it."""
    if error <= tolerance:
        return 0
    if error == math.inf:
        return EVERYTHING
    least = math.frexp(error / tolerance)[1]
    return next((bits for bits in limit.widenings if bits >= least), least)


def counting_error(sides: tuple[Side, Side], limit: NormLimit) -> float:
    """Return a bound of T / Σ|a'||b'| over all pairs, from the counts of octaves alone.

    If N numbers of a row are at least x, and M numbers of a column at least y, at least N + M − k of their
    products are at least x·y, whatever their order. |x| is at least the sum of half of every threshold that
    it reaches, of the lowest all of it.
    """
    if not all(side.summed() for side in sides):
        return 0.0
    length, top = len(sides[0].rows[0]), limit.bits // 2
    totals = [max(side.total(i) for i in side.summed()) for side in sides]
    least = [list(map(min, zip(*(side.reach(i, top) for i in side.summed()), strict=True))) for side in sides]
    shares = [1 << max(OCTAVES - 2 - d, 0) for d in range(OCTAVES)]  # of 2**(top − d − 1), or the lowest
    lower = sum(
        max(n + m - length, 0) * x * y
        for n, x in zip(least[0], shares, strict=True)
        for m, y in zip(least[1], shares, strict=True)
    )
    truncation = 0.5 * sum(totals) + 0.25 * length
    unit = top - 1 - (OCTAVES - 2)
    return truncation / math.ldexp(float(lower), 2 * unit) if lower else math.inf


def pairwise_error(sides: tuple[Side, Side], parts: int, limit: NormLimit) -> float:
    """Return a bound of T / Σ|a'||b'| over all pairs, from exact products of magnitudes in seven bits.

    The scale of a row's magnitudes brings into the octave of 127 what isqrt(k) numbers of it reach, but at
    most half of those counted: then a row and a column without structure have several of these in common.
    """
    length, top = len(sides[0].rows[0]), limit.bits // 2
    cut = [{i: _truncated(side, i, top) for i in side.summed()} for side in sides]
    largest = 0.0
    for i, (a, offset_a) in cut[0].items():
        for j, (b, offset_b) in cut[1].items():
            bound = (sides[0].total(i) + sides[1].total(j)) / 2 + length / 4
            for product in _products_of_parts(a, b, parts):
                lower = math.ldexp(product * (1 - 2.0**-50), offset_a + offset_b)
                largest = max(largest, bound / lower if lower else math.inf)
    return largest


def _truncated(side: Side, i: int, top: int) -> tuple[list[int], int]:
    """Return the magnitudes min(127, ⌊|a'|·2**−offset⌋) of a row, and the offset."""
    reach = side.reach(i, top)
    wanted = min(math.isqrt(len(side.rows[i])), max(1, (reach[-1] + 1) // 2))
    octave = top - next((d for d, n in enumerate(reach) if n >= wanted), 0)
    offset = octave - (LARGEST.bit_length() - 1)
    unit = Fraction(2) ** (side.scales[i] - offset)
    return [min(LARGEST, math.floor(abs(Fraction(x)) * unit)) for x in side.rows[i]], offset


def _products_of_parts(a: list[int], b: list[int], parts: int) -> list[int]:
    """Return Σ|a||b| of the terms of the real part of a product, and of those of the imaginary part."""
    half = len(b) // parts
    turned = b[half:] + b[:half]
    return [sum(x * y for x, y in zip(a, other, strict=True)) for other in (b, turned)[:parts]]


def equilibrated(sides: tuple[Side, Side], parts: int, limit: NormLimit) -> tuple[Side, Side] | None:
    """Return the sides of A·D and D⁻¹·B where the inner dimension is graded; None where it is not.

    D = diag(2**d_h), d_h = ⌊(q_h − p_h)/2⌋, for the largest exponents p_h in column h of A and q_h in row h
    of B, in norm scales (`ozaki.scaling.equilibration` proves when it gains). None unless both are exact.
    """
    length, inner = len(sides[0].rows[0]), len(sides[0].rows[0]) // parts
    p, q = ([_largest_exponent(side, h, parts) for h in range(inner)] for side in sides)
    both = [x + y for x, y in zip(p, q, strict=True) if x is not None and y is not None]
    most = limit.bits - 4 - ((length**3 - 1).bit_length() + 1) // 2
    if not both or max(both) > most:
        return None
    middle = max(both) >> 1  # where one side has nothing, the other must not stand out
    shifts = [_shift(x, y, middle) for x, y in zip(p, q, strict=True)] * parts
    left, right = _shifted(sides[0], shifts), _shifted(sides[1], [-d for d in shifts])
    return None if left is None or right is None else (Side.of(left, limit), Side.of(right, limit))


def _largest_exponent(side: Side, h: int, parts: int) -> int | None:
    """Return E of the largest scaled magnitude in place h of all rows that count; None for zeros alone."""
    inner = len(side.rows[0]) // parts
    found = [math.frexp(x)[1] + side.scales[i] for i in side.summed() for x in side.rows[i][h::inner] if x]
    return max(found, default=None)


def _shift(p: int | None, q: int | None, middle: int) -> int:
    """Return d_h, no further than two powers of two reach."""
    if p is None or q is None:
        d = middle - p if p is not None else q - middle if q is not None else 0
    else:
        d = (q - p) >> 1
    return max(-2044, min(2044, d))


def _shifted(side: Side, shifts: Sequence[int]) -> list[list[float]] | None:
    """Return the rows that count times 2**d_h, the others as they are; None if a number is rounded."""
    rows = [list(row) for row in side.rows]
    for i in side.summed():
        rows[i] = [_times_power(x, d) for x, d in zip(side.rows[i], shifts, strict=True)]
        if any(
            Fraction(y) != Fraction(x) * Fraction(2) ** d
            for x, y, d in zip(side.rows[i], rows[i], shifts, strict=True)
        ):
            return None
    return rows


def _times_power(x: float, d: int) -> float:
    try:
        return math.ldexp(x, d)
    except OverflowError:
        return 0.0  # which is not x·2**d
