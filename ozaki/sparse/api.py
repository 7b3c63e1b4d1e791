"""`ozaki.matmul`, `residual`, `sum` and `norm` of sparse matrices, to which these functions go."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from multiword.formats import FORMATS
from multiword.runtime.arrays import (
    Array,
    as_array,
    check_out,
    check_same_device,
    is_cupy,
    namespace,
    on_device_of_arrays,
)
from multiword.runtime.options import integer
from multiword.runtime.readback import all_finite
from ozaki.arguments import check_accuracy, result_dtype
from ozaki.public import is_sparse
from ozaki.rounding.conversion import narrow
from ozaki.sparse.matrices import Matrix
from ozaki.sparse.pairs import pairs_of_duplicates, sparse_product
from ozaki.sparse.products import as_columns, in_one_loop, product_with_vector, rounded_products
from ozaki.sparse.rows import csr_times_vector
from ozaki.sums import api as sums
from ozaki.sums.arguments import Axis, DType, Out, axes_of, deliver, format_of, real_result_dtype
from ozaki.sums.exact.accumulator import Superaccumulator
from ozaki.sums.exact.fixed_point import DigitRange, Rounding
from ozaki.sums.exact.groups import add_groups
from ozaki.sums.exact.summands import products
from ozaki.sums.groups import group_sum


@on_device_of_arrays
def matmul(a: Any, b: Any, *, accuracy: str | int | None = None, out: Out = None) -> Any:
    """Return the product of a sparse matrix with an array, or of two, every element correctly rounded.

    `ozaki.matmul` goes here. Nothing depends on the order of the entries, on the format, on threads or the
    device.

    Parameters
    ----------
    a, b : a sparse matrix of SciPy or CuPy (CSR, CSC, COO, BSR, DIA) and a vector or matrix on the same
        device, or the other way round, or two sparse matrices. Aᵀx is `matmul(A.T, x)`. Duplicate entries
        are terms of one element.
    accuracy : as in `ozaki.matmul`; every one is reached.
    out : as in `ozaki.matmul`, of products with arrays.

    Returns
    -------
    Array of the dtype that `ozaki.matmul` has; zeros are +0. Of two sparse matrices one with the entries that
    SciPy's, or CuPy's, product has, in CSR (in CSC if both are).

    Raises
    ------
    TypeError : another format; arrays that are not numbers, or on different devices.
    ValueError : shapes that do not fit; an index out of range. A GPU is waited for to tell of it in the first
        product with these indices alone: one that is written there later gives NaN, and the error comes with
        the next product.

    References
    ----------
    Ogita, Rump and Oishi, Accurate sum and dot product. Mukunoki, Ozaki, Ogita and Iakymchuk, Conjugate
    gradient solvers with high accuracy and bit-wise reproducibility between CPU and GPU using Ozaki scheme.

    >>> import numpy as np, ozaki
    >>> from scipy.sparse import csr_array
    >>> a = csr_array(np.array([[1e16, 1.0, -1e16], [0.0, 2.0, 0.0]]))
    >>> ozaki.matmul(a, np.ones(3)), ozaki.matmul(np.ones(2), a)
    (array([1., 2.]), array([ 1.e+16,  3.e+00, -1.e+16]))
    """
    if accuracy is not None:
        check_accuracy(accuracy)
    if out is None and (product := csr_times_vector(a, b)) is not None:
        return product
    if is_sparse(a) and is_sparse(b):
        if out is not None:
            raise TypeError("out is for products with arrays; that of two sparse matrices is sparse")
        return sparse_product(a, b)
    left = is_sparse(a)
    matrix, x = (Matrix.of(a, "a"), as_array(b, "b")) if left else (Matrix.of(b, "b").T, as_array(a, "a"))
    check_same_device(a=matrix.values, b=x)
    if x.ndim not in (1, 2):
        raise ValueError(f"a sparse matrix multiplies vectors and matrices, got an array of shape {x.shape}")
    turned = x if left or x.ndim == 1 else x.T
    if len(turned) != matrix.shape[1]:
        of_a, of_b = (tuple(y.shape) for y in (a if left else x, x if left else b))
        raise ValueError(f"inner dimensions differ: a is {of_a}, b is {of_b}")
    if out is not None:
        shape = (matrix.shape[0], *turned.shape[1:])
        check_out(out, x, shape if left else shape[::-1], result_dtype(matrix.values, x))
    if x.ndim == 1:
        result = product_with_vector(matrix, x)
    else:
        result = rounded_products([(matrix, turned)], [], result_dtype(matrix.values, x))
    result = result if left or x.ndim == 1 else result.T
    return result if out is None else deliver(result, out)


_FLOAT64 = np.dtype(np.float64)


@on_device_of_arrays
def residual(a: Any, x: Any, b: Any, *, words: int = 1) -> Any:
    """Return B - AX for a sparse matrix A, computed exactly and rounded once; or the first words of it.

    `ozaki.residual` goes here; a tuple of sparse matrices is their sum.

    >>> import numpy as np, ozaki
    >>> from scipy.sparse import csr_array
    >>> ozaki.residual(csr_array([[0.1, 0.2]]), np.array([3.0, 1.0]), np.array([0.5]))
    array([-2.77555756e-17])
    """
    words = integer("words", words)
    if words < 1:
        raise ValueError(f"words must be at least 1, got {words}")
    matrices = [Matrix.of(y, "a") for y in (a if isinstance(a, tuple) else (a,))]
    xs = [as_array(y, "x") for y in (x if isinstance(x, tuple) else (x,))]
    addends = [as_array(y, "b") for y in (b if isinstance(b, tuple) else (b,))]
    check_same_device(a=matrices[0].values, x=xs[0], b=addends[0])
    _check_shapes([y.shape for y in matrices], [y.shape for y in xs], [y.shape for y in addends])
    one, dtypes = addends[0].ndim == 1, [y.dtype for y in (*matrices, *xs, *addends)]
    usual = dtypes.count(_FLOAT64) == len(dtypes)
    dtype = _FLOAT64 if usual else np.result_type(np.float64, *dtypes)
    xs = [-(y if usual else y.astype(np.result_type(y.dtype, np.float64), copy=False)) for y in xs]
    if one and len(dtypes) == 3 and words == 1:  # nearly always
        found = [product_with_vector(matrices[0], xs[0], addends, dtype)]
    else:
        terms, columns = [(m, as_columns(y)) for m in matrices for y in xs], [*map(as_columns, addends)]
        found = []
        while len(found) < words:
            found.append(rounded_products(terms, [*columns, *(-word for word in found)], dtype))
        found = [word[:, 0] for word in found] if one else found
    if not all(map(all_finite, found)):
        raise ValueError("a, x and b must be finite, and so must the residual be")
    return found[0] if words == 1 else tuple(found)


def _check_shapes(of_a: list[Any], of_x: list[Any], of_b: list[Any]) -> None:
    """Raise ValueError unless products of all matrices and arrays x have the shape of all arrays b."""
    (m, n), (k, *width), shapes = of_a[0], of_x[0] or (0,), (of_a, of_x, of_b)
    unlike = [some for some in shapes if len(some) > 1 and some.count(some[0]) < len(some)]
    if k != n or of_b[0] != (m, *width) or unlike:
        as_matrices = [{y if len(y) > 1 else (*y, 1) for y in some} for some in shapes]
        raise ValueError("shapes do not fit: " + ", ".join(str(sorted(some)) for some in as_matrices))


@on_device_of_arrays
def sum(x: Any, axis: Axis = None, dtype: DType = None, out: Out = None, keepdims: bool = False) -> Any:
    """Return the sum of a sparse matrix, or of its rows or columns, correctly rounded, as an array.

    `ozaki.sum` goes here; no sum is −0, as those of arrays with a zero are not.

    >>> import ozaki
    >>> from scipy.sparse import csr_array
    >>> ozaki.sum(csr_array([[1e16, 1.0, -1e16], [0.0, 2.0, 0.0]]), axis=1)
    array([1., 2.])
    """
    matrix, axes = Matrix.of(x, "x"), axes_of(axis, 2)
    if len(axes) == 2:
        values = matrix.together().values
        result = namespace(values).asarray(sums.sum(values, dtype=dtype)).reshape((1, 1) if keepdims else ())
    else:
        result = _sums_of_rows(matrix.T if axes == (0,) else matrix, dtype)
        result = namespace(result).expand_dims(result, axes[0]) if keepdims else result
    result = result if result.dtype.kind in "iub" else result + result.dtype.type(0)
    if out is not None:
        check_out(out, matrix.values, result.shape, result.dtype)
    return deliver(result, out)


def _sums_of_rows(matrix: Matrix, dtype: DType) -> Array:
    """Return the sums of rows, of floats on a CPU by a product with ones where a loop decides it."""
    if dtype is None and not is_cupy(matrix.values):
        with suppress(ValueError):  # of indices that none can have, sums by group tell
            found = in_one_loop(matrix, np.ones(matrix.shape[1], matrix.dtype), (), matrix.dtype)
            if found is not None:
                return found
    entries = matrix.together()
    return group_sum(entries.values, entries.rows, matrix.shape[0], dtype)


@on_device_of_arrays
def norm(x: Any, ord: int | str | None = None, dtype: DType = None) -> Any:
    """Return Frobenius's norm of a sparse matrix, correctly rounded. `ozaki.norm` goes here.

    >>> import ozaki
    >>> from scipy.sparse import csr_array
    >>> ozaki.norm(csr_array([[3.0, 0.0], [0.0, 4.0]]))
    np.float64(5.0)
    """
    if ord not in (None, "fro"):
        raise ValueError(f"ord must be None or 'fro' for sparse matrices, got {ord!r}")
    matrix = Matrix.of(x, "x")
    values, others = pairs_of_duplicates(matrix)
    xp, target = namespace(values), real_result_dtype(values, dtype, None, (), "a norm")
    total = Superaccumulator(DigitRange.of(FORMATS["fp64"]), 1, xp)
    add_groups(total, products(others, values, conjugate=True)[0], xp.zeros(len(values), np.int64))
    rounding = Rounding(format_of(target), root=True)
    return deliver(narrow(rounding(total.fixed_point()), target)[0], None)
