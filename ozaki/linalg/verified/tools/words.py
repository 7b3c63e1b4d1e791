"""Unevaluated sums of words: error-free sums, and the rounding that a bound decides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from multiword.rounding import two_sum
from multiword.runtime.arrays import Array, namespace, real_parts
from multiword.runtime.readback import anywhere
from ozaki.linalg.verified.tools.upward import U, compiled_for, magnitude, plus, up

RELATIVE = 2.0**-50
"""More than what a few roundings lose."""


def renormalized(words: Sequence[Array], count: int) -> list[Array]:
    """Return at most so many words with nearly the sum of the words given, the leading one first.

    Two error-free passes of VecSum (Ogita, Rump and Oishi, Accurate sum and dot product, algorithm 4.3).
    What is dropped is not lost where the next residual is exact.
    """
    loops = compiled_for(*words) if len(words) > 1 else None
    if loops is None:
        return _vector_sum(_vector_sum(words))[:count]
    stack = np.array(words)
    loops.renormalize(stack.reshape(len(words), -1))
    return list(stack[:count])


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
    words = words if len(words) > 1 else [*words, 0 * words[0]]
    if (loops := compiled_for(error, *words)) is not None:
        value, bound, sure = np.empty(error.shape), np.empty(error.shape), np.empty(error.shape, bool)
        flat = (x.reshape(-1) for x in (error, value, bound, sure))
        loops.rounded(np.array(words).reshape(len(words), -1), *flat)
        return value, bound, sure
    x, first, *low = _vector_sum(_vector_sum(words))
    rest = plus(error, *map(magnitude, low))
    known = error == 0  # then x is RN(x + first), also half way between two numbers
    for word in low:
        known &= word == 0
    size, bound = abs(x), plus(rest, abs(first))
    # No less than x* - x - first, so that sums with it are no nearer to x, although they are rounded.
    margin = rest * (1 + RELATIVE) + abs(first) * RELATIVE
    nearest = (x + (first + margin) == x) & (x + (first - margin) == x)
    zero = (size <= bound) & (bound > 0)
    if not anywhere(zero):
        return x, bound, known | nearest
    where = namespace(x).where
    return where(zero, 0.0, x), where(zero, plus(bound, size), bound), known | (~zero & nearest)
