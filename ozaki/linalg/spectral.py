"""Eigenvalues of Hermitian matrices, and singular values, with the same bits on every machine.

Of a CuPy array, too, what is done with three diagonals or two is done on the host, all else where it lies.
"""

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
    where_lies,
)
from multiword.runtime.options import check_choice, integer
from multiword.runtime.readback import all_finite
from ozaki.arguments import result_dtype
from ozaki.linalg import factor_qr
from ozaki.linalg.arguments import LinAlgError, matrices, numbers, square
from ozaki.linalg.arithmetic import scaled_to_one, times_powers
from ozaki.linalg.functions import cholesky, solve_triangular
from ozaki.linalg.reflectors import reflected
from ozaki.linalg.rotations import diagonalize
from ozaki.linalg.small import calls
from ozaki.linalg.stacks import each, narrowed
from ozaki.linalg.two_sided import Reflectors, bidiagonalize, tridiagonalize


class EighResult(NamedTuple):
    """Eigenvalues in ascending order, and eigenvectors as columns."""

    eigenvalues: Array
    eigenvectors: Array


class SVDResult(NamedTuple):
    """A = U·diag(S)·Vh, the singular values S in descending order."""

    U: Array
    S: Array
    Vh: Array


@public_in("ozaki.linalg", "The same bits")
@on_device_of_arrays
def eigh(
    a: Any,
    UPLO: Any = "L",
    *,
    b: Any = None,
    subset_by_index: tuple[int, int] | None = None,
    errors: str = "raise",
) -> EighResult:
    """Return eigenvalues and eigenvectors of a Hermitian matrix; as `numpy.linalg.eigh`.

    The bits are the same on every machine. For proved bounds see `ozaki.linalg.verified.eigh`.

    Parameters
    ----------
    a : (..., n, n) Hermitian or symmetric array, NumPy or CuPy; the diagonal is taken as real.
    UPLO : "L" or "U", or in lower case: which triangle is read. A matrix in its place is b, as in
        `scipy.linalg.eigh`.
    b : positive definite matrices, of which the same triangle is read: the values are those of Ax = λBx, and
        the vectors have xᴴBx = 1. B = LLᴴ, and y = Lᴴx are the vectors of L⁻¹AL⁻ᴴ.
    subset_by_index : the first and the last of the values that are returned, counted from 0. All are
        computed.
    errors : as in `solve`, for Inf and NaN, and matrices b that are not positive definite.

    Returns
    -------
    `EighResult` of (..., n) eigenvalues, ascending, and (..., n, n) eigenvectors, orthonormal columns.

    Raises
    ------
    TypeError : not numbers. ValueError : another UPLO; a subset that is none. numpy.linalg.LinAlgError : not
        square, or of two sizes; an Inf or a NaN in that triangle; b not positive definite.

    References
    ----------
    Golub and Van Loan, Matrix Computations, sections 8.3 and 8.7.

    >>> import numpy as np, ozaki.linalg
    >>> values, vectors = ozaki.linalg.eigh(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> values, bool(np.abs(np.abs(vectors) - np.sqrt(0.5)).max() < 1e-15)
    (array([1., 3.]), True)
    """
    if b is None and not isinstance(UPLO, str):
        b, UPLO = UPLO, "L"
    check_choice("UPLO", UPLO, ("L", "U", "l", "u"))
    triangle, matrix = UPLO.upper(), square(a, finite=False)
    chosen = _subset(subset_by_index, matrix.shape[-1])
    if b is not None:
        values, vectors = _generalized(a, b, triangle, errors)
    else:
        values, vectors = each(lambda x: _eigenpairs(x, triangle, True), matrix, like=(a,), errors=errors)
    return EighResult(values[..., chosen], vectors[..., chosen])


def _subset(ends: Any, n: int) -> slice:
    """The indices from a first to a last one; of all without them."""
    if ends is None:
        return slice(None)
    try:
        first, last = (integer("subset_by_index", end) for end in ends)
    except TypeError:
        raise TypeError(f"subset_by_index must be two integers, got {ends!r}") from None
    if not 0 <= first <= last < n:
        raise ValueError(f"subset_by_index must be from 0 to {n - 1}, in order, got {ends!r}")
    return slice(first, last + 1)


