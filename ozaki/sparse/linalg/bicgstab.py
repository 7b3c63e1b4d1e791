"""BiCGSTAB (van der Vorst)."""

from __future__ import annotations

from multiword.runtime.arrays import Array
from ozaki.sparse.linalg.system import System, krylov_method
from ozaki.sparse.linalg.vectors import EPS, Scalar, added, dot, magnitude, norm, product, quotient

_BREAKDOWN = EPS**2


@krylov_method
def bicgstab(system: System) -> tuple[Array, int]:
    """Return the solution of Ax = b for a general A, as `scipy.sparse.linalg.bicgstab` does.

    As `cg`; differs in taking any square matrix. info is −10 or −11 where the method breaks down.

    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> x, info = bicgstab(csr_array([[4.0, 1.0], [0.0, 2.0]]), np.array([6.0, 4.0]))
    >>> np.allclose(x, [1, 2]), info
    (True, 0)
    """
    x, r = system.x, system.residual()
    shadow, p, v = r.copy(), r, r
    before: Scalar = 1.0
    alpha: Scalar = 1.0
    omega: Scalar = 1.0
    for iteration in range(system.limit):
        size = norm(r)
        system.told(iteration, size)
        if size <= system.tolerance:
            return x, 0
        rho = dot(shadow, r)
        if magnitude(rho) < _BREAKDOWN:
            return x, -10
        if iteration:
            if magnitude(omega) < _BREAKDOWN:
                return x, -11
            p = added(r, product(quotient(rho, before), quotient(alpha, omega)), added(p, -omega, v))
        forward = system.precondition(p)
        v = system.matvec(forward)
        divisor = dot(shadow, v)
        if divisor == 0:
            return x, -11
        alpha = quotient(rho, divisor)
        s = added(r, -alpha, v)
        x = added(x, alpha, forward)
        if norm(s) <= system.tolerance:
            return x, 0
        stabilizer = system.precondition(s)
        t = system.matvec(stabilizer)
        square = dot(t, t)
        if square == 0:
            return x, -11
        omega = quotient(dot(t, s), square)
        x, r, before = added(x, omega, stabilizer), added(s, -omega, t), rho
        system.callback(x)
    return x, 0 if norm(r) <= system.tolerance else system.limit
