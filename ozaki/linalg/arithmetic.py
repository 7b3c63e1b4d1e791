"""Element-wise arithmetic of real and complex arrays, one rounding a step: the same bits everywhere.

NumPy and CuPy may contract a complex product's additions and multiplications, and divide as they like: here
both are real operations, each of which rounds once.
"""

from __future__ import annotations

from math import frexp

import numpy as np

from multiword.runtime.arrays import Array, namespace, real_parts

LEAF = 128
"""Columns of a leaf of a factorization: part of the definition, for other leaves round otherwise."""


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
    """Return x / d for one number d: of complex numbers, x'·conj(d') / |d'|²·2**(f - e).

    x' = x·2**-f and d' = d·2**-e have their larger parts between 1/2 and 1: nothing overflows on the way.
    """
    if x.dtype.kind != "c":
        return x / divisor
    of_x, of_divisor = exponents_of(larger_parts(x)), exponents_of(larger_parts(divisor))
    x, divisor = times_powers(x, -of_x), times_powers(divisor, -of_divisor)
    a, b, c, d = x.real, x.imag, divisor.real, divisor.imag
    norm = c * c + d * d
    result = namespace(x).empty(x.shape, x.dtype)
    result.real, result.imag = (a * c + b * d) / norm, (b * c - a * d) / norm
    return times_powers(result, of_x - of_divisor)


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


def times_powers(x: Array, exponents: Array) -> Array:
    """Return x·2**exponents, rounded once where it is subnormal."""
    result = namespace(x).empty(x.shape, x.dtype)
    for part, of_x in zip(real_parts(result), real_parts(x), strict=True):
        part[...] = namespace(x).ldexp(of_x, exponents)
    return result


def larger_parts(x: Array) -> Array:
    """Return the magnitudes of the larger parts of numbers."""
    if x.dtype.kind != "c":
        return abs(x)
    a, b = abs(x.real), abs(x.imag)
    return namespace(x).where(a > b, a, b)


def exponents_of(x: Array) -> Array:
    """Return the exponents of magnitudes, as frexp's; 0 of Inf and NaN."""
    xp = namespace(x)
    return xp.where(xp.isfinite(x), xp.frexp(x)[1], 0).astype(np.int32)


def scaled_to_one(a: Array) -> tuple[Array, int]:
    """Return A·2**-e, whose largest number is between 1/2 and 1, and e. What is subnormal is rounded."""
    _, exponent = frexp(float(larger_parts(a).max())) if a.size else (0.0, 0)
    return times_powers(a, -exponent), exponent


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


def reflector(x: Array) -> tuple[Array, Array, Array]:
    """Return v, β and τ of Householder's H = I - τ·v·vᴴ with Hᴴx = β·e₁ and v₁ = 1; zeros, where x is zero.

    As LAPACK's, β is real. Squares are of x·2**-e, whose largest part is between 1/2 and 1.
    """
    xp = namespace(x)
    exponent = exponents_of(larger_parts(x).max())
    x = times_powers(x, -exponent)
    norm = xp.sqrt(tree_sum(x.real * x.real + x.imag * x.imag))
    if not bool(norm != 0):
        v = xp.zeros_like(x)
        return v, norm, v[0]
    alpha = x[0].copy()
    beta = -norm if bool(alpha.real >= 0) else norm
    v = quotient(x, alpha - beta)
    v[0] = 1
    return v, xp.ldexp(beta, exponent), real_quotient(beta - alpha, beta)
