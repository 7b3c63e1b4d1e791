"""Intervals around sums and dot products of up to some thousand numbers, from a few calls of NumPy.

Slices whose sums and dot products are exact (Ozaki, Ogita, Oishi and Rump, Error-free transformations of
matrix multiplication) leave so little to ordinary dot products that their errors hardly matter. What the
exact value rounds to is known where both ends of an interval round to it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import frexp, inf, ldexp
from typing import NamedTuple

import numpy as np

from multiword.runtime.arrays import to_float64
from ozaki.sums.exact.summands import Summands

LARGEST = 1 << 11
"""The most terms of a sum for which what is said to be exact is so, and the bounds hold."""

_FLOAT64 = np.dtype(np.float64)
_ONES = np.ones(LARGEST)
_HUGE, _TINY = 2.0**900, 2.0**-900
"""Squares of 2-norms between which nothing overflows, or loses what matters."""


class Interval(NamedTuple):
    """An exact value: within 2**error of the sum of the parts, or equal to it, in units of 2**scale.

    The parts are multiples of 2**error if it is equal.
    """

    parts: list[float]
    error: int
    scale: int
    exact: bool

    def integers(self) -> tuple[int, int]:
        """Ends of the interval, in units of 2**(error + scale)."""
        middle = sum([int(ldexp(part, -self.error)) for part in self.parts])  # cut off
        radius = 0 if self.exact else len(self.parts) + 1
        return middle - radius, middle + radius


def intervals(terms: Summands) -> tuple[Interval, Callable[[], Interval | None]] | None:
    """An interval around the sum of all terms, and what gives a narrower one; None for Inf, NaN, zeros and
    wide integers.

    A vector of n numbers, `LARGEST` at most, with a 2-norm below 2**k is cut at units q = 2**(k - b): what
    remains of a number is q/2 at most. The norm of the slice is 2**b units, or hardly more, and the sum of
    its magnitudes √n times that. Sums of multiples of a unit are exact below 2**53 units, in every order.
    """
    factors, sign = terms
    scaled = _scaled(factors[0])
    if scaled is None:
        return None
    if len(factors) == 1:
        return _of_sum(*scaled)
    other = scaled if factors[1] is factors[0] else _scaled(factors[1])
    return None if other is None else _of_products(*scaled, *other, sign)


def _scaled(x: np.ndarray) -> tuple[np.ndarray, int, int] | None:
    """x', k and s with x = x'·2**s, or nearly for the smallest, and a 2-norm of x' below 2**k."""
    if x.dtype is not _FLOAT64:
        if x.dtype.kind in "iu" and x.dtype.itemsize > 4:
            return None
        x = to_float64(x)
    if x.ndim != 1:
        x = x.reshape(-1)
    square, scale = float(x.dot(x)), 0
    if not _TINY < square < _HUGE:
        largest = float(np.abs(x).max(initial=0))
        if not 0 < largest < inf:
            return None
        scale = max(frexp(largest)[1], -1000)
        x = x * ldexp(1.0, -scale)
        square = float(x.dot(x))
    return x, (frexp(square * (1 + 2.0**-30))[1] + 1) >> 1, scale


def _cut(x: np.ndarray, unit: int) -> tuple[np.ndarray, np.ndarray]:
    """ExtractVector (Rump, Ogita and Oishi): multiples of 2**unit, and what remains."""
    sigma = _sigma(unit)
    multiples = x + sigma
    multiples -= sigma
    return multiples, x - multiples


@cache
def _sigma(unit: int) -> np.ndarray:
    """1.5·2**(unit + 52), as an array: of a number NumPy would make one in every operation."""
    return np.array(ldexp(1.5, unit + 52))


def _of_sum(x: np.ndarray, k: int, scale: int) -> tuple[Interval, Callable[[], Interval | None]]:
    """A slice of 47 bits, and what it leaves, 2**(k - 48) each, added up with an error of n·2**-53 of all."""
    size, ones = len(x).bit_length(), _ONES[: len(x)]
    multiples, rest = _cut(x, k - 47)
    total = float(multiples.dot(ones))

    def narrower() -> Interval | None:
        multiples, more = _cut(rest, k - 47 - 41)
        exact = not scale and not more.any()
        return Interval([total, float(multiples.dot(ones))], k - 47 - 41, 0, True) if exact else None

    return Interval([total, float(rest.dot(ones))], k - 100 + 2 * size, scale, False), narrower


def _of_products(
    x: np.ndarray, k: int, x_scale: int, y: np.ndarray, m: int, y_scale: int, sign: int
) -> tuple[Interval, Callable[[], Interval]]:
    """Slices of 26 bits, then of 22: with norms of 2**26 units, and of √n·2**21."""
    scale, size = x_scale + y_scale, len(x).bit_length()
    x1, x_rest = _cut(x, k - 26)
    y1, y_rest = (x1, x_rest) if y is x else _cut(y, m - 26)
    leading, error = sign * float(x1.dot(y1)), k + m - 79 + size + (size + 1) // 2

    def narrower() -> Interval:
        x2, x3 = _cut(x_rest, k - 26 - 22)
        y2, y3 = (x2, x3) if y is x else _cut(y_rest, m - 26 - 22)
        pairs = (x1, y2), (x2, y1), (x1, y3), (x3, y1), (x_rest, y_rest)
        parts = [leading, *[sign * float(left.dot(right)) for left, right in pairs]]
        return Interval(parts, k + m - 83, scale, False)

    parts = [leading, sign * float(x1.dot(y_rest)), sign * float(x_rest.dot(y))]
    return Interval(parts, error, scale, False), narrower
