"""Cholesky factorization by halves: U₁₁ᴴU₁₂ = A₁₂, then A₂₂ - U₁₂ᴴU₁₂ is factorized.

The leaves are defined in `panels`, the updates are products of "normwise" accuracy: every bit is a function
of A.
"""

from __future__ import annotations

from multiword.runtime.arrays import Array, namespace
from multiword.runtime.readback import anywhere
from ozaki.linalg.arithmetic import LEAF
from ozaki.linalg.panels import cholesky_leaf, split
from ozaki.linalg.products import normwise
from ozaki.linalg.small import calls
from ozaki.linalg.triangular import solve_lower


def factored(a: Array) -> Array | None:
    """Return U with UᴴU = A, of a matrix or a stack of small ones; None if one is not positive definite."""
    if a.ndim == 3:
        upper, failed = calls.cholesky(a)
        return None if anywhere(failed) else upper
    upper = a.copy(order="C")
    return namespace(a).triu(upper) if factorize(upper) else None


def factorize(a: Array) -> bool:
    """Replace the upper triangle of A by U with UᴴU = A; False if A is not positive definite."""
    n = len(a)
    if n <= LEAF:
        upper = a.copy(order="C")
        definite = cholesky_leaf(upper)
        a[...] = upper
        return definite
    h = split(n)
    if not factorize(a[:h, :h]):
        return False
    right = namespace(a).ascontiguousarray(a[:h, h:])
    solve_lower(a[:h, :h].conj().T, right, unit=False)
    a[:h, h:] = right
    a[h:, h:] -= normwise(right.conj().T, right)
    return factorize(a[h:, h:])
