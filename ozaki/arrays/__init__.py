"""NumPy arrays that carry their arithmetic: products and sums of them are this library's.

NumPy asks its arguments how its functions are computed, by `__array_ufunc__` and `__array_function__`. The
tables in `functions` answer, and those in `exact` say which of NumPy's own functions round alike everywhere.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Iterable
from functools import cache, wraps
from types import FrameType
from typing import Any

import numpy as np

from multiword.runtime.arrays import as_array
from ozaki import api
from ozaki.arguments import check_accuracy
from ozaki.arrays.exact import is_exact, stays_exact
from ozaki.arrays.functions import FUNCTIONS, UFUNCS, kinds_of
from ozaki.arrays.signals import check_casts, check_inexact
from ozaki.public import is_sparse, public


def _method(function: Any) -> Callable[..., Any]:
    """Return a method that is NumPy's function, which asks its arguments, as NumPy's own method does not."""
    return wraps(function)(lambda self, *args, **options: function(self, *args, **options))


@public("Arrays that carry their arithmetic")
class array(np.ndarray):
    """An array whose products and sums are this library's, in any program made of NumPy's functions.

    `@`, `np.matmul`, `dot`, `vdot`, `inner`, `tensordot`, `einsum`, `sum`, `mean`, `average`, `var`, `std`,
    their `nan` forms, `cov`, `corrcoef`, `cumsum`, `trace`, `np.linalg.norm`, `solve`, `inv`, `det`,
    `slogdet`, `cholesky`, `qr`, `lstsq`, `eigh`, `eigvalsh`, `svd` and `svdvals` have the bits of `ozaki`'s
    functions. Everything else is NumPy's. Results are such arrays again, single numbers NumPy's.

    Parameters
    ----------
    x : array of numbers, copied.
    accuracy : of products, as in `ozaki.matmul`.
    strict : whether a function whose last bits may depend on the machine, or that would lose this class on
        the way, raises TypeError instead of being NumPy's: `exp`, `prod`, complex division, `np.linalg.eig`.

    Raises
    ------
    TypeError : x is no array of numbers; with strict, see above.
    ValueError : an unknown accuracy; arrays of two accuracies in one call.

    Notes
    -----
    Programs that call `np.asarray` on what they are given lose the class, and compute natively. So does
    `A @ x` of a sparse matrix A, but for a strict vector, which raises TypeError: take `ozaki.matmul(A, x)`,
    or `x @ A.T`.

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
        if self.strict and _asked.by is not None:
            asked, _asked.by = _asked.by, None
            if asked == _caller(sys._getframe(1)) and not kinds_of([self]).isdisjoint("fc"):
                raise TypeError(_refused("numpy.ndarray.dot"))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = (), **options: Any) -> Any:
        like, plain = _like((self, *inputs, *out)), _plain(inputs)
        if ufunc is np.matmul and any(map(is_sparse, inputs)):
            return _carried(api.matmul(*plain, accuracy=like.accuracy), like)
        others = [x for x in (*inputs, *out) if _overrides(type(x), "__array_ufunc__")]
        called = f"np.{ufunc.__name__}" + f".{method}" * (method != "__call__")
        if like.strict and (others or _rounds_twice(sys._getframe(1))):
            raise TypeError(_refused(called))
        if not all(isinstance(x, np.ndarray) for x in others):
            return NotImplemented
        options = {name: _plain(x) for name, x in options.items()}
        ours, into = None if others else UFUNCS.get((ufunc, method)), out[0] if out else None
        result = None
        reduces = method != "__call__"
        casting = options.get("casting", "unsafe" if reduces else "same_kind")
        if ours is not None:
            check_casts(ufunc, method, plain, into, options)
            taken = {name: x for name, x in options.items() if name != "casting"}
            result = ours(like.accuracy, *plain, **(_in_dtype_of(into, taken) if reduces else taken))
        if result is not None:
            if into is not None and into.shape != np.shape(result):  # which NumPy refuses, or stacks
                getattr(ufunc, method)(*plain, out=np.empty_like(_plain(into)), **options)
                result = np.broadcast_to(result, into.shape)
            return _delivered(result, into, like, casting)
        if like.strict and not is_exact(ufunc, method, plain, options.get("dtype")):
            raise TypeError(_refused(called))
        if out:
            options["out"] = _plain(out)
        result = getattr(ufunc, method)(*plain, **options)
        if not out:
            return _carried(result, like)
        return out[0] if len(out) == 1 else tuple(map(_first_of, out, _carried(result, like)))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        like, ours = _like((self, *args, *kwargs.values())), FUNCTIONS.get(function)
        others = any(_overrides(kind, "__array_function__") for kind in types)
        called = f"{function.__module__}.{function.__name__}"
        if like.strict and sys._getframe(1).f_code.co_name == "_matmul_dispatch":  # of SciPy's
            raise TypeError(_refused("scipy.sparse.matmul"))
        refused = like.strict and not stays_exact(function, args)
        if (others and like.strict) or (refused and ours is None):
            raise TypeError(_refused(called))
        if others:
            return NotImplemented
        if ours is None:
            result = super().__array_function__(function, types, args, kwargs)
            given = any(result is x for x in _by_name(function, args, kwargs)[1].values())
            return result if given else _carried(result, like)
        args, options = _by_name(function, args, kwargs)
        out = options.pop("out", None)
        in_array = out is Ellipsis  # which asks for an array where NumPy returns a scalar
        out = None if in_array else _writeable(out)
        plain = _plain([_array_beside(x) for x in args])
        options = {name: _plain(_array_beside(x)) for name, x in options.items()}
        reduces = "dtype" in _parameters(function)
        if reduces:
            check_inexact(function, plain, out)
            options = _in_dtype_of(out, options)
        result = ours(like.accuracy, *plain, **options)
        if result is None:
            result = function(*plain, **options)
            if refused and (isinstance(result, tuple) or not kinds_of([result]).isdisjoint("fcgO")):
                raise TypeError(_refused(called))
        casting = options.get("casting", "unsafe" if reduces else "same_kind")
        return _delivered(np.asarray(result) if in_array else result, out, like, casting)

    @property
    def __array_priority__(self) -> float:
        _asked.by = _caller(sys._getframe(1)) if self.strict else None
        return 1e6 if self.strict else 0.0  # so SciPy's sparse matrices leave their product to a strict array

    def __mul__(self, other: Any) -> Any:  # of an `np.matrix` it is a product of matrices
        return NotImplemented if isinstance(other, np.matrix) else super().__mul__(other)

    dot, mean, std, trace, var = map(_method, (np.dot, np.mean, np.std, np.trace, np.var))

    def round(self, *args: Any, **options: Any) -> Any:
        return _carried(super().round(*args, **options), self)

    def __reduce__(self) -> Any:
        reduced: Any = super().__reduce__()
        make, args, state = reduced
        return make, args, (state, self.accuracy, self.strict)

    def __setstate__(self, state: Any) -> None:
        own, self.accuracy, self.strict = state
        super().__setstate__(own)

    def __repr__(self) -> str:
        return np.array_repr(_plain(self)) if type(self) is array else super().__repr__()


