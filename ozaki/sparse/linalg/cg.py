"""The method of conjugate gradients (Hestenes and Stiefel)."""

from __future__ import annotations

from multiword.runtime.arrays import Array
from ozaki.sparse.linalg.system import System, krylov_method
from ozaki.sparse.linalg.vectors import added, dot, norm, norm_and_dot, quotient


@krylov_method
def cg(system: System) -> tuple[Array, int]:
    """Return the solution of Ax = b for a Hermitian positive definite A, as `scipy.sparse.linalg.cg` does.

    Every iterate has the same bits on every machine, if A and M are matrices, or operators whose products do.

    Parameters
    ----------
    A : (n, n) sparse matrix of SciPy or CuPy, an array, or a `LinearOperator`; or a Dask array, whose chunks
        may be sparse matrices. Each product computes that: `A.persist()` first keeps its chunks.
    b : (n,) or (n, 1) array of finite numbers.
    x0 : the first guess, by default zeros.
    rtol, atol : the iteration ends where ‖b − Ax‖ <= max(rtol·‖b‖, atol), of the residual that it updates.
    maxiter : iterations at most, by default 10·n.
    M : a preconditioner, an approximation of A⁻¹, like A.
    callback : called with x after each iteration.
    progress : True prints the residual of each iteration to stderr; a function is called with the number of
        the iteration, ‖r‖ and the tolerance.

    Returns
    -------
    (x, info): (n,) float64 or complex128; 0 where the tolerance is reached, else the number of iterations.

    Raises
    ------
    ValueError : shapes that do not fit; Inf or NaN in b. TypeError : arguments that are no numbers.

    References
    ----------
    Mukunoki, Ozaki, Ogita and Iakymchuk, Conjugate gradient solvers with high accuracy and bit-wise
    reproducibility between CPU and GPU using Ozaki scheme (HPC Asia 2021).

    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> cg(csr_array([[4.0, 1.0], [1.0, 3.0]]), np.array([6.0, 7.0]))
    (array([1., 2.]), 0)
    """
    x, r = system.x, system.residual()
    p, before = r, 0.0
    for iteration in range(system.limit):
        z = system.precondition(r)
        size, rho = norm_and_dot(r, z)
        system.told(iteration, size)
        if size <= system.tolerance:
            return x, 0
        rho = rho.real  # z* r of a Hermitian M has no other part
        p = added(z, quotient(rho, before), p) if iteration else z
        q = system.matvec(p)
        curvature = dot(p, q).real
        if curvature == 0:  # A or M is not definite
            return x, iteration or -1
        alpha = quotient(rho, curvature)
        x, r, before = added(x, alpha, p), added(r, -alpha, q), rho
        system.callback(x)
    return x, 0 if norm(r) <= system.tolerance else system.limit
