"""What singular values tell of matrices: pseudoinverses, ranks, condition numbers and norms."""

from __future__ import annotations

from typing import Any

import numpy as np

from multiword.public import public_in
from multiword.runtime.arrays import Array, as_array, is_cupy, namespace, on_device_of_arrays, quietly
from ozaki.api import matmul
from ozaki.arguments import result_dtype
from ozaki.linalg.arguments import LinAlgError, matrices, square
from ozaki.linalg.functions import inv
from ozaki.linalg.spectral import svd, svdvals
from ozaki.linalg.stacks import narrowed
from ozaki.product.cost import without_cost_warnings
from ozaki.sums.api import norm as vector_norm
from ozaki.sums.api import sum as exact_sum

_UNIT = {"f": 2.0**-23, "F": 2.0**-23}
"""NumPy's eps of dtypes, by their characters; 2**-52 for others."""


@public_in("ozaki.linalg", "The same bits")
@on_device_of_arrays
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Array:
    """Return the pseudoinverse of a matrix, with the same bits on every machine; as `numpy.linalg.pinv`.

    Parameters
    ----------
    a : (..., m, n) array of real or complex numbers, NumPy or CuPy.
    rcond, rtol : a number, or one for each matrix of a stack, by one of two names: singular values of up to
        that share of the largest one count as 0. Default 1e-15.
    hermitian : take a as Hermitian, as `svd` does.

    Returns
    -------
    (..., n, m) array V·S⁺·Uᴴ, products of "normwise" accuracy.

    Raises
    ------
    TypeError : not numbers. ValueError : both rcond and rtol. numpy.linalg.LinAlgError : no matrix; an Inf or
        a NaN.

    References
    ----------
    Golub and Van Loan, Matrix Computations, section 5.5.

    >>> import numpy as np, ozaki.linalg
    >>> ozaki.linalg.pinv(np.array([[3.0], [4.0]]))
    array([[0.12, 0.16]])
    """
    if rcond is not None and rtol is not None:
        raise ValueError("`rtol` and `rcond` can't be both set.")
    matrix, share = matrices(a), rtol if rcond is None else rcond
    xp, share = namespace(matrix), 1e-15 if share is None else share
    with quietly(matrix), without_cost_warnings():
        u, sizes, vh = svd(matrix, full_matrices=False, hermitian=hermitian)
        least = xp.asarray(share)[..., None] * sizes[..., :1]
        inverses = xp.where(sizes > least, 1 / xp.where(sizes > least, sizes, 1.0), 0.0)
        left = vh.swapaxes(-1, -2).conj() * inverses[..., None, :]
        result = matmul(left, u.swapaxes(-1, -2).conj(), accuracy="normwise")
    array = as_array(a, "a")
    return narrowed(result, result_dtype(array, array))


