"""NumPy's ufuncs and functions that are this library's, as tables.

Each entry takes the accuracy of the arrays and NumPy's arguments, plain arrays and no `out`. It returns None
for arguments with which NumPy's own function is exact, or has what this library has not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from opt_einsum.parser import convert_interleaved_input

from ozaki import api, contractions, linalg, symmetric
from ozaki.sums import api as sums
from ozaki.sums import cumulative, statistics


def kinds_of(operands: Iterable[Any]) -> set[str]:
    """Return the kinds of operands as NumPy names them; that of bfloat16, which it does not know, is "f"."""
    dtypes = [np.asarray(x).dtype for x in operands]
    return {"f" if dtype.name == "bfloat16" else dtype.kind for dtype in dtypes}


def _inexact(*operands: Any, dtype: Any = None) -> bool:
    """Return whether NumPy would round, in the dtype of operands or another: its integers are exact."""
    requested = () if dtype is None else (np.empty(0, dtype),)
    return not kinds_of((*operands, *requested)).isdisjoint("fc")


def _in_dtype(dtype: Any, *operands: Any) -> list[Any]:
    """Return operands as a ufunc converts them for a dtype."""
    return [x if dtype is None else np.asarray(x).astype(dtype, casting="same_kind") for x in operands]


def _matmul(accuracy: Any, a: Any, b: Any, axes: Any = None, dtype: Any = None, **options: Any) -> Any:
    in_place = [(-2, -1)] * 3  # which `@=` names
    if options or axes not in (None, in_place) or not _inexact(a, b, dtype=dtype):
        return None
    return api.matmul(*_in_dtype(dtype, a, b), accuracy=accuracy)


def _vecdot(accuracy: Any, x: Any, y: Any, axis: int = -1, dtype: Any = None, **options: Any) -> Any:
    if options or not _inexact(x, y, dtype=dtype):
        return None
    return contractions.vecdot(*_in_dtype(dtype, x, y), axis=axis, accuracy=accuracy)


def _matvec(accuracy: Any, a: Any, x: Any, **options: Any) -> Any:
    return None if options or not _inexact(a, x) else contractions.matvec(a, x, accuracy=accuracy)


def _vecmat(accuracy: Any, x: Any, a: Any, **options: Any) -> Any:
    result = _matmul(accuracy, np.conj(x)[..., None, :], a, **options)
    return None if result is None else result[..., 0, :]


def _einsum(accuracy: Any, *operands: Any, optimize: Any = False, **options: Any) -> Any:
    if not isinstance(operands[0], str):  # tensors in turn with their subscripts, numbers
        operands = _subscripts(*operands)
    subscripts, *tensors = operands
    if options or not (isinstance(optimize, str | bool) and _inexact(*tensors)):
        return None
    return contractions.einsum(subscripts, *tensors, accuracy=accuracy, optimize=optimize)


def _subscripts(*operands: Any) -> tuple[Any, ...]:
    """Return the subscripts as a string, and the tensors."""
    subscripts, tensors = convert_interleaved_input(operands)
    return subscripts, *tensors


def _tensordot(accuracy: Any, a: Any, b: Any, axes: Any = 2) -> Any:
    return contractions.tensordot(a, b, axes, accuracy=accuracy) if _inexact(a, b) else None


def _dot(accuracy: Any, a: Any, b: Any) -> Any:
    """Sum over the last axis of a and the last but one of b."""
    axes = (-1, -min(np.ndim(b), 2)) if np.ndim(a) and np.ndim(b) else 0
    return _tensordot(accuracy, a, b, axes)


def _inner(accuracy: Any, a: Any, b: Any) -> Any:
    return contractions.inner(a, b, accuracy=accuracy) if _inexact(a, b) else None


def _outer(accuracy: Any, a: Any, b: Any) -> Any:
    """Return products of complex numbers, correctly rounded; NumPy's of real ones are."""
    return contractions.outer(a, b, accuracy="exact") if "c" in kinds_of((a, b)) else None


def _vdot(accuracy: Any, a: Any, b: Any) -> Any:
    return _matmul(accuracy, np.conj(a).ravel(), np.ravel(b))


