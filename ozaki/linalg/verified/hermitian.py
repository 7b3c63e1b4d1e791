"""Eigenvalues of Hermitian matrices with proved bounds."""

from __future__ import annotations

from math import pi
from typing import Any

from multiword.public import public_in
from multiword.runtime.arrays import Array, namespace, on_device_of_arrays, quietly
from multiword.runtime.readback import anywhere, everywhere
from ozaki.linalg.arguments import one_hermitian
from ozaki.linalg.products import Words, words_of_product
from ozaki.linalg.spectral import approximate
from ozaki.linalg.verified.tools.eigenvalues import Enclosures, defect, enclosed, quotients, residual
from ozaki.linalg.verified.tools.scaling import brought_to_one, times_power
from ozaki.linalg.verified.tools.upward import spectral_norm

LARGEST_ROTATION = 2.0**-20
"""What refinement turns an eigenvector by, at most: its error is the square of that."""


@public_in("ozaki.linalg.verified", "Proofs")
@on_device_of_arrays
def eigh(a: Any, *, max_steps: int = 2) -> Enclosures:
    """Return the eigenvalues of a symmetric or Hermitian matrix, each with a proved bound.

    LAPACK's eigenvectors and their Rayleigh quotients in two words round all eigenvalues of ordinary
    matrices; where some are not, as in a graded spectrum, the vectors are refined. Eigenvalues that are too
    close for a proof that they differ share a number in `cluster`, and have the bound of them all.

    Parameters
    ----------
    a : (n, n) array, equal to its conjugate transpose.
    max_steps : the most steps of refinement.

    Returns
    -------
    `Enclosures`, ascending.

    Raises
    ------
    TypeError, ValueError : as `solve`; a is not Hermitian. numpy.linalg.LinAlgError : not square;
        `NotProvedError` where the eigenvectors are not proved to be independent.

    References
    ----------
    Ogita and Aishima, Iterative refinement for symmetric eigenvalue decomposition; Cao, Xie and Li, A sharp
    version of Kahan's theorem on clustered eigenvalues; Kato, On the upper and lower bounds of eigenvalues.

    >>> import numpy as np
    >>> from ozaki.linalg import verified
    >>> verified.eigh(np.array([[2.0, 1.0], [1.0, 2.0]])).value
    array([1., 3.])
    """
    a = one_hermitian(a)
    with quietly(a):
        xp = namespace(a)
        if not anywhere(a):  # nothing, or zeros
            zeros, identity = xp.zeros(len(a)), xp.eye(len(a), dtype=a.dtype)
            angle = zeros + (pi / 2 if len(a) > 1 else 0.0)  # of a cluster
            return Enclosures(zeros, zeros, zeros == 0, zeros.astype(int), (identity,), angle)
        a, exponent, lost = brought_to_one(a)
        values, vectors = approximate("eigh", a)
        result = _enclosed(a, [vectors], values, lost)
        for _ in range(max_steps):
            if everywhere(result.rounded):
                break
            result = _enclosed(a, _refined(a, result.vectors), result.value, lost)
        return times_power(result, exponent)


def _enclosed(a: Array, vectors: Words, values: Array, lost: float) -> Enclosures:
    q = quotients([(vectors, residual(a, vectors, vectors, values))], values)
    vectors = [x[:, q.order] for x in vectors]
    return enclosed(q, spectral_norm(*q.residuals), defect(vectors), values[:0], lost, vectors)


def _refined(a: Array, vectors: Words) -> Words:
    """X(I + E), one word more: a step of Ogita and Aishima's algorithm 1.

    R = I - XᴴX,  S = XᴴAX,  λ_i = s_ii/(1 - r_ii),
    e_ij = (s_ij + λ_j·r_ij)/(λ_j - λ_i), or r_ij/2 where the λ are so close that this is not small
    """
    xp, n = namespace(a), len(a)
    identity = xp.eye(n, dtype=a.dtype)
    adjoint = [x.conj().T for x in vectors]
    (r,) = words_of_product([-x for x in adjoint], vectors, [identity])
    (s,) = words_of_product(adjoint, words_of_product([a], vectors, words=2))
    values = s.diagonal().real / (1 - r.diagonal().real)
    gap = values[None] - values[:, None]
    turned = s + values[None] * r
    close = abs(turned) >= LARGEST_ROTATION * abs(gap)
    e = xp.where(close, r / 2, turned / xp.where(close, 1.0, gap))
    return words_of_product(vectors, [e], vectors, words=len(vectors) + 1)
