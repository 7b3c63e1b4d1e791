"""Enclosures of eigenvalues from approximate eigenvectors: shared by `eigh` and `svdvals`.

For Hermitian A and approximate eigenvectors X with Rayleigh quotients ρ, residual R = AX - X·diag(ρ):

    all        |λ_i - ρ_i| <= ‖R‖₂ / σ_min(X) in their order, if X is square (Cao, Xie and Li, A sharp version
               of Kahan's theorem on clustered eigenvalues)
    isolated   |λ_i - ρ_i| <= ε²/δ with ε = ‖r_i‖/‖x_i‖ and δ the distance of ρ_i to all other eigenvalues, if
               ε < δ (Kato and Temple), and the angle between x_i and the eigenvector is at most arcsin(ε/δ)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from multiword.public import public_in
from multiword.rounding import two_sum
from multiword.runtime.arrays import Array, namespace, on_host, real_parts
from multiword.runtime.readback import everywhere
from ozaki.linalg.products import Words, classical, words_of_products
from ozaki.linalg.verified.tools.preconditioner import classical_error
from ozaki.linalg.verified.tools.solution import NotProvedError
from ozaki.linalg.verified.tools.upward import ETA, U, apply, from_one, largest, magnitude, norms, plus, up
from ozaki.linalg.verified.tools.words import rounded
from ozaki.sums.api import dot


@public_in("ozaki.linalg.verified", "What they return")
@dataclass(frozen=True)
class Enclosures:
    """Eigenvalues or singular values, and what is proved about the exact ones.

    Attributes
    ----------
    value : (n,) array, ascending for eigenvalues and descending for singular values.
    bound : the exact i-th value is within bound[i] of value[i].
    rounded : True where value[i] is proved to be the exact one rounded to nearest.
    cluster : (n,) integers, equal for values that are not proved to be different.
    vectors : approximate eigenvectors as the columns of a matrix in words; empty for singular values.
    angle : the i-th vector is within this angle of an eigenvector, in radians; π/2 in clusters.

    >>> import numpy as np
    >>> from ozaki.linalg import verified
    >>> spectrum = verified.eigh(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> spectrum.value, spectrum.cluster
    (array([1., 3.]), array([0, 1]))
    """

    value: Array
    bound: Array
    rounded: Array
    cluster: Array
    vectors: tuple[Array, ...] = field(repr=False, default=())
    angle: Array = field(repr=False, default=None)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(on_host(self.value), dtype=dtype, copy=copy)


class Quotients(NamedTuple):
    """Rayleigh quotients of approximate eigenvectors, ascending.

    high, low : their two words; error : of these.
    residuals : bounds of |Ax - ρx|, a matrix for each block of the vectors.
    order : that of the vectors, an index by which all of this is sorted.
    """

    high: Array
    low: Array
    error: Array
    residuals: list[Array]
    order: Any


def residual(a: Array, right: Words, left: Words, values: Array) -> Array:
    """Return A·Σright - Σleft·diag(values), rounded to nearest."""
    diagonal = namespace(a).diag(-values).astype(a.dtype)
    (r,) = words_of_products([*((a, x) for x in right), *((x, diagonal) for x in left)])
    return r


def quotients(blocks: Sequence[tuple[Words, Array]], values: Array) -> Quotients:
    """Return the Rayleigh quotients ρ = ρ̂ + Σ Re(xᴴr) / Σ‖x‖² by residuals r = Ax - ρ̂x, rounded to nearest.

    blocks : the rows of the vectors x, in words, and those of r; values : ρ̂.

    With dot products rounded once, and x taken by its first word, numerator and denominator are within
    10u·Σ|x||r| and 8u·Σ‖x‖².
    """
    xp, n = namespace(values), len(values)
    words = [_joined(parts) for parts in zip(*(x for x, _ in blocks), strict=True)]
    x, r = words[0], _joined([r for _, r in blocks])
    p, q = _joined(real_parts(x)), _joined(real_parts(r))
    sums = dot(xp.concatenate([p, p], axis=1), xp.concatenate([q, p], axis=1), axis=0)
    top, bottom = sums[:n], sums[n:]
    whole, of_r = plus(*map(magnitude, words)), magnitude(r)
    correction = top / bottom
    high, low = two_sum(values, correction)
    order: Any = slice(None)
    if not everywhere(high[1:] > high[:-1]):
        order = xp.lexsort(xp.stack((low, high)))  # of the sums: those of equal first words by their second
    lost = 8 * U * plus(of_r, abs(correction) * whole) + 8 * ETA
    bounds = plus(magnitude(r - correction * x), lost)[:, order]
    size = (whole * of_r).sum(axis=0) * (1 + 4 * len(x) * U) + 4 * len(x) * ETA
    error = plus(up(up(size / bottom) * 32 * U), 8 * len(x) * ETA)
    ends = accumulate(len(r) for _, r in blocks)
    parts = [bounds[end - len(r) : end] for end, (_, r) in zip(ends, blocks, strict=True)]
    return Quotients(high[order], low[order], error[order], parts, order)


def _joined(blocks: Sequence[Array]) -> Array:
    """Matrices one below the other."""
    return blocks[0] if len(blocks) == 1 else namespace(blocks[0]).concatenate(blocks)


def gram_defect(x: Array) -> Array:
    """Return bounds of the row sums of |XᴴX - I|."""
    n, size = x.shape[1], magnitude(x)
    error = apply(size.T, apply(size)) * classical_error(x.T)
    return plus(from_one(classical(x.conj().T, x))(), error, 8 * n * len(x) * ETA)


def defect(vectors: Words) -> float:
    """Return a bound of ‖XᴴX - I‖∞, which bounds ‖x_i‖² - 1 and 1 - σ_min(X)², too."""
    x, *others = vectors
    if not others:
        return largest(gram_defect(x))
    size, low = magnitude(x), plus(*map(magnitude, others))
    of_low = plus(apply(size.T, apply(low)), apply(low.T, apply(plus(size, low))))
    return largest(plus(gram_defect(x), of_low))


def enclosed(
    q: Quotients, norm: float, alpha: float, others: Array, lost: float, vectors: Words = ()
) -> Enclosures:
    """Return the enclosures that the theorems above give, ascending.

    norm : of the residual; alpha : the vectors' `defect`; others : more eigenvalues nearby, as approximations
        with the error of all; lost : a bound of ‖B - A‖₂, where the eigenvalues are A's, and all of this B's.
    """
    if not alpha < 0.5:
        raise NotProvedError("the vectors are not proved to be independent", np.inf, len(vectors), alpha)
    xp = namespace(q.high)
    length = (1 - alpha) ** 0.5 * (1 - 8 * U)
    every = float(plus(norm / length, lost))
    epsilon = plus(norms(xp.concatenate(q.residuals), 0) / length, lost)
    ordered = xp.concatenate([others, q.high])
    index = xp.arange(len(others), len(ordered))
    if not everywhere(ordered[1:] >= ordered[:-1]):
        order = xp.argsort(ordered)
        ordered, index = ordered[order], xp.argsort(order)[len(others) :]
    far = xp.full(1, np.inf)
    steps = xp.concatenate([far, ordered[1:] - ordered[:-1], far])
    gap = xp.minimum(steps[index], steps[index + 1]) * (1 - 8 * U) - up(2 * every + 4 * U * abs(q.high))
    isolated = gap > 2 * epsilon
    positive = xp.where(isolated, gap, 1.0)
    kato = plus(up(epsilon * (epsilon / positive)) * (1 + 8 * U), q.error, lost)
    error = xp.where(isolated, xp.minimum(kato, every), every)
    apart = (ordered[1:] - ordered[:-1]) > 2 * up(every + 4 * U * abs(ordered[1:]))
    label = xp.concatenate([xp.zeros(1, int), xp.cumsum(apart)])[index]
    angle = xp.where(isolated, xp.arcsin(xp.minimum(epsilon / positive, 1.0)) * (1 + 2.0**-40), np.pi / 2)
    return Enclosures(*rounded([q.high, q.low], error), label, tuple(vectors), plus(angle, alpha))
