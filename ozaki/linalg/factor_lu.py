"""LU factorization with partial pivoting, by halves of the columns.

Toledo, Locality of reference in LU decomposition with partial pivoting. The leaves are defined in `panels`,
the updates are products of certified accuracy: every bit is a function of A. Their error is relative to
|L||U|, as LAPACK's is; one relative to norms would lose rows of A that are small beside those above them.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from multiword.runtime.arrays import Array, namespace
from ozaki.linalg.panels import LEAF, lu_panel, split
from ozaki.linalg.products import multiply
from ozaki.linalg.triangular import solve_lower, solved


def factorize(a: Array) -> np.ndarray:
    """Replace A, (m, n), by L and U with PA = LU; return the rows that row 0, 1, … is swapped with.

    P₁[A₁₁; A₂₁] = [L₁₁; L₂₁]·U₁₁,   L₁₁U₁₂ = A₁₂,   P₂(A₂₂ - L₂₁U₁₂) = L₂₂U₂₂
    """
    m, n = a.shape
    if n <= LEAF:
        columns = a.T.copy(order="C")
        pivots = lu_panel(columns)
        a[...] = columns.T
        return pivots
    h = split(n)
    k = min(m, h)
    first = factorize(a[:, :h])
    swap_rows(a[:, h:], first)
    upper = a[:k, h:].copy()
    solve_lower(a[:k, :k], upper, unit=True)
    a[:k, h:] = upper
    if m == k:
        return first
    a[h:, h:] -= multiply(a[h:, :h], upper)
    second = factorize(a[h:, h:])
    swap_rows(a[h:, :h], second)
    return np.concatenate([first, h + second])


def swap_rows(a: Array, pivots: Iterable[int], back: bool = False) -> None:
    """Swap row j of A with row pivots[j], one j after the other; from the last to the first to undo that."""
    moved: dict[int, int] = {}  # row i becomes row moved[i]
    swaps = list(enumerate(map(int, pivots)))
    for j, p in reversed(swaps) if back else swaps:
        moved[j], moved[p] = moved.get(p, p), moved.get(j, j)
    xp = namespace(a)
    to, of = (xp.asarray(list(rows), dtype=np.intp) for rows in (moved.keys(), moved.values()))
    a[to] = a[of]


def solve_factored(lu: Array, pivots: Iterable[int], b: Array, trans: int = 0) -> Array:
    """Return the solution of AX = B, AᵀX = B (trans = 1) or AᴴX = B (2) with the factors of A."""
    if trans == 0:
        x = b.copy()
        swap_rows(x, pivots)
        return solved(lu, solved(lu, x, lower=True, unit=True), lower=False)
    turned = lu.T if trans == 1 else lu.conj().T
    x = solved(turned, solved(turned, b, lower=True), lower=False, unit=True).copy()
    swap_rows(x, pivots, back=True)
    return x