array.__name__ = "ozaki.array"  # `reprlib` takes any class of the name array for that of the module array


class _Asked(threading.local):
    """The instruction that has just asked a strict array for its priority, in this thread."""

    by: tuple[int, int] | None = None


_asked = _Asked()
"""`ndarray.dot` asks neither protocol. Of two classes it asks for the priorities, makes an array of the class
with the higher, and fills that with BLAS's bits: the same instruction then finalizes an array."""


def _caller(frame: FrameType) -> tuple[int, int] | None:
    """Return the instruction that a frame is at; None in this module, which calls other functions."""
    return None if frame.f_code.co_filename == __file__ else (id(frame), frame.f_lasti)


def _rounds_twice(frame: FrameType) -> bool:
    """Return whether a ufunc is called by a method of plain arrays that rounds before it writes to `out`."""
    return frame.f_code.co_name in ("_mean", "_var", "_std") and frame.f_globals["__name__"] == _METHODS


_METHODS = "numpy._core._methods"

_INSTEAD = {
    "power": "products, x * x * x",
    "dot": "x @ y",
    "scipy.sparse.matmul": "ozaki.matmul(A, x)",
    "add.reduceat": "ozaki.group_sum",
    "add.at": "ozaki.group_sum",
    "bincount": "ozaki.group_sum",
    "convolve": "ozaki.dot of np.lib.stride_tricks.sliding_window_view(x, n)",
    "correlate": "ozaki.dot of np.lib.stride_tricks.sliding_window_view(x, n)",
}
"""What has the same bits on every machine, by the name of what is refused."""


