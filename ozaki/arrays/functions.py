"""NumPy's ufuncs and functions that are this library's, as tables.

Each entry takes the accuracy of the arrays and NumPy's arguments, plain arrays and no `out`. It returns None
for arguments with which NumPy's own function is exact, or has what this library has not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import EllipsisType
from typing import Any

import numpy as np
from opt_einsum.parser import convert_interleaved_input, parse_einsum_input

from multiword.public import public_names
from ozaki import api, contractions, covariances, elementary, linalg
from ozaki.arrays.signals import signalled, warn_of_few
from ozaki.public import PUBLIC
from ozaki.sums import api as sums
from ozaki.sums import convolution, cumulative, statistics
from ozaki.sums.table import REDUCTIONS, quotient_dtype


def kinds_of(operands: Iterable[Any]) -> set[str]:
    """Return the kinds of operands as NumPy names them.

    That of bfloat16, which it does not know, is "f"; that of numbers wider than float64 is "g".
    """
    return {_kind(np.asarray(x).dtype) for x in operands}


def _kind(dtype: np.dtype) -> str:
    if dtype.kind in "fc":
        return "g" if dtype.itemsize > (16 if dtype.kind == "c" else 8) else dtype.kind
    return "f" if dtype.name == "bfloat16" else dtype.kind


def _rounds(*operands: Any, dtype: Any = None, integers: bool = False) -> bool:
    """Return whether something is rounded that this library can compute, in the dtype of operands or another.

    integers : whether what is made of integers is rounded, too; the integers that NumPy makes are exact.
    """
    kinds = kinds_of(operands)
    results = kinds if dtype is None else kinds_of([np.empty(0, dtype)])
    return kinds | results <= set("biufc") and ((integers and dtype is None) or bool(results & set("fc")))


def _converted(dtype: Any, *operands: Any) -> list[Any]:
    """Return operands as a ufunc converts them: to a dtype, or short integers to float32, beside floats."""

    def converted(x: Any) -> Any:
        array = np.asanyarray(x)
        if dtype is None and (array.dtype.kind not in "biu" or array.itemsize > 2):
            return x
        return array.astype(np.float32 if dtype is None else dtype, casting="same_kind")

    return [converted(x) for x in operands]


def _matmul(
    accuracy: Any, a: Any, b: Any, axes: Any = None, dtype: Any = None, order: Any = "K", **options: Any
) -> Any:
    if options or not _rounds(a, b, dtype=dtype):
        return None
    given = a, b
    a, b = _converted(dtype, a, b)
    if axes is not None:  # `x @= y` names them
        if any(np.size(of_x) < min(np.ndim(x), 2) for of_x, x in zip(axes[:2], (a, b), strict=True)):
            raise ValueError(f"axes must name both axes of matrices, got {axes}")
        a, b = (np.moveaxis(x, of, range(-np.size(of), 0)) for of, x in zip(axes[:2], (a, b), strict=True))
    result = api.matmul(a, b, accuracy=accuracy)
    for of_result in () if axes is None else axes[2:]:
        result = np.moveaxis(result, range(-np.size(of_result), 0), of_result)
    return _in_order(signalled(result, a, b, by=np.matmul), order, given)


def _vecdot(accuracy: Any, x: Any, y: Any, axis: int = -1, dtype: Any = None, **options: Any) -> Any:
    if options or not _rounds(x, y, dtype=dtype):
        return None
    result = contractions.vecdot(*_converted(dtype, x, y), axis=axis, accuracy=accuracy)
    return signalled(result, x, y, by=np.vecdot)


def _matvec(accuracy: Any, a: Any, x: Any, **options: Any) -> Any:
    if options or not _rounds(a, x):
        return None
    return signalled(contractions.matvec(*_converted(None, a, x), accuracy=accuracy), a, x, by=np.matvec)


def _vecmat(accuracy: Any, x: Any, a: Any, **options: Any) -> Any:
    result = _matmul(accuracy, np.conj(x)[..., None, :], a, **options)
    return None if result is None else result[..., 0, :]


def _einsum(
    accuracy: Any,
    *operands: Any,
    optimize: Any = False,
    dtype: Any = None,
    casting: Any = "safe",
    order: Any = "K",
) -> Any:
    if not isinstance(operands[0], str):  # tensors in turn with their subscripts, numbers
        operands = _subscripts(*operands)
    subscripts, *tensors = operands
    if not _rounds(*tensors, dtype=dtype):
        return None
    if optimize is not False and optimize is not True:
        np.einsum_path(subscripts, *tensors, optimize=optimize)  # raises what NumPy's does
    if dtype is None and _rearranges(subscripts, *tensors):
        return np.einsum(subscripts, *tensors, order=order)  # a view
    if isinstance(optimize, tuple | list) and optimize and optimize[0] in ("greedy", "optimal"):
        optimize = optimize[0]  # beside a limit of memory
    if dtype is None:
        tensors = _converted(None, *tensors)
    else:
        tensors = [np.asarray(x).astype(dtype, casting=casting, copy=False) for x in tensors]
    result = contractions.einsum(subscripts, *tensors, accuracy=accuracy, optimize=optimize)
    return _in_order(result, order, tensors, dtype)


def _in_order(result: Any, order: Any, operands: Iterable[Any], dtype: Any = None) -> Any:
    """Return a result in an order of memory; "A" is Fortran's if all operands lie in it, else C's."""
    if order in ("A", "a"):
        order = "F" if all(np.asarray(x).flags.f_contiguous for x in operands) else "C"
    return np.asarray(result, dtype, order=order)[()]


def _rearranges(subscripts: str, *tensors: Any) -> bool:
    """Return whether nothing is added up and nothing multiplied."""
    if len(tensors) > 1:
        return False
    inputs, output, _ = parse_einsum_input((subscripts, np.shape(tensors[0])), shapes=True)
    return set(inputs) <= set(output)


def _subscripts(*operands: Any) -> tuple[Any, ...]:
    """Return the subscripts as a string, and the tensors."""
    for labels in operands[1:][::2] if len(operands) % 2 == 0 else (*operands[1::2], operands[-1]):
        if any(not isinstance(i, EllipsisType) and not 0 <= i < 52 for i in labels):
            raise ValueError("subscript is not within the valid range [0, 52)")
    subscripts, tensors = convert_interleaved_input(operands)
    return subscripts, *tensors


def _tensordot(accuracy: Any, a: Any, b: Any, axes: Any = 2) -> Any:
    if not _rounds(a, b):
        return None
    x, y = _converted(None, a, b)
    return signalled(contractions.tensordot(x, y, axes, accuracy=accuracy)[()], a, b, by=np.dot)


def _dot(accuracy: Any, a: Any, b: Any) -> Any:
    """Sum over the last axis of a and the last but one of b."""
    axes = (-1, -min(np.ndim(b), 2)) if np.ndim(a) and np.ndim(b) else 0
    return _tensordot(accuracy, a, b, axes)


def _inner(accuracy: Any, a: Any, b: Any) -> Any:
    if not _rounds(a, b):
        return None
    return signalled(contractions.inner(*_converted(None, a, b), accuracy=accuracy), a, b, by=np.dot)


def _outer(accuracy: Any, a: Any, b: Any) -> Any:
    """Return products of complex numbers, correctly rounded; NumPy's of real ones are."""
    if not (_rounds(a, b) and "c" in kinds_of((a, b))):
        return None
    return contractions.outer(*_converted(None, a, b), accuracy="exact")


