"""LSQR (Paige and Saunders, LSQR: An algorithm for sparse linear equations and sparse least squares)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from math import copysign, inf, sqrt
from typing import Any, NamedTuple

import numpy as np

from multiword.runtime.arrays import Array, namespace, on_device_of_arrays, real_parts
from ozaki.sparse.linalg.system import Operator, Progress, finite_vector, operator_of, tell
from ozaki.sparse.linalg.vectors import EPS, added, length, norm, scaled


class LeastSquares(NamedTuple):
    """What `lsqr` returns, in SciPy's order; its docstring says what it is."""

    x: Array
    istop: int
    itn: int
    r1norm: float
    r2norm: float
    anorm: float
    acond: float
    arnorm: float
    xnorm: float
    var: Array


@on_device_of_arrays
def lsqr(
    A: Any,
    b: Any,
    damp: float = 0.0,
    atol: float = 1e-6,
    btol: float = 1e-6,
    conlim: float = 1e8,
    iter_lim: int | None = None,
    show: bool = False,
    calc_var: bool = False,
    x0: Any = None,
    *,
    progress: Progress = False,
) -> LeastSquares:
    """Return the x that minimizes ‖b − Ax‖² + damp²·‖x − x0‖², as `scipy.sparse.linalg.lsqr` does.

    Every iterate has the same bits on every machine, if A is a matrix, or an operator whose products do.

    Parameters
    ----------
    A : (m, n) sparse matrix of SciPy or CuPy, an array, or a `LinearOperator` with `rmatvec`.
    b : (m,) or (m, 1) array of finite numbers.
    damp : the damping factor.
    atol, btol : the iteration ends where ‖r‖ <= atol·‖A‖·‖x‖ + btol·‖b‖, or where ‖Aᴴr‖ <= atol·‖A‖·‖r‖.
    conlim : it also ends where the condition number is estimated to be larger; 0 for no limit.
    iter_lim : iterations at most, by default 2·n.
    show : as `progress=True`.
    calc_var : estimate the diagonal of (AᴴA + damp²·I)⁻¹.
    x0 : the first guess, by default zeros.
    progress : as in `cg`; the wanted residual is that of a system that has a solution.

    Returns
    -------
    (x, istop, itn, r1norm, r2norm, anorm, acond, arnorm, xnorm, var), with names: the solution; why the
    iteration ended, 1 of a system, 2 of least squares, 3 at conlim, 4 to 6 the same for the machine, 7 at the
    limit, 0 if x0 is the solution; the number of iterations; ‖r‖, √(‖r‖² + damp²·‖x − x0‖²); estimates of A's
    norm, condition number and of ‖Aᴴr − damp²·(x − x0)‖; ‖x‖; the variances, zeros if not asked for.

    Raises
    ------
    ValueError : shapes that do not fit; Inf or NaN in b. TypeError : arguments that are no numbers.

    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> found = lsqr(csr_array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]), np.array([1.0, 0.0, -1.0]))
    >>> np.allclose(found.x, [1, -1]), found.istop
    (True, 1)
    """
    b, a = finite_vector(b, "b"), operator_of(A, "A", np.dtype(float))
    m, n = a.shape
    if b.size != m:
        raise ValueError(f"A must have {b.size} rows, as b has numbers, got shape {a.shape}")
    x = namespace(b).zeros(n) if x0 is None else finite_vector(x0, "x0")
    if x.size != n:
        raise ValueError(f"x0 must have {n} numbers, got {x.size}")
    dtype = np.result_type(np.float64, a.dtype, b.dtype, x.dtype)
    u, x, a = b.astype(dtype), x.astype(dtype), a.into(dtype)
    steps = _bidiagonalized(a, u if x0 is None else u - a.matvec(x))
    v, alpha, beta = next(steps)
    state, var = Estimates(alpha, beta, norm(u), damp), namespace(b).zeros(n)
    limit = 2 * n if iter_lim is None else iter_lim
    if alpha * beta == 0:
        return state.result(x, 0, var)
    w, istop = v, 0
    for v, alpha, beta in islice(steps, limit):
        along, back, inverse = state.rotate(alpha, beta)
        x, direction, w = added(x, along, w), scaled(inverse, w), added(v, back, w)
        state.see_direction(norm(direction))
        if calc_var:
            var = var + sum(part * part for part in real_parts(direction))
        tell(progress or show, state.count, state.residual, state.wanted(atol, btol))
        istop = state.verdict(atol, btol, conlim, limit)
        if istop:
            break
    return state.result(x, istop, var)


