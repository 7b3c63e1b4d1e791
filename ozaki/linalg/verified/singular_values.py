"""Singular values with proved bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from multiword.public import public_in
from multiword.runtime.arrays import Array, namespace, on_device_of_arrays, quietly
from multiword.runtime.readback import anywhere
from ozaki.linalg.arguments import matrices
from ozaki.linalg.products import words_of_product
from ozaki.linalg.spectral import approximate
from ozaki.linalg.verified.tools.eigenvalues import Enclosures, defect, enclosed, quotients, residual
from ozaki.linalg.verified.tools.preconditioner import tail
from ozaki.linalg.verified.tools.scaling import brought_to_one, times_power
from ozaki.linalg.verified.tools.upward import magnitude, plus, spectral_norm


@public_in("ozaki.linalg.verified", "Proofs")
@on_device_of_arrays
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
    a = matrices(a)
    if a.ndim != 2:
        raise np.linalg.LinAlgError(f"a must be one matrix, got shape {a.shape}")
    xp = namespace(a)
    if not anywhere(a):  # nothing, or zeros, which are their own singular values
        n = min(a.shape)
        return Enclosures(xp.zeros(n), xp.zeros(n), xp.ones(n, bool), xp.zeros(n, int))
    with quietly(a):
        a, exponent, lost = brought_to_one(a if a.shape[0] >= a.shape[1] else a.conj().T)
        return times_power(_enclosed(a, lost), exponent)


def _enclosed(a: Array, lost: float) -> Enclosures:
    """The singular values of a matrix with at least as many rows as columns."""
    xp, (m, n) = namespace(a), a.shape
    all_u, values, v = approximate("svd", a)
    # Ascending, as the enclosures are to be.
    v, u, values, adjoint = v[::-1].conj().T, all_u[:, :n][:, ::-1], values[::-1], a.conj().T
    blocks = [([u], residual(a, [v], [u], values)), ([v], residual(adjoint, [u], [v], values))]
    q = quotients(blocks, values)
    # The blocks of the residual of [U U; V -V]/√2 and [U⊥; 0], turned, are `first` and [`second`, AᴴU⊥].
    first, second = q.residuals
    if m > n:
        (null,) = words_of_product([adjoint], [all_u[:, n:]])
        second = xp.concatenate([second, plus(magnitude(null), tail([null]))], axis=1)
    norm = max(spectral_norm(first), spectral_norm(second))
    others = xp.zeros(1) if m > n else -q.high[:1]
    # ‖[u; v]‖ is about √2, of which `enclosed` takes 1: ε is an upper bound all the same
    result = enclosed(q, norm, max(defect([all_u]), defect([v])), others, lost)
    record = (result.value, result.bound, result.rounded, result.cluster)
    value, bound, sure, label = (x[::-1] for x in record)
    return Enclosures(value, bound, sure, label.max() - label)
