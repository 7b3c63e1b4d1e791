"""The two kinds of array, NumPy's and CuPy's, and nothing else.

CuPy is never imported unless a CuPy array, or a request for the GPU, has come in.
"""

from __future__ import annotations

import sys
from array import array as buffer_array
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, lru_cache, wraps
from numbers import Number
from types import ModuleType
from typing import Any, TypeVar, cast

import numpy as np
import numpy.ma  # NumPy would import it at first use: a fork meanwhile leaves the child with its lock

from multiword.runtime import floats
from multiword.runtime.install import missing

F = TypeVar("F", bound=Callable[..., Any])

Array = Any
"""A `numpy.ndarray` or a `cupy.ndarray`; CuPy is optional, so no checker can be told more."""


def is_cupy(x: object) -> bool:
    """Return whether `x` is a CuPy array, without importing CuPy.

    >>> is_cupy(np.ones(3))
    False
    """
    type_of_x = type(x)
    if type_of_x is np.ndarray or type_of_x is _cupys:  # most often
        return type_of_x is _cupys
    return _is_cupy_or_like_it(x)


_cupys: type | None = None
"""`cupy.ndarray`, once an array of it has been seen."""


def _is_cupy_or_like_it(x: object) -> bool:
    global _cupys
    kind = getattr(sys.modules.get("cupy"), "ndarray", None)  # None while another thread imports it
    if kind is None or not isinstance(x, kind):
        return False
    if type(x) is kind:
        _cupys = kind
    return True


def namespace(x: Array) -> ModuleType:
    """Return `numpy` or `cupy`, whichever owns `x`."""
    if type(x) is np.ndarray:
        return np
    return sys.modules["cupy"] if is_cupy(x) else np


def import_cupy() -> ModuleType:
    """Return `cupy`, or raise ImportError that says which extra brings it."""
    try:
        import cupy
    except ImportError as error:
        raise missing("this needs a GPU and CuPy, and CuPy is not installed", "cuda13") from error
    return cupy


def as_array(x: Any, name: str) -> Array:
    """Return an argument of a public function as an array.

    NumPy and CuPy arrays pass, in the machine's byte order; nested sequences, memory views and scalars become
    NumPy arrays. Nothing is moved between devices, and nothing is stripped of what it means.

    Raises TypeError, naming the argument and what to do, for arrays of other libraries, for masked elements,
    and for what is not numeric or wider than float64.

    >>> as_array([1, 2], "x")
    array([1, 2])
    """
    if type(x) is np.ndarray and x.dtype in _PLAIN:  # most often
        return x
    array = x if is_cupy(x) else _numpy_array(x, name)
    dtype = array.dtype
    if dtype.kind not in "biufc" and dtype.name != "bfloat16":
        raise TypeError(
            f"{name} must be a numeric array, got dtype {dtype}; convert it first: np.asarray({name}, float)"
        )
    if dtype.itemsize > (16 if dtype.kind == "c" else 8):
        raise TypeError(
            f"{name} is of dtype {dtype}, longdouble's, which float64 does not hold: round it first, as in "
            f"{name}.astype({'complex' if dtype.kind == 'c' else 'float'})"
        )
    return array if dtype.isnative else array.astype(dtype.newbyteorder("="))


_PLAIN = frozenset(map(np.dtype, "?bBhHiIlLqQefdFD"))
"""The dtypes of numbers, as this machine has them."""


def _numpy_array(x: Any, name: str) -> np.ndarray:
    if type(x) is np.ndarray:
        return x
    if isinstance(x, np.ma.MaskedArray) and np.ma.is_masked(x):
        raise TypeError(
            f"{name} has masked elements, which would be treated as data; call {name}.filled(value) first"
        )
    if isinstance(x, list | tuple):
        return _from_sequence(x, name)
    if isinstance(x, np.ndarray | np.generic | Number | memoryview | buffer_array):
        return np.asarray(x)
    kind = type(x)
    known = (remedy for told_by, remedy in _REMEDIES if told_by(x))
    if (remedy := next(known, None)) is not None:
        called = name if name.isidentifier() else "x"  # "operand 0" is no expression
        raise TypeError(f"{name} is a {kind.__module__}.{kind.__qualname__}: {remedy.format(called)}")
    raise TypeError(f"{name} must be an array of numbers, got {'None' if x is None else kind.__name__}")


