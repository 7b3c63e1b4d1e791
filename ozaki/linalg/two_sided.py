"""Reductions to tridiagonal and to bidiagonal form: every element in a fixed order, nothing contracted.

Golub and Van Loan, Matrix Computations, sections 5.4.8 and 8.3.1. Sums are over rows, one after the other, or
by halves. Compiled code (`two_sided_numba`, `two_sided_cuda`) does the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from multiword.runtime.arrays import Array, is_cupy, namespace
from multiword.runtime.compiled import compiled
from ozaki.linalg import two_sided_cuda
from ozaki.linalg.arithmetic import product, reflector, tree_sum

FORM = "ozaki.linalg.two_sided_numba"


class Reflectors(NamedTuple):
    """Reflections: their vectors as rows of an (n, n) array, and their τ."""

    vectors: Array
    taus: Array

    @classmethod
    def none(cls, a: Array) -> Reflectors:
        """Return room for as many as a matrix has rows, where it lies."""
        return cls(namespace(a).zeros_like(a), namespace(a).zeros(len(a), a.dtype))


def tridiagonalize(a: Array) -> tuple[np.ndarray, np.ndarray, Reflectors]:
    """Return the diagonal and what is beside it of T, real, and Q = H₀H₁… with A = QTQᴴ.

    T is on the host, Q where A lies.

    a : (n, n) Hermitian C-contiguous array, which is overwritten.

    Hᴴ·A·H = A - v·wᴴ - w·vᴴ with w = x - (τ/2)·(xᴴv)·v and x = τ·A·v
    """
    n, q = len(a), Reflectors.none(a)
    d, e = namespace(a).zeros((2, n))
    if is_cupy(a):
        two_sided_cuda.tridiagonalize(a, d, e, *q)
        return d.get(), e.get(), q
    if (form := compiled(FORM)) is not None:
        form.tridiagonalize(a.dtype.char)(a, d, e, *q, *np.empty((3, n), a.dtype), np.empty(n))
        return d, e, q
    for j in range(n):
        d[j] = a[j, j].real
        if j + 1 == n:
            break
        v, e[j], tau = reflector(a[j, j + 1 :].conj())
        q.vectors[j, j + 1 :], q.taus[j] = v, tau
        rest = a[j + 1 :, j + 1 :]
        sums = np.zeros_like(v)
        for factor, row in zip(v.conj(), rest, strict=True):
            sums += product(factor, row)
        x = product(tau, sums.conj())
        half = product(tau, tree_sum(product(x.conj(), v))) * -0.5
        w = x + product(half, v)
        rest -= product(v[:, None], w.conj()[None]) + product(w[:, None], v.conj()[None])
    return d, e, q


def bidiagonalize(a: Array) -> tuple[np.ndarray, np.ndarray, Reflectors, Reflectors]:
    """Return the diagonal and what is above it of B, real, and Q and P with A = QBPᴴ.

    B is on the host, Q and P where A lies.

    a : (n, n) C-contiguous array, which is overwritten.
    """
    n, dtype = len(a), a.dtype
    q, p = Reflectors.none(a), Reflectors.none(a)
    d, e = namespace(a).zeros((2, n))
    if is_cupy(a):
        two_sided_cuda.bidiagonalize(a, d, e, *q, *p)
        return d.get(), e.get(), q, p
    if (form := compiled(FORM)) is not None:
        scratch = np.empty((1, n), dtype), np.empty(n, dtype), np.empty(n)
        form.bidiagonalize(dtype.char)(a, d, e, *q, *p, *scratch)
        return d, e, q, p
    for k in range(n):
        v, d[k], tau = reflector(a[k:, k].copy())
        q.vectors[k, k:], q.taus[k] = v, tau
        if k + 1 == n:
            break
        sums = np.zeros(n - k - 1, dtype)
        for factor, row in zip(v.conj(), a[k:, k + 1 :], strict=True):
            sums += product(factor, row)
        a[k:, k + 1 :] -= product(product(tau.conj(), v)[:, None], sums[None])
        u, e[k], tau = reflector(a[k, k + 1 :].conj())
        p.vectors[k, k + 1 :], p.taus[k] = u, tau
        rest = a[k + 1 :, k + 1 :]
        sums = tree_sum(product(rest, u[None]))
        rest -= product(product(tau, sums)[:, None], u.conj()[None])
    return d, e, q, p
