"""NumPy arrays that carry their arithmetic: products and sums of them are this library's.

NumPy asks its arguments how its functions are computed, by `__array_ufunc__` and `__array_function__`. Two
tables answer: ufuncs with their methods, and functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from multiword.runtime.arrays import as_array
from ozaki import api, contractions
from ozaki.arguments import check_accuracy
from ozaki.sums import api as sums
from ozaki.sums import cumulative, statistics


class array(np.ndarray):
    """An array whose products and sums, in any program that NumPy's functions make up, are this library's.

    `@`, `np.matmul`, `dot`, `vdot`, `inner`, `tensordot`, `einsum`, `sum`, `mean`,
    `var`, `std`, their `nan` forms, `cumsum` and `np.linalg.norm` have the bits of `ozaki`'s functions.
    Everything else is NumPy's. Results are such arrays again.

    Parameters
    ----------
    x : array of numbers, copied.
    accuracy : of products, as in `ozaki.matmul`.
    strict : whether a function whose last bits may depend on the machine, or that would lose this class on
        the way, raises TypeError instead of being NumPy's: `exp`, `prod`, complex division, `np.linalg.inv`.

    Raises
    ------
    TypeError : x is no array of numbers; with strict, see above.
    ValueError : an unknown accuracy; arrays of two accuracies in one call.

    Notes
    -----
    Programs that call `np.asarray` on what they are given lose the class, and compute natively.

    Examples
    --------
    >>> import numpy as np, ozaki
    >>> x = ozaki.array([[1e16, 1.0, -1e16]])
    >>> x.sum(), np.mean(x, axis=1), x @ np.ones(3)
    (np.float64(1.0), array([0.33333333]), array([1.]))
    """

    accuracy: str | int | None
    strict: bool

    def __new__(cls, x: Any, accuracy: str | int | None = None, strict: bool = False) -> array:
        if accuracy is not None:
            check_accuracy(accuracy)
        result = np.array(as_array(x, "x")).view(cls)
        result.accuracy, result.strict = accuracy, strict
        return result

    def __array_finalize__(self, origin: Any) -> None:
        self.accuracy, self.strict = getattr(origin, "accuracy", None), getattr(origin, "strict", False)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = (), **options: Any) -> Any:
        like = _like((*inputs, *out))
        plain = [_plain(x) for x in inputs]
        options = {name: _plain(x) for name, x in options.items()}
        ours = _UFUNCS.get((ufunc, method))
        result = None if ours is None else ours(like.accuracy, *plain, **options)
        if result is not None:
            return _delivered(result, out, like)
        if like.strict and not _is_exact(ufunc, method, plain):
            raise TypeError(_REFUSED.format(f"np.{ufunc.__name__}" + f".{method}" * (method != "__call__")))
        if out:
            options["out"] = tuple(map(_plain, out))
        result = getattr(ufunc, method)(*plain, **options)
        return out[0] if len(out) == 1 else _carried(result, like)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if not all(issubclass(kind, np.ndarray) for kind in types):
            return NotImplemented
        like = _like((*args, *kwargs.values()))
        if (ours := _FUNCTIONS.get(function)) is not None:
            out = kwargs.get("out")
            options = {name: _plain(x) for name, x in kwargs.items() if name != "out"}
            result = ours(like.accuracy, *map(_plain, args), **options)
            if result is not None:
                return _delivered(result, () if out is None else (out,), like)
        if like.strict and function.__name__ not in _EXACT_FUNCTIONS:
            raise TypeError(_REFUSED.format(f"{function.__module__}.{function.__name__}"))
        return _carried(super().__array_function__(function, types, args, kwargs), like)

    def mean(self, *args: Any, **options: Any) -> Any:
        return np.mean(self, *args, **options)

    def var(self, *args: Any, **options: Any) -> Any:
        return np.var(self, *args, **options)

    def std(self, *args: Any, **options: Any) -> Any:
        return np.std(self, *args, **options)

    def dot(self, b: Any, out: Any = None) -> Any:
        return np.dot(self, b, out=out)

    def trace(self, *args: Any, **options: Any) -> Any:
        return np.trace(self, *args, **options)

    def __reduce__(self) -> Any:
        reduced: Any = super().__reduce__()
        make, args, state = reduced
        return make, args, (state, self.accuracy, self.strict)

    def __setstate__(self, state: Any) -> None:
        own, self.accuracy, self.strict = state
        super().__setstate__(own)


_REFUSED = (
    "{}, with these arguments, has no bits that are the same on every machine, which a strict ozaki.array "
    "promises; call it on np.asarray(x) if that is what you want"
)


def _like(arguments: Iterable[Any]) -> array:
    """Return an array with the accuracy that these arguments agree on, strict if one of them is."""
    ours = list(_ours(arguments))
    chosen = {x.accuracy for x in ours} - {None}
    if len(chosen) > 1:
        raise ValueError(f"arrays of two accuracies, {' and '.join(sorted(map(repr, chosen)))}")
    result = np.empty(0).view(array)
    result.accuracy, result.strict = next(iter(chosen), None), any(x.strict for x in ours)
    return result


def _ours(arguments: Iterable[Any]) -> Iterable[array]:
    for x in arguments:
        if isinstance(x, array):
            yield x
        elif isinstance(x, list | tuple):
            yield from _ours(x)


def _plain(x: Any) -> Any:
    """Return NumPy's own arrays for ours, in lists and tuples, too."""
    if isinstance(x, list | tuple):
        return type(x)(map(_plain, x)) if type(x) in (list, tuple) else x
    return x.view(np.ndarray) if isinstance(x, array) else x


