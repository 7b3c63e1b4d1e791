"""Eigenvalues of Hermitian matrices: Lanczos with full reorthogonalization, restarted with Ritz vectors.

Wu and Simon, Thick-restart Lanczos method for large symmetric eigenvalue problems.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, namespace, on_device_of_arrays, on_host
from multiword.runtime.options import integer
from multiword.runtime.readback import anywhere
from ozaki.api import matmul
from ozaki.linalg import eigh
from ozaki.linalg.residual import residual
from ozaki.public import is_sparse
from ozaki.random import default_rng
from ozaki.sparse.linalg.system import Operator, Progress, finite_vector, operator_of, tell
from ozaki.sparse.linalg.vectors import EPS, norm, scaled

REACHED = 8 * EPS
"""The residual, relative to the norm of A, that float64 vectors can be expected to reach."""

ORDERS = {"LM": lambda values: -abs(values), "LA": lambda values: -values, "SA": lambda values: values}
"""What eigenvalues are sorted by, so that those wanted come first."""


@on_device_of_arrays
def eigsh(
    A: Any,
    k: int = 6,
    *,
    which: str = "LM",
    v0: Any = None,
    ncv: int | None = None,
    maxiter: int | None = None,
    tol: float = 0.0,
    return_eigenvectors: bool = True,
    progress: Progress = False,
) -> Any:
    """Return k eigenvalues of a Hermitian matrix and their vectors, as `scipy.sparse.linalg.eigsh` does.

    They have the same bits on every machine, if A is a matrix, or an operator whose products do.

    Parameters
    ----------
    A : (n, n) sparse matrix of SciPy or CuPy, an array, or a `LinearOperator`; equal to its conjugate
        transpose, which is not checked.
    k : how many, from 1 to n − 1.
    which : "LM" for those largest in magnitude, "LA" for the largest, "SA" for the smallest.
    v0 : (n,) array to begin with, by default random numbers, always the same.
    ncv : vectors that are kept, more than k; by default min(n, max(2·k + 1, 20)).
    maxiter : restarts at most, by default 10·n.
    tol : the error that is wanted, relative to each eigenvalue; no less than eight ulp of the norm of A.
    return_eigenvectors : False returns the eigenvalues alone.
    progress : as in `cg`, of restarts: the largest residual of the k vectors, and what is wanted of it.

    Returns
    -------
    (k,) eigenvalues, float64, ascending; and (n, k) orthonormal vectors, float64 or complex128.

    Raises
    ------
    ValueError : shapes that do not fit; k, ncv or which out of range; a v0 that is zero.
    scipy.sparse.linalg.ArpackNoConvergence : too few restarts; it has what has converged.

    References
    ----------
    Wu and Simon, Thick-restart Lanczos method for large symmetric eigenvalue problems.

    >>> import numpy as np
    >>> from scipy.sparse import diags_array
    >>> np.round(eigsh(diags_array(np.arange(50.0)), k=2, return_eigenvectors=False), 9)
    array([48., 49.])
    """
    v, a = _start(A, v0)
    n, k = a.shape[0], integer("k", k)
    if which not in ORDERS:
        raise ValueError(f"which must be 'LM', 'LA' or 'SA', got {which!r}")
    if not 0 < k < n:
        raise ValueError(f"k must be from 1 to {n - 1}, for a matrix of shape {a.shape}, got {k}")
    size = min(n, max(2 * k + 1, 20)) if ncv is None else integer("ncv", ncv)
    if not k < size <= n:
        raise ValueError(f"ncv must be more than k = {k} and at most {n}, got {size}")
    space, kept = Space(a, v, size), 0
    restarts = 10 * n if maxiter is None else maxiter
    for restart in range(restarts + 1):
        beta = space.extend(kept)
        values, vectors = eigh(space.projected())
        order = np.argsort(ORDERS[which](values), kind="stable")
        residuals = beta * abs(vectors[-1, order[:k]])
        wanted = np.maximum(tol * abs(values[order[:k]]), REACHED * abs(values).max())
        tell(progress, restart, float(residuals.max()), float(wanted.min()))
        done = residuals <= wanted
        if done.all() or restart == restarts:
            break
        kept = k + (size - k) // 2
        space.restart(values[order[:kept]], vectors[:, order[:kept]])
    chosen = np.sort(order[:k][done])
    found = namespace(v).asarray(values[chosen])
    if not done.all():
        raise _no_convergence(
            f"{len(chosen)} of {k} eigenvalues have converged", found, space.ritz(vectors[:, chosen])
        )
    return (found, space.ritz(vectors[:, chosen])) if return_eigenvectors else found


class Space:
    """An orthonormal basis of a Krylov space, and A in it.

    Parameters
    ----------
    a : the operator. v : the first vector. size : vectors of the basis.
    """

    def __init__(self, a: Operator, v: Array, size: int) -> None:
        self._a, self._numbers = a, default_rng(1, like=v)
        self._basis = namespace(v).zeros((size + 1, len(v)), v.dtype)
        self._basis[0] = scaled(1 / norm(v), v)
        self._projected = np.zeros((size, size), v.dtype)

    def extend(self, kept: int) -> float:
        """Complete a basis of so many vectors and the one after them; return the norm of the residual."""
        size = len(self._projected)
        for j in range(kept, size):
            w = self._a.matvec(self._basis[j])
            whole = norm(w)
            w, self._projected[: j + 1, j] = self._orthogonal(w, j + 1)
            beta = norm(w)
            if beta <= 8 * EPS * whole:  # the space is invariant: any other vector may follow
                beta, follows = 0.0, j + 1 < size
                w = self._orthogonal(self._numbers.random(len(w)) - 0.5, j + 1)[0] if follows else 0 * w
            self._basis[j + 1] = scaled(1 / (beta or norm(w) or 1.0), w)
        return beta

    def _orthogonal(self, w: Array, count: int) -> tuple[Array, np.ndarray]:
        """Return what is left of a vector beside the first ones of the basis, and its products with these.

        Both are exact, rounded once; the second time removes what the first one's rounding has left (Giraud,
        Langou, Rozložník and van den Eshof, Rounding error analysis of the classical Gram-Schmidt process).
        """
        basis, total = self._basis[:count], np.zeros(count, self._projected.dtype)
        for _ in range(2):
            products = matmul(basis.conj(), w, accuracy="exact")
            w = residual(basis.T, products, w)
            total = total + on_host(products)
        return w, total

    def projected(self) -> np.ndarray:
        """Return A in the basis, on the host: Hermitian, of the products with earlier vectors."""
        upper = np.triu(self._projected, 1)
        return upper + upper.conj().T + np.diag(self._projected.diagonal().real)

    def restart(self, values: np.ndarray, vectors: np.ndarray) -> None:
        """Keep the Ritz vectors of these eigenvectors of the projected matrix, and the next vector."""
        kept, xp = len(values), namespace(self._basis)
        self._basis[:kept] = matmul(xp.asarray(vectors.T), self._basis[:-1], accuracy="exact")
        self._basis[kept] = self._basis[-1]
        self._projected[:] = 0
        self._projected[range(kept), range(kept)] = values

    def ritz(self, vectors: np.ndarray) -> Array:
        """Return vectors of the basis, as columns, from their coefficients."""
        xp = namespace(self._basis)
        return matmul(self._basis[:-1].T, xp.asarray(vectors), accuracy="exact")


def _start(A: Any, v0: Any) -> tuple[Array, Operator]:
    """Return the first vector and the operator, whose products are of the same dtype."""
    a = operator_of(A, "A", np.dtype(np.float64))
    if a.shape[0] != a.shape[1]:
        raise ValueError(f"A must be square, got shape {a.shape}")
    if v0 is None:
        like = A.data if is_sparse(A) else None if hasattr(A, "matvec") else A
        v = default_rng(0, like=like).random(a.shape[0]) - 0.5
    else:
        v = finite_vector(v0, "v0")
    if v.size != a.shape[0] or not anywhere(v):
        raise ValueError(f"v0 must have {a.shape[0]} numbers that are not all zero, got shape {v.shape}")
    dtype = np.result_type(np.float64, v.dtype, a.dtype)
    return v.astype(dtype), a.into(dtype)


def _no_convergence(message: str, values: Array, vectors: Array) -> Exception:
    from scipy.sparse.linalg import ArpackNoConvergence

    return ArpackNoConvergence(message, values, vectors)
