"""The public products: thin faces that check arguments, plan, and compute."""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import Any

import numpy as np

from multiword._arrays import (
    Array,
    as_array,
    check_same_device,
    device_of,
    import_cupy,
    is_cupy,
    namespace,
    real_parts,
    to_float32,
    to_float64,
)
from multiword.engines import Engine, get_engine
from ozaki import _replay
from ozaki._operand import Operand
from ozaki._plan import TARGETS, Options, Plan, make_plan
from ozaki._scales import NORM_LIMITS
from ozaki._schemes import SCHEMES, WorkspaceTooSmall, default_workspace, exact_product
from ozaki._special import overwrite_nonfinite

WIDEST = 2200
"""No two finite float64 numbers are more bits apart than this."""


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
    a : (m, k) array, or (k, m) with trans_a; real, converted to float64. Or what `prepare`
        returned for it.
    b : (k, n) array, or (n, k) with trans_b; likewise.
    trans_a, trans_b : whether op(A), op(B) is the transpose.
    alpha, beta : scalars. The product R is rounded once; then alpha·R, beta·C and their sum
        are rounded in turn, each to nearest.
    c : (m, n) array; needed if beta is not 0, and read only then.
    accuracy : what the product R is.
        "fp64": certified max |R - AB| / |A||B| of order sqrt(k)·u, below the bound k·u of a
        native DGEMM, and u·|R|; wider integers are used where the data asks for them.
        "fp32": the same with the u of single precision, at half the cost.
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
    left, right = _operands(a, b, np.float64, trans_a, trans_b)
    options = _options(left, accuracy, scheme, word, engine, workspace)
    return _gemm(left, right, alpha, beta, c, options, out)


