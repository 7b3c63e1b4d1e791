"""The public functions of `ozaki.linalg`: arguments, stacks and dtypes as NumPy and SciPy have them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from multiword.public import public_in
from multiword.runtime.arrays import (
    Array,
    as_array,
    check_same_device,
    namespace,
    on_device_of_arrays,
    on_host,
    where_lies,
)
from multiword.runtime.readback import anywhere
from ozaki.arguments import result_dtype
from ozaki.linalg import factor_cholesky, factor_lu, factor_qr
from ozaki.linalg.arguments import LinAlgError, matrices, overwritten, square, systems
from ozaki.linalg.determinant import determinants, signs_and_logarithms
from ozaki.linalg.stacks import each
from ozaki.linalg.triangular import refuse, solved, within_range


class QRResult(NamedTuple):
    """Q and R of a QR factorization, as `numpy.linalg.qr` returns them."""

    Q: Array
    R: Array


class SlogdetResult(NamedTuple):
    """Sign and logarithm of a determinant, as `numpy.linalg.slogdet` returns them."""

    sign: Array
    logabsdet: Array


@public_in("ozaki.linalg", "The same bits")
@on_device_of_arrays
def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Array, Array]:
    """Factorize PA = LU with the same bits on every machine; as `scipy.linalg.lu_factor`.

    Updates are products of certified accuracy, leaves of 128 columns eliminate in a fixed order with partial
    pivoting: the result is a function of A alone, and its backward error is bounded by |L||U| as LAPACK's is.

    Parameters
    ----------
    a : (..., m, n) array of real or complex numbers, NumPy or CuPy.
    overwrite_a : write lu into a, if that is an array of its dtype.
    check_finite : raise for Inf and NaN.

    Returns
    -------
    (lu, piv): (..., m, n) array of L below the diagonal, its own being 1, and U; (..., min(m, n)) int32
    array, row j having been swapped with row piv[j].

    Raises
    ------
    TypeError : arrays that are not numbers. ValueError : Inf or NaN. numpy.linalg.LinAlgError : no matrix.

    References
    ----------
    Toledo, Locality of reference in LU decomposition with partial pivoting.

    >>> import numpy as np
    >>> from ozaki.linalg import lu_factor
    >>> lu_factor(np.array([[1.0, 2.0], [4.0, 4.0]]))
    (array([[4.  , 4.  ],
           [0.25, 1.  ]]), array([1, 1], dtype=int32))
    """

    def factorized(x: Array) -> tuple[Array, Array]:
        lu, swaps = factor_lu.factored(x)
        return lu, namespace(x).asarray(swaps.pivots.astype(np.int32))

    lu, pivots = each(factorized, matrices(a, check_finite), like=(a,))
    return (overwritten(a, lu) if overwrite_a else lu), pivots


@public_in("ozaki.linalg", "The same bits")
@on_device_of_arrays
def lu_solve(
    lu_and_piv: tuple[Any, Any],
    b: Any,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """Solve AX = B by the result of `lu_factor`, with the same bits everywhere; as `scipy.linalg.lu_solve`.

    Parameters
    ----------
    lu_and_piv : the result of `lu_factor` for a square matrix or a stack of them.
    b : (n,) or (..., n, m) array of right sides; stacks broadcast.
    trans : 0 solves AX = B, 1 AᵀX = B, 2 AᴴX = B.
    overwrite_b : write the solution into b, if that is an array of its shape and dtype.
    check_finite : raise for Inf and NaN.

    Returns
    -------
    (..., n) or (..., n, m) array.

    Raises
    ------
    TypeError, ValueError, numpy.linalg.LinAlgError : as `lu_factor`; shapes that do not fit; unknown trans.

    References
    ----------
    Toledo, Locality of reference in LU decomposition with partial pivoting.

    >>> import numpy as np
    >>> from ozaki.linalg import lu_factor, lu_solve
    >>> lu_solve(lu_factor(np.array([[1.0, 2.0], [4.0, 4.0]])), np.array([3.0, 8.0]))
    array([1., 1.])
    """
    if trans not in (0, 1, 2):
        raise ValueError(f"trans must be 0, 1 or 2, got {trans!r}")
    lu, right, one = systems(lu_and_piv[0], b, check_finite)
    swaps = as_array(lu_and_piv[1], "piv")
    check_same_device(a=lu, piv=swaps)
    swaps = swaps if swaps.size else swaps.astype(np.int32)
    if swaps.shape != lu.shape[:-1] or swaps.dtype.kind not in "iu":
        raise ValueError(f"piv must be integers of shape {lu.shape[:-1]}, got {swaps.dtype} of {swaps.shape}")

    if anywhere((swaps < 0) | (swaps >= lu.shape[-1])):
        raise ValueError(f"piv must be rows of lu, from 0 to {lu.shape[-1] - 1}")

    def of_matrix(factors: Array, c: Array, rows: Array) -> Array:
        of_rows = factor_lu.Swaps.of(on_host(rows[..., 0, :]), factors.shape[-1])
        return within_range(lambda y: factor_lu.solve_factored(factors, of_rows, y, trans), c)

    x = each(of_matrix, lu, right, swaps[..., None, :], like=(lu_and_piv[0], b))
    x = x[..., 0] if one else x
    return overwritten(b, x) if overwrite_b else x


@public_in("ozaki.linalg", "The same bits")
@on_device_of_arrays
def solve_triangular(
    a: Any,
    b: Any,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """Solve a triangular system, with the same bits on every machine; as `scipy.linalg.solve_triangular`.

    Parameters
    ----------
    a : (..., n, n) array; what lies beyond the triangle is not used.
    b : (n,) or (..., n, m) array of right sides.
    trans : 0 or "N" solves AX = B, 1 or "T" AᵀX = B, 2 or "C" AᴴX = B.
    lower : whether a is lower triangular.
    unit_diagonal : take the diagonal as 1.
    overwrite_b : write the solution into b, if that is an array of its shape and dtype.
    check_finite : raise for Inf and NaN, wherever they are.

    Returns
    -------
    The solution, in the shape of b.

    Raises
    ------
    TypeError, ValueError, numpy.linalg.LinAlgError : as `lu_factor`; shapes that do not fit; unknown trans;
        a zero on the diagonal.

    References
    ----------
    Higham, Accuracy and Stability of Numerical Algorithms, section 8.1.

    >>> import numpy as np
    >>> from ozaki.linalg import solve_triangular
    >>> solve_triangular(np.array([[2.0, 0.0], [1.0, 1.0]]), np.array([2.0, 3.0]), lower=True)
    array([1., 2.])
    """
    if not isinstance(trans, int | str | np.integer) or trans not in (0, 1, 2, "N", "T", "C"):
        raise ValueError(f"trans must be 0, 1, 2, 'N', 'T' or 'C', got {trans!r}")
    triangle, right, one = systems(a, b, check_finite)
    if trans not in (0, "N"):
        triangle = triangle.swapaxes(-1, -2)
        triangle, lower = (triangle.conj() if trans in (2, "C") else triangle), not lower

    def solution(t: Array, c: Array) -> Array:
        if not unit_diagonal:
            refuse(t.diagonal(0, -2, -1) == 0)
        return within_range(lambda y: solved(t, y, lower, unit_diagonal), c)

    x = each(solution, triangle, right, like=(a, b))
    x = x[..., 0] if one else x
    return overwritten(b, x) if overwrite_b else x


@public_in("ozaki.linalg", "The same bits")
@on_device_of_arrays
def solve(a: Any, b: Any, *, errors: str = "raise") -> Array:
    """Solve AX = B by LU factorization, with the same bits on every machine; as `numpy.linalg.solve`.

    Parameters
    ----------
    a : (..., n, n) array of real or complex numbers, NumPy or CuPy.
    b : (n,) array or (..., n, m) array of right sides; stacks broadcast.
    errors : "raise" for a LinAlgError that names the singular matrices of a stack by index, or "nan" for NaN
        as the results of these.

    Returns
    -------
    (..., n) or (..., n, m) array. For proved bounds see `ozaki.linalg.verified.solve`.

    Raises
    ------
    TypeError : arrays that are not numbers, or of two kinds.
    numpy.linalg.LinAlgError : shapes that do not fit; a zero pivot.

    References
    ----------
    Toledo, Locality of reference in LU decomposition with partial pivoting.

    >>> import numpy as np, ozaki.linalg
    >>> ozaki.linalg.solve(np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([3.0, 4.0]))
    array([1., 1.])
    """
    matrix, right, one = systems(a, b, finite=False)
    x = _solutions(matrix, right, (a, b), errors)
    return x[..., 0] if one else x


def _solutions(a: Array, b: Array, like: tuple[Any, ...], errors: str) -> Array:
    """Return the solutions of systems of one dtype, in the precision of arrays that they are like."""

    def solution(matrix: Array, right: Array) -> Array:
        return within_range(factor_lu.solver(matrix), right)

    x: Array = each(solution, a, b, like=like, errors=errors)
    return x


@public_in("ozaki.linalg", "The same bits")
@on_device_of_arrays
def inv(a: Any, *, errors: str = "raise") -> Array:
    """Invert a matrix, or each of a stack, with the same bits on every machine; as `numpy.linalg.inv`.

    As `ozaki.linalg.solve`; differs in that the right sides are those of the identity.

    >>> import numpy as np, ozaki.linalg
    >>> ozaki.linalg.inv(np.array([[2.0, 1.0], [1.0, 1.0]]))
    array([[ 1., -1.],
           [-1.,  2.]])
    """
    matrix = square(a, finite=False)
    identity = namespace(matrix).eye(matrix.shape[-1], dtype=matrix.dtype)
    return _solutions(matrix, identity, (a,), errors)


@public_in("ozaki.linalg", "The same bits")
@on_device_of_arrays
def det(a: Any) -> Any:
    """Return the determinant of a matrix, with the same bits on every machine; as `numpy.linalg.det`.

    As `ozaki.linalg.lu_factor`; differs in what is returned: the product of U's diagonal, exact and rounded
    once, a number for each matrix of a stack. For a proved sign and bound see `ozaki.linalg.verified.det`.

    >>> import numpy as np, ozaki.linalg
    >>> ozaki.linalg.det(np.array([[2.0, 1.0], [1.0, 3.0]]))
    np.float64(5.0)
    """

    array = as_array(a, "a")
    single = result_dtype(array, array).char in "fF"

    def product(x: Array) -> Array:
        values = determinants(*_factors(x), single)
        return where_lies(x, values if x.ndim == 3 else values[0], x.dtype)

    return each(product, square(a, finite=False), like=(a,))[()]


@public_in("ozaki.linalg", "The same bits")
@on_device_of_arrays
def slogdet(a: Any) -> SlogdetResult:
    """Return sign and logarithm of the determinant, with the same bits everywhere; as `numpy.linalg.slogdet`.

    As `ozaki.linalg.det`; differs in what is returned: sign and logarithm, computed in sixty decimal digits.

    >>> import numpy as np, ozaki.linalg
    >>> ozaki.linalg.slogdet(np.diag([1e200, -1e200]))
    SlogdetResult(sign=np.float64(-1.0), logabsdet=np.float64(921.0340371976183))
    """

    def logarithm(x: Array) -> tuple[Array, Array]:
        signs, sizes = signs_and_logarithms(*_factors(x))
        if x.ndim == 2:
            signs, sizes = signs[0], sizes[0]
        return where_lies(x, signs, x.dtype), where_lies(x, sizes, np.float64)

    sign, value = each(logarithm, square(a, finite=False), like=(a,))
    return SlogdetResult(sign[()], value[()])


@public_in("ozaki.linalg", "The same bits")
@on_device_of_arrays
def cholesky(a: Any, /, *, upper: bool = False, errors: str = "raise") -> Array:
    """Factorize A = LLᴴ, with the same bits on every machine; as `numpy.linalg.cholesky`.

    Parameters
    ----------
    a : (..., n, n) Hermitian or symmetric array; only its lower triangle is read, or the upper one.
    upper : return U with A = UᴴU.
    errors : as in `solve`, for matrices that are not positive definite.

    Returns
    -------
    (..., n, n) array, the triangle.

    Raises
    ------
    TypeError : not numbers. numpy.linalg.LinAlgError : not square; not positive definite.

    References
    ----------
    Higham, Accuracy and Stability of Numerical Algorithms, chapter 10.

    >>> import numpy as np, ozaki.linalg
    >>> ozaki.linalg.cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]))
    array([[2., 0.],
           [1., 2.]])
    """

    def factor(x: Array) -> Array:
        factor = factor_cholesky.factored(x if upper else x.conj().swapaxes(-1, -2))
        if factor is None:
            raise LinAlgError("Matrix is not positive definite")
        return factor if upper else factor.conj().swapaxes(-1, -2)

    return each(factor, square(a, finite=False), like=(a,), errors=errors)


@public_in("ozaki.linalg", "The same bits")
@on_device_of_arrays
def qr(a: Any, mode: str = "reduced") -> Any:
    """Factorize A = QR by Householder reflections, with the same bits on every machine; as `numpy.linalg.qr`.

    Parameters
    ----------
    a : (..., m, n) array of real or complex numbers, NumPy or CuPy.
    mode : "reduced" returns Q (m, k) and R (k, n) with k = min(m, n), "complete" (m, m) and (m, n), "r" R
        alone.

    Returns
    -------
    A `QRResult`, or R.

    Raises
    ------
    TypeError : not numbers. ValueError : another mode. numpy.linalg.LinAlgError : no matrix.

    References
    ----------
    Elmroth and Gustavson, Applying recursion to serial and parallel QR factorization.

    >>> import numpy as np, ozaki.linalg
    >>> ozaki.linalg.qr(np.array([[3.0], [4.0]]), mode="r")
    array([[-5.]])
    """
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"mode must be 'reduced', 'complete' or 'r', got {mode!r}")

    def factors(x: Array) -> Any:
        q, r = factor_qr.factored(x, mode == "complete", mode != "r")
        return r if mode == "r" else (q, r)

    result = each(factors, matrices(a, finite=False), like=(a,))
    return result if mode == "r" else QRResult(*result)


def _factors(a: Array) -> tuple[np.ndarray, np.ndarray]:
    """The diagonals of U, and the pivots, of each matrix of a stack, or of one; on the host."""
    lu, swaps = factor_lu.factored(a)
    diagonals, pivots = on_host(lu.diagonal(0, -2, -1)), on_host(swaps.pivots)
    return (diagonals, pivots) if a.ndim == 3 else (diagonals[None], pivots[None])
