"""Singular values with proved bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, device_of, namespace, quietly
from ozaki.linalg.arguments import matrices
from ozaki.linalg.products import words_of_product
from ozaki.linalg.verified.eigenvalues import (
    QUOTIENT_ERROR,
    Enclosures,
    column_norms,
    defect,
    enclosed,
    quotients,
    residual,
    spectral_norm,
)
from ozaki.linalg.verified.preconditioner import tail
from ozaki.linalg.verified.solution import NotProvedError
from ozaki.linalg.verified.upward import ETA, U, magnitude, plus, times, up


def svdvals(a: Any) -> Enclosures:
    """Return the singular values of a matrix, each with a proved bound.

    They are eigenvalues ±σ of the Hermitian [0 A; Aᴴ 0], with eigenvectors [u; ±v], and 0 where A has more
    rows than columns: the bounds are those of `eigh`, with the residuals AV - UΣ and AᴴU - VΣ.

    Parameters
    ----------
    a : (m, n) array of real or complex numbers.

    Returns
    -------
    `Enclosures`, descending, without vectors.

    Raises
    ------
    TypeError, ValueError : as `solve`. numpy.linalg.LinAlgError : no matrix; `NotProvedError` where the
        singular vectors are not proved to be independent.

    References
    ----------
    Kato, On the upper and lower bounds of eigenvalues; Cao, Xie and Li, A sharp version of Kahan's theorem on
    clustered eigenvalues.

    >>> import numpy as np
    >>> from ozaki.linalg import verified
    >>> verified.svdvals(np.array([[3.0, 0.0], [4.0, 5.0]])).rounded
    array([ True,  True])
    """
    a = matrices(a, "a")
    if a.ndim != 2:
        raise np.linalg.LinAlgError(f"a must be one matrix, got shape {a.shape}")
    xp = namespace(a)
    if 0 in a.shape:
        return Enclosures(xp.zeros(0), xp.zeros(0), xp.zeros(0, bool), np.zeros(0, int))
    with device_of(a), quietly(a):
        return _enclosed(a if a.shape[0] >= a.shape[1] else a.conj().T)


def _enclosed(a: Array) -> Enclosures:
    """The singular values of a matrix with at least as many rows as columns."""
    xp, (m, n) = namespace(a), a.shape
    all_u, _, adjoint = xp.linalg.svd(a)
    u, v, rest = all_u[:, :n], adjoint.conj().T, all_u[:, n:]
    of_v, of_u = (words_of_product([x], [y], words=2) for x, y in ((a, v), (a.conj().T, u)))
    high, low, _ = quotients([([u], of_v), ([v], of_u)], [([u], [u]), ([v], [v])])
    order = xp.argsort(high)
    u, v, high, low = u[:, order], v[:, order], high[order], low[order]
    of_v, of_u = ([y[:, order] for y in words] for words in (of_v, of_u))
    first, second = residual(of_v, [u], (high, low)), residual(of_u, [v], (high, low))
    alpha = max(defect([all_u]), defect([v]))
    if not alpha < 1:
        raise NotProvedError("the singular vectors are not proved to be independent", np.inf, 1, alpha)
    length = (1 - alpha) ** 0.5 * (1 - 8 * U)
    # The blocks of the residual of [U U; V -V]/√2 and [U⊥; 0], turned, are `first` and [`second`, AᴴU⊥].
    below = second
    if m > n:
        (null,) = words_of_product([a.conj().T], [rest])
        below = xp.concatenate([second, plus(magnitude(null) * (1 + 2 * U), tail([null]))], axis=1)
    every = float(up(max(spectral_norm(first), spectral_norm(below)) / length))
    lost = sum(
        (magnitude(x) * tail(words)).sum(axis=0) * (1 + 2 * m * U) for x, words in ((u, of_v), (v, of_u))
    )
    uncertain = plus(times(abs(high), QUOTIENT_ERROR), lost / (length * length), 8 * m * ETA)
    epsilon = up(column_norms(first, second) / length)  # the vectors [u; v] have the length √2
    others = xp.zeros(1) if m > n else -high[:1]
    value, bound, sure, label, _ = enclosed((high, low), others, epsilon, every, uncertain)
    return Enclosures(value[::-1], bound[::-1], sure[::-1], label.max() - label[::-1])