def _norm(accuracy: Any, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Return Euclidean norms of vectors and Frobenius norms of matrices; None for NumPy's others."""
    reduced = np.ndim(x) if axis is None else max(np.size(axis), 1)
    if not (ord is None or (ord == 2 and reduced == 1) or (ord in ("fro", "f") and reduced == 2)):
        return None
    return sums.norm(x, axis=axis, keepdims=keepdims)


def _reduction(
    reduce: Callable[..., Any], *parameters: str, axis: int | None = None, rounds: bool = False
) -> Callable[..., Any]:
    """Return a reduction with some of NumPy's parameters; None for others.

    rounds : whether it rounds what it makes of integers, too: sums of them do not, unless in another dtype.
    """

    def reduced(accuracy: Any, x: Any, axis: Any = axis, dtype: Any = None, **options: Any) -> Any:
        options = {
            n: o for n, o in options.items() if o is not np._NoValue and not (n == "where" and o is True)
        }
        if "correction" in options:
            options["ddof"] = options.pop("correction")
        if not options.keys() <= {*parameters} or not (rounds or _inexact(x, dtype=dtype)):
            return None
        if np.ndim(x) == 0 and axis in (0, -1):  # as NumPy has it
            axis = None
        return reduce(x, axis, dtype, **options)

    return reduced


def _average(
    accuracy: Any, x: Any, axis: Any = None, weights: Any = None, returned: bool = False, **options: Any
) -> Any:
    """Return a weighted mean, on request with the sum of weights; None for weights of other shapes."""
    fits = weights is None or np.shape(weights) == np.shape(x) or (np.ndim(weights) == 1 and axis is not None)
    if not fits:
        return None
    kept = {"keepdims": options.pop("keepdims", False) is True}
    result = statistics.average(x, axis, weights, **kept)
    if not returned:
        return result
    along = np.ones(np.shape(x)) if weights is None else np.asarray(weights)
    total = sums.sum(along, axis if along.shape == np.shape(x) else None, np.result_type(result), **kept)
    return result, np.broadcast_to(total, np.shape(result)).copy()[()]


def _trace(accuracy: Any, x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Any:
    return sums.sum(np.diagonal(x, offset, axis1, axis2), -1, dtype) if _inexact(x, dtype=dtype) else None


def _covariances(of: Callable[..., Any]) -> Callable[..., Any]:
    """Return `np.cov` or `np.corrcoef` of real variables that are not weighted."""

    def computed(accuracy: Any, m: Any, y: Any = None, rowvar: bool = True, **options: Any) -> Any:
        biased, ddof = options.pop("bias", False), options.pop("ddof", None)
        variables = [np.atleast_2d(x if rowvar else np.transpose(x)) for x in (m, y) if x is not None]
        if y is not None and np.ndim(y) == 2 and len(y) == 1:  # whatever rowvar says, as NumPy has it
            variables[1] = y
        if any(x is not None for x in options.values()) or "c" in kinds_of(variables):
            return None
        divisor = {} if of is symmetric.corrcoef else {"ddof": (0 if biased else 1) if ddof is None else ddof}
        return of(np.concatenate(variables), accuracy=accuracy or "fp64", **divisor).squeeze()

    return computed


def _linear(solve: Callable[..., Any]) -> Callable[..., Any]:
    return lambda accuracy, *args, **options: solve(*args, **options)


def _qr(accuracy: Any, a: Any, mode: str = "reduced") -> Any:
    """Return orthogonal factors, or R; None for LAPACK's own reflectors."""
    return linalg.qr(a, mode) if mode in ("reduced", "complete", "r") else None


def _lstsq(accuracy: Any, a: Any, b: Any, rcond: float | None = None) -> Any:
    """Return least squares of full rank; None for the others, which need singular values."""
    try:
        return linalg.lstsq(a, b, rcond)
    except np.linalg.LinAlgError:
        return None


UFUNCS: dict[tuple[Any, str], Callable[..., Any]] = {
    (np.matmul, "__call__"): _matmul,
    (np.vecdot, "__call__"): _vecdot,
    (getattr(np, "matvec", None), "__call__"): _matvec,
    (getattr(np, "vecmat", None), "__call__"): _vecmat,
    (np.add, "reduce"): _reduction(sums.sum, "keepdims", "initial", "where", axis=0),
    (np.add, "accumulate"): _reduction(cumulative.cumsum, axis=0),
}

FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.sum: _reduction(sums.sum, "keepdims", "initial", "where"),
    np.mean: _reduction(sums.mean, "keepdims", "where", rounds=True),
    np.average: _average,
    np.var: _reduction(statistics.var, "keepdims", "ddof", "where", rounds=True),
    np.std: _reduction(statistics.std, "keepdims", "ddof", "where", rounds=True),
    np.nansum: _reduction(statistics.nansum, "keepdims", "where"),
    np.nanmean: _reduction(statistics.nanmean, "keepdims", "where", rounds=True),
    np.nanvar: _reduction(statistics.nanvar, "keepdims", "ddof", "where", rounds=True),
    np.nanstd: _reduction(statistics.nanstd, "keepdims", "ddof", "where", rounds=True),
    np.cumsum: _reduction(cumulative.cumsum),
    np.trace: _trace,
    np.cov: _covariances(symmetric.cov),
    np.corrcoef: _covariances(symmetric.corrcoef),
    np.dot: _dot,
    np.vdot: _vdot,
    np.inner: _inner,
    np.outer: _outer,
    np.tensordot: _tensordot,
    np.einsum: _einsum,
    np.linalg.norm: _norm,
    np.linalg.lstsq: _lstsq,
    np.linalg.qr: _qr,
    **{
        getattr(np.linalg, name): _linear(getattr(linalg, name))
        for name in ("solve", "inv", "det", "slogdet", "cholesky", "eigh", "eigvalsh", "svd", "svdvals")
    },
}
