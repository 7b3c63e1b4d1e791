"""What the reductions take and give: numbers, dtypes, axes and `out`, checked alike in every function."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from multiword.formats import FORMATS, Format
from multiword.runtime import options
from multiword.runtime.arrays import Array, as_array, check_out, check_same_device, is_cupy
from ozaki.rounding.conversion import as_float64

Axis = int | tuple[int, ...] | None
DType = DTypeLike | None
Out = Array | None

_FORMATS: dict[np.dtype, Format] = {f.dtype: f for f in FORMATS.values() if f.name != "tf32"}
_PARTS: dict[np.dtype, np.dtype] = {
    np.dtype(np.complex64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.float64),
}


_FLOAT64 = np.dtype(np.float64)


def numbers(x: Any, name: str) -> Array:
    """Return x as an array of integers, booleans or numbers of one of the formats."""
    if type(x) is np.ndarray and x.dtype is _FLOAT64:
        return x  # the usual case: what follows takes microseconds
    array = as_array(x, name)
    if array.dtype.kind not in "iub":
        real_dtype(array.dtype, name)
    return array


def check_ord(ord: float | str | None, axes: int) -> None:
    """Raise ValueError for a norm that is not Euclidean, or Frobenius's over two axes."""
    if not (ord is None or (ord == 2 and axes == 1) or (ord == "fro" and axes == 2)):
        hint = f"; an axis is given by name: axis={ord!r}" if isinstance(ord, int) else ""
        raise ValueError(
            "ord must be None, 2 or, for dense arrays, another number over one axis, or 'fro' over two, "
            f"got {ord!r} over {axes}{hint}"
        )


def check_matrices(of_x: tuple[int, ...], of_y: tuple[int, ...]) -> None:
    """Raise ValueError for shapes of which `numpy.dot` makes something else than dot products of pairs."""
    if not (of_x and of_y) or (len(of_y) > 1 and of_x[-1] == of_y[-2]):
        raise ValueError(
            f"x and y have shapes {of_x} and {of_y}, which numpy.dot multiplies: use ozaki.matmul; "
            "axis=-1 takes the dot product of each pair of vectors"
        )