def accurate_sgemm(
    a: Any,
    b: Any,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
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
    """Compute alpha·op(A)·op(B) + beta·C in single precision; otherwise as `accurate_dgemm`.

    Parameters
    ----------
    a, b : (m, k) and (k, n) arrays, or transposed; real, converted to float32.
    c, out : (m, n) float32 arrays.
    accuracy : as in `accurate_dgemm`, but "fp32" by default; "fp64" gives the product of "fp64"
        accuracy rounded once to float32.
    alpha, beta, trans_a, trans_b, scheme, word, engine, workspace : as in `accurate_dgemm`.

    Returns
    -------
    (m, n) float32 array of the kind of `a` and `b`; `out` if given.

    Raises
    ------
    TypeError, ValueError, MemoryError, ImportError : as `accurate_dgemm`.

    References
    ----------
    Mukunoki, Ozaki, Ogita and Imamura, DGEMM using tensor cores; Ozaki, Uchino and Imamura, Ozaki
    scheme II.

    >>> import numpy as np, ozaki
    >>> a = np.array([[1e8, 1.0, -1e8]], np.float32)
    >>> ozaki.accurate_sgemm(a, np.ones((3, 1), np.float32))
    array([[1.]], dtype=float32)
    """
    left, right = _operands(a, b, np.float32, trans_a, trans_b)
    options = _options(left, accuracy, scheme, word, engine, workspace)
    return _gemm(left, right, alpha, beta, c, options, out)


def accurate_zgemm(
    a: Any,
    b: Any,
    *,
    alpha: complex = 1.0,
    beta: complex = 0.0,
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
    """Compute alpha·op(A)·op(B) + beta·C in double-precision complex; otherwise as `accurate_dgemm`.

    The real and the imaginary part are each what `accurate_dgemm` would make of the real product
    of inner dimension 2k that defines them, with one scale for a complex row; residues take three
    real products instead of four.

    Parameters
    ----------
    a, b : (m, k) and (k, n) arrays, or transposed; converted to complex128.
    c, out : (m, n) complex128 arrays.
    trans_a, trans_b : False, True, or "C" for the conjugate transpose.
    alpha, beta : complex scalars.
    accuracy, scheme, word, engine, workspace : as in `accurate_dgemm`.

    Returns
    -------
    (m, n) complex128 array of the kind of `a` and `b`; `out` if given.

    Raises
    ------
    TypeError, ValueError, MemoryError, ImportError : as `accurate_dgemm`.

    References
    ----------
    Mukunoki, Ozaki, Ogita and Imamura, DGEMM using tensor cores; Ozaki, Uchino and Imamura, Ozaki
    scheme II.

    >>> import numpy as np, ozaki
    >>> ozaki.accurate_zgemm([[1 + 2j]], [[3 - 1j]])
    array([[5.+5.j]])
    """
    left, right = _operands(a, b, np.complex128, trans_a, trans_b)
    options = _options(left, accuracy, scheme, word, engine, workspace)
    return _gemm(left, right, alpha, beta, c, options, out)


def accurate_cgemm(
    a: Any,
    b: Any,
    *,
    alpha: complex = 1.0,
    beta: complex = 0.0,
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
    """Compute alpha·op(A)·op(B) + beta·C in single-precision complex; otherwise as `accurate_zgemm`.

    Parameters
    ----------
    a, b : (m, k) and (k, n) arrays, or transposed; converted to complex64.
    c, out : (m, n) complex64 arrays.
    accuracy : as in `accurate_sgemm`, "fp32" by default.
    alpha, beta, trans_a, trans_b, scheme, word, engine, workspace : as in `accurate_zgemm`.

    Returns
    -------
    (m, n) complex64 array of the kind of `a` and `b`; `out` if given.

    Raises
    ------
    TypeError, ValueError, MemoryError, ImportError : as `accurate_dgemm`.

    References
    ----------
    Mukunoki, Ozaki, Ogita and Imamura, DGEMM using tensor cores; Ozaki, Uchino and Imamura, Ozaki
    scheme II.

    >>> import numpy as np, ozaki
    >>> ozaki.accurate_cgemm([[1j]], [[1j]])
    array([[-1.+0.j]], dtype=complex64)
    """
    left, right = _operands(a, b, np.complex64, trans_a, trans_b)
    options = _options(left, accuracy, scheme, word, engine, workspace)
    return _gemm(left, right, alpha, beta, c, options, out)


def matmul(
    a: Any,
    b: Any,
    *,
    accuracy: str | int | None = None,
    scheme: str = "auto",
    engine: str | Engine = "auto",
    workspace: int | None = None,
) -> Array:
    """Multiply as `numpy.matmul` does, stacks and vectors included, with the same bits everywhere.

    Parameters
    ----------
    a, b : (..., m, k) and (..., k, n) arrays whose leading axes broadcast, or vectors, as for
        `numpy.matmul`. Each matrix of a stack is a product of its own, with the bits that it has
        alone.
    accuracy : as in `accurate_dgemm`; by default that of the result's precision.
    scheme, engine, workspace : as in `accurate_dgemm`.

    Returns
    -------
    (..., m, n) array of float32, float64, complex64 or complex128: the smallest of these that
    NumPy's promotion allows (integers give float64, half precision gives float32).

    Raises
    ------
    TypeError, ValueError, MemoryError, ImportError : as `accurate_dgemm`.

    References
    ----------
    Mukunoki, Ozaki, Ogita and Imamura, DGEMM using tensor cores; Ozaki, Uchino and Imamura, Ozaki
    scheme II.

    >>> import numpy as np, ozaki
    >>> ozaki.matmul(np.ones((2, 3, 4)), np.arange(4.0))
    array([[6., 6., 6.],
           [6., 6., 6.]])
    """
    x, y = as_array(a, "a"), as_array(b, "b")
    xp = check_same_device(a=x, b=y)
    if 0 in (x.ndim, y.ndim):
        raise ValueError(f"a and b must have at least one dimension, got shapes {x.shape} and {y.shape}")
    dtype = _result_dtype(x, y)
    left = x[None, :] if x.ndim == 1 else x
    right = y[:, None] if y.ndim == 1 else y
    try:
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        raise ValueError(f"the stacks do not broadcast: {x.shape} times {y.shape}") from None
    m, n = left.shape[-2], right.shape[-1]
    left = xp.broadcast_to(left, (*batch, *left.shape[-2:]))
    right = xp.broadcast_to(right, (*batch, *right.shape[-2:]))
    out = xp.empty((*batch, m, n), dtype)
    for index in np.ndindex(*batch):
        operands = _operands(left[index], right[index], dtype, False, False)
        chosen = accuracy if accuracy is not None else TARGETS[dtype.name]
        options = _options(operands[0], chosen, scheme, None, engine, workspace)
        out[index] = _gemm(*operands, 1.0, 0.0, None, options, None)
    if x.ndim == 1:
        out = out[..., 0, :]
    return out[..., 0] if y.ndim == 1 else out


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
    same bits as with the matrix itself. The split is made at the first product and held for
    the accuracy, scheme and engine last used with it.

    Raises
    ------
    TypeError : x is not numeric. ValueError : x is no matrix, or an unknown side.

    >>> import numpy as np, ozaki
    >>> p = ozaki.prepare(np.eye(2))
    >>> ozaki.accurate_dgemm(p, np.full((2, 1), 0.1))
    array([[0.1],
           [0.1]])
    """
    if side not in ("left", "right"):
        raise ValueError(f"side must be 'left' or 'right', got {side!r}")
    array = as_array(x, "x")
    array = _matrix("x", array, _result_dtype(array, array), trans)
    return Operand(array, ("left", "right").index(side), prepared=True)


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

    The data is looked at (the width depends on it), the product is not computed.

    Parameters
    ----------
    a, b : (m, k) and (k, n) arrays, or transposed. The precision is that of the arrays, as in
        `matmul`.
    trans_a, trans_b, accuracy, scheme, word, engine, workspace : as in `accurate_zgemm`.

    Returns
    -------
    A `Plan`; print it. Its `bound` is the certified componentwise error, in units of |A||B|.

    Raises
    ------
    TypeError, ValueError, MemoryError, ImportError : as `accurate_dgemm`; ValueError for an
        empty product too.

    >>> import numpy as np, ozaki
    >>> print(ozaki.plan(np.eye(3), np.eye(3), accuracy="exact"))  # doctest: +ELLIPSIS
    product          3 x 3 times 3 x 3, float64
    accuracy         exact
    integers         1 and 1 bits
    scheme           residues: 1 modulus, 1 fp64 product
    engine           host
    workspace        0.0 MiB in 1 panel
    certified error  0 |A||B| (0 u), then one rounding
    predicted time   ... ms on this CPU
    """
    matrices = [x.matrix if isinstance(x, Operand) else as_array(x, n) for x, n in ((a, "a"), (b, "b"))]
    dtype = _result_dtype(*matrices)
    left, right = _operands(a, b, dtype, trans_a, trans_b)
    if left.empty or right.empty:
        raise ValueError(f"nothing to plan for {left.matrix.shape} times {right.matrix.shape}")
    chosen = accuracy if accuracy is not None else TARGETS[dtype.name]
    with device_of(left.matrix):
        return make_plan(left, right, _options(left, chosen, scheme, word, engine, workspace))


def _result_dtype(x: Array, y: Array) -> np.dtype:
    """The smallest of the four dtypes of results that holds both."""
    names = {t.name for t in (x.dtype, y.dtype)}
    if names <= {"float16", "bfloat16", "float32"}:
        return np.dtype(np.float32)
    if names <= {"float16", "bfloat16", "float32", "complex64"}:
        return np.dtype(np.complex64)
    return np.dtype(np.complex128 if "c" in (x.dtype.kind, y.dtype.kind) else np.float64)


def _matrix(name: str, x: Array, dtype: Any, trans: bool | str) -> Array:
    """Return op(X) as a matrix of the dtype: a view where nothing needs converting."""
    complex_result = np.dtype(dtype).kind == "c"
    if x.dtype.kind == "c" and not complex_result:
        raise TypeError(f"{name} must be real for a result of {np.dtype(dtype)}, got dtype {x.dtype}")
    if x.ndim != 2:
        raise ValueError(f"{name} must be a matrix, got an array of shape {x.shape}")
    if trans not in (False, True, "C"):
        raise ValueError(f"transposing {name} must be False, True or 'C', got {trans!r}")
    x = x.astype(dtype, copy=False)
    x = x.T if trans else x
    return x.conj() if trans == "C" else x


def _operands(
    a: Any, b: Any, dtype: Any, trans_a: bool | str, trans_b: bool | str
) -> tuple[Operand, Operand]:
    pair = []
    for name, side, x, trans in (("a", 0, a, trans_a), ("b", 1, b, trans_b)):
        if isinstance(x, Operand):
            if x.side != side or x.matrix.dtype != dtype or trans:
                sides = ("left", "right")
                raise ValueError(
                    f"{name} was prepared as the {sides[x.side]} factor in {x.matrix.dtype}; "
                    f"here it is the {sides[side]} one in {np.dtype(dtype)}, transposed: {trans}"
                )
            pair.append(x)
        else:
            pair.append(Operand(_matrix(name, as_array(x, name), dtype, trans), side))
    left, right = pair
    check_same_device(a=left.matrix, b=right.matrix)
    if left.matrix.shape[1] != right.matrix.shape[0]:
        raise ValueError(f"op(a) and op(b) do not fit: {left.matrix.shape} times {right.matrix.shape}")
    return left, right


def _options(
    like: Operand,
    accuracy: str | int,
    scheme: str,
    word: str | None,
    engine: str | Engine,
    workspace: int | None,
) -> Options:
    number = isinstance(accuracy, int | np.integer) and not isinstance(accuracy, bool)
    if not number and accuracy not in (*NORM_LIMITS, "exact"):
        known = ", ".join(repr(name) for name in NORM_LIMITS)
        raise ValueError(f"accuracy must be {known}, 'exact' or a number of bits, got {accuracy!r}")
    if number and not 1 <= int(accuracy) <= WIDEST:
        raise ValueError(f"accuracy in bits must be between 1 and {WIDEST}, got {accuracy}")
    if scheme not in ("auto", *SCHEMES):
        raise ValueError(f"unknown scheme {scheme!r}; known are auto, {', '.join(SCHEMES)}")
    limit = default_workspace(like.matrix) if workspace is None else operator.index(workspace)
    return Options(accuracy, scheme, word, get_engine(engine, like.matrix), limit)


def _gemm(
    a: Operand, b: Operand, alpha: complex, beta: complex, c: Any, options: Options, out: Array | None
) -> Array:
    """The body that every face shares."""
    dtype, shape = a.matrix.dtype, (a.rows, b.rows)
    alpha, beta = dtype.type(alpha), dtype.type(beta)
    if beta != 0:
        if c is None:
            raise ValueError("c must be given when beta is not 0")
        c = as_array(c, "c")
        if c.dtype.kind == "c" and dtype.kind != "c":
            raise TypeError(f"c must be real for a result of {dtype}, got dtype {c.dtype}")
        check_same_device(a=a.matrix, c=c)
        if c.shape != shape:
            raise ValueError(f"c must be of shape {shape}, got {c.shape}")
    if out is not None:
        if not (is_cupy(out) or isinstance(out, np.ndarray)):
            raise TypeError(f"out must be an array to write to, got {type(out).__name__}")
        check_same_device(a=a.matrix, out=out)
        if out.shape != shape or out.dtype != dtype:
            raise ValueError(f"out must be {dtype} of shape {shape}, got {out.dtype} of {out.shape}")
    with device_of(a.matrix), np.errstate(all="ignore"):
        result = _product(a, b, options)
        if alpha != 1:
            _scale(result, alpha)
        if beta != 0:
            addend = c.astype(dtype, copy=True)
            _scale(addend, beta)
            for part, more in zip(real_parts(result), real_parts(addend), strict=True):
                part[...] = _rounded(to_float64(part) + to_float64(more), part)
        if out is None:
            return result
        out[...] = result
        return out


def _rounded(x: Array, like: Array) -> Array:
    """`x`, in float64, rounded to the dtype of `like`.

    Products of two fp32 numbers are exact in fp64, and sums rounded to fp64 first round to fp32
    as they would at once: so these steps are fp32's own, and the same on every device.
    """
    return to_float32(x) if like.dtype == np.float32 else x


def _scale(x: Array, factor: Any) -> None:
    """x *= factor, every real product and sum rounded once; no engine's complex product is used."""
    parts = [to_float64(part) for part in real_parts(x)]
    if len(parts) == 1:
        x[...] = _rounded(float(factor) * parts[0], x)
        return
    by_real, by_imag = (
        [to_float64(_rounded(float(f) * part, x.real)) for part in parts] for f in (factor.real, factor.imag)
    )
    x.real[...] = _rounded(by_real[0] - by_imag[1], x.real)
    x.imag[...] = _rounded(by_real[1] + by_imag[0], x.real)


def _product(a: Operand, b: Operand, options: Options) -> Array:
    """The product itself, in a new array; on a GPU short of memory, in ever smaller panels."""
    xp = namespace(a.matrix)
    if a.empty or b.empty:
        return xp.zeros((a.rows, b.rows), a.matrix.dtype)
    exhausted: type[Exception] = MemoryError
    if is_cupy(a.matrix):
        exhausted = import_cupy().cuda.memory.OutOfMemoryError
    while True:
        limit = options.workspace
        try:
            out = _replay.product(a, b, options)
            return _planned_product(a, b, options) if out is None else out
        except WorkspaceTooSmall:
            raise
        except exhausted:
            # What was promised is not there: smaller panels, until not even one is.
            if limit <= 0:
                raise
            _replay.forget()
            a.forget_split()
            b.forget_split()
            options = replace(options, workspace=limit // 2)


def _planned_product(a: Operand, b: Operand, options: Options) -> Array:
    plan = make_plan(a, b, options, split=True)
    out = namespace(a.matrix).empty((a.rows, b.rows), a.matrix.dtype)
    exact_product(plan.steps, a, b, plan.scales, options.engine, options.workspace, out)
    if plan.nonfinite:
        overwrite_nonfinite(a.double_parts, b.double_parts, plan.scales, out)
    return out
