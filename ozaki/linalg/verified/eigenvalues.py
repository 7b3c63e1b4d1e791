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
from typing import Any

import numpy as np

from multiword.rounding import product_error
from multiword.runtime.arrays import Array, namespace, real_parts
from ozaki.linalg.products import Words, classical
from ozaki.linalg.verified.preconditioner import classical_error, tail
from ozaki.linalg.verified.upward import ETA, U, apply, largest, magnitude, norms, plus, times, up
from ozaki.linalg.verified.words import rounded
from ozaki.sums.exactsum import ExactSum

QUOTIENT_ERROR = 2.0**-100
"""Relative error, at most, of a quotient of numbers of two words each, in two words: a few u²."""


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
    cluster: np.ndarray
    vectors: tuple[Array, ...] = field(repr=False, default=())
    angle: Array = field(repr=False, default=None)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.value, dtype=dtype, copy=copy)


def quotients(
    x: Sequence[tuple[Words, Words]], y: Sequence[tuple[Words, Words]]
) -> tuple[Array, Array, Array]:
    """Return two words of Σ Re(conj(p)·q) over pairs x, divided by the same over y, column by column; and the
    denominators."""
    top, bottom = _dots(x), _dots(y)
    high = top[0] / bottom[0]
    product = high * bottom[0]
    rest = ((top[0] - product) - product_error(high, bottom[0], product)) + (top[1] - high * bottom[1])
    return high, rest / bottom[0], bottom[0]


def _dots(pairs: Sequence[tuple[Words, Words]]) -> tuple[Array, Array]:
    """Two words of the sums over columns."""
    total = ExactSum(np.float64, (pairs[0][0][0].shape[1],))
    for left, right in pairs:
        for p in left:
            for q in right:
                for x, y in zip(real_parts(p), real_parts(q), strict=True):
                    total.add_products(x, y)
    high: Array = total.round()
    return high, total.add(-high).round()


def residual(images: Words, vectors: Words, values: Sequence[Array]) -> Array:
    """Return a bound of |Y - X·diag(Σ values)|, Y being within its `tail` of the sum of its words."""
    total = ExactSum(images[0].dtype, images[0].shape)
    for y in images:
        total.add(y)
    for x in vectors:
        for value in values:
            row = (-value).astype(x.dtype)
            total.add_products(x, namespace(x).broadcast_to(row, x.shape))
    return plus(magnitude(total.round()) * (1 + 4 * U), tail(images))


def defect(vectors: Words) -> float:
    """Return a bound of ‖XᴴX - I‖∞, which bounds ‖x_i‖² - 1 and 1 - σ_min(X)², too."""
    xp, x = namespace(vectors[0]), vectors[0]
    n = x.shape[1]
    ones, size = xp.ones(n), magnitude(x)
    low = plus(xp.zeros(x.shape), *map(magnitude, vectors[1:]))
    g = magnitude(classical(x.conj().T, x) - xp.eye(n))
    error = times(apply(size.T, apply(size, ones)), classical_error(x.T)) + 8 * n * len(x) * ETA
    of_low = plus(apply(size.T, apply(low, ones)), apply(low.T, apply(plus(size, low), ones)))
    return largest(plus(apply(g, ones) * (1 + 4 * U), error, of_low))


def spectral_norm(size: Array) -> float:
    """Return √(‖M‖₁‖M‖∞), which is at least ‖M‖₂, of a nonnegative matrix."""
    xp = namespace(size)
    rows = largest(apply(size, xp.ones(size.shape[1])))
    columns = largest(apply(size.T, xp.ones(size.shape[0])))
    return float(up(up(rows * columns) ** 0.5 * (1 + 4 * U)))


def column_norms(*sizes: Array) -> Array:
    """Return bounds of the 2-norms of the columns of matrices one below the other."""
    return norms(namespace(sizes[0]).concatenate(sizes), 0)


def enclosed(
    values: tuple[Array, Array], others: Array, epsilon: Array, all_of_them: float, uncertain: Array
) -> tuple[Array, Array, Array, np.ndarray, Array]:
    """Return values, bounds, which are rounded, clusters and angles.

    values : two words of ascending Rayleigh quotients; others : more eigenvalues nearby, as approximations
        within `all_of_them`, which bounds all errors. epsilon : ‖r_i‖/‖x_i‖; uncertain : the error of the
        quotients themselves.
    """
    high, low = values
    xp, n = namespace(high), len(high)
    points = xp.concatenate([high, others])
    order = xp.argsort(points)
    ordered, index = points[order], xp.argsort(order)[:n]
    far = xp.full(1, np.inf)
    steps = xp.concatenate([far, ordered[1:] - ordered[:-1], far])
    gap = xp.minimum(steps[index], steps[index + 1]) * (1 - 8 * U) - up(2 * all_of_them + 4 * U * abs(high))
    isolated = gap > 2 * epsilon
    positive = xp.where(isolated, gap, 1.0)
    kato = plus(times(epsilon, epsilon / positive) * (1 + 8 * U), uncertain)
    error = xp.where(isolated, xp.minimum(kato, all_of_them), all_of_them)
    value, bound, sure = rounded([high, low], error)
    apart = (ordered[1:] - ordered[:-1]) > 2 * up(all_of_them + 4 * U * abs(ordered[1:]))
    label = xp.concatenate([xp.zeros(1, int), xp.cumsum(apart)])[index] if len(points) else index
    angle = xp.where(isolated, xp.arcsin(xp.minimum(epsilon / positive, 1.0)) * (1 + 2.0**-40), np.pi / 2)
    return value, bound, sure, label, angle