def broadcast_shape(**shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that those of named arrays broadcast to. ValueError if there is none."""
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        named = " and ".join(shapes), " and ".join(map(str, shapes.values()))
        raise ValueError(f"{named[0]} must have shapes that broadcast, got {named[1]}") from None


def mask_of(where: Any, x: Array) -> Array:
    """Return booleans in the shape of x, as `check_mask` has them."""
    mask = as_array(where, "where")
    check_mask(mask, x)
    return check_same_device(x=x, where=mask).broadcast_to(mask, x.shape)


def check_mask(where: Any, x: Any) -> None:
    """Raise TypeError for an array that is not boolean, ValueError for one that does not broadcast to x."""
    if where.dtype != bool:
        raise TypeError(f"where must be boolean, got {where.dtype}")
    if broadcast_shape(x=x.shape, where=where.shape) != x.shape:
        raise ValueError(f"where must broadcast to x, of shape {x.shape}, got shape {where.shape}")


def vector(x: Any, name: str) -> np.ndarray:
    """Return x as a float64 vector on the host. TypeError for what that cannot hold."""
    values = as_float64(x, name)
    if is_cupy(values):
        raise TypeError(f"{name} must be a NumPy vector, got a CuPy array; ozaki.sum takes it")
    return np.asarray(values)


def native(dtype: DTypeLike) -> np.dtype:
    """Return a dtype in native byte order."""
    dtype = np.dtype(dtype)
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def real_dtype(dtype: DTypeLike, name: str = "dtype") -> np.dtype:
    """Return the dtype of the parts of a number. TypeError if this library cannot round to it."""
    if dtype is _FLOAT64:
        return dtype
    dtype = native(dtype)
    part = _PARTS.get(dtype, dtype)
    if part not in _FORMATS:
        accepted = ", ".join(str(d) for d in (*_FORMATS, *_PARTS))
        hint = (
            "; round it yourself first, with astype(np.float64) or complex128" if dtype.kind in "fc" else ""
        )
        raise TypeError(f"{name} must be one of {accepted}; got {dtype}{hint}")
    return part


def format_of(dtype: DTypeLike) -> Format:
    """Return the format of a real dtype, or of the parts of a complex one."""
    if dtype is _FLOAT64:
        return FORMATS["fp64"]
    return _FORMATS[real_dtype(dtype)]


def float_type(x: Array) -> np.dtype:
    """The real dtype that holds an array's elements, or the two parts of 64-bit integers."""
    return _FLOAT64 if x.dtype is _FLOAT64 or x.dtype.kind in "iub" else real_dtype(x.dtype)


def result_dtype(
    x: Array, natural: np.dtype, dtype: DTypeLike | None, out: Array | None, shape: tuple[int, ...]
) -> np.dtype:
    """Return what a result is computed in, or rounded to: `dtype`, or the dtype of `out`, or the natural one.

    Only integers have an integer result, and only a complex dtype holds a complex one: of `dtype`, and of
    `out`, which has to be the same kind of array as x, of this shape and writeable. Integers convert to those
    of `out` as NumPy's "same_kind" has it; what is not an integer is rounded to its dtype.
    """
    if out is None and natural is _FLOAT64 and (dtype is None or dtype is _FLOAT64):
        return natural
    target = np.dtype(natural if dtype is None else dtype)
    _check_holds("dtype", target, natural)
    if out is not None:
        check_out(out, x, shape)
        _check_holds("out's dtype", out.dtype, target)
        integers = out.dtype.kind in "iub"
        if integers and not np.can_cast(target, out.dtype, "same_kind"):
            raise TypeError(f"out must be an array of integers that hold {target}, got {out.dtype}")
        if dtype is None or not (integers or target.kind in "iub"):
            target = out.dtype
    return native(target)


def _check_holds(name: str, dtype: np.dtype, result: np.dtype) -> None:
    """Raise TypeError for a dtype that a result of another one cannot be rounded to."""
    if dtype.kind in "iub" and result.kind in "iub":
        return
    real_dtype(dtype, name)
    if result.kind == "c" and dtype.kind != "c":
        raise TypeError(f"{name} must be complex for a complex result, got {dtype}; take the real part first")


def real_result_dtype(
    x: Array, dtype: DTypeLike | None, out: Array | None, shape: tuple[int, ...], what: str
) -> np.dtype:
    """As `result_dtype`, for what is real whatever x is: `what`, "a norm" for one. `out` may be complex."""
    if dtype is None and out is None and x.dtype is _FLOAT64:
        return x.dtype
    if np.dtype(dtype).kind == "c":  # None is float64
        raise TypeError(f"{what} is real: dtype must be real, got {np.dtype(dtype)}")
    return real_dtype(result_dtype(x, float_type(x), dtype, out, shape))


def deliver(result: Array, out: Array | None) -> Any:
    """Fill `out` if there is one; a NumPy result without dimensions becomes a scalar."""
    if out is not None:
        out[...] = result
        return out
    return result if is_cupy(result) else result[()]


def axes_of(axis: Axis, ndim: int) -> tuple[int, ...]:
    """The reduced axes, not negative, each once."""
    if type(axis) is int and -ndim <= axis < ndim:  # the usual case, in less time
        return (axis % ndim,)
    return options.axes("axis", axis, ndim)


def reduced_shape(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """The shape of what is reduced over axes."""
    if len(axes) == len(shape):  # the usual case, in less time
        return (1,) * len(shape) if keepdims else ()
    return tuple([1 if a in axes else n for a, n in enumerate(shape) if keepdims or a not in axes])


def weights_along(x: Any, weights: Any, axes: tuple[int, ...], name: str = "weights") -> Any:
    """Return real weights in a shape that broadcasts to that of x; TypeError or ValueError for others."""
    if weights.dtype.kind == "c":
        raise TypeError(f"{name} must be real, got {weights.dtype}; take the real part first")
    if weights.shape == x.shape:
        return weights
    if weights.shape != tuple(x.shape[a] for a in axes) or not axes:
        raise ValueError(
            f"Shape of {name} must be consistent with shape of a along specified axis, got {weights.shape} "
            f"for shape {x.shape} and axes {axes}"
        )
    weights = weights.transpose(np.argsort(axes).tolist())
    return weights.reshape([n if a in axes else 1 for a, n in enumerate(x.shape)])


def columns_of(x: Array, axes: tuple[int, ...]) -> Array:
    """Return x as an (n, m) array, what is reduced over axes along the first."""
    kept = tuple(a for a in range(x.ndim) if a not in axes)
    n, m = (prod([x.shape[a] for a in some]) for some in (axes, kept))
    return x.transpose((*axes, *kept)).reshape(n, m)


def summed_dtype(x: Array) -> np.dtype:
    """The dtype of NumPy's sum of an array: integers and booleans have at least 64 bits."""
    return np.zeros(0, x.dtype).sum().dtype if x.dtype.kind in "iub" else x.dtype
