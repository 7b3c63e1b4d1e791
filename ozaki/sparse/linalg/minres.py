"""MINRES (Paige and Saunders, Solution of sparse indefinite systems of linear equations)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf, sqrt
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, on_device_of_arrays
from ozaki.sparse.linalg.system import Progress, System
from ozaki.sparse.linalg.vectors import EPS, added, dot, length, norm, scaled


@on_device_of_arrays
def minres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    shift: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[[Array], Any] | None = None,
    show: bool = False,
    check: bool = False,
    progress: Progress = False,
) -> tuple[Array, int]:
    """Return the solution of (A − shift·I)x = b for a Hermitian A, as `scipy.sparse.linalg.minres` does.

    As `cg`; differs in that A may be indefinite or singular, and in what the iteration ends with.

    Parameters
    ----------
    rtol : the iteration ends where ‖r‖ <= rtol·‖A‖·‖x‖, or ‖Ar‖ <= rtol·‖A‖·‖r‖, both as they are estimated.
    shift : a real number that is subtracted from the diagonal of A.
    maxiter : iterations at most, by default 5·n.
    M : a preconditioner that is Hermitian and positive definite.
    show : as `progress=True`.
    check : raise ValueError where A or M does not seem to be Hermitian.

    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> x, info = minres(csr_array([[0.0, 2.0], [2.0, 0.0]]), np.array([6.0, 4.0]))
    >>> np.allclose(x, [2, 3]), info
    (True, 0)
    """
    limit = 5 * np.size(b) if maxiter is None else maxiter
    system = System.of(A, b, x0, rtol, 0.0, limit, M, callback, progress or show)
    r, x = system.residual(), system.x
    y = system.precondition(r)
    square = dot(r, y).real
    if square < 0:
        raise ValueError("M must be positive definite")
    if square == 0:
        return x, 0
    if check:
        _check_hermitian(system, r, y)
    estimates, w, before, info = Estimates(sqrt(square), rtol), 0 * x, 0 * x, 0
    for v, alpha, last, beta in _lanczos(system, r, y, sqrt(square), shift):
        epsilon, delta, gamma, phi = estimates.rotate(alpha, last, beta)
        before, w = w, scaled(1 / gamma, added(added(v, -epsilon, before), -delta, w))
        x = added(x, phi, w)
        size = norm(x)
        system.tolerance = rtol * estimates.of_matrix * size
        system.told(estimates.count, estimates.residual)
        done, info = estimates.verdict(size, limit)
        system.callback(x)
        if done:
            break
    return x, info


def _lanczos(
    system: System, r: Array, y: Array, beta: float, shift: float
) -> Iterator[tuple[Array, float, float, float]]:
    """Yield vectors v, α of the tridiagonal matrix that they make of A, and β before and after it."""
    before, r_before = 0.0, r
    for step in range(system.limit):
        v = scaled(1 / beta, y)
        y = system.matvec(v)
        if shift:
            y = added(y, -shift, v)
        if step:
            y = added(y, -beta / before, r_before)
        alpha = dot(v, y).real
        r_before, r = r, added(y, -alpha / beta, r)
        y = system.precondition(r)
        square = dot(r, y).real
        if square < 0:
            raise ValueError("M must be Hermitian and positive definite")
        before, beta = beta, sqrt(square)
        yield v, alpha, before, beta
        if beta == 0:
            return


class Estimates:
    """The QR factorization of the tridiagonal matrix by plane rotations, and what it tells about A and r.

    Attributes
    ----------
    count : rotations so far.
    residual : ‖r‖ in the norm of M.
    of_matrix : an estimate of ‖A‖.
    """

    def __init__(self, beta: float, rtol: float) -> None:
        self.count, self.residual, self.of_matrix = 0, beta, 0.0
        self._rtol, self._first, self._stopped = rtol, beta, False
        self._c, self._s, self._diagonal, self._epsilon = -1.0, 0.0, 0.0, 0.0
        self._squares, self._largest, self._smallest, self._root = 0.0, 0.0, inf, 0.0

    def rotate(self, alpha: float, before: float, beta: float) -> tuple[float, float, float, float]:
        """Return ε, δ, γ and φ of the next column of R and of the right side."""
        self.count += 1
        self._squares += alpha * alpha + before * before + beta * beta
        self.of_matrix = sqrt(self._squares)
        self._stopped = self.count == 1 and beta / self._first <= 10 * EPS
        epsilon, delta = self._epsilon, self._c * self._diagonal + self._s * alpha
        corner = self._s * self._diagonal - self._c * alpha
        self._epsilon, self._diagonal = self._s * beta, -self._c * beta
        self._root = length(corner, self._diagonal)
        gamma = max(length(corner, beta), EPS)
        self._c, self._s = corner / gamma, beta / gamma
        phi, self.residual = self._c * self.residual, self._s * self.residual
        self._largest, self._smallest = max(self._largest, gamma), min(self._smallest, gamma)
        return epsilon, delta, gamma, phi

    def verdict(self, size: float, limit: int) -> tuple[bool, int]:
        """Return whether to end at an x of this norm, and SciPy's info."""
        product = self.of_matrix * size
        of_system = self.residual / product if product else inf
        of_squares = self._root / self.of_matrix if self.of_matrix else inf
        good = min(of_system, of_squares) <= self._rtol
        hopeless = self._largest / self._smallest >= 0.1 / EPS or product * EPS >= self._first
        if good or hopeless or self._stopped:
            return True, 0
        if self.count >= limit:
            return True, limit
        return 1 + of_system <= 1 or 1 + of_squares <= 1, 0


def _check_hermitian(system: System, r: Array, y: Array) -> None:
    """Raise ValueError where A or M, applied twice, does not seem to be Hermitian."""
    of_a, of_m = system.matvec(y), system.precondition(y)
    for name, left, right in (
        ("A", dot(of_a, of_a), dot(y, system.matvec(of_a))),
        ("M", dot(y, y), dot(r, of_m)),
    ):
        if abs(left - right) > (left.real + EPS) * EPS ** (1 / 3):
            raise ValueError(f"{name} must be Hermitian")
