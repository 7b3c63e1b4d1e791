"""The public products: thin faces that check arguments, plan, and compute."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from multiword._arrays import Array, as_array, check_same_device, import_cupy, is_cupy, namespace
from multiword.engines import Engine, get_engine
from ozaki._plan import Plan, make_plan
from ozaki._schemes import SCHEMES, default_workspace, exact_product
from ozaki._special import overwrite_nonfinite

ACCURACIES = ("fp64", "exact")


def accurate_dgemm(
    a: Any,
    b: Any,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
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
    a : (m, k) array, or (k, m) with trans_a; real, converted to float64.
    b : (k, n) array, or (n, k) with trans_b; real, converted to float64.
    alpha, beta : scalars. The product R is rounded once; then alpha·R, beta·C and their sum
        are rounded in turn, each to nearest (alpha = ±2**j costs nothing unless it underflows).
    c : (m, n) array; needed if beta is not 0, and read only then.
    accuracy : what the product R is.
        "fp64": certified max |R - AB| / |A||B| of order sqrt(k)·u, below the bound k·u of a
        native DGEMM, and u·|R|; wider integers are used where the data asks for them.
        "exact": the exact product, correctly rounded.
        A number of bits w: rows of A and columns of B are rounded to integers of at most w
        bits, relative to their largest elements, and multiplied exactly.
    scheme : "residues", "slices" or "auto" (residues).
    word : "fp64", "int8" or "fp16" words carry the integers; by default what suits the engine.
    engine : "host", "cublas", "tensorcore", an `Engine`, or "auto": by the arrays.
    workspace : bytes that may be used beyond inputs and output; by default 2 GiB, or two
        fifths of a GPU's memory. Larger products are computed in panels.
    out : (m, n) float64 array to write to; written only when the result is complete.

    Returns
    -------
    (m, n) float64 array of the kind of `a` and `b`, on the same device; `out` if given.

    Raises
    ------
    TypeError : arrays that are not real numbers; NumPy and CuPy mixed.
    ValueError : shapes that do not fit; unknown options; arrays the engine cannot reach.
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
    scheme II.

    Examples
    --------
    >>> import numpy as np, ozaki
    >>> a = np.array([[1e16, 1.0, -1e16]])
    >>> b = np.ones((3, 1))
    >>> ozaki.accurate_dgemm(a, b)
    array([[1.]])
    """
    left, right = _matrices(a, b, np.float64, trans_a, trans_b)
    return _gemm(left, right, alpha, beta, c, accuracy, scheme, word, engine, workspace, out)


def plan(
    a: Any,
    b: Any,
    *,
    trans_a: bool = False,
    trans_b: bool = False,
    accuracy: str | int = "fp64",
    scheme: str = "auto",
    word: str | None = None,
    engine: str | Engine = "auto",
    workspace: int | None = None,
) -> Plan:
    """Say what `accurate_dgemm` would do with these matrices, and what error it certifies.

    Parameters and exceptions are those of `accurate_dgemm`. The data is looked at (the width
    depends on it), the product is not computed.

    Returns
    -------
    A `Plan`; print it.

    >>> import numpy as np, ozaki
    >>> print(ozaki.plan(np.eye(3), np.eye(3), accuracy="exact"))
    product          3 x 3 times 3 x 3, float64
    accuracy         exact
    integers         1 and 1 bits
    scheme           residues: 1 moduli, 1 fp64 products
    engine           host
    workspace        0.0 MiB in 1 panel
    certified error  0 of |A||B| (0 u), and u/1 of |C|
    """
    left, right = _matrices(a, b, np.float64, trans_a, trans_b)
    chosen = get_engine(engine, left)
    _check_options(accuracy, scheme)
    limit = default_workspace(left) if workspace is None else operator.index(workspace)
    return make_plan(_parts(left), _parts(right.T), left.dtype, accuracy, scheme, word, chosen, limit)