def _vdot(accuracy: Any, a: Any, b: Any) -> Any:
    return _matmul(accuracy, np.conj(a).ravel(), np.ravel(b))


def _norm(accuracy: Any, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Return norms of vectors and of matrices; None for NumPy's others, which are errors."""
    reduced = np.ndim(x) if axis is None else max(np.size(axis), 1)
    known = (
        (ord is None and (axis is None or reduced <= 2))
        or (reduced == 1 and isinstance(ord, int | float))
        or (reduced == 2 and ord in ("fro", "f", "nuc", 1, -1, 2, -2, np.inf, -np.inf))
    )
    if not (known and _rounds(x, integers=True)):
        return None
    return linalg.norm(x, ord, tuple(axis) if isinstance(axis, list) else axis, keepdims)


_SHARED = {"keepdims", "initial", "where", "ddof", "mean", "correction"}
"""Parameters of reductions that NumPy and this library mean alike."""


def _reduction(reduce: Callable[..., Any], axis: int | None = None) -> Callable[..., Any]:
    """Return a reduction with those of NumPy's parameters that it has; None for others.

    Sums of integers are not rounded, unless in another dtype; what else is made of them is.
    """
    row = REDUCTIONS.get(reduce.__name__)
    parameters = PUBLIC[reduce.__name__].parameters.keys() & _SHARED
    integers = row is not None and row.natural is quotient_dtype

    def reduced(accuracy: Any, x: Any, axis: Any = axis, dtype: Any = None, **options: Any) -> Any:
        options = {
            n: o for n, o in options.items() if o is not np._NoValue and not (n == "where" and o is True)
        }
        if not options.keys() <= parameters or not _rounds(x, dtype=dtype, integers=integers):
            return None
        if np.ndim(x) == 0 and axis in (0, -1):  # as NumPy has it
            axis = None
        if options.get("initial") is not None:  # in the dtype of the sums
            x = np.asarray(x, np.result_type(x, x if dtype is None else dtype))
            options["initial"] = np.asarray(options["initial"]).astype(x.dtype, casting="same_kind")
        warn_of_few(reduce.__name__, x, axis, options)
        if "ddof" not in parameters or dtype is None:
            return signalled(reduce(x, axis, dtype, **options), x)
        result = reduce(x, axis, np.empty(0, dtype).real.dtype, **options)
        return signalled(result, x).astype(dtype)  # real in any dtype

    return reduced


def _power(accuracy: Any, x: Any, exponent: Any, **options: Any) -> Any:
    """Return what NumPy's operator `**` makes of exponents that one rounding computes; None for others."""
    if options or type(exponent) not in (int, float) or exponent not in _POWERS or kinds_of([x]) != {"f"}:
        return None
    return _POWERS[exponent](x)


_POWERS: dict[float, Callable[..., Any]] = {
    1: np.positive,
    2: np.square,
    -1: np.reciprocal,
    0.5: np.sqrt,
}


def _average(
    accuracy: Any, x: Any, axis: Any = None, weights: Any = None, returned: bool = False, **options: Any
) -> Any:
    """Return a weighted mean, on request with the sum of weights; None for weights of other shapes."""
    fits = weights is None or np.shape(weights) == np.shape(x) or axis is not None
    if not (fits and _rounds(x, 1 if weights is None else weights, integers=True)):
        return None
    return statistics.average(x, axis, weights, options.get("keepdims") is True, returned=returned)


def _as_plain(accuracy: Any, *args: Any, **options: Any) -> None:
    """Leave plain arrays to NumPy, which of other classes copies them and warns in words of its own."""


def _trace(accuracy: Any, x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Any:
    return sums.sum(np.diagonal(x, offset, axis1, axis2), -1, dtype) if _rounds(x, dtype=dtype) else None


def _covariances(of: Callable[..., Any]) -> Callable[..., Any]:
    """Return `np.cov` or `np.corrcoef` of real variables."""

    def computed(accuracy: Any, m: Any, y: Any = None, rowvar: bool = True, **options: Any) -> Any:
        biased, ddof = options.pop("bias", False), options.pop("ddof", None)
        given = [np.atleast_1d(x) for x in (m, y) if x is not None]
        weights = {name: options.pop(name, None) for name in ("fweights", "aweights")}
        if any(x is not None for x in options.values()) or not kinds_of(given) <= set("biuf"):
            return None
        divisor = (
            {} if of is covariances.corrcoef else {"ddof": (0 if biased else 1) if ddof is None else ddof}
        )
        return of(*given, rowvar=rowvar, accuracy=accuracy or "fp64", **weights, **divisor).squeeze()[()]

    return computed


def _convolution(of: Callable[..., Any], usual: str) -> Callable[..., Any]:
    """Return `np.convolve` or `np.correlate` of vectors; None for what NumPy makes of numbers and others."""

    def computed(accuracy: Any, a: Any, v: Any, mode: str = usual) -> Any:
        vectors = np.ndim(a) == 1 == np.ndim(v) and 0 not in (np.size(a), np.size(v))
        return of(a, v, mode) if vectors and _rounds(a, v) else None

    return computed


def _linear(solve: Callable[..., Any]) -> Callable[..., Any]:
    return lambda accuracy, *args, **options: solve(*args, **options)


def _qr(accuracy: Any, a: Any, mode: str = "reduced") -> Any:
    """Return orthogonal factors, or R; None for LAPACK's own reflectors."""
    return linalg.qr(a, mode) if mode in ("reduced", "complete", "r") else None


def _elementary(ufunc: np.ufunc, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return an elementary function of the kinds of numbers that it takes, in the dtype that NumPy's has.

    None for others: absolute values of real numbers are exact.
    """
    name = function.__name__
    kinds_taken = {*("biuf" if name in elementary.NAMES else ""), *("c" if name in elementary.PARTS else "")}

    def computed(accuracy: Any, *x: Any, dtype: Any = None, **options: Any) -> Any:
        kinds = kinds_of(x)
        if options or not _rounds(*x, dtype=dtype, integers=ufunc is not np.power) or kinds - kinds_taken:
            return None
        if dtype is None:  # of integers of 8 bits it is float16; a Python number takes the other's
            given = [v if type(v) in (int, float) else np.asanyarray(v).dtype for v in x]
            dtype = np.result_type(*given) if kinds <= {"f", "c"} else _natural(ufunc, x)
        return function(*[np.asanyarray(v).astype(dtype, casting="same_kind", copy=False) for v in x])

    return computed


def _natural(ufunc: np.ufunc, x: Sequence[Any]) -> np.dtype:
    types = [type(v) if type(v) in (int, float) else np.asanyarray(v).dtype for v in x]
    return np.dtype(ufunc.resolve_dtypes((*types, None))[-1])


_ELEMENTARY = {
    ufunc: PUBLIC[name].value
    for name in elementary.ALL
    if isinstance(ufunc := getattr(np, name, None), np.ufunc)
    if ufunc is not np.sqrt  # IEEE 754's: NumPy's is the same
}


_pow = _elementary(np.power, PUBLIC["pow"].value)


def _any_power(accuracy: Any, x: Any, exponent: Any, **options: Any) -> Any:
    """Return a power; of an exponent that NumPy makes one rounding of by that."""
    simple = _power(accuracy, x, exponent, **options)
    return _pow(accuracy, x, exponent, **options) if simple is None else simple


UFUNCS: dict[tuple[Any, str], Callable[..., Any]] = {
    (np.matmul, "__call__"): _matmul,
    (np.vecdot, "__call__"): _vecdot,
    (getattr(np, "matvec", None), "__call__"): _matvec,
    (getattr(np, "vecmat", None), "__call__"): _vecmat,
    **{(ufunc, "__call__"): _elementary(ufunc, function) for ufunc, function in _ELEMENTARY.items()},
    (np.power, "__call__"): _any_power,
    (np.add, "reduce"): _reduction(sums.sum, axis=0),
    (np.add, "accumulate"): _reduction(cumulative.cumsum, axis=0),
}

FUNCTIONS: dict[Any, Callable[..., Any]] = {
    **{getattr(np, name): _reduction(PUBLIC[name].value) for name in REDUCTIONS if hasattr(np, name)},
    np.average: _average,  # as np.dot and np.vdot below, in place of what takes one array
    np.cumsum: _reduction(cumulative.cumsum),
    np.trace: _trace,
    np.nanmin: _as_plain,
    np.nanmax: _as_plain,
    np.cov: _covariances(covariances.cov),
    np.corrcoef: _covariances(covariances.corrcoef),
    np.convolve: _convolution(convolution.convolve, "full"),
    np.correlate: _convolution(convolution.correlate, "valid"),
    np.dot: _dot,
    np.vdot: _vdot,
    np.inner: _inner,
    np.outer: _outer,
    np.tensordot: _tensordot,
    np.einsum: _einsum,
    **{
        getattr(np.linalg, name): _linear(getattr(linalg, name))
        for name in public_names("ozaki.linalg")
        if hasattr(np.linalg, name)
    },
    np.linalg.norm: _norm,
    np.linalg.qr: _qr,  # in place of what takes no modes of LAPACK's
}
