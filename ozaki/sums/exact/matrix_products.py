"""Exact products of matrices, as digits that add: the numbers of both are cut at common powers of two.

A slice has the same `bits` places of all numbers of a matrix, as integers in float64. A product of two slices
has no rounding error while k·2**(2·bits) <= 2**53, in whatever order it is added up (Ozaki, Ogita, Oishi and
Rump, Error-free transformations of matrix multiplication, section 3). The places do not depend on what else
is added, so products of parts of the inner dimension add up as integers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import frexp, isfinite
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, is_cupy, namespace
from multiword.runtime.compiled import compiled
from multiword.runtime.parallel import scratch
from ozaki.sums.exact.fixed_point import ORDINARY, FixedPoint, flags_of

INNER = 1 << 13
"""The longest inner dimension of one product of slices, of 20 bits."""

ELEMENTS = 1 << 22
"""The most elements of a result, whose digits take memory, at once."""

MODERATE = 900
"""Exponents up to which compiled loops multiply by powers of two, which are normal numbers then."""


@dataclass(frozen=True)
class Slices:
    """A finite matrix, Σ parts[s]·2**(exponent + bits·s), of integers below 2**bits in magnitude."""

    parts: list[Array]
    exponent: int
    bits: int

    @classmethod
    def of(cls, x: Array, bits: int, most: float) -> Slices:
        """Return the slices of a float64 matrix of this largest magnitude; none of zeros."""
        parts, exponent, rest = list[Array](), frexp(most)[1], x
        while most:
            exponent -= bits
            part, rest, most = _cut(rest, exponent)
            parts.insert(0, part)
        return cls(parts, exponent, bits)


def _largest(x: Array) -> float:
    """Return the largest magnitude; Inf or NaN if one is among the numbers, and 0 of none."""
    if (loops := _loops(x)) is None:
        return float(abs(x).max()) if x.size else 0.0
    return float(np.int64(loops.largest(x.ravel("K").view(np.int64))).view(np.float64))


def _cut(x: Array, exponent: int) -> tuple[Array, Array, float]:
    """Return numbers as integers in units of 2**exponent, cut towards zero, what is left, 0 if nothing."""
    if (loops := _loops(x)) is not None and abs(exponent) <= MODERATE:
        part, rest = _alike(x), _alike(x)
        flat = (y.ravel("K") for y in (x, part, rest))
        return part, rest, loops.cut(2.0**-exponent, 2.0**exponent, *flat)
    xp = namespace(x)
    part = xp.trunc(xp.ldexp(x, np.int32(-exponent)))  # it never exceeds x
    rest = x - xp.ldexp(part, np.int32(exponent))  # exact: what is cut off is a number's leading bits
    return part, rest, float(rest.any())


def _loops(x: Array) -> Any:
    """Return the compiled loops over the numbers of a matrix as they lie in memory, if there are some."""
    plain = not is_cupy(x) and (x.flags.c_contiguous or x.flags.f_contiguous) and x.flags.aligned
    return compiled("ozaki.sums.exact.matrix_products_numba") if plain else None


def product_digits(a: Array, b: Array) -> Iterator[tuple[slice, FixedPoint]]:
    """Yield exact values, and the elements of the product in C order that they add up to.

    Parameters
    ----------
    a, b : (m, k) and (k, n) arrays of real numbers that float64 holds.
    """
    k, n = b.shape
    for start in range(0, k, INNER):
        left, right = a[:, start : start + INNER], b[start : start + INNER]
        bits = (53 - (right.shape[0] - 1).bit_length()) // 2
        cut, of_columns = _cut_finite(right, bits)
        step = max(1, ELEMENTS // max(1, n))
        for row in range(0, len(a), step):
            rows = left[row : row + step]
            slices, of_rows = _cut_finite(rows, bits)
            plain = of_rows and of_columns
            flags = namespace(a).full(len(rows) * n, ORDINARY) if plain else _flags(rows, right)
            yield slice(row * n, row * n + flags.size), _digits(slices, cut, flags)


def _cut_finite(x: Array, bits: int) -> tuple[Slices, bool]:
    """Return the slices of a matrix, of its finite numbers alone, and whether these are all."""
    x = _wide(x)
    most = _largest(x)
    if isfinite(most):
        return Slices.of(x, bits, most), True
    x = namespace(x).where(np.isfinite(x), x, 0.0)
    return Slices.of(x, bits, _largest(x)), False


def _wide(x: Array) -> Array:
    """Return a matrix in float64, on a CPU as it lies in memory, in memory that is used again."""
    if is_cupy(x) or x.dtype == np.float64:
        return x.astype(np.float64, copy=False)
    wide = _alike(x)
    wide[...] = x
    return wide


def _alike(x: np.ndarray) -> np.ndarray:
    """Return an empty float64 matrix that lies in memory as another one does."""
    return scratch(x.T.shape).T if x.flags.f_contiguous else scratch(x.shape)


def _digits(a: Slices, b: Slices, flags: Array) -> FixedPoint:
    """Return the product of the slices: a digit for each sum of two places."""
    count = max(1, len(a.parts) + len(b.parts) - 1)
    digits = namespace(flags).zeros((count, flags.size), np.int64)
    for s, left in enumerate(a.parts):
        for t, right in enumerate(b.parts):
            digits[s + t] += (left @ right).reshape(-1).astype(np.int64)
    return FixedPoint(digits, a.bits, a.exponent + b.exponent, flags)


def _flags(a: Array, b: Array) -> Array:
    """Return what Inf and NaN make of sums of products; numbers are 1 and −1, which cannot overflow."""
    signs = [namespace(x).where(np.isfinite(x), np.sign(x), x) for x in (a, b)]
    with np.errstate(invalid="ignore"):
        return flags_of((signs[0] @ signs[1]).reshape(-1) + 0.0)
