"""Sums, means, dot products and norms: the exact value, rounded once."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from multiword.formats import Format
from multiword.runtime.arrays import (
    Array,
    as_array,
    check_same_device,
    is_cupy,
    namespace,
    on_device_of_arrays,
)
from ozaki.sums.columns import Stream, column_sums
from ozaki.sums.exactsum import format_of, product_streams, real_dtype
from ozaki.sums.fixedpoint import LastStep
from ozaki.sums.superaccumulator import Layout

Axis = int | tuple[int, ...] | None
_NOTHING = LastStep()


@on_device_of_arrays
def sum(
    x: Array,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
    keepdims: bool = False,
) -> Any:
    """Return the sum over axes, correctly rounded: `numpy.sum` with one rounding.

    Parameters
    ----------
    x : array of any shape; float16, bfloat16, float32, float64, complex64 or complex128, NumPy
        or CuPy. Integers and booleans are summed as `numpy.sum` does, in integers.
    axis : int, tuple of ints or None (all axes).
    dtype : dtype of the result, default that of x. The elements themselves are never rounded to it.
    out : array of the result's shape, to be filled.
    keepdims : keep the reduced axes with length 1.

    Returns
    -------
    The exact sum rounded to nearest, ties to even, whatever the order, the strides and the device.
    +0 for an empty or cancelling sum, −0 for a sum of −0 alone; Inf and NaN as IEEE 754 adds;
    intermediate sums cannot overflow.

    Raises
    ------
    TypeError : x is not numeric, or dtype cannot be rounded to.
    ValueError : an axis that x has not, or one twice; out of another shape.

    References
    ----------
    Rump, Ogita and Oishi, Accurate floating-point summation, parts I and II (the extraction);
    Kulisch, Computer Arithmetic and Validity (the register).

    >>> sum(np.array([1e308, 1e308, -1e308, 1.0]))
    np.float64(1e+308)
    >>> sum(np.array([[1.0, 1e100], [1e-100, -1e100]]), axis=1)
    array([ 1.e+100, -1.e+100])
    """
    x = as_array(x, "x")
    if not _rounds(x.dtype, dtype):
        return namespace(x).sum(x, axis=axis, dtype=dtype, out=out, keepdims=keepdims)
    target = np.dtype(x.dtype if dtype is None else dtype)
    return _reduce([[Stream((_as_real(x),))]], axis, target, out, keepdims, pairs=x.dtype.kind == "c")


@on_device_of_arrays
def mean(
    x: Array,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
    keepdims: bool = False,
) -> Any:
    """Return the mean over axes, correctly rounded: the exact sum divided by the count, rounded once.

    Parameters
    ----------
    x, axis, dtype, out, keepdims : as in `sum`; integers and booleans have a float64 mean.

    Returns
    -------
    The exact mean rounded to nearest, ties to even; NaN for the mean of nothing.

    Raises
    ------
    TypeError, ValueError : as `sum`.

    References
    ----------
    As `sum`: Rump, Ogita and Oishi; Kulisch.

    >>> mean(np.full(10, 0.1)) == 0.1
    np.True_
    """
    x = as_array(x, "x")
    target = np.dtype(dtype or (x.dtype if _rounds(x.dtype, None) else np.float64))
    count = prod(x.shape[a] for a in _axes(axis, x.ndim))
    if not count:
        return _no_mean(x, axis, target, out, keepdims)
    streams, pairs = [Stream((_as_real(x),))], x.dtype.kind == "c"
    return _reduce([streams], axis, target, out, keepdims, LastStep(divisor=count), pairs)


@on_device_of_arrays
def dot(
    x: Array,
    y: Array,
    axis: int = -1,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
    keepdims: bool = False,
) -> Any:
    """Return the dot product along an axis, correctly rounded: neither argument is conjugated.

    Parameters
    ----------
    x, y : arrays that broadcast; dtypes as in `sum`. For vectors this is `numpy.dot`; of stacks of
        vectors it takes the product of each pair, where `numpy.dot` would multiply matrices
        (that is `ozaki.matmul`).
    axis : the axis, of the broadcast arrays, that is summed over.
    dtype : dtype of the result, default that of x·y.
    out, keepdims : as in `sum`.

    Returns
    -------
    The exact Σ x·y rounded once. The products are exact too: none overflows or underflows.

    Raises
    ------
    TypeError : not numeric, or NumPy and CuPy mixed.
    ValueError : shapes that do not broadcast.

    References
    ----------
    Ogita, Rump and Oishi, Accurate sum and dot product (the error-free products).

    >>> dot(np.array([1e200, 1.0, 1e200]), np.array([1e200, 3.0, -1e200]))
    np.float64(3.0)
    """
    return _dot(x, y, axis, dtype, out, keepdims, conjugate=False)


@on_device_of_arrays
def vdot(x: Array, y: Array, dtype: DTypeLike | None = None, out: Array | None = None) -> Any:
    """Return Σ conj(x)·y over all elements, correctly rounded: `numpy.vdot` with one rounding.

    Parameters
    ----------
    x, y : arrays of as many elements, which are flattened; dtypes as in `sum`.
    dtype : dtype of the result, default that of x·y.
    out : array of shape () to be filled.

    Returns
    -------
    The exact value rounded once, as a scalar (an array of shape () on a GPU).

    Raises
    ------
    TypeError : not numeric, or NumPy and CuPy mixed.
    ValueError : different numbers of elements.

    References
    ----------
    Ogita, Rump and Oishi, Accurate sum and dot product (the error-free products).

    >>> vdot(np.array([1 + 2j]), np.array([1 + 2j]))
    np.complex128(5+0j)
    """
    x, y = as_array(x, "x"), as_array(y, "y")
    if x.size != y.size:
        raise ValueError(f"x and y must have as many elements, got {x.size} and {y.size}")
    if x.shape != y.shape:
        x, y = x.reshape(-1), y.reshape(-1)
    return _dot(x, y, None, dtype, out, False, conjugate=True)


@on_device_of_arrays
def norm(
    x: Array,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
    keepdims: bool = False,
) -> Any:
    """Return the 2-norm over axes, correctly rounded: the square root of the exact sum of squares.

    Neither the squares nor their sum overflow or underflow. Over two axes it is the Frobenius norm.

    Parameters
    ----------
    x, axis, dtype, out, keepdims : as in `sum`; dtype must be real.

    Returns
    -------
    The exact norm rounded to nearest: real for a complex x, float64 for integers and booleans.

    Raises
    ------
    TypeError, ValueError : as `sum`.

    References
    ----------
    As `sum`: Rump, Ogita and Oishi; Kulisch.

    >>> norm(np.array([3 * 2.0**900, 4 * 2.0**900])) / 2.0**900
    np.float64(5.0)
    """
    x = as_array(x, "x")
    target = np.dtype(dtype or (x.real.dtype if _rounds(x.dtype, None) else np.float64))
    if target.kind == "c":
        raise TypeError(f"a norm is real: dtype must be real, got {target}")
    real, pairs = _as_real(x), x.dtype.kind == "c"
    return _reduce([[Stream((real, real))]], axis, target, out, keepdims, LastStep(root=True), pairs)


def _dot(
    x: Array,
    y: Array,
    axis: Axis,
    dtype: DTypeLike | None,
    out: Array | None,
    keepdims: bool,
    conjugate: bool,
) -> Any:
    x, y = as_array(x, "x"), as_array(y, "y")
    xp = check_same_device(x=x, y=y)
    result = np.result_type(x.dtype, y.dtype)
    x, y = xp.broadcast_arrays(x, y)
    if not _rounds(result, dtype):
        value = xp.multiply(x, y).sum(axis=axis, keepdims=keepdims, dtype=np.dtype(dtype or result))
        return _deliver(value, out)
    streams = product_streams(x, y, conjugate)
    return _reduce(streams, axis, np.dtype(dtype or result), out, keepdims)


def _rounds(source: np.dtype, dtype: DTypeLike | None) -> bool:
    """Whether the result is floating point. TypeError if it is of a kind that is not supported."""
    target = np.dtype(source if dtype is None else dtype)
    if target.kind in "iub":
        return False
    real_dtype(target)
    if source.kind not in "iub":
        real_dtype(source, "the array's dtype")
    return True


def _as_real(x: Array) -> Array:
    """A view of the real and imaginary parts of a complex array, along one more axis; or x itself."""
    if x.dtype.kind != "c":
        return x
    real = x.real
    strides = (*x.strides, real.itemsize)
    return namespace(x).lib.stride_tricks.as_strided(real, (*x.shape, 2), strides)


def _reduce(
    parts: Sequence[Sequence[Stream]],
    axis: Axis,
    target: np.dtype,
    out: Array | None,
    keepdims: bool,
    last_step: LastStep = _NOTHING,
    pairs: bool = False,
) -> Any:
    """Sum the real part's streams, and the imaginary part's if there are any, and round.

    pairs : the factors have one more axis, of real and imaginary parts. It is summed over if the
        result is to be a square root, and kept otherwise.
    """
    if (len(parts) > 1 or (pairs and not last_step.root)) and target.kind != "c":
        raise TypeError(f"dtype must be complex for a complex result, got {target}; take the real part first")
    first = parts[0][0].factors[0]
    ndim = first.ndim - pairs
    axes = _axes(axis, ndim)
    kept = tuple(a for a in range(ndim) if a not in axes)
    shape = tuple(1 if a in axes else first.shape[a] for a in range(ndim) if keepdims or a in kept)
    _check_out(first, out, shape, target)
    if pairs:
        axes, kept = (*axes, *(ndim,) * last_step.root), (*kept, *(ndim,) * (not last_step.root))
    reduce_part = _device_part if is_cupy(first) else _host_part
    order, values = axes + kept, []
    in_front = order == tuple(range(first.ndim))
    for part in parts:
        moved = part if in_front else [s.apply(lambda x: x.transpose(order)) for s in part]
        values.append(reduce_part(moved, len(axes), format_of(target), _layout(part), last_step))
    xp = namespace(first)
    with np.errstate(over="ignore"):
        result = values[0].astype(real_dtype(target), copy=False)
        if target.kind == "c":
            if not pairs:
                imaginary = values[1].astype(result.dtype) if len(values) > 1 else xp.zeros_like(result)
                result = xp.stack([result, imaginary], axis=-1)
            result = result.view(target)[..., 0]
    return _deliver(result.reshape(shape), out)


def _check_out(x: Array, out: Array | None, shape: tuple[int, ...], target: np.dtype) -> None:
    if out is None:
        return
    check_same_device(x=x, out=out)
    if out.shape != shape:
        raise ValueError(f"out must have shape {shape}, got {out.shape}")
    if not np.can_cast(target, out.dtype, "same_kind"):
        raise TypeError(f"out must have a dtype that holds {target}, got {out.dtype}")


def _host_part(
    streams: Sequence[Stream], reduced: int, target: Format, layout: Layout, last_step: LastStep
) -> np.ndarray:
    result = np.empty(streams[0].factors[0].shape[reduced:])
    for panel in column_sums(streams, reduced, layout):
        panel.store(last_step(panel.sums).round(target), result)
    return result


def _device_part(
    streams: Sequence[Stream], reduced: int, target: Format, layout: Layout, last_step: LastStep
) -> Array:
    from ozaki.sums.columns_cuda import rounded_sums

    return rounded_sums(streams, reduced, target, layout, last_step)


def _layout(streams: Sequence[Stream]) -> Layout:
    """The layout of the widest dtype that comes in; it holds what the others need."""
    sources = [_float_type(x) for stream in streams for x in stream.factors]
    return max((Layout.of(format_of(source)) for source in sources), key=lambda layout: layout.digits)


def _float_type(x: Array) -> np.dtype:
    """The real dtype that holds an array's elements, and two 64-bit integers' parts."""
    return np.dtype(np.float64) if x.dtype.kind in "iub" else real_dtype(x.dtype)


def _axes(axis: Axis, ndim: int) -> tuple[int, ...]:
    """The reduced axes, not negative, each once."""
    if axis is None:
        return tuple(range(ndim))
    axes = tuple(operator.index(a) for a in (axis if isinstance(axis, tuple) else (axis,)))
    for a in axes:
        if not -ndim <= a < ndim:
            raise ValueError(f"axis {a} is out of bounds for an array of {ndim} dimensions")
    axes = tuple(a % ndim for a in axes)
    if len(set(axes)) < len(axes):
        raise ValueError(f"axis {axis} names an axis twice")
    return axes


def _no_mean(x: Array, axis: Axis, target: np.dtype, out: Array | None, keepdims: bool) -> Any:
    shape = namespace(x).sum(x, axis=axis, keepdims=keepdims).shape
    return _deliver(namespace(x).full(shape, np.nan, target), out)


def _deliver(result: Array, out: Array | None) -> Any:
    """Fill `out` if there is one; a NumPy result without dimensions becomes a scalar."""
    if out is not None:
        out[...] = result
        return out
    return result if is_cupy(result) else result[()]
