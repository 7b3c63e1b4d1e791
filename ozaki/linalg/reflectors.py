"""Products of Householder's reflections H = I - τ·v·vᴴ."""

from __future__ import annotations

from multiword.runtime.arrays import Array, namespace
from ozaki.linalg.arithmetic import real_quotient
from ozaki.linalg.products import normwise
from ozaki.linalg.triangular import solved


def reflected(vectors: Array, taus: Array, c: Array) -> Array:
    """Return H₀·H₁·…·C.

    vectors : (k, m) array, v₀, v₁, … as rows; zeros where there is no reflection.

    The product is I - V·S⁻¹·Vᴴ, where S has what is above the diagonal of VᴴV, and 1/τ on its diagonal
    (Joffrain, Low, Quintana-Ortí, van de Geijn and Van Zee, Accumulating Householder transformations,
    revisited, theorem 1).
    """
    xp = namespace(c)
    s = xp.triu(normwise(vectors.conj(), vectors.T), 1)
    taus = xp.where(taus == 0, taus.dtype.type(1), taus)
    squares = taus.real * taus.real + taus.imag * taus.imag
    s += xp.diag(real_quotient(taus.conj(), squares))  # 1/τ
    return c - normwise(vectors.T, solved(s, normwise(vectors.conj(), c), lower=False))