def _carried(result: Any, like: array) -> Any:
    """Return a result with its arrays of floating-point numbers as arrays like this one."""
    if type(result) in (list, tuple):
        return type(result)(_carried(x, like) for x in result)
    if isinstance(result, np.ndarray) and result.dtype.kind in "fc":
        result = result if isinstance(result, array) else result.view(array)
        result.accuracy, result.strict = like.accuracy, like.strict
    return result


def _delivered(result: Any, out: Sequence[Any], like: array) -> Any:
    """Return `out`, if it is given, filled with a result."""
    if not out:
        return _carried(result, like)
    np.copyto(_plain(out[0]), result, casting="same_kind")
    return out[0]


def _kinds(operands: Iterable[Any]) -> set[str]:
    return {np.asarray(x).dtype.kind for x in operands}


def _inexact(*operands: Any) -> bool:
    """Return whether NumPy would round: its integers are exact anyway."""
    return not _kinds(operands).isdisjoint("fc")


def _matmul(accuracy: Any, a: Any, b: Any, **options: Any) -> Any:
    if options or not _inexact(a, b):
        return None
    return api.matmul(a, b, accuracy=accuracy)


def _vecdot(accuracy: Any, x: Any, y: Any, **options: Any) -> Any:
    result = _matmul(accuracy, np.conj(x)[..., None, :], y[..., :, None], **options)
    return None if result is None else result[..., 0, 0]


def _matvec(accuracy: Any, a: Any, x: Any, **options: Any) -> Any:
    result = _matmul(accuracy, a, x[..., None], **options)
    return None if result is None else result[..., 0]


def _vecmat(accuracy: Any, x: Any, a: Any, **options: Any) -> Any:
    result = _matmul(accuracy, np.conj(x)[..., None, :], a, **options)
    return None if result is None else result[..., 0, :]


def _einsum(accuracy: Any, subscripts: Any, *operands: Any, optimize: Any = False, **options: Any) -> Any:
    """Return what `np.einsum` does of tensors named by a string; None for its other forms."""
    if options or not (
        isinstance(subscripts, str) and isinstance(optimize, str | bool) and _inexact(*operands)
    ):
        return None
    return contractions.einsum(subscripts, *operands, accuracy=accuracy, optimize=optimize)


def _tensordot(accuracy: Any, a: Any, b: Any, axes: Any = 2) -> Any:
    return contractions.tensordot(a, b, axes, accuracy=accuracy) if _inexact(a, b) else None


def _dot(accuracy: Any, a: Any, b: Any) -> Any:
    """Sum over the last axis of a and the last but one of b."""
    if not np.ndim(a) or not np.ndim(b):
        return np.multiply(a, b)
    return _tensordot(accuracy, a, b, (-1, -min(np.ndim(b), 2)))


def _inner(accuracy: Any, a: Any, b: Any) -> Any:
    return _tensordot(accuracy, a, b, (-1, -1)) if np.ndim(a) and np.ndim(b) else np.multiply(a, b)


def _vdot(accuracy: Any, a: Any, b: Any) -> Any:
    return _matmul(accuracy, np.conj(a).ravel(), np.ravel(b))


