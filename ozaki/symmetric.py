"""Products of a matrix and its own transpose, at half the cost, and the distances of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from multiword.engines import Engine
from multiword.runtime.arrays import (
    Array,
    as_array,
    check_same_device,
    conjugated,
    namespace,
    on_device_of_arrays,
    quietly,
)
from multiword.runtime.readback import all_finite
from ozaki.arguments import as_matrix, request_of, result_dtype
from ozaki.execution.executors import multiply, multiply_pair
from ozaki.product.cost import without_cost_warnings
from ozaki.product.factor import Factor, by_columns
from ozaki.product.pair import Pair
from ozaki.product.request import TARGETS
from ozaki.public import public
from ozaki.sums.exactsum import ExactSum, taken_words


@public("Matrix products")
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
    computed. `x.T @ x` and `x @ x.T` of a real matrix, and of stacks, take the same way wherever they are
    given as views.

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
    chosen = accuracy if accuracy is not None else TARGETS[dtype].name
    request = request_of(x, chosen, "auto", None, engine, workspace)
    x = by_columns(x, request.workspace)
    transpose = conjugated(x).T if dtype.kind == "c" else x.T
    pair = Pair(Factor(transpose, 0), Factor(x, 1), request, symmetric=True)
    return multiply_pair(pair, 1.0, None, None, None)


@public("Covariances and distances")
@on_device_of_arrays
def cdist_squared(x: Any, y: Any, *, workspace: int | None = None) -> Array:
    """Return the squared Euclidean distances of all rows of x from all rows of y, correctly rounded.

    They are one exact product, ‖x_i‖² - 2x_i·y_j + ‖y_j‖², with squared norms that are not rounded: nothing
    cancels, equal rows have distance 0 and other rows have not. The farther the magnitudes of a row spread,
    the more it costs.

    Parameters
    ----------
    x, y : (m, d) and (n, d) real matrices.
    workspace : as in `ozaki.matmul`.

    Returns
    -------
    (m, n) float64 array, never negative; NaN for rows with an Inf or NaN. Correctly rounded, but for what a
    square below 2**-1022 loses.

    Raises
    ------
    TypeError : arrays that are not real. ValueError : shapes that do not fit.
    OverflowError : numbers whose squares overflow.

    References
    ----------
    As `ozaki.accurate_dgemm`: Ozaki, Uchino and Imamura.

    >>> import numpy as np, ozaki
    >>> x = 1e8 + np.array([[0.0, 0.0], [3.0, 4.0]])
    >>> ozaki.cdist_squared(x, x)
    array([[ 0., 25.],
           [25.,  0.]])
    """
    x, y = as_array(x, "x"), as_array(y, "y")
    xp = check_same_device(x=x, y=y)
    x, y = as_matrix("x", x, np.dtype(np.float64), False), as_matrix("y", y, np.dtype(np.float64), False)
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"rows of x and y must be of one length, got shapes {x.shape} and {y.shape}")
    with quietly(x):
        (x, of_x), (y, of_y) = _with_square_norms(x), _with_square_norms(y)
        ones_x, ones_y = (xp.ones((len(z), w.shape[1])) for z, w in ((x, of_y), (y, of_x)))
        left, right = xp.hstack([x, of_x, ones_x]), xp.hstack([-2 * y, ones_y, of_y]).T
    request = request_of(x, "exact", "auto", None, "auto", workspace)
    with without_cost_warnings():  # nothing less exact could be chosen
        result = multiply(Factor(left, 0), Factor(right, 1), 1.0, None, None, request, None)
    return xp.where(result <= 0, 0.0, result)  # rounded squares are of either side


def _with_square_norms(x: Array) -> tuple[Array, Array]:
    """Return x, zero in rows with an Inf or NaN, and columns of words whose sums are the rows' squared norms.

    Words are rounded from what is left until nothing is; NaN for those rows.
    """
    xp = namespace(x)
    finite = xp.isfinite(x).all(axis=1)
    x = xp.where(finite[:, None], x, 0.0)
    rest = ExactSum(np.float64, (len(x),))
    if x.size:
        rest.add_products(x.T, x.T)
    words = map(xp.asarray, taken_words(rest))  # those of no numbers are NumPy's
    largest = next(words)
    if not all_finite(largest):
        raise OverflowError("squares of numbers beyond 1e154 overflow: scale x and y down by a power of two")
    return x, xp.stack([xp.where(finite, largest, np.nan), *words], axis=1)
