"""Element-wise arithmetic of real and complex arrays, one rounding a step: the same bits everywhere.

NumPy and CuPy may contract a complex product's additions and multiplications, and divide as they like: here
both are real operations, each of which rounds once.
"""

from __future__ import annotations

import numpy as np

from multiword.runtime.arrays import Array, namespace


def product(x: Array, y: Array) -> Array:
    """Return x·y: of complex numbers, (ac - bd) + (ad + bc)i."""
    if x.dtype.kind != "c":
        return x * y
    a, b, c, d = x.real, x.imag, y.real, y.imag
    real = a * c - b * d
    result = namespace(x).empty(real.shape, x.dtype)
    result.real, result.imag = real, a * d + b * c
    return result


def quotient(x: Array, divisor: Array) -> Array:
    """Return x / d for one number d: of complex numbers, x·conj(d') / |d'|² / 2**e with d' = d·2**-e."""
    if x.dtype.kind != "c":
        return x / divisor
    xp = namespace(x)
    exponent = xp.frexp(size(divisor))[1]
    c, d = xp.ldexp(divisor.real, -exponent), xp.ldexp(divisor.imag, -exponent)
    norm = c * c + d * d
    real = (x.real * c + x.imag * d) / norm
    result = xp.empty(real.shape, x.dtype)
    result.real = xp.ldexp(real, -exponent)
    result.imag = xp.ldexp((x.imag * c - x.real * d) / norm, -exponent)
    return result


def real_quotient(x: Array, divisor: Array) -> Array:
    """Return x / d for a real number d."""
    if x.dtype.kind != "c":
        return x / divisor
    result = namespace(x).empty(x.shape, x.dtype)
    result.real, result.imag = x.real / divisor, x.imag / divisor
    return result


def size(x: Array) -> Array:
    """Return |x|, or |re| + |im| of complex numbers, by which LAPACK chooses pivots."""
    return abs(x.real) + abs(x.imag) if x.dtype.kind == "c" else abs(x)


def tree_sum(x: Array) -> Array:
    """Return the sums over the last axis by halves: element i takes element i + ⌈n/2⌉, again and again."""
    n = x.shape[-1]
    x = x.copy()
    while n > 1:
        half = n // 2
        x[..., :half] += x[..., n - half : n]
        n -= half
    return x[..., 0] if x.shape[-1] else x.sum(axis=-1)


def largest(x: Array) -> int:
    """Return the index of the largest element by `size`, the first of several; NaN count as infinite."""
    xp, magnitude = namespace(x), size(x)
    return int(xp.argmax(xp.where(xp.isnan(magnitude), np.inf, magnitude)))
