"""LU factorization with partial pivoting, by halves of the columns.

Toledo, Locality of reference in LU decomposition with partial pivoting. The leaves are defined in `panels`,
the updates are products of certified accuracy: every bit is a function of A. Their error is relative to
|L||U|, as LAPACK's is; one relative to norms would lose rows of A that are small beside those above them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Self

import numpy as np

from multiword.runtime.arrays import Array, namespace
from ozaki.linalg.arithmetic import LEAF
from ozaki.linalg.panels import lu_panel, split
from ozaki.linalg.products import multiply
from ozaki.linalg.small import calls
from ozaki.linalg.triangular import refuse, solve_lower, solved


class Swaps(NamedTuple):
    """Swaps of row j with row pivots[j], one after the other, by which row i becomes what row rows[i] was."""

    pivots: np.ndarray
    rows: np.ndarray

    @classmethod
    def of(cls, pivots: np.ndarray, count: int) -> Self:
        """Swaps among so many rows, of a matrix or of each of a stack."""
        if pivots.ndim == 2:
            rows, each = np.tile(np.arange(count), (len(pivots), 1)), np.arange(len(pivots))
            for j, p in enumerate(pivots.T):
                rows[each, j], rows[each, p] = rows[each, p], rows[:, j].copy()
            return cls(pivots, rows)
        rows = np.arange(count)
        row = rows.data  # a memoryview, which reads and writes single numbers sooner
        for j, p in enumerate(pivots.tolist()):
            row[j], row[p] = row[p], row[j]
        return cls(pivots, rows)

    def then(self, h: int, others: Self) -> Self:
        """Return these swaps, and then others of the rows from h on."""
        rows = np.concatenate([self.rows[:h], self.rows[h:][others.rows]])
        return self._replace(pivots=np.concatenate([self.pivots, h + others.pivots]), rows=rows)

    @property
    def odd(self) -> bool:
        """Whether the permutation is odd."""
        return bool(self.odd_of_each())

    def odd_of_each(self) -> Array:
        """Whether the permutations of a stack are odd."""
        xp = namespace(self.pivots)
        return (self.pivots != xp.arange(self.pivots.shape[-1])).sum(axis=-1) % 2 == 1

    def apply(self, a: Array) -> None:
        """Swap rows of A in place."""
        xp, moved = namespace(a), np.flatnonzero(self.rows != np.arange(len(self.rows)))
        a[xp.asarray(moved)] = a[xp.asarray(self.rows[moved])]


def factored(a: Array) -> tuple[Array, Swaps]:
    """Return L and U in one array, and P, of a matrix or a stack of small ones."""
    if a.ndim == 3:
        lu, *swaps = calls.lu(a)
        return lu, Swaps(*swaps)
    lu = a.copy(order="C")
    return lu, factorize(lu)


def factorize(a: Array) -> Swaps:
    """Replace A, (m, n), by L and U with PA = LU; return P.

    P₁[A₁₁; A₂₁] = [L₁₁; L₂₁]·U₁₁,   L₁₁U₁₂ = A₁₂,   P₂(A₂₂ - L₂₁U₁₂) = L₂₂U₂₂
    """
    m, n = a.shape
    if n <= LEAF:
        columns = a.T.copy(order="C")
        pivots = lu_panel(columns)
        a[...] = columns.T
        return Swaps.of(pivots, m)
    h = split(n)
    k = min(m, h)
    first = factorize(a[:, :h])
    first.apply(a[:, h:])
    upper = a[:k, h:].copy()
    solve_lower(a[:k, :k], upper, unit=True)
    a[:k, h:] = upper
    if m == k:
        return first
    a[h:, h:] -= multiply(a[h:, :h], upper)
    second = factorize(a[h:, h:])
    second.apply(a[h:, :h])
    return first.then(h, second)


def solver(a: Array) -> Callable[[Array], Array]:
    """Return a function of B that solves AX = B, of one matrix or of a stack of small ones.

    LinAlgError for a pivot that is 0.
    """
    if a.ndim == 3:
        return lambda b: _solved_at_once(a, b)
    lu, swaps = factored(a)
    refuse(lu.diagonal() == 0)
    return lambda b: solve_factored(lu, swaps, b)


def _solved_at_once(a: Array, b: Array) -> Array:
    x, singular = calls.system(a, b)
    refuse(singular)
    return x


def solve_factored(lu: Array, swaps: Swaps, b: Array, trans: int = 0) -> Array:
    """Return the solution of AX = B, AᵀX = B (trans = 1) or AᴴX = B (2) with the factors of A.

    All may be stacks of small matrices.
    """
    xp = namespace(b)
    rows = xp.asarray(swaps.rows)[..., None]
    if trans == 0:
        permuted = xp.take_along_axis(b, rows, -2)
        return solved(lu, solved(lu, permuted, lower=True, unit=True), lower=False)
    turned = lu.swapaxes(-1, -2) if trans == 1 else lu.conj().swapaxes(-1, -2)
    y = solved(turned, solved(turned, b, lower=True), lower=False, unit=True)
    return xp.take_along_axis(y, xp.argsort(rows, axis=-2), -2)