def _bidiagonalized(a: Operator, u: Array) -> Iterator[tuple[Array, float, float]]:
    """Yield v, α and β of the process of Golub and Kahan, which makes A bidiagonal, from its start on."""
    beta = norm(u)
    v, alpha = namespace(u).zeros(a.shape[1], u.dtype), 0.0
    while True:
        if beta > 0:
            u = scaled(1 / beta, u)
            v = added(a.rmatvec(u), -beta, v)
            alpha = norm(v)
            v = scaled(1 / alpha, v) if alpha > 0 else v
        yield v, alpha, beta
        u = added(a.matvec(v), -alpha, u)
        beta = norm(u)


class Estimates:
    """The rotations that make the bidiagonal matrix triangular, and what they tell about A, x and r.

    Attributes
    ----------
    count : steps so far.
    residual : √(‖r‖² + damp²·‖x − x0‖²).
    """

    def __init__(self, alpha: float, beta: float, of_b: float, damp: float) -> None:
        self.count, self.residual, self._of_b, self._damp = 0, beta, of_b, damp
        self._alpha, self._rho, self._phi, self._of_adjoint = alpha, alpha, beta, alpha * beta
        self._matrix = self._inverse = self._damped = self._size = 0.0  # squares of norms
        self._c, self._s, self._z, self._of_x = -1.0, 0.0, 0.0, 0.0

    def rotate(self, alpha: float, beta: float) -> tuple[float, float, float]:
        """Return what x moves along w, what stays of w in the next one, and what w is scaled by."""
        self.count += 1
        damp, first, psi = self._damp, self._rho, 0.0
        if beta > 0:
            self._matrix += self._alpha * self._alpha + beta * beta + damp * damp
        if damp > 0:
            first = length(self._rho, damp)
            psi, self._phi = damp / first * self._phi, self._rho / first * self._phi
        rho = length(first, beta)
        c, s = first / rho, beta / rho
        theta, self._rho = s * alpha, -c * alpha
        phi, self._phi = c * self._phi, s * self._phi
        self._of_adjoint = alpha * abs(s * phi)
        self._damped += psi * psi
        self.residual = sqrt(self._phi * self._phi + self._damped)
        self._see_size(rho, theta, phi)
        self._alpha = alpha
        return phi / rho, -theta / rho, 1 / rho

    def _see_size(self, rho: float, theta: float, phi: float) -> None:
        """Estimate ‖x‖ by a rotation from the right, which takes θ away."""
        corner, right = -self._c * rho, phi - self._s * rho * self._z
        self._of_x = sqrt(self._size + right / corner * (right / corner))
        gamma = length(corner, theta)
        self._c, self._s, self._z = corner / gamma, theta / gamma, right / gamma
        self._size += self._z * self._z

    def see_direction(self, size: float) -> None:
        """Take note of the norm of a column of the inverse, which the condition number is made of."""
        self._inverse += size * size

    def wanted(self, atol: float, btol: float) -> float:
        """Return the residual that a system's iteration ends with."""
        return btol * self._of_b + atol * sqrt(self._matrix) * self._of_x

    def verdict(self, atol: float, btol: float, conlim: float, limit: int) -> int:
        """Return why to end here, SciPy's `istop`; 0 for no reason."""
        of_a, whole = sqrt(self._matrix), self._of_b + sqrt(self._matrix) * self._of_x
        of_system = self.residual / whole if whole else inf
        of_squares = self._of_adjoint / (of_a * self.residual + EPS)
        inverse = 1 / (of_a * sqrt(self._inverse) + EPS)
        reasons = (
            self.residual <= self.wanted(atol, btol),
            of_squares <= atol,
            inverse <= (1 / conlim if conlim > 0 else 0.0),
            1 + of_system <= 1,
            1 + of_squares <= 1,
            1 + inverse <= 1,
            self.count >= limit,
        )
        return reasons.index(True) + 1 if True in reasons else 0

    def result(self, x: Array, istop: int, var: Array) -> LeastSquares:
        """Return all that `lsqr` returns."""
        square = self.residual * self.residual - self._damp * self._damp * self._size
        of_r = self.residual if self._damp == 0 else copysign(sqrt(abs(square)), square)
        of_a = sqrt(self._matrix)
        norms = of_r, self.residual, of_a, of_a * sqrt(self._inverse), self._of_adjoint, self._of_x
        return LeastSquares(x, istop, self.count, *norms, var)