def _norm(accuracy: Any, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Return Euclidean norms of vectors and Frobenius norms of matrices; None for NumPy's others."""
    vectors = np.ndim(x) == 1 if axis is None else np.ndim(axis) == 0
    if not (ord is None or (ord == 2 and vectors) or (ord == "fro" and not vectors)):
        return None
    return sums.norm(x, axis=axis, keepdims=keepdims) if _inexact(x) else None


def _reduction(reduce: Callable[..., Any], axis: int | None = None) -> Callable[..., Any]:
    """Return a reduction as the tables want it; integers, and options that NumPy alone has, are NumPy's."""

    def reduced(accuracy: Any, x: Any, axis: Any = axis, dtype: Any = None, **options: Any) -> Any:
        default = {"where": True, "initial": np._NoValue, "keepdims": np._NoValue}
        options = {name: x for name, x in options.items() if x is not default.get(name, np._NoValue)}
        if not _inexact(x) or not options.keys() <= {"keepdims", "ddof"}:
            return None
        return reduce(x, axis, dtype, **options)

    return reduced


def _trace(accuracy: Any, x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Any:
    return sums.sum(np.diagonal(x, offset, axis1, axis2), -1, dtype) if _inexact(x) else None


_UFUNCS: dict[tuple[Any, str], Callable[..., Any]] = {
    (np.matmul, "__call__"): _matmul,
    (np.vecdot, "__call__"): _vecdot,
    (getattr(np, "matvec", None), "__call__"): _matvec,
    (getattr(np, "vecmat", None), "__call__"): _vecmat,
    (np.add, "reduce"): _reduction(sums.sum, axis=0),
    (np.add, "accumulate"): _reduction(cumulative.cumsum, axis=0),
}

_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.sum: _reduction(sums.sum),
    np.mean: _reduction(sums.mean),
    np.var: _reduction(statistics.var),
    np.std: _reduction(statistics.std),
    np.nansum: _reduction(statistics.nansum),
    np.nanmean: _reduction(statistics.nanmean),
    np.nanvar: _reduction(statistics.nanvar),
    np.nanstd: _reduction(statistics.nanstd),
    np.cumsum: _reduction(cumulative.cumsum),
    np.trace: _trace,
    np.dot: _dot,
    np.vdot: _vdot,
    np.inner: _inner,
    np.tensordot: _tensordot,
    np.einsum: _einsum,
    np.linalg.norm: _norm,
}


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ROUNDED_ONCE = _names("""
absolute add ceil clip conjugate copysign divide equal fabs floor fmax fmin frexp greater greater_equal
heaviside isfinite isinf isnan ldexp less less_equal logical_and logical_not logical_or logical_xor maximum
minimum modf multiply negative nextafter not_equal positive reciprocal rint sign signbit spacing sqrt square
subtract trunc
""")
"""Ufuncs whose results IEEE 754 defines for real numbers, in every bit."""

_NOT_OF_COMPLEX = _names("multiply divide sqrt square reciprocal absolute")
"""Those that are more than one operation for complex numbers."""

_ORDERLESS = _names("maximum minimum fmax fmin logical_and logical_or logical_xor")
"""Ufuncs that reduce an array to the same bits in every order."""


def _is_exact(ufunc: Any, method: str, inputs: Sequence[Any]) -> bool:
    """Return whether NumPy's ufunc has the same bits on every machine."""
    elementwise = method in ("__call__", "outer", "at")
    kinds = _kinds(inputs if method != "at" and elementwise else inputs[:1])
    if kinds.isdisjoint("fc"):
        return True
    allowed = _ROUNDED_ONCE - _NOT_OF_COMPLEX if "c" in kinds else _ROUNDED_ONCE
    return ufunc.__name__ in (allowed if elementwise else _ORDERLESS)


_EXACT_FUNCTIONS = _names("""
all allclose amax amin any append argmax argmin argpartition argsort argwhere around array2string
array_equal array_equiv array_repr array_split array_str atleast_1d atleast_2d atleast_3d average block
broadcast_arrays broadcast_to can_cast choose clip column_stack common_type compress concatenate copy copyto
count_nonzero delete diag diag_indices_from diagflat diagonal diff dsplit dstack ediff1d empty_like
expand_dims extract fill_diagonal fix flatnonzero flip fliplr flipud full_like hsplit hstack imag insert
isclose iscomplex iscomplexobj isin isneginf isposinf isreal isrealobj lexsort matrix_transpose max
may_share_memory median meshgrid min min_scalar_type moveaxis nan_to_num nanargmax nanargmin nanmax nanmin
ndim nonzero ones_like partition place ptp put put_along_axis putmask ravel real repeat reshape
resize result_type roll rollaxis rot90 round save savetxt searchsorted select shape shares_memory size sort
split squeeze stack swapaxes take take_along_axis tile transpose tril tril_indices_from trim_zeros triu
triu_indices_from unique unstack vsplit vstack where zeros_like
""")
"""NumPy's functions that move, choose and compare numbers, or round each once."""
