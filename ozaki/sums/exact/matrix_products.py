"""Exact products of matrices, as digits that add: the numbers of both are cut at common powers of two.

A slice has the same `bits` places of all numbers of a matrix, as integers in float64. A product of two slices
has no rounding error while k·2**(2·bits) <= 2**53, in whatever order it is added up (Ozaki, Ogita, Oishi and
Rump, Error-free transformations of matrix multiplication, section 3). The places do not depend on what else
is added, so products of parts of the inner dimension add up as integers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from multiword.runtime.arrays import Array, namespace
from ozaki.sums.exact.fixed_point import ORDINARY, FixedPoint, flags_of

INNER = 1 << 13
"""The longest inner dimension of one product of slices, of 20 bits."""

ELEMENTS = 1 << 22
"""The most elements of a result, whose digits take memory, at once."""


@dataclass(frozen=True)
class Slices:
    """A finite matrix, Σ parts[s]·2**(exponent + bits·s), of integers below 2**bits in magnitude."""

    parts: list[Array]
    exponent: int
    bits: int

    @classmethod
    def of(cls, x: Array, bits: int) -> Slices:
        """Return the slices of a float64 matrix; none of zeros."""
        xp = namespace(x)
        parts: list[Array] = []
        exponent = int(xp.frexp(abs(x).max())[1]) if x.size else 0
        while bool(x.any()):
            exponent -= bits
            part = xp.trunc(xp.ldexp(x, np.int32(-exponent)))  # towards zero: it never exceeds x
            x = x - xp.ldexp(part, np.int32(exponent))  # exact: what is cut off is a number's leading bits
            parts.insert(0, part)
        return cls(parts, exponent, bits)


def product_digits(a: Array, b: Array) -> Iterator[tuple[slice, FixedPoint]]:
    """Yield exact values, and the elements of the product in C order that they add up to.

    Parameters
    ----------
    a, b : (m, k) and (k, n) float64 arrays.
    """
    k, n = b.shape
    for start in range(0, k, INNER):
        left, right = a[:, start : start + INNER], b[start : start + INNER]
        bits = (53 - (right.shape[0] - 1).bit_length()) // 2
        finite = bool(np.isfinite(left).all() and np.isfinite(right).all())
        cut = Slices.of(right if finite else _finite(right), bits)
        step = max(1, ELEMENTS // max(1, n))
        for row in range(0, len(a), step):
            rows = left[row : row + step]
            flags = namespace(a).full(len(rows) * n, ORDINARY) if finite else _flags(rows, right)
            digits = _digits(Slices.of(rows if finite else _finite(rows), bits), cut, flags)
            yield slice(row * n, row * n + flags.size), digits


def _digits(a: Slices, b: Slices, flags: Array) -> FixedPoint:
    """Return the product of the slices: a digit for each sum of two places."""
    count = max(1, len(a.parts) + len(b.parts) - 1)
    digits = namespace(flags).zeros((count, flags.size), np.int64)
    for s, left in enumerate(a.parts):
        for t, right in enumerate(b.parts):
            digits[s + t] += (left @ right).reshape(-1).astype(np.int64)
    return FixedPoint(digits, a.bits, a.exponent + b.exponent, flags)


def _finite(x: Array) -> Array:
    return namespace(x).where(np.isfinite(x), x, 0.0)


def _flags(a: Array, b: Array) -> Array:
    """Return what Inf and NaN make of sums of products; numbers are 1 and −1, which cannot overflow."""
    signs = [namespace(x).where(np.isfinite(x), np.sign(x), x) for x in (a, b)]
    with np.errstate(invalid="ignore"):
        return flags_of((signs[0] @ signs[1]).reshape(-1) + 0.0)
