"""Products of a matrix and its own transpose, at half the cost, and what statistics make of them."""

from __future__ import annotations

from typing import Any

from multiword.engines import Engine
from multiword.runtime.arrays import Array, as_array, conjugated, on_device_of_arrays
from ozaki.arguments import as_matrix, request_of, result_dtype
from ozaki.execution.gemm import gemm
from ozaki.product.factor import Factor
from ozaki.product.request import TARGETS


@on_device_of_arrays
def gram(
    x: Any,
    *,
    accuracy: str | int | None = None,
    engine: str | Engine = "auto",
    workspace: int | None = None,
) -> Array:
    """Return XᵀX, or XᴴX of a complex matrix: exactly symmetric (Hermitian), at about half the cost.

    The bits are those of `ozaki.matmul(x.conj().T, x)`: only the elements on and below the diagonal are
    computed. `x.T @ x` and `x @ x.T` of a real matrix take the same way wherever they are given as views.

    Parameters
    ----------
    x : (n, m) matrix: m vectors of n numbers.
    accuracy, engine, workspace : as in `ozaki.matmul`.

    Returns
    -------
    (m, m) array, of the dtype of `ozaki.matmul`.

    Raises
    ------
    TypeError, ValueError, MemoryError, ImportError : as `ozaki.accurate_dgemm`.

    References
    ----------
    As `ozaki.accurate_dgemm`: Mukunoki, Ozaki, Ogita and Imamura; Ozaki, Uchino and Imamura.

    >>> import numpy as np, ozaki
    >>> ozaki.gram(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[10., 14.],
           [14., 20.]])
    """
    x = as_array(x, "x")
    dtype = result_dtype(x, x)
    x = as_matrix("x", x, dtype, False)
    request = request_of(x, accuracy or TARGETS[dtype.name], "auto", None, engine, workspace)
    transpose = conjugated(x).T if dtype.kind == "c" else x.T
    request = request._replace(symmetric=True)
    return gemm(Factor(transpose, 0), Factor(x, 1), 1.0, None, None, request, None)