def _from_sequence(x: list | tuple, name: str) -> np.ndarray:
    """Return nested sequences as an array.

    TypeError for elements that would be refused alone, and for integers that NumPy would round because there
    are other numbers among them.
    """
    integers = list(_wide_integers(x, name))
    try:
        array = np.asarray(x)
    except ValueError as error:
        raise ValueError(f"{name} must be sequences of equal lengths: {error}") from None
    if array.dtype.kind in "fc" and any(abs(n) > 2**53 and int(float(n)) != n for n in integers):
        raise TypeError(
            f"{name} has an integer among other numbers that {array.dtype} cannot hold exactly; "
            f"np.asarray({name}, float) rounds it, if that is what you want"
        )
    return array


def _wide_integers(x: Any, name: str) -> Iterator[int]:
    """Yield the elements of nested sequences that may be integers of more than 53 bits; check all others."""
    kinds = set(map(type, x))
    if kinds <= {int, float, complex, bool}:
        yield from (n for n in x if type(n) is int) if int in kinds else ()
        return
    for i, element in enumerate(x):
        if isinstance(element, list | tuple):
            yield from _wide_integers(element, f"{name}[{i}]")
        elif isinstance(element, int):
            yield element
        elif (array := _numpy_array(element, f"{name}[{i}]")).dtype.kind in "iu" and array.itemsize == 8:
            yield from array.ravel().tolist()


def _of(package: str) -> Callable[[Any], bool]:
    return lambda x: type(x).__module__.partition(".")[0] == package


def _has(attribute: str) -> Callable[[Any], bool]:
    return lambda x: hasattr(x, attribute)


_REMEDIES: tuple[tuple[Callable[[Any], bool], str], ...] = (
    (_of("polars"), "pass {0}.to_numpy()"),
    (_of("pyarrow"), "pass {0}.to_numpy()"),
    (_has("to_dask_array"), "it is lazy; pass {0}.to_dask_array(lengths=True) to ozaki.dask's functions"),
    (_has("codes"), "it is categorical; pass {0}.codes for its groups"),
    (_has("cat"), "it is categorical; pass {0}.cat.codes.to_numpy() for its groups"),
    # Before the next, which xarray's arrays have, too.
    (
        _has("to_numpy"),
        "its labels would be lost; pass {0}.to_numpy(), or to xarray {0}.reduce(function, dim)",
    ),
    (_has("__dask_graph__"), "it is lazy; call {0}.compute() first"),
    (_has("toarray"), "it is sparse; call {0}.toarray() first"),
    (
        _has("__dlpack__"),
        "pass np.from_dlpack({0}) or cupy.from_dlpack({0}), and the result to its own from_dlpack; "
        "neither copies",
    ),
    (_has("__array__"), "pass np.asarray({0})"),
)
"""What to do with arrays of other libraries, and what tells them."""


def check_same_device(**arrays: Array | None) -> ModuleType:
    """Return the namespace that all the named arrays share.

    Raises TypeError if NumPy and CuPy arrays are mixed and ValueError if CuPy arrays lie on
    different devices: nothing is ever copied between them unasked.
    """
    if "cupy" not in sys.modules:
        return np
    devices = {name: x.data.device_id if is_cupy(x) else None for name, x in arrays.items() if x is not None}
    first, *others = devices.values()
    if all(device == first for device in others):
        return np if first is None else import_cupy()
    if None in devices.values():
        kinds = (f"{name} is {'NumPy' if device is None else 'CuPy'}" for name, device in devices.items())
        raise TypeError(
            f"arrays must be all NumPy or all CuPy, but {', '.join(kinds)}; move one of them yourself"
        )
    raise ValueError(f"arrays must be on one device, but they are on {devices}")


def check_out(out: Any, like: Array, shape: tuple[int, ...], dtype: Any = None, name: str = "out") -> None:
    """Check an array that a result is to be written to: the policy for `out` of every public function.

    It is a NumPy or CuPy array like the operands, on their device, not masked, of the result's shape,
    writeable, and of this dtype, in any byte order; of any dtype if there is none.

    Raises TypeError for another kind of array or dtype, ValueError for another device or shape, and for what
    cannot be written to element by element.

    >>> check_out(np.empty(3), np.ones(2), (2,), float)
    Traceback (most recent call last):
    ...
    ValueError: out must be float64 of shape (2,), got float64 of shape (3,)
    """
    if not (is_cupy(out) or isinstance(out, np.ndarray)):
        raise TypeError(f"{name} must be a NumPy or CuPy array, got {type(out).__name__}")
    if isinstance(out, np.ma.MaskedArray):
        raise TypeError(f"{name} must not be a masked array: its mask would not be written")
    check_same_device(**{"the operands": like, name: out})
    dtype = out.dtype if dtype is None else np.dtype(dtype)
    if not np.can_cast(dtype, out.dtype, "equiv"):
        raise TypeError(f"{name} must be {dtype} of shape {shape}, got {out.dtype} of shape {out.shape}")
    if out.shape != shape:
        raise ValueError(f"{name} must be {dtype} of shape {shape}, got {out.dtype} of shape {out.shape}")
    if not (is_cupy(out) or out.flags.writeable):
        raise ValueError(f"{name} must be writeable, got a read-only array")
    if _overlaps_itself(out):
        raise ValueError(
            f"{name} must have memory for each element, got one that is broadcast or overlaps itself"
        )