@public_in("ozaki.linalg", "The same bits")
@on_device_of_arrays
def matrix_rank(a: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    """Return the rank of a matrix, the same on every machine; as `numpy.linalg.matrix_rank`.

    As `ozaki.linalg.pinv`; differs in what is returned: how many singular values are above a limit.

    Parameters
    ----------
    a : (..., m, n) array; of a vector the rank is 1, or 0 if it is zero.
    tol, rtol : the limit, or its share of the largest singular value, a number or one for each matrix of a
        stack; ValueError for both. Default max(m, n)·eps of the dtype as a share.
    hermitian : as in `svd`.

    >>> import numpy as np, ozaki.linalg
    >>> ozaki.linalg.matrix_rank(np.ones((3, 3)))
    np.int64(1)
    """
    if tol is not None and rtol is not None:
        raise ValueError("`tol` and `rtol` can't be both set.")
    array = as_array(a, "a")
    xp = namespace(array)
    if array.ndim < 2:
        return xp.any(array != 0).astype(np.int64)[()]
    sizes = svd(matrices(array), compute_uv=False, hermitian=hermitian)
    if tol is None:
        default = max(array.shape[-2:]) * _UNIT.get(result_dtype(array, array).char, 2.0**-52)
        share = xp.asarray(default if rtol is None else rtol)
        least = share[..., None] * sizes[..., :1]
    else:
        least = xp.asarray(tol)[..., None]
    return xp.count_nonzero(sizes > least, axis=-1)[()]


@public_in("ozaki.linalg", "The same bits")
@on_device_of_arrays
def cond(a: Any, p: Any = None) -> Any:
    """Return the condition number of a matrix, with the same bits on every machine; as `numpy.linalg.cond`.

    As `ozaki.linalg.norm`; differs in what is returned: the quotient of the largest and the smallest singular
    value, or the product of the norms of a matrix and of its inverse; infinite if it is singular.

    Parameters
    ----------
    a : (..., m, n) array; square for a p other than None, 2 and −2.
    p : None for 2, or the norm's order.

    >>> import numpy as np, ozaki.linalg
    >>> ozaki.linalg.cond(np.diag([4.0, 2.0])), ozaki.linalg.cond(np.ones((2, 2)), 1)
    (np.float64(2.0), np.float64(inf))
    """
    array = as_array(a, "a")
    if array.ndim < 2 or not array.size:
        raise LinAlgError(f"a must be a matrix or a stack of matrices, not empty, got shape {array.shape}")
    xp = namespace(array)
    with quietly(array):
        if p in (None, 2, -2):
            sizes = svdvals(array)
            ends = sizes[..., 0], sizes[..., -1]
            result = ends[1] / ends[0] if p == -2 else ends[0] / ends[1]
        else:
            inverse = inv(square(array, finite=False), errors="nan")
            failed = ~xp.isfinite(inverse).all(axis=(-2, -1))
            inverse = xp.where(failed[..., None, None], 0.0, inverse)
            result = norm(array, p, (-2, -1)) * norm(inverse, p, (-2, -1))
            result = xp.where(failed, np.nan, result)
        if is_cupy(result) or np.count_nonzero(result != result):
            unknown = (result != result) & ~(array != array).any(axis=(-2, -1))
            result = xp.where(unknown, np.inf, result)
        result = xp.asarray(result)
    return narrowed(result, result_dtype(array, array))[()]


@public_in("ozaki.linalg", "The same bits")
@on_device_of_arrays
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the norm of vectors or of matrices, with the same bits on every machine; as `numpy.linalg.norm`.

    Parameters
    ----------
    x : array of real or complex numbers, NumPy or CuPy.
    ord : over one axis as in `ozaki.norm`; over two None or "fro", 1 and ∞ (the largest sum of a column's, or
        a row's, magnitudes), 2 (the largest singular value), −1, −∞ and −2 (the smallest), "nuc" (the sum of
        singular values).
    axis : one or two axes; None for the whole of x, which has up to two unless ord is None.
    keepdims : keep the reduced axes with length 1.

    Returns
    -------
    Number or array. Norms of vectors, and "fro", are correctly rounded; of order 1 and ∞ each sum is.

    Raises
    ------
    TypeError : not numbers. ValueError : an unknown order. numpy.linalg.LinAlgError : an Inf or a NaN where
        singular values are taken.

    References
    ----------
    Golub and Van Loan, Matrix Computations, section 2.3.

    >>> import numpy as np, ozaki.linalg
    >>> a = np.array([[1.0, -2.0], [3.0, 4.0]])
    >>> [float(ozaki.linalg.norm(a, ord)) for ord in (1, np.inf, -1)]
    [6.0, 7.0, 4.0]
    """
    array = as_array(x, "x")
    axes = tuple(range(array.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if len(axes) == 1 or ord in (None, "fro", "f"):
        plain = None if len(axes) == 2 or ord is None else ord
        return vector_norm(array, plain, axis=axis if axis is None else axes, keepdims=keepdims)
    if len(axes) != 2 or ord not in (1, -1, 2, -2, np.inf, -np.inf, "nuc"):
        raise ValueError(f"ord must be a norm of vectors over one axis, or of matrices over two, got {ord!r}")
    xp = namespace(array)
    moved = xp.moveaxis(array, axes, (-2, -1))
    with quietly(array):
        if ord in (2, -2, "nuc"):
            sizes = svdvals(moved)
            result = exact_sum(sizes, axis=-1) if ord == "nuc" else _end(sizes, ord)
        else:
            sums = vector_norm(moved, 1, axis=-2 if ord in (1, -1) else -1)
            result = _end(sums, ord)
    if keepdims:
        places = sorted(a % array.ndim for a in axes)
        for place in places:
            result = xp.expand_dims(xp.asarray(result), place)
    return xp.asarray(result)[()]


def _end(values: Array, ord: Any) -> Array:
    """The largest along the last axis, or the smallest for a negative order; NaN where there is one."""
    if ord > 0:
        return values.max(axis=-1) if values.shape[-1] else values.sum(axis=-1)
    return values.min(axis=-1)