def _generalized(a: Any, b: Any, triangle: str, errors: str) -> tuple[Array, Array]:
    """The eigenpairs of Ax = λBx, by those of L⁻¹AL⁻ᴴ, B = LLᴴ."""
    matrix, definite = (_hermitian(square(x, finite=False), triangle) for x in (a, b))
    check_same_device(a=matrix, b=definite)
    if matrix.shape[-1] != definite.shape[-1]:
        raise LinAlgError(f"a and b must be of one size, got shapes {matrix.shape} and {definite.shape}")
    lower = cholesky(definite, errors=errors)

    def divided(x: Array) -> Array:
        return solve_triangular(lower, x, lower=True, check_finite=False)

    symmetric = divided(divided(matrix).swapaxes(-1, -2).conj())
    values, y = eigh(symmetric, errors=errors)
    vectors = solve_triangular(lower, y, trans="C", lower=True, check_finite=False)
    return narrowed((values, vectors), result_dtype(as_array(a, "a"), as_array(b, "b")))


def _hermitian(x: Array, triangle: str) -> Array:
    """The whole matrices of which triangles are read."""
    xp = namespace(x)
    half = xp.triu(x) if triangle == "U" else xp.tril(x)
    turned = half.swapaxes(-1, -2).conj()
    strict = xp.tril(turned, -1) if triangle == "U" else xp.triu(turned, 1)
    return half + strict


@public_in("ozaki.linalg", "The same bits")
@on_device_of_arrays
def eigvalsh(
    a: Any,
    UPLO: Any = "L",
    *,
    b: Any = None,
    subset_by_index: tuple[int, int] | None = None,
    errors: str = "raise",
) -> Array:
    """Return the eigenvalues of a Hermitian matrix; as `numpy.linalg.eigvalsh`.

    As `ozaki.linalg.eigh`; differs in what is returned: the eigenvalues alone, with the same bits.

    >>> import numpy as np, ozaki.linalg
    >>> ozaki.linalg.eigvalsh(np.array([[2.0, 1.0], [1.0, 2.0]]))
    array([1., 3.])
    """
    if b is not None or not isinstance(UPLO, str):
        return eigh(a, UPLO, b=b, subset_by_index=subset_by_index, errors=errors).eigenvalues
    check_choice("UPLO", UPLO, ("L", "U", "l", "u"))
    matrix, triangle = square(a, finite=False), UPLO.upper()
    chosen = _subset(subset_by_index, matrix.shape[-1])
    values = each(lambda x: _eigenpairs(x, triangle, False)[0], matrix, like=(a,), errors=errors)
    return values[..., chosen]


@public_in("ozaki.linalg", "The same bits")
@on_device_of_arrays
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """Return the singular value decomposition of a matrix; as `numpy.linalg.svd`.

    The bits are the same on every machine.

    Parameters
    ----------
    a : (..., m, n) array, NumPy or CuPy.
    full_matrices : return square U and Vh; otherwise k = min(m, n) columns and rows.
    compute_uv : return an `SVDResult`; otherwise the singular values alone.
    hermitian : take a as Hermitian, of which the lower triangle is read: S are the magnitudes of its
        eigenvalues, U its eigenvectors, and V these times the eigenvalues' signs.

    Returns
    -------
    `SVDResult` of (..., m, m) or (..., m, k) U, (..., k) S, descending, and (..., n, n) or (..., k, n) Vh.

    Raises
    ------
    TypeError : not numbers. numpy.linalg.LinAlgError : no matrix; an Inf or a NaN; hermitian and not square.

    References
    ----------
    Golub and Van Loan, Matrix Computations, section 8.6; Demmel and Kahan, Accurate singular values of
    bidiagonal matrices.

    >>> import numpy as np, ozaki.linalg
    >>> ozaki.linalg.svd(np.array([[3.0], [4.0]]), full_matrices=False)
    SVDResult(U=array([[0.6],
           [0.8]]), S=array([5.]), Vh=array([[1.]]))
    """
    if hermitian:
        return _of_hermitian(a, compute_uv)
    x = matrices(a)
    if not compute_uv:
        return svdvals(a)
    return SVDResult(*each(lambda x: _singular_triplets(x, full_matrices, True), x, like=(a,)))