def _overlaps_itself(x: Array) -> bool:
    """Return whether elements share memory, or axes are interleaved, so that they might."""
    reach = x.itemsize if x.size else 0
    for step, n in sorted((abs(step), n) for step, n in zip(x.strides, x.shape, strict=True) if n > 1):
        if step < reach:
            return True
        reach += step * (n - 1)
    return False


def on_host(x: Array) -> np.ndarray:
    """Return a NumPy array of these numbers: a CuPy array's are copied, and waited for."""
    return x.get() if is_cupy(x) else x


def where_lies(like: Array, x: Any, dtype: Any = None) -> Array:
    """Return numbers, of the host or there already, where an array lies, bit for bit.

    CuPy fills arrays of no axes, and takes a zero of either sign for +0 (`ndarray.fill`).

    >>> where_lies(np.ones(3), -0.0, np.float32)
    array(-0., dtype=float32)
    """
    if is_cupy(x):
        return x
    x = np.asarray(x, dtype)
    return namespace(like).asarray(x.reshape(-1)).reshape(x.shape)


def device_of(x: Array) -> AbstractContextManager[Any]:
    """Return a context in which the device of a CuPy array is the current one; nothing for anything else."""
    return _device_of_cupy(x) if is_cupy(x) else _NO_CONTEXT


def in_place_of(x: Array) -> AbstractContextManager[Any]:
    """Return a context to compute in: on the device of a CuPy array; in the default floating-point mode."""
    if is_cupy(x):
        return _device_of_cupy(x)
    return _NO_CONTEXT if floats.is_default() else floats.default_mode()


def quietly(x: Array) -> AbstractContextManager[Any]:
    """Return the context `in_place_of` x, on a CPU without NumPy's warnings of what overflows.

    >>> with quietly(np.ones(1)):
    ...     np.ones(1) / 0
    array([inf])
    """
    if is_cupy(x):
        return _device_of_cupy(x)
    return np.errstate(all="ignore") if floats.is_default() else _in_default_mode()


@contextmanager
def _in_default_mode() -> Iterator[None]:
    with floats.default_mode(), np.errstate(all="ignore"):
        yield


_NO_CONTEXT: AbstractContextManager[None] = nullcontext()


def _device_of_cupy(x: Array) -> AbstractContextManager[Any]:
    here = sys.modules["cupy"].cuda.runtime.getDevice() == x.data.device_id  # a fifth of the context's time
    return _NO_CONTEXT if here else x.device


def on_device_of_arrays(function: F) -> F:
    """Make a function work on the device of its first CuPy argument (in a list, of its first element), and
    in the default floating-point mode.

    Kernels reach only the memory of the device that is the current one when they are launched.

    >>> on_device_of_arrays(np.negative)(np.ones(2))
    array([-1., -1.])
    """

    @wraps(function)
    def elsewhere(*arguments: Any, **options: Any) -> Any:
        if not floats.is_default():
            with floats.default_mode():
                return elsewhere(*arguments, **options)
        if "cupy" not in sys.modules:
            return function(*arguments, **options)
        first = (x[0] if isinstance(x, list | tuple) and x else x for x in (*arguments, *options.values()))
        with device_of(next(filter(is_cupy, first), None)):
            return function(*arguments, **options)

    return cast(F, elsewhere)


def overlap(x: Array, y: Array) -> bool:
    """Return whether two CuPy arrays, neither empty, may share memory: whether what they span meets."""
    (low, high), (first, last) = span(x), span(y)
    return bool(x.data.ptr + low < y.data.ptr + last and y.data.ptr + first < x.data.ptr + high)


