"""Proofs that a matrix A is regular, by an approximate left inverse R with ‖I - RA‖ < 1.

If G = I - RA satisfies |G|v <= γv for some v > 0 and γ < 1, its spectral radius is below 1, so RA and A are
regular (Oishi and Rump, Fast verification of solutions of matrix equations, theorem 1; Collatz for v). For
Ax* = b and any x, with r = b - Ax and e = x* - x: Re = … gives e = Rr + Ge, and in the norm max |e_i|/v_i

    |e| <= |Rr| + (|G|v)·max(|Rr|/v) / (1 - γ).

R is tried in four tiers, each good for about so large a condition number of a matrix of order 1000:

    native      RA by the BLAS, with its γ_n                                       10¹⁰
    certified   RA by products of as many bits as it takes, if need be of R + GR   10¹⁵
    factored    R = T·R₁ with T ≈ (R₁A)⁻¹; R₁A in two words, T(R₁A) certified       10³⁰
    words       R in m words, each an inverse of what the last ones made of A      10¹⁵ a word

The last two are Rump's (Inversion of extremely ill-conditioned matrices in floating-point, algorithm 4.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from multiword.runtime.arrays import Array, backwards, namespace
from multiword.runtime.cached import cached_property
from multiword.runtime.readback import everywhere
from ozaki.linalg.products import classical, multiply, words_of_product
from ozaki.linalg.verified.tools.preconditioner import (
    Factored,
    Preconditioner,
    Several,
    Single,
    classical_error,
    left_inverse,
)
from ozaki.linalg.verified.tools.singular import null_vector
from ozaki.linalg.verified.tools.solution import NotProvedError, SingularError
from ozaki.linalg.verified.tools.upward import (
    ETA,
    U,
    apply,
    compiled_for,
    from_one,
    largest,
    magnitude,
    plus,
    up,
)

ENOUGH = 0.5
"""A contraction with which refinement converges well: with a larger one the next tier is tried."""

HOPELESS = 16.0
"""u·condition from which on R, in one word, is too far from an inverse: what certifies RA is not tried."""

GOAL = 2.0**-5
"""The error of a certified RA in units of v = 1, which leaves nearly all of the contraction to G itself."""

MOST_BITS = 80
"""Integers wider than this are no cheaper than an exact product."""


class Product(NamedTuple):
    """A computed RA, a function with |RA - value|·v <= error(v), and that of ones, where it is known."""

    value: Array
    error: Callable[[Array], Array]
    of_ones: Array | None = None


@dataclass(frozen=True)
class Regularity:
    """A proof that A is regular: |I - RA|·weights <= image <= contraction·weights, contraction < 1."""

    tier: str
    preconditioner: Preconditioner
    condition: float
    contraction: float
    weights: Array
    image: Array

    @cached_property
    def _share(self) -> Array:
        """(|G|v) / (1 - γ), as a column."""
        return up(self.image / (1 - up(self.contraction + U)))[:, None]

    def enclose(self, reached: Array) -> Array:
        """Return a bound of |x* - x| from one of |R(b - Ax)|, both (n, m): the inequality above."""
        if (loops := compiled_for(reached)) is not None:
            result, scratch = np.empty_like(reached), np.empty(reached.shape[1])
            loops.enclose(reached, self.weights, self._share, scratch, result)
            return result
        worst = up(backwards(reached / self.weights[:, None], 0).max(axis=0))
        return plus(reached, self._share * worst, ETA)


def prove_regular(a: Array, max_words: int) -> Regularity:
    """Return the proof of the first tier with a good contraction, else the best one.

    Raises SingularError or NotProvedError.
    """
    if not len(a):
        return Regularity("", Single(a), 0.0, 0.0, *namespace(a).zeros((2, 0)))
    r = left_inverse(a)
    best = math.inf
    proof, count, condition = None, 0, math.inf
    if r is not None:
        single = Single(r)
        reach = apply(single.size, apply(magnitude(a)))
        condition = largest(reach)
        for tier, preconditioner, product in _attempts(a, single, condition, max_words, reach):
            contraction, weights, image = _contraction(product)
            count = preconditioner.count
            if contraction < best:
                best = contraction
                proof = Regularity(tier, preconditioner, condition, contraction, weights, image)
            if best < ENOUGH:
                break
    if proof is not None and up(best + U) < 1:  # what `enclose` divides by is positive
        return proof
    z = null_vector(a)
    if z is not None:
        raise SingularError(z)
    raise NotProvedError(
        f"not proved regular: ‖I - RA‖ <= {best:.2g} with {count} word{'s' * (count > 1)} of preconditioner. "
        f"The matrix is singular, or its condition number is beyond about 1e{15 * max_words} "
        f"(max_words={max_words})",
        *(condition, count, best),
    )


def _attempts(
    a: Array, single: Single, condition: float, max_words: int, reach: Array
) -> Iterator[tuple[str, Preconditioner, Product]]:
    """Yield the preconditioners of the tiers and the products RA, each computed only when it is asked for.

    reach : |R||A|e.
    """
    r = single.r
    if classical_error(a) * condition < ENOUGH:
        yield "native", single, _native(r, a, reach)
    if U * condition < HOPELESS:
        yield from _certified(r, a)
    words = words_of_product([r], [a], words=min(max_words, 2))
    yield "certified", single, exact(words[0])
    t = left_inverse(words[0]) if max_words > 1 else None
    if t is None:
        return
    yield "factored", Factored(t, r), _factored(t, words)
    z = null_vector(a)
    if z is not None:
        raise SingularError(z)
    yield from _several(a, r, t, max_words)
    # Nothing helps if R, rounded to few digits beside its largest elements, is singular itself.
    r = left_inverse(a, octaves=(12,))
    t = None if r is None else left_inverse(words_of_product([r], [a])[0])
    if r is not None and t is not None:
        yield from _several(a, r, t, max_words)


def _certified(r: Array, a: Array) -> Iterator[tuple[str, Preconditioner, Product]]:
    """R, and then R + GR, of whose G the square is left, for as long as that makes G much smaller."""
    xp, last = namespace(a), math.inf
    while (product := certified(r, a)) is not None:
        yield "certified", Single(r), product
        g = xp.eye(len(a)) - product.value
        size = largest(magnitude(g).sum(axis=1))
        if not size < last / 2:
            return
        last, r = size, r + multiply(g, r)


def _several(a: Array, r: Array, t: Array, max_words: int) -> Iterator[tuple[str, Preconditioner, Product]]:
    """R = T·R in two words, three, …, each time with T ≈ (RA)⁻¹."""
    inverse = [r]
    for count in range(2, max_words + 1):
        inverse = words_of_product([t], inverse, words=count)
        (high,) = words_of_product(inverse, [a])
        yield "words", Several(inverse), exact(high)
        following = left_inverse(high)
        if following is None:
            return
        t = following


def _contraction(product: Product) -> tuple[float, Array, Array]:
    """Return γ, v and an upper bound of |G|v with G = I - RA and |G|v <= γv, for the best of a few v."""
    xp, n = namespace(product.value), len(product.value)
    of_g = from_one(product.value)
    v, error = xp.ones(n), product.of_ones
    best = math.inf, v, v
    for _ in range(4):  # of the power method for the largest eigenvalue of |G|
        image = plus(of_g(v), product.error(v) if error is None else error)
        factor = largest(up(image / v))
        if factor < best[0]:
            best = factor, v, image
        if factor < ENOUGH or not math.isfinite(factor):
            break
        v, error = image / image.max() + 2.0**-20, None
    return best


def _native(r: Array, a: Array, reach: Array | None = None) -> Product:
    """RA by a classical product: |fl(RA) - RA|v <= f·|R|(|A|v) + nη·max v; reach: |R||A|e, if known."""
    size, of_inverse, n = magnitude(a), magnitude(r), len(a)
    factor = classical_error(a)

    def error(v: Array) -> Array:
        return bound(apply(of_inverse, apply(size, v)), v.max())

    def bound(reached: Array, most: float) -> Array:
        return plus(reached * factor, 8 * n * n * ETA * most)

    return Product(classical(r, a), error, None if reach is None else bound(reach, 1.0))


def exact(product: Array) -> Product:
    """RA rounded to nearest."""
    size = magnitude(product)
    return Product(product, lambda v: plus(apply(size, v) * 2 * U, len(v) * ETA * v.max()))


def certified(r: Array, a: Array) -> Product | None:
    """RA by a product of w bits with an error below `GOAL`; None where that takes too many.

    Integers of w bits change r_ih by at most δ_i = 2**(e_i - w) and a_hj by ε_j = 2**(f_j - w), where 2**e_i
    and 2**f_j exceed their rows' and columns' magnitudes (the parts of complex numbers each): so

        |C - RA|v <= δ Σ_h,j |a_hj|v_j + |R|e·(ε·v) + nδ·(ε·v) + u|C|v,

    which is a matrix of rank two, times v, but for the last rounding.
    """
    xp, n = namespace(a), len(a)
    parts = 2.0 if a.dtype.kind == "c" else 1.0
    size_r, size_a = magnitude(r), magnitude(a)
    of_rows, of_columns = apply(size_r), apply(size_a.T)
    e = xp.ldexp(xp.full(n, parts), xp.frexp(backwards(size_r, 1).max(axis=1))[1])
    f = xp.ldexp(xp.full(n, parts), xp.frexp(backwards(size_a, 0).max(axis=0))[1])

    def truncation(bits: int, v: Array) -> Array:
        delta, epsilon = e * 2.0**-bits, f * 2.0**-bits
        reach = (epsilon * v).sum()
        sums = (delta * (of_columns * v).sum(), of_rows * reach, n * delta * reach)
        return up(sum(sums) * (1 + 8 * (n + 8) * U)) + 8 * n * ETA

    reference = 40
    excess = largest(truncation(reference, xp.ones(n))) / GOAL
    bits = reference + max(-20, math.ceil(math.log2(excess))) if 0 < excess < math.inf else MOST_BITS + 1
    if bits > MOST_BITS or not everywhere(truncation(bits, xp.ones(n)) <= GOAL):
        return None
    value = multiply(r, a, bits)
    rounding = exact(value).error
    return Product(value, lambda v: plus(truncation(bits, v), rounding(v)))


def _factored(t: Array, words: list[Array]) -> Product:
    """T(H + L) = TH, certified, + TL, by a classical product: L is u|H|, so that few bits of it count."""
    h, low_word = words if len(words) > 1 else (words[0], 0 * words[0])
    high = certified(t, h) or exact(multiply(t, h, "exact"))
    low = _native(t, low_word)
    value = high.value + low.value
    size_t, size, lost = magnitude(t), magnitude(value), exact(low_word).error  # of R₁A by its words

    def error(v: Array) -> Array:
        return plus(high.error(v), low.error(v), apply(size_t, lost(v)), apply(size, v) * 2 * U)

    return Product(value, error)
