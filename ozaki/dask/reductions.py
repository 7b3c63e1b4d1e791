"""Sums, means, norms and dot products of Dask arrays."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import dask.array as da
import numpy as np
from numpy.typing import DTypeLike

from multiword.runtime.arrays import conjugated
from ozaki.dask.accumulators import ELEMENTS, PRODUCTS, SQUARES, reduce_exactly
from ozaki.dask.arguments import SplitEvery, checked, held_dtype, known_chunks, like_arrays, no_out
from ozaki.dask.rounding import rounded_mean, rounded_nanmean, rounded_norm, rounded_sum
from ozaki.sums.arguments import (
    Axis,
    axes_of,
    real_dtype,
    real_result_dtype,
    result_dtype,
    summed_dtype,
)


def sum(
    x: Any,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    *,
    split_every: SplitEvery = None,
) -> da.Array:
    """Return the lazy sum over axes of a Dask array, correctly rounded: `ozaki.sum` of the whole.

    Parameters
    ----------
    x : Dask array with NumPy or CuPy chunks, of any sizes that are known; dtypes as in `ozaki.sum`.
    axis, dtype, keepdims : as in `ozaki.sum`.
    out : None; a Dask array is not written to.
    split_every : how many partial sums a task merges, as in `dask.array.reduction`.

    Returns
    -------
    Dask array of what `ozaki.sum` returns for the whole array, bit for bit.

    Raises
    ------
    TypeError : x is not numeric, or dtype cannot be rounded to; out is given.
    ValueError : an axis that x has not; chunks of unknown sizes.
    MemoryError : in a task, which it names.

    References
    ----------
    As `ozaki.sum`: Rump, Ogita and Oishi; Kulisch.

    >>> import dask.array as da
    >>> x = da.from_array(np.array([1e100, 1.0, -1e100]), chunks=1)
    >>> sum(x).compute()
    np.float64(1.0)
    """
    return _sum("sum", x, axis, dtype, out, keepdims, split_every)


def mean(
    x: Any,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    *,
    split_every: SplitEvery = None,
) -> da.Array:
    """Return the lazy mean over axes of a Dask array, correctly rounded: `ozaki.mean` of the whole.

    Parameters
    ----------
    x, axis, dtype, out, keepdims, split_every : as in `sum`.

    Returns
    -------
    Dask array of what `ozaki.mean` returns for the whole array.

    Raises
    ------
    TypeError, ValueError, MemoryError : as `sum`.

    References
    ----------
    As `sum`: Rump, Ogita and Oishi; Kulisch.

    >>> import dask.array as da
    >>> mean(da.full(10, 0.1, chunks=3)).compute()
    np.float64(0.1)
    """
    x, axes = checked(x, axis, out)
    target = result_dtype(x._meta, _of_a_mean(x), dtype, None, ())
    finish = partial(rounded_mean, count=prod(x.shape[a] for a in axes), target=target)
    sums = ((ELEMENTS, held_dtype(x)),)
    return reduce_exactly("mean", x, axes, keepdims, sums, finish, target, split_every=split_every)


def norm(
    x: Any,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    *,
    split_every: SplitEvery = None,
) -> da.Array:
    """Return the lazy 2-norm over axes of a Dask array, correctly rounded: `ozaki.norm` of the whole.

    Parameters
    ----------
    x, axis, out, keepdims, split_every : as in `sum`.
    dtype : of the result, real.

    Returns
    -------
    Dask array of what `ozaki.norm` returns for the whole array.

    Raises
    ------
    TypeError, ValueError, MemoryError : as `sum`.

    References
    ----------
    As `sum`: Rump, Ogita and Oishi; Kulisch.

    >>> import dask.array as da
    >>> norm(da.from_array(np.array([3e300, 4e300]), chunks=1)).compute()
    np.float64(5e+300)
    """
    x, axes = checked(x, axis, out)
    target = real_result_dtype(x._meta, dtype, None, (), "a norm")
    sums = ((SQUARES, real_dtype(held_dtype(x))),)
    finish = partial(rounded_norm, target=target)
    return reduce_exactly("norm", x, axes, keepdims, sums, finish, target, split_every=split_every)


def dot(
    x: Any,
    y: Any,
    axis: int = -1,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    *,
    split_every: SplitEvery = None,
) -> da.Array:
    """Return the lazy dot product along an axis of Dask arrays, correctly rounded: `ozaki.dot` of the whole.

    Parameters
    ----------
    x, y : arrays that broadcast, at least one of them Dask's; their chunks need not be alike.
    axis, dtype, out, keepdims, split_every : as in `ozaki.dot`, and `sum`.

    Returns
    -------
    Dask array of what `ozaki.dot` returns for the whole arrays.

    Raises
    ------
    TypeError : as `sum`; chunks of NumPy and of CuPy mixed.
    ValueError : as `sum`; shapes that do not broadcast.
    MemoryError : in a task, which it names.

    References
    ----------
    Ogita, Rump and Oishi, Accurate sum and dot product (the error-free products).

    >>> import dask.array as da
    >>> x, y = np.array([1e200, 1.0, 1e200]), np.array([1e200, 3.0, -1e200])
    >>> dot(da.from_array(x, chunks=2), da.from_array(y, chunks=1)).compute()
    np.float64(3.0)
    """
    no_out(out)
    x, y = known_chunks(x, "x"), known_chunks(y, "y")
    like_arrays(x=x, y=y)
    try:
        shape = np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        raise ValueError(f"x and y must have shapes that broadcast, got {x.shape} and {y.shape}") from None
    x, y = da.broadcast_to(x, shape), da.broadcast_to(y, shape)
    return _dot("dot", x, y, axes_of(axis, x.ndim), dtype, keepdims, split_every)


def vdot(
    x: Any,
    y: Any,
    dtype: DTypeLike | None = None,
    out: None = None,
    *,
    split_every: SplitEvery = None,
) -> da.Array:
    """Return the lazy Σ conj(x)·y over all elements of Dask arrays: `ozaki.vdot` of the whole.

    Parameters
    ----------
    x, y : arrays of as many elements, which are flattened, at least one of them Dask's.
    dtype, out, split_every : as in `ozaki.vdot`, and `sum`.

    Returns
    -------
    Dask array of what `ozaki.vdot` returns for the whole arrays.

    Raises
    ------
    TypeError : as `sum`; chunks of NumPy and of CuPy mixed.
    ValueError : as `sum`; different numbers of elements.
    MemoryError : in a task, which it names.

    References
    ----------
    Ogita, Rump and Oishi, Accurate sum and dot product (the error-free products).

    >>> import dask.array as da
    >>> x = da.from_array(np.array([1e200 + 2j, 1.0, -1e200]), chunks=1)
    >>> vdot(x, np.array([1j, 1j, 1j])).compute()
    np.complex128(2+1j)
    """
    no_out(out)
    x, y = known_chunks(x, "x"), known_chunks(y, "y")
    like_arrays(x=x, y=y)
    if x.size != y.size:
        raise ValueError(f"x and y must have as many elements, got {x.size} and {y.size}")
    if x.shape != y.shape:
        x, y = x.reshape(-1), y.reshape(-1)
    if x.dtype.kind == "c":
        x = x.map_blocks(conjugated, dtype=x.dtype, meta=x._meta)
    return _dot("vdot", x, y, axes_of(None, x.ndim), dtype, False, split_every)


def nansum(
    x: Any,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    *,
    split_every: SplitEvery = None,
) -> da.Array:
    """Return the lazy sum over axes of what is not NaN in a Dask array: `ozaki.nansum` of the whole.

    Parameters
    ----------
    x, axis, dtype, out, keepdims, split_every : as in `sum`.

    Returns
    -------
    Dask array of what `ozaki.nansum` returns for the whole array.

    Raises
    ------
    TypeError, ValueError, MemoryError : as `sum`.

    References
    ----------
    As `sum`: Rump, Ogita and Oishi; Kulisch.

    >>> import dask.array as da
    >>> nansum(da.from_array(np.array([1e100, np.nan, 1.0, -1e100]), chunks=2)).compute()
    np.float64(1.0)
    """
    return _sum("nansum", x, axis, dtype, out, keepdims, split_every)


def nanmean(
    x: Any,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    *,
    split_every: SplitEvery = None,
) -> da.Array:
    """Return the lazy mean over axes of what is not NaN in a Dask array: `ozaki.nanmean` of the whole.

    Parameters
    ----------
    x, axis, dtype, out, keepdims, split_every : as in `sum`.

    Returns
    -------
    Dask array of what `ozaki.nanmean` returns for the whole array.

    Raises
    ------
    TypeError, ValueError, MemoryError : as `sum`.

    References
    ----------
    As `sum`: Rump, Ogita and Oishi; Kulisch.

    >>> import dask.array as da
    >>> nanmean(da.from_array(np.array([[1.0, np.nan], [2.0, 4.0]]), chunks=1), axis=1).compute()
    array([1., 3.])
    """
    x, axes = checked(x, axis, out)
    target = result_dtype(x._meta, _of_a_mean(x), dtype, None, ())
    finish = partial(rounded_nanmean, target=target)
    sums = ((ELEMENTS, held_dtype(x)),)
    return reduce_exactly(
        "nanmean", x, axes, keepdims, sums, finish, target, skip_nan=True, split_every=split_every
    )


def _sum(
    name: str,
    x: Any,
    axis: Axis,
    dtype: DTypeLike | None,
    out: None,
    keepdims: bool,
    split_every: SplitEvery,
) -> da.Array:
    x, axes = checked(x, axis, out)
    target = result_dtype(x._meta, summed_dtype(x._meta), dtype, None, ())
    if target.kind in "iub":
        return da.sum(x, axis=axes, dtype=target, keepdims=keepdims, split_every=split_every)
    finish, skip_nan = partial(rounded_sum, target=target), name.startswith("nan")
    sums = ((ELEMENTS, held_dtype(x)),)
    return reduce_exactly(
        name, x, axes, keepdims, sums, finish, target, skip_nan=skip_nan, split_every=split_every
    )


def _dot(
    name: str,
    x: da.Array,
    y: da.Array,
    axes: tuple[int, ...],
    dtype: DTypeLike | None,
    keepdims: bool,
    split_every: SplitEvery,
) -> da.Array:
    """Σ x·y of arrays of one shape."""
    target = result_dtype(x._meta, np.result_type(x.dtype, y.dtype), dtype, None, ())
    if target.kind in "iub":
        terms = da.multiply(x.astype(target), y.astype(target))
        return da.sum(terms, axis=axes, keepdims=keepdims, dtype=target, split_every=split_every)
    sums = ((PRODUCTS, np.result_type(held_dtype(x), held_dtype(y))),)
    finish = partial(rounded_sum, target=target)
    return reduce_exactly(name, x, axes, keepdims, sums, finish, target, y, split_every=split_every)


def _of_a_mean(x: da.Array) -> np.dtype:
    return np.dtype(np.float64) if x.dtype.kind in "iub" else x.dtype