def _matrices(a: Any, b: Any, dtype: Any, trans_a: bool, trans_b: bool) -> tuple[Array, Array]:
    """Return op(A) and op(B) as arrays of the dtype, checked; views where nothing needs converting."""
    pair = []
    for name, x, transposed in (("a", a, trans_a), ("b", b, trans_b)):
        array = as_array(x, name)
        if array.dtype.kind == "c" and np.dtype(dtype).kind != "c":
            raise TypeError(f"{name} must be real for a result of {np.dtype(dtype)}, got dtype {array.dtype}")
        if array.ndim != 2:
            raise ValueError(f"{name} must be a matrix, got an array of shape {array.shape}")
        array = array.astype(dtype, copy=False)
        pair.append(array.T if transposed else array)
    check_same_device(a=pair[0], b=pair[1])
    if pair[0].shape[1] != pair[1].shape[0]:
        raise ValueError(f"op(a) and op(b) do not fit: {pair[0].shape} times {pair[1].shape}")
    return pair[0], pair[1]


def _check_options(accuracy: object, scheme: object) -> None:
    if isinstance(accuracy, bool) or not (accuracy in ACCURACIES or isinstance(accuracy, int | np.integer)):
        raise ValueError(f"accuracy must be 'fp64', 'exact' or a number of bits, got {accuracy!r}")
    if isinstance(accuracy, int | np.integer) and not 1 <= accuracy <= 2200:
        raise ValueError(f"accuracy in bits must be between 1 and 2200, got {accuracy}")
    if scheme not in ("auto", *SCHEMES):
        raise ValueError(f"unknown scheme {scheme!r}; known are auto, {', '.join(SCHEMES)}")


def _parts(x: Array) -> list[Array]:
    return [x.real, x.imag] if x.dtype.kind == "c" else [x]


def _check_output(name: str, x: Array, shape: tuple[int, int], dtype: Any) -> None:
    if x.shape != shape or (dtype is not None and x.dtype != dtype):
        wanted = "" if dtype is None else f"{np.dtype(dtype)} "
        raise ValueError(f"{name} must be a {wanted}array of shape {shape}, got {x.dtype} of {x.shape}")


def _gemm(
    a: Array,
    b: Array,
    alpha: complex,
    beta: complex,
    c: Any,
    accuracy: str | int,
    scheme: str,
    word: str | None,
    engine: str | Engine,
    workspace: int | None,
    out: Array | None,
) -> Array:
    """The body that every face shares: A and B are checked matrices of the result's dtype."""
    shape, dtype = (a.shape[0], b.shape[1]), a.dtype
    _check_options(accuracy, scheme)
    chosen = get_engine(engine, a)
    alpha, beta = dtype.type(alpha), dtype.type(beta)
    if beta != 0:
        if c is None:
            raise ValueError("c must be given when beta is not 0")
        c = as_array(c, "c")
        check_same_device(a=a, c=c)
        _check_output("c", c, shape, None)
    if out is not None:
        check_same_device(a=a, out=out)
        _check_output("out", out, shape, dtype)
    limit = default_workspace(a) if workspace is None else operator.index(workspace)
    result = _product(a, b, accuracy, scheme, word, chosen, limit)
    with np.errstate(all="ignore"):
        if alpha != 1:
            result *= alpha
        if beta != 0:
            result += beta * c.astype(dtype, copy=False)
    if out is None:
        return result
    out[...] = result
    return out


def _product(
    a: Array, b: Array, accuracy: str | int, scheme: str, word: str | None, engine: Engine, limit: int
) -> Array:
    """The product itself, in a new array; on a GPU short of memory, in ever smaller panels."""
    xp = namespace(a)
    if 0 in (*a.shape, *b.shape):
        return xp.zeros((a.shape[0], b.shape[1]), a.dtype)
    left, right = _parts(a), _parts(b.T)
    exhausted: tuple[type[Exception], ...] = (MemoryError,)
    if is_cupy(a):
        exhausted = (import_cupy().cuda.memory.OutOfMemoryError,)
    while True:
        with np.errstate(all="ignore"):
            plan = make_plan(left, right, a.dtype, accuracy, scheme, word, engine, limit)
            try:
                out = xp.empty((a.shape[0], b.shape[1]), a.dtype)
                exact_product(plan.steps, left, right, plan.scales, engine, limit, out)
                break
            except exhausted:
                # What was promised is not there: smaller panels, until choose_panels gives up.
                limit = plan.workspace // 2
    if plan.nonfinite:
        overwrite_nonfinite(left, right, plan.scales, out)
    return out
