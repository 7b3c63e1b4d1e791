"""Approximate left inverses R, by how many words they have: what R makes of an exact residual, with a bound.

The residual r* comes as words r whose sum is within `tail` of it. `correction` returns d, an approximation of
R·r*, and a function that computes an upper bound of |R·r*|.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from multiword.runtime.arrays import Array, namespace
from multiword.runtime.cached import cached_property
from multiword.runtime.readback import all_finite
from ozaki.linalg.products import classical, words_of_product
from ozaki.linalg.verified.tools.upward import ETA, U, apply, compiled_for, gamma, magnitude, plus, up

Correction = tuple[Array, Callable[[], Array]]

TINY = 2.0**-960
"""In place of η, where bounds are multiplied by matrices: products of subnormal numbers are slow."""


def check_words(max_words: int) -> None:
    """Raise ValueError unless a preconditioner may have a word."""
    if operator.index(max_words) < 1:
        raise ValueError(f"max_words must be at least 1, got {max_words}")


def tail(words: Sequence[Array]) -> Array:
    """Return a bound of what rounded words leave, u times the last or η/2: twice as much, and more."""
    return 2 * U * magnitude(words[-1]) + TINY


def classical_error(a: Array) -> float:
    """Return f with |R - AB| <= f·|A||B| + kη for `classical` products with A: √2·γ_(k+2) if complex."""
    return gamma(a.shape[1] + 2) * (3.0 if a.dtype.kind == "c" else 1.0)


def left_inverse(a: Array, octaves: Sequence[float] = (-np.inf, 1, 4, 7, 10, 13)) -> Array | None:
    """Return R with a small *left* residual I - RA, from LAPACK; None where that fails.

    LAPACK's inverse has a small right residual, so it is that of the transpose (by columns: CuPy's has the
    other one for a matrix that lies by rows). An exact zero pivot says nothing about the condition: then
    matrices nearby are inverted (Rump, Inversion of extremely ill-conditioned matrices in floating-point,
    section 4), farther ones where the last digits of those near are so few that they are singular, too.
    They differ from A by relative 2**octave·u in turn.
    """
    xp, rng = namespace(a), None
    for octave in octaves:
        near = a.T + 0.0
        try:
            with np.errstate(all="ignore"):
                if octave > -np.inf:
                    rng = rng or np.random.default_rng(0)
                    noise = 2.0**octave * U * xp.asarray(rng.standard_normal(a.shape))
                    near = near + noise * (abs(a.T) + abs(a).max())
                inverse = xp.linalg.inv(xp.asfortranarray(near)).T
            if all_finite(inverse):
                return inverse
        except np.linalg.LinAlgError:
            pass
    return None


@dataclass(frozen=True)
class Single:
    """R in one word: d = fl(R·r), |R r*| <= |d| + f·|R||r| + nη + |R|·tail."""

    r: Array
    count = 1
    residual_words = 1

    @cached_property
    def size(self) -> Array:
        """|R|."""
        return magnitude(self.r)

    def correction(self, residual: Sequence[Array]) -> Correction:
        (first,) = residual
        d = classical(self.r, first)

        def bound() -> Array:
            factor = up(classical_error(self.r) + 2 * U)  # with the `tail`
            if (loops := compiled_for(first, d)) is not None:
                lost, result = np.empty_like(first), np.empty_like(d)
                loops.widened(first, factor, TINY, lost)
                loops.reached(d, classical(self.size, lost), self.size.shape[1], result)
                return result
            lost = plus(magnitude(first) * factor, TINY)
            return plus(magnitude(d), apply(self.size, lost), 8 * len(d) * ETA)

        return d, bound


@dataclass(frozen=True)
class Factored:
    """R = T·R₁, never multiplied out: s = R₁ r in three words, then d = RN(T s)."""

    t: Array
    r: Array
    count = 2
    residual_words = 3

    def correction(self, residual: Sequence[Array]) -> Correction:
        s = words_of_product([self.r], residual, words=3)
        (d,) = words_of_product([self.t], s)

        def bound() -> Array:
            lost = plus(apply(magnitude(self.r), tail(residual)), tail(s))
            return plus(magnitude(d), tail([d]), apply(magnitude(self.t), lost))

        return d, bound


@dataclass(frozen=True)
class Several:
    """R in words: d = RN(R r)."""

    words: Sequence[Array]

    @property
    def count(self) -> int:
        return len(self.words)

    @property
    def residual_words(self) -> int:
        return len(self.words) + 1

    def correction(self, residual: Sequence[Array]) -> Correction:
        (d,) = words_of_product(self.words, residual)

        def bound() -> Array:
            size = plus(*map(magnitude, self.words))
            return plus(magnitude(d), tail([d]), apply(size, tail(residual)))

        return d, bound


Preconditioner = Single | Factored | Several