def _refused(called: str) -> str:
    """Return what is said of a function that a strict array refuses."""
    instead = _INSTEAD.get(called.removeprefix("np.").rpartition("numpy.")[2].removeprefix("ndarray."))
    advice = f"take {instead}, or " if instead else ""
    return (
        f"{called}, with these arguments, has no bits that are the same on every machine, which a strict "
        f"ozaki.array promises; {advice}call it on np.asarray(x) if that is what you want"
    )


def _like(arguments: Iterable[Any]) -> array:
    """Return an array of the accuracy and the subclass that these arguments agree on, strict if one is."""
    ours = list(_ours(arguments))
    chosen = {x.accuracy for x in ours} - {None}
    if len(chosen) > 1:
        raise ValueError(f"arrays of two accuracies, {' and '.join(sorted(map(repr, chosen)))}")
    first = max(ours, key=lambda x: len(type(x).__mro__))
    return _as(first, np.empty(0), next(iter(chosen), None), any(x.strict for x in ours))


def _as(like: array, x: np.ndarray, accuracy: str | int | None, strict: bool) -> Any:
    """Return a view of an array as one of the class of another, with these settings."""
    result = x.view(type(like))
    result.__array_finalize__(like)
    result.accuracy, result.strict = accuracy, strict
    return result


def _overrides(kind: type, protocol: str) -> bool:
    """Return whether a class has a protocol of its own, neither NumPy's nor ours, and is to be asked."""
    inherited = None, getattr(np.ndarray, protocol)
    return getattr(kind, protocol, None) not in inherited and not issubclass(kind, array)


def _ours(arguments: Iterable[Any]) -> Iterable[array]:
    for x in arguments:
        if isinstance(x, array):
            yield x
        elif isinstance(x, list | tuple):
            yield from _ours(x)


def _array_beside(x: Any) -> Any:
    """Return tables of pandas and xarray, and ranges, as NumPy takes them beside an array."""
    if isinstance(x, range) or type(x).__module__.partition(".")[0] in ("pandas", "xarray"):
        return np.asarray(x)
    return x


def _writeable(out: Any) -> Any:
    if out is not None and not isinstance(out, np.ndarray):
        raise TypeError(f"out must be None or an array, got {type(out).__name__}")
    return out


def _plain(x: Any) -> Any:
    """Return NumPy's own arrays for ours, in lists and tuples, too."""
    if isinstance(x, list | tuple):
        return type(x)(map(_plain, x)) if type(x) in (list, tuple) else x
    return x.view(np.ndarray) if isinstance(x, array) else x


def _carried(result: Any, like: array) -> Any:
    """Return a result with its arrays of numbers as arrays like this one; other subclasses stay."""
    if isinstance(result, list | tuple):
        carried = (_carried(x, like) for x in result)
        return type(result)(*carried) if hasattr(result, "_fields") else type(result)(carried)
    if (type(result) is np.ndarray or isinstance(result, array)) and kinds_of([result]) <= set("biufcg"):
        return _as(like, result, like.accuracy, like.strict)  # a new one: it may be an argument
    return result


def _first_of(out: Any, result: Any) -> Any:
    return result if out is None else out


def _in_dtype_of(out: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a reduction, which rounds to the dtype of `out` if they name no other."""
    if out is None or options.get("dtype") is not None or kinds_of([out]).isdisjoint("fc"):
        return options
    return {**options, "dtype": out.dtype}


def _delivered(result: Any, out: Any, like: array, casting: Any) -> Any:
    """Return `out`, if it is given, filled with a result; NumPy's reductions cast to any dtype, "unsafe"."""
    if out is None:
        return _carried(result, like)
    if out.shape != np.shape(result):
        raise ValueError(f"out must have the shape of the result, {np.shape(result)}, got {out.shape}")
    np.copyto(_plain(out), result, casting=casting)
    return out


@cache
def _parameters(function: Any) -> list[str]:
    """Return the names of a function's parameters that are not given by name alone."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # in C, with older NumPys
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _by_name(function: Any, args: tuple[Any, ...], kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call, `dtype`, `out` and those after them by name."""
    names = _parameters(function)[: len(args)]
    first = next((i for i, name in enumerate(names) if name in ("dtype", "out")), len(args))
    return args[:first], {**dict(zip(names[first:], args[first:], strict=True)), **kwargs}
