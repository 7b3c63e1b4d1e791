"""The public products, which differ in dtype and default accuracy alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from multiword.engines import Engine
from multiword.runtime.arrays import Array, as_array, check_same_device, device_of, on_device_of_arrays
from multiword.runtime.options import transposition
from ozaki.arguments import (
    as_matrix,
    both_exactly,
    check_matmul_out,
    factors_of,
    in_numpy_shape,
    matrix_or_operand,
    request_of,
    result_dtype,
    stacks_of,
)
from ozaki.execution.callers_graph import capturable
from ozaki.execution.executors import multiply
from ozaki.execution.plan import Plan, plan_product
from ozaki.execution.stacks import multiply_stacks
from ozaki.execution.two_words import matmul_in_two_words
from ozaki.integers import are_asked, integer_matmul, modular_matmul
from ozaki.product.factor import Factor
from ozaki.product.operand import SIDES, Operand
from ozaki.product.order import exclusive_use
from ozaki.product.pair import Pair
from ozaki.product.request import TARGETS
from ozaki.public import public


@public("Matrix products", torch="matmul", jax="matmul")
@capturable
def accurate_dgemm(
    a: Any,
    b: Any,
    *,
    alpha: float = 1.0,
    beta: float | None = None,
    c: Any = None,
    trans_a: bool = False,
    trans_b: bool = False,
    accuracy: str | int = "fp64",
    scheme: str = "auto",
    word: str | None = None,
    engine: str | Engine = "auto",
    workspace: int | None = None,
    out: Array | None = None,
) -> Array:
    """Compute alpha·op(A)·op(B) + beta·C in double precision, with the same bits on every machine.

    The product op(A)·op(B) is a function of A, B and `accuracy` alone: no scheme, engine,
    panel size, thread count or device can change a bit of it.

    Parameters
    ----------
    a : (m, k) array, or (k, m) with trans_a; real, converted to float64. Or what `prepare`
        returned for it.
    b : (k, n) array, or (n, k) with trans_b; likewise.
    trans_a, trans_b : whether op(A), op(B) is the transpose.
    alpha, beta : scalars. The product R is rounded once; then alpha·R, beta·C and their sum
        are rounded in turn, each to nearest.
    c : (m, n) array; needed if beta is not 0, and read only then. Given with beta alone.
    accuracy : what the product R is.
        "fp64": certified max |R - AB| / |A||B| of order sqrt(k)·u, below the bound k·u of a
        native DGEMM, and u·|R|; wider integers are used where the data need them. A graded inner
        dimension, AB = (A·D)(D⁻¹·B), is equilibrated exactly before.
        "fp32": the same with the u of single precision, at half the cost.
        "normwise": |R - AB|_ij <= sqrt(k)·u·‖a_i‖₂‖b_j‖₂ + u·|R|_ij for any data, with the rows a_i of A,
        the columns b_j of B and the u of the result's dtype. Element (i, j) depends on a_i and b_j alone,
        and on a GPU the call only queues work.
        "exact": the exact product, correctly rounded.
        A number of bits w: rows of A and columns of B are rounded to integers of at most w
        bits, relative to their largest elements, and multiplied exactly.
    scheme : "residues", "slices" or "auto" (residues).
    word : "fp64", "int8" or "fp16" words carry the integers; by default what suits the engine.
    engine : "host", "cublas", "tensorcore", an `Engine`, or "auto": by the arrays.
    workspace : bytes that may be used beyond inputs and output; by default 2 GiB, or two
        fifths of a GPU's memory. Larger products are computed in panels. Copies of a and b that are
        equilibrated come on top.
    out : (m, n) float64 array to write to: on a CPU when the result is complete; a GPU may compute there, and
        leave anything if an exception is raised.

    Returns
    -------
    (m, n) float64 array of the kind of `a` and `b`, on the same device; `out` if given.

    Raises
    ------
    TypeError : arrays that are not real numbers; NumPy and CuPy mixed; out of another dtype, or masked.
    ValueError : shapes that do not fit; unknown options; arrays the engine cannot reach; out read-only.
    MemoryError : not even the smallest panel fits the workspace.
    ImportError : a GPU engine without its libraries.

    Notes
    -----
    A row of A (column of B) with an Inf or NaN makes its row (column) of the result what IEEE
    arithmetic gives; everything else is unaffected. Inputs are never written to.

    References
    ----------
    Ozaki scheme: Mukunoki, Ozaki, Ogita and Imamura, DGEMM using tensor cores, and its
    accurate and reproducible versions. Chinese remainders: Ozaki, Uchino and Imamura, Ozaki
    scheme II. Equilibration: Ballard, Benson, Druinsky, Lipshitz and Schwartz, Improving the
    numerical stability of fast matrix multiplication (inside scaling).

    Examples
    --------
    >>> import numpy as np, ozaki
    >>> a = np.array([[1e16, 1.0, -1e16]])
    >>> b = np.ones((3, 1))
    >>> ozaki.accurate_dgemm(a, b)
    array([[1.]])
    """
    left, right = factors_of(a, b, np.float64, trans_a, trans_b)
    request = request_of(left.matrix, accuracy, scheme, word, engine, workspace)
    return multiply(left, right, alpha, beta, c, request, out)


@public("Matrix products", torch="matmul", jax="matmul")
@capturable
def accurate_sgemm(
    a: Any,
    b: Any,
    *,
    alpha: float = 1.0,
    beta: float | None = None,
    c: Any = None,
    trans_a: bool = False,
    trans_b: bool = False,
    accuracy: str | int = "fp32",
    scheme: str = "auto",
    word: str | None = None,
    engine: str | Engine = "auto",
    workspace: int | None = None,
    out: Array | None = None,
) -> Array:
    """Compute alpha·op(A)·op(B) + beta·C in single precision.

    As `ozaki.accurate_dgemm`; differs in the dtype, float32, and in the default accuracy, "fp32". "fp64"
    gives the product of that accuracy, rounded once to float32.

    >>> import numpy as np, ozaki
    >>> a = np.array([[1e8, 1.0, -1e8]], np.float32)
    >>> ozaki.accurate_sgemm(a, np.ones((3, 1), np.float32))
    array([[1.]], dtype=float32)
    """
    left, right = factors_of(a, b, np.float32, trans_a, trans_b)
    request = request_of(left.matrix, accuracy, scheme, word, engine, workspace)
    return multiply(left, right, alpha, beta, c, request, out)


@public("Matrix products", torch="matmul", jax="matmul")
@capturable
def accurate_zgemm(
    a: Any,
    b: Any,
    *,
    alpha: complex = 1.0,
    beta: complex | None = None,
    c: Any = None,
    trans_a: bool | str = False,
    trans_b: bool | str = False,
    accuracy: str | int = "fp64",
    scheme: str = "auto",
    word: str | None = None,
    engine: str | Engine = "auto",
    workspace: int | None = None,
    out: Array | None = None,
) -> Array:
    """Compute alpha·op(A)·op(B) + beta·C in double-precision complex.

    As `ozaki.accurate_dgemm`; differs in the dtype, complex128. The real and the imaginary part are each what
    that would make of the real product of inner dimension 2k that defines them, with one scale for a complex
    row; residues take two real products a modulus, three where int8 words carry more than 151 bits.

    Parameters
    ----------
    trans_a, trans_b : False, True, or "C" for the conjugate transpose.
    alpha, beta : complex scalars.

    >>> import numpy as np, ozaki
    >>> ozaki.accurate_zgemm([[1 + 2j]], [[3 - 1j]])
    array([[5.+5.j]])
    """
    left, right = factors_of(a, b, np.complex128, trans_a, trans_b)
    request = request_of(left.matrix, accuracy, scheme, word, engine, workspace)
    return multiply(left, right, alpha, beta, c, request, out)


@public("Matrix products", torch="matmul", jax="matmul")
@capturable
def accurate_cgemm(
    a: Any,
    b: Any,
    *,
    alpha: complex = 1.0,
    beta: complex | None = None,
    c: Any = None,
    trans_a: bool | str = False,
    trans_b: bool | str = False,
    accuracy: str | int = "fp32",
    scheme: str = "auto",
    word: str | None = None,
    engine: str | Engine = "auto",
    workspace: int | None = None,
    out: Array | None = None,
) -> Array:
    """Compute alpha·op(A)·op(B) + beta·C in single-precision complex.

    As `ozaki.accurate_dgemm`; differs as `accurate_zgemm` does, in the dtype, complex64, and in the default
    accuracy, "fp32".

    >>> import numpy as np, ozaki
    >>> ozaki.accurate_cgemm([[1j]], [[1j]])
    array([[-1.+0.j]], dtype=complex64)
    """
    left, right = factors_of(a, b, np.complex64, trans_a, trans_b)
    request = request_of(left.matrix, accuracy, scheme, word, engine, workspace)
    return multiply(left, right, alpha, beta, c, request, out)


@public("Matrix products", dask=True, sparse=True, torch="matmul", jax="matmul")
@capturable
def matmul(
    a: Any,
    b: Any,
    *,
    accuracy: str | int | None = None,
    dtype: Any = None,
    overflow: str = "raise",
    mod: int | None = None,
    words: int = 1,
    scheme: str = "auto",
    engine: str | Engine = "auto",
    workspace: int | None = None,
    out: Array | None = None,
) -> Any:
    """Multiply as `numpy.matmul` does, stacks and vectors included, with the same bits everywhere.

    Parameters
    ----------
    a, b : (..., m, k) and (..., k, n) arrays whose leading axes broadcast, or vectors, as for
        `numpy.matmul`. Each matrix of a stack is a product of its own, with the bits that it has
        alone; small ones that need integers of equal width are computed together. Sparse matrices
        of SciPy or CuPy as `ozaki.sparse.matmul` takes them.
    accuracy : as in `accurate_dgemm`; by default that of the result's precision.
    dtype : an integer dtype: the product of integers or booleans, exact, in this dtype.
    overflow : "raise", or "wrap" for elements modulo the range of dtype, as NumPy computes them.
    mod : p, 2 <= p < 2**63: the product of integers or booleans modulo p, as int64 from 0 to p - 1.
    words : 2 for a product of about 106 bits: a, b or both may be tuples of two arrays of one shape, which
        stand for their sum, and the result is a tuple, too. Accuracy "fp64" then has u² in place of u, and
        "exact" rounds both words correctly.
    scheme, engine, workspace : as in `accurate_dgemm`. On a CPU NumPy's BLAS multiplies integers.
    out : array of the result's shape and dtype to write to, as in `accurate_dgemm`.

    Returns
    -------
    (..., m, n) array of float32, float64, complex64 or complex128: the smallest of these that
    NumPy's promotion allows (integers give float64, half precision gives float32); of integers with dtype or
    mod; `out` if given. With words=2 two of float64 or complex128: (high, low), low being what rounding to
    high leaves, rounded, or 0 beside an Inf or NaN.

    Raises
    ------
    OverflowError : an element that dtype cannot hold; the first is named, with its value.
    TypeError, ValueError, MemoryError, ImportError : as `accurate_dgemm`.

    References
    ----------
    Mukunoki, Ozaki, Ogita and Imamura, DGEMM using tensor cores; Ozaki, Uchino and Imamura, Ozaki
    scheme II.

    >>> import numpy as np, ozaki
    >>> ozaki.matmul(np.ones((2, 3, 4)), np.arange(4.0))
    array([[6., 6., 6.],
           [6., 6., 6.]])
    >>> x = np.array([[2**40, 1]])
    >>> ozaki.matmul(x, x.T, mod=10007), ozaki.matmul(x, x.T, dtype=np.int64, overflow="wrap")
    (array([[1618]]), array([[1]]))
    >>> third = np.full((1, 1), 1 / 3), np.full((1, 1), 2.0**-54 / 3)
    >>> high, low = ozaki.matmul(third, [[3.0]], words=2)
    >>> high.item(), abs(low.item()) < 2.0**-106
    (1.0, True)
    """
    if words != 1:
        others = {"dtype": dtype, "mod": mod, "out": out}
        return matmul_in_two_words(a, b, words, accuracy, (scheme, None, engine, workspace), others)
    if are_asked(accuracy, dtype, overflow, mod):
        if dtype is None:
            return modular_matmul(a, b, mod, (scheme, None, engine, workspace), out)
        return integer_matmul(a, b, dtype, overflow, (scheme, None, engine, workspace), out)
    x, y = matrix_or_operand(a, "a"), matrix_or_operand(b, "b")
    dtype = result_dtype(x, y)
    chosen = accuracy if accuracy is not None else TARGETS[dtype].name
    request = request_of(x, chosen, scheme, None, engine, workspace)
    if x.ndim == y.ndim == 2:
        return multiply(*factors_of(a, b, dtype), 1.0, None, None, request, out)
    check_same_device(a=x, b=y)
    if isinstance(a, Operand) or isinstance(b, Operand):
        raise ValueError(f"a prepared operand multiplies matrices, not stacks: {x.shape} times {y.shape}")
    check_matmul_out(out, x, y, dtype)
    return in_numpy_shape(multiply_stacks(*stacks_of(*both_exactly(x, y, dtype)), request), x, y, out)


matmul_of_arrays: Callable[..., Array] = matmul.__wrapped__  # type: ignore[attr-defined]
"""`matmul`, for functions here whose arguments are NumPy's or CuPy's arrays already."""


@public("Plans and prepared operands")
def prepare(x: Any, side: str = "left", *, trans: bool | str = False) -> Operand:
    """Return an operand that is split into words once and multiplied many times.

    Parameters
    ----------
    x : (m, k) left or (k, n) right matrix of float32, float64, complex64 or complex128; it must
        not change afterwards.
    side : "left" or "right": which factor it will be.
    trans : as `trans_a` in `accurate_zgemm`.

    Returns
    -------
    An operand to pass as `a` or `b` to the `accurate_*gemm` of its dtype. Results are the
    same bits as with the matrix itself. The split is made at the first product and cached for
    the accuracy, scheme and engine last used with it. Threads and streams may share it; on a GPU
    its products take turns.

    Raises
    ------
    TypeError : x is not numeric. ValueError : x is no matrix, or an unknown side.

    References
    ----------
    As `accurate_zgemm`.

    >>> import numpy as np, ozaki
    >>> p = ozaki.prepare(np.eye(2))
    >>> ozaki.accurate_dgemm(p, np.full((2, 1), 0.1))
    array([[0.1],
           [0.1]])
    """
    if side not in SIDES:
        raise ValueError(f"side must be 'left' or 'right', got {side!r}")
    array = as_array(x, "x")
    with device_of(array):
        array = as_matrix("x", array, result_dtype(array, array), transposition("trans", trans))
        return Operand(Factor(array, SIDES.index(side), prepared=True))


@public("Plans and prepared operands")
@on_device_of_arrays
def plan(
    a: Any,
    b: Any,
    *,
    trans_a: bool | str = False,
    trans_b: bool | str = False,
    accuracy: str | int | None = None,
    scheme: str = "auto",
    word: str | None = None,
    engine: str | Engine = "auto",
    workspace: int | None = None,
) -> Plan:
    """Say what a product of these matrices would do, and what error it certifies.

    The width depends on the data, which are read; the product is not computed.

    Parameters
    ----------
    a, b : (m, k) and (k, n) arrays, or transposed. The precision is that of the arrays, as in
        `matmul`.
    trans_a, trans_b, accuracy, scheme, word, engine, workspace : as in `accurate_zgemm`.

    Returns
    -------
    A `Plan`; print it. Its `bound` is the certified componentwise error, in units of |A||B|; for accuracy
    "normwise", where it depends on no data, in units of ‖a_i‖₂‖b_j‖₂. `error_times(v)` bounds |C - AB|·|v|.

    Raises
    ------
    TypeError, ValueError, MemoryError, ImportError : as `accurate_dgemm`; ValueError for an
        empty product too.

    References
    ----------
    As `accurate_zgemm`.

    >>> import numpy as np, ozaki
    >>> print(ozaki.plan(np.eye(3), np.eye(3), accuracy="exact"))  # doctest: +ELLIPSIS
    product          3 x 3 times 3 x 3, float64
    accuracy         exact
    integers         1 and 1 bits
    scheme           residues: 1 modulus, 1 fp64 product
    engine           host
    executor         ...
    workspace        0.0 MiB in 1 panel
    certified error  0 |A||B| (0 u), then one rounding
    """
    dtype = result_dtype(matrix_or_operand(a, "a"), matrix_or_operand(b, "b"))
    left, right = factors_of(a, b, dtype, trans_a, trans_b)
    if left.empty or right.empty:
        raise ValueError(f"nothing to plan for {left.matrix.shape} times {right.matrix.shape}")
    chosen = accuracy if accuracy is not None else TARGETS[dtype].name
    with device_of(left.matrix), exclusive_use(left.order, right.order):
        request = request_of(left.matrix, chosen, scheme, word, engine, workspace)
        return plan_product(Pair.of(left, right, request))