def span(x: Array) -> tuple[int, int]:
    """Return where the bytes of an array that is not empty begin and end, counted from its first element.

    >>> span(np.ones((3, 2))[::-1])
    (-32, 16)
    """
    return _span(x.shape, x.strides, x.itemsize)


@lru_cache(1024)
def _span(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    reaches = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    return sum(r for r in reaches if r < 0), sum(r for r in reaches if r > 0) + itemsize


def real_parts(x: Array) -> list[Array]:
    """Return the real and the imaginary part of a complex array, as views; a real array alone.

    >>> real_parts(np.array([1 + 2j]))
    [array([1.]), array([2.])]
    """
    return [x.real, x.imag] if x.dtype.kind == "c" else [x]


def backwards(x: Array, axis: int) -> Array:
    """Return CuPy's x, to be reduced along an axis, from the last to the first; any other as it is.

    Of contiguous memory CuPy reduces an axis by a library whose headers take two seconds to compile, once.
    """
    return namespace(x).flip(x, axis) if is_cupy(x) else x


def to_float64(x: Array) -> Array:
    """Return real `x` as float64, exactly; itself if it is. CuPy alone would flush subnormals to zero."""
    if is_cupy(x) and x.dtype.name == "bfloat16":
        x = (x.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    if is_cupy(x) and x.dtype == np.float32:
        return _conversion("float32", "float64", "cvt.f64.f32", "d", "f")(x)
    return x.astype(np.float64, copy=False)


def to_float32(x: Array) -> Array:
    """Return `x`, of float64, rounded to float32, subnormals included."""
    if is_cupy(x):
        return _conversion("float64", "float32", "cvt.rn.f32.f64", "f", "d")(x)
    with np.errstate(all="ignore"):
        return x.astype(np.float32)


def converted(x: Array, dtype: Any) -> Array:
    """Return `x` in another dtype, real or complex, rounded where it must be; on a GPU with its subnormals.

    >>> converted(np.array([1, 2]), np.complex64)
    array([1.+0.j, 2.+0.j], dtype=complex64)
    """
    dtype = np.dtype(dtype)
    if not is_cupy(x) or x.dtype == dtype or x.dtype.kind in "iub":
        return x.astype(dtype, copy=False)
    out = namespace(x).zeros(x.shape, dtype)
    for target, part in zip(real_parts(out), real_parts(x), strict=False):
        wide = to_float64(part)
        target[...] = to_float32(wide) if target.dtype == np.float32 else wide
    return out


def in_order(x: np.ndarray) -> bool:
    """Return whether an array lies in memory as compiled loops read it: contiguous, and aligned.

    NumPy warns where an array that shares elements is asked whether it may be written.

    >>> in_order(np.ones((2, 3))), in_order(np.ones((2, 3)).T)
    (True, False)
    """
    flags = x.flags
    return bool(flags.c_contiguous and flags.aligned)


def put_one_nan(x: Array) -> None:
    """Replace every NaN by the canonical one: processors make them of either sign, and pass payloads on."""
    for part in real_parts(x):
        if is_cupy(part):  # as words: CuPy takes bfloat16 by way of float32
            words = part.view(f"u{part.itemsize}")
            infinite, canonical = np.array([np.inf, np.nan], part.dtype).view(words.dtype)
            _one_nan()(words, infinite, canonical, words)
        else:
            which = np.isnan(part)
            if np.count_nonzero(which):  # seldom
                np.copyto(part, part.dtype.type(np.nan), where=which)  # nothing is converted


def conjugated(x: Array) -> Array:
    """Return the complex conjugate of a complex array; on a GPU with its subnormals.

    >>> conjugated(np.array([1 + 2j]))
    array([1.-2.j])
    """
    if not is_cupy(x):
        return x.conj()
    out = namespace(x).ascontiguousarray(x).copy()
    word = np.dtype(f"u{out.real.itemsize}")
    out.view(word).reshape(*out.shape, 2)[..., 1] ^= word.type(1 << (8 * word.itemsize - 1))
    return out


@cache
def _one_nan() -> Any:
    magnitude = "T(x & T(T(~T(0)) >> 1))"
    code = f"y = {magnitude} > infinite ? canonical : x"
    return import_cupy().ElementwiseKernel("T x, T infinite, T canonical", "T y", code, "one_nan")


@cache
def _conversion(source: str, target: str, instruction: str, out: str, into: str) -> Any:
    code = f'asm("{instruction} %0, %1;" : "={out}"(y) : "{into}"(x))'
    return import_cupy().ElementwiseKernel(f"{source} x", f"{target} y", code, f"{source}_to_{target}")