def _of_hermitian(a: Any, vectors: bool) -> Any:
    """The decomposition by eigenpairs: A = XΛXᴴ = X·|Λ|·(X·sign(Λ))ᴴ."""
    values, x = eigh(a) if vectors else (eigvalsh(a), None)
    xp, sizes = namespace(values), abs(values)
    order = xp.argsort(-sizes, axis=-1)
    sizes = xp.take_along_axis(sizes, order, axis=-1)
    if x is None:
        return sizes
    signs = xp.take_along_axis(xp.copysign(xp.ones_like(values), values), order, axis=-1)
    u = xp.take_along_axis(x, order[..., None, :], axis=-1)
    return SVDResult(u, sizes, (u * signs[..., None, :]).swapaxes(-1, -2).conj())


def approximate(name: str, a: Array) -> Any:
    """Return LAPACK's or cuSOLVER's "eigh" or "svd"; this library's where that does not converge."""
    try:
        return getattr(namespace(a).linalg, name)(a)
    except np.linalg.LinAlgError:
        return eigh(a) if name == "eigh" else svd(a)


@public_in("ozaki.linalg", "The same bits")
@on_device_of_arrays
def svdvals(a: Any, /) -> Array:
    """Return the singular values of a matrix, descending; as `numpy.linalg.svdvals`.

    As `ozaki.linalg.svd`; differs in what is returned: the singular values alone, with the same bits.

    >>> import numpy as np, ozaki.linalg
    >>> ozaki.linalg.svdvals(np.array([[3.0], [4.0]]))
    array([5.])
    """
    return each(lambda x: _singular_triplets(x, False, False)[1], matrices(a), like=(a,))


def _eigenpairs(a: Array, triangle: str, vectors: bool) -> tuple[Array, Array]:
    """A = QTQᴴ, T = ZDZᵀ: the eigenvectors are QZ. Of a matrix, or of a stack of small ones."""
    xp, lower = namespace(a), a.conj().swapaxes(-1, -2) if triangle == "U" else a
    if a.ndim == 3 and all_finite(a):  # the other triangle is not read
        return calls.eigh(lower, vectors)
    triangular = numbers(xp.tril(lower), "a")
    if a.ndim == 3:
        return calls.eigh(triangular, vectors)
    if a.dtype.kind == "c":
        i = xp.arange(len(a))
        triangular.imag[i, i] = 0
    scaled, exponent = scaled_to_one(triangular)
    n, i = len(scaled), xp.arange(len(scaled))
    whole = scaled + xp.tril(scaled, -1).conj().T
    whole[i, i] = scaled.diagonal().real
    d, e, q = tridiagonalize(xp.ascontiguousarray(whole))
    z = xp.eye(n, n if vectors else 0)
    diagonalize(d, e, [z])
    order = np.argsort(d, kind="stable")
    values = times_powers(where_lies(a, d[order]), exponent)
    return values, _in_place(q, z, order, a) if vectors else values


def _singular_triplets(a: Array, full: bool, vectors: bool) -> tuple[Array, Array, Array]:
    """A = QR, R = LBPᴴ, B = UDVᵀ: the left vectors are QLU, the right ones PV. Also of a stack."""
    m, n = a.shape[-2:]
    if m < n:
        v, s, uh = _singular_triplets(a.conj().swapaxes(-1, -2), full, vectors)
        return uh.conj().swapaxes(-1, -2), s, v.conj().swapaxes(-1, -2)
    xp = namespace(a)
    if a.ndim == 3:
        return calls.svd(a, m if full else n, vectors)
    scaled, exponent = scaled_to_one(a)
    outer = factor_qr.factorize(scaled)
    d, e, left, right = bidiagonalize(xp.ascontiguousarray(xp.triu(scaled[:n])))
    u, v = (xp.eye(n, n if vectors else 0) for _ in range(2))
    diagonalize(d, e, [u, v])
    order = np.argsort(-np.abs(d), kind="stable")
    values = times_powers(where_lies(a, np.abs(d[order])), exponent)
    if not vectors:
        return a[:, :0], values, a[:0]
    v *= where_lies(a, np.where(d < 0, -1.0, 1.0))[:, None]
    wide = xp.zeros((m, m if full else n), a.dtype)
    wide[:n, :n] = _in_place(left, u, order, a)
    wide[n:, n:] = xp.eye(m - n, wide.shape[1] - n, dtype=a.dtype)
    return outer.apply(wide), values, _in_place(right, v, order, a).conj().T


def _in_place(q: Reflectors, z: Array, order: np.ndarray, like: Array) -> Array:
    """QC, the columns of C being rows of Z."""
    chosen = z[where_lies(like, order)].T
    return reflected(*q, namespace(like).ascontiguousarray(chosen.astype(like.dtype)))
