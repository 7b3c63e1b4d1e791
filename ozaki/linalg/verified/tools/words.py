"""Unevaluated sums of words: error-free sums, and the rounding that a bound decides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from multiword.rounding import two_sum
from multiword.runtime.arrays import Array, namespace, real_parts
from ozaki.linalg.verified.tools.upward import ETA, U, magnitude, plus, up


def renormalized(words: Sequence[Array], count: int) -> list[Array]:
    """Return at most so many words with nearly the sum of the words given, the leading one first.

    Two error-free passes of VecSum (Ogita, Rump and Oishi, Accurate sum and dot product, algorithm 4.3).
    What is dropped is not lost where the next residual is exact.
    """
    return _vector_sum(_vector_sum(words))[:count]


def _vector_sum(words: Sequence[Array]) -> list[Array]:
    """The same sum in as many words: the rounded sum of all, then the errors."""
    total, errors = words[-1], []
    for word in words[-2::-1]:
        total, error = two_sum(word, total)
        errors.append(error)
    return [total, *errors[::-1]]


def rounded(words: Sequence[Array], error: Array) -> tuple[Array, Array, Array]:
    """Return x, a bound of |x* - x|, and whether x is proved to be RN(x*), for any |x* - Σ words| <= error.

    x is the first word: RN(x*) if x* is nearer to it than half of the gap on either side. What cannot be told
    from zero is zero. Both parts of complex numbers have the error; x is RN(x*) if both are.
    """
    if words[0].dtype.kind == "c":
        parts = zip(*(real_parts(word) for word in words), strict=True)
        (real, of_real, sure), (imaginary, of_imaginary, both) = (rounded(part, error) for part in parts)
        xp = namespace(real)
        return real + 1j * imaginary, up(xp.hypot(of_real, of_imaginary) * (1 + 8 * U)), sure & both
    xp = namespace(words[0])
    x, first, *low = [*_vector_sum(_vector_sum(words)), xp.zeros_like(words[0])]
    rest = plus(error, *map(magnitude, low))
    known = error == 0  # then x is RN(x + first), also half way between two numbers
    for word in low:
        known &= word == 0
    exact = known & (first == 0)
    size, outward = abs(x), xp.where(x < 0, -first, first)
    bound = xp.where(exact, 0.0, plus(rest, abs(first)))
    above, below = xp.nextafter(size, np.inf) - size, size - xp.nextafter(size, xp.zeros_like(size))
    nearest = (up(outward + rest) < above / 2) & (up(rest - outward) < below / 2) & xp.isfinite(above)
    zero = ~exact & (size <= bound)
    sure = known | (~zero & nearest)
    return xp.where(zero, 0.0, x), xp.where(zero, plus(bound, size), bound), sure


def scaled(x: Array, exponent: Array) -> Array:
    """Return x·2**exponent, rounded where it must be, for real or complex x."""
    xp = namespace(x)
    if x.dtype.kind != "c":
        return xp.ldexp(x, exponent)
    result = xp.empty(np.broadcast_shapes(x.shape, exponent.shape), x.dtype)
    result.real, result.imag = xp.ldexp(x.real, exponent), xp.ldexp(x.imag, exponent)
    return result


def unscaled(x: Array, bound: Array, sure: Array, exponent: Array) -> tuple[Array, Array, Array]:
    """Return x·2**exponent, its bound, and where it is proved to be rounded: not where this rounds."""
    xp = namespace(x)
    y = scaled(x, exponent)
    inexact = scaled(y, -exponent) != x
    finite = xp.isfinite(y)
    bound = _scaled_bound(bound, exponent)
    bound = xp.where(inexact, up(bound + 2 * ETA), bound)
    return y, xp.where(finite, bound, np.inf), sure & ~inexact


def unscaled_words(words: Sequence[Array], error: Array, exponent: Array) -> tuple[tuple[Array, ...], Array]:
    """Return words times 2**exponent, and the error of their sum, with what subnormal ones lose."""
    xp, low, total = namespace(error), [], _scaled_bound(error, exponent)
    for word in words:
        y = scaled(word, exponent)
        lost = xp.where(xp.isfinite(y), 2 * ETA, np.inf)
        total = xp.where(scaled(y, -exponent) == word, total, up(total + lost))
        low.append(y)
    return tuple(low), total


def _scaled_bound(bound: Array, exponent: Array) -> Array:
    """Return a bound, times 2**exponent, rounded upwards."""
    xp = namespace(bound)
    y = xp.ldexp(bound, exponent)
    return xp.where(xp.ldexp(y, -exponent) < bound, up(y), y)
