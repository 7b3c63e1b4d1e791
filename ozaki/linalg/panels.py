"""The leaves of the recursive factorizations, defined: every element in a fixed order, nothing contracted.

An element is eliminated as in textbooks, c = (…((c - l₀u₀) - l₁u₁) - …), each product and each difference
rounded once. Blocking changes no bit of that. Compiled code (`panels_numba`, `panels_cuda`) does the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, is_cupy, namespace
from multiword.runtime.compiled import compiled
from multiword.runtime.parallel import empty_beside
from ozaki.linalg import panels_cuda
from ozaki.linalg.arithmetic import LEAF, largest, product, quotient, real_quotient, reflector, tree_sum
from ozaki.linalg.small.leaves import room

FORM = "ozaki.linalg.panels_numba"


def split(n: int) -> int:
    """Return where n columns are halved: at a multiple of a leaf."""
    return max(LEAF, n // 2 // LEAF * LEAF)


def _compiled(leaf: str, x: Array) -> Any:
    """The compiled leaf of that name for arrays of this dtype, or None."""
    if is_cupy(x):
        return getattr(panels_cuda, leaf)
    form = compiled(FORM)
    return None if form is None else getattr(form, leaf)(x.dtype.char)


def lu_panel(columns: Array) -> np.ndarray:
    """Factorize PA = LU with partial pivoting in place; return the rows swapped with row 0, 1, ….

    columns : (w, m) array, A transposed. Row j is swapped with the one whose element in column j is largest
        by `size`, the first of these. A column of zeros has the pivot 0, and zeros in L.
    """
    w, m = columns.shape
    pivots = np.arange(min(w, m))
    if (form := _compiled("lu_panel", columns)) is not None:
        form(columns, pivots)
        return pivots
    for j in range(len(pivots)):
        p = pivots[j] = j + largest(columns[j, j:])
        if p != j:
            columns[:, [j, p]] = columns[:, [p, j]]
        if bool(columns[j, j] != 0):
            columns[j, j + 1 :] = quotient(columns[j, j + 1 :], columns[j, j])
        columns[j + 1 :, j + 1 :] -= product(columns[j + 1 :, j, None], columns[j, j + 1 :])
    return pivots


def lower_leaf(lower: Array, b: Array, unit: bool) -> None:
    """Replace B by the solution of LX = B by forward substitution, row by row."""
    if (form := _compiled("lower_leaf", b)) is not None:
        if not is_cupy(b):  # stacks are broadcast, and read-only
            lower = np.require(lower, requirements=["C", "W"])
        form(lower, b, unit)
        return
    for i in range(len(lower)):
        if not unit:
            b[i] = quotient(b[i], lower[i, i])
        b[i + 1 :] -= product(lower[i + 1 :, i, None], b[i])


def cholesky_leaf(upper: Array) -> bool:
    """Replace the upper triangle of A by U with UᴴU = A; False if a pivot is not positive."""
    xp = namespace(upper)
    if (form := _compiled("cholesky_leaf", upper)) is not None:
        return bool(form(upper, xp.empty(len(upper), upper.dtype)))
    for i in range(len(upper)):
        pivot = upper[i, i].real
        if not bool(pivot > 0):
            return False
        root = xp.sqrt(pivot)
        upper[i, i:] = real_quotient(upper[i, i:], root)
        upper[i, i] = root
        for k in range(i + 1, len(upper)):
            upper[k, k:] -= product(upper[i, k : k + 1].conj(), upper[i, k:])
    return True


def qr_panel(columns: Array) -> tuple[Array, Array]:
    """Return (w, m) Y and (w, w) T with Q = I - YᵀT·conj(Y), QᴴA = R; R replaces A.

    columns : (w, m) array, A transposed, w <= m. Householder reflections as LAPACK's, the diagonal of R real;
        norms and dot products are sums by halves.
    """
    w, m = columns.shape
    xp = namespace(columns)
    y, t = xp.zeros_like(columns), xp.zeros((w, w), columns.dtype)
    if (form := _compiled("qr_panel", columns)) is not None:
        form(columns, y, t, empty_beside(columns, (room(m, w),), columns.dtype), xp.empty(m))
        return y, t
    for j in range(w):
        v, beta, t[j, j] = reflector(columns[j, j:])
        y[j, j:], columns[j, j:], columns[j, j] = v, 0, beta
        if not bool(v[0] != 0):
            continue
        weights = product(tree_sum(product(columns[j + 1 :, j:], v.conj()[None])), t[j, j].conj())
        columns[j + 1 :, j:] -= product(weights[:, None], v[None])
        overlaps = tree_sum(product(y[:j, j:].conj(), v[None]))
        for i in range(j):
            t[i, j] = -product(tree_sum(product(t[i, i:j], overlaps[i:])), t[j, j])
    return y, t
