"""Reductions of Dask arrays: rows of `ozaki.sums.table`, whose exact sums are those of all chunks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import dask.array as da
import numpy as np

from multiword.runtime.arrays import namespace
from ozaki.dask.accumulators import Sums, reduce_exactly
from ozaki.dask.arguments import (
    SplitEvery,
    accumulator_dtype,
    checked_chunks,
    like_arrays,
    no_out,
    without_empty_chunks,
)
from ozaki.rounding.conversion import joined, narrow
from ozaki.sums.arguments import (
    Axis,
    DType,
    axes_of,
    check_matrices,
    check_ord,
    format_of,
    real_dtype,
    real_result_dtype,
    result_dtype,
    summed_dtype,
)
from ozaki.sums.exact.fixed_point import Rounding
from ozaki.sums.statistics import exact_ddof, weighted_dtype, weights_along
from ozaki.sums.table import REDUCTIONS, Reduction


def _finished(
    totals: Sequence[Sums], counts: Any, reduction: Reduction, target: np.dtype, **options: Any
) -> Any:
    """The rounded results of merged sums, in their shape, where they lie."""
    on_device = reduction.plain  # other results are rounded on the host
    exact = [total.fixed_point() for total in totals]
    xp = namespace(exact[0].flags)
    exact = exact if on_device else [x.on_host() for x in exact]
    size = prod(totals[0].shape)
    sums = [
        [x.columns(slice(i, i + size)) for i in range(0, x.flags.size, max(1, size))] or [x] for x in exact
    ]
    numbers = np.broadcast_to(counts, size).tolist()
    values = reduction.finish(sums, numbers, Rounding(format_of(target), root=reduction.root), **options)
    parts = [narrow(part, real_dtype(target)).reshape(totals[0].shape) for part in values]
    return xp.asarray(joined(parts, target))[()]


def _reduce(
    name: str,
    x: Any,
    axis: Axis,
    dtype: DType,
    out: None,
    keepdims: bool,
    split_every: SplitEvery,
    ddof: float | None = None,
) -> da.Array:
    """The reduction of one array."""
    no_out(out)
    x, reduction, integers = checked_chunks(x, "x"), REDUCTIONS[name], name in ("sum", "nansum")
    axes = axes_of(axis, x.ndim)
    if reduction.real:
        target = real_result_dtype(x._meta, dtype, None, (), reduction.real)
    else:
        quotient = x.dtype.kind in "iub" and not integers
        natural = np.dtype(np.float64) if quotient else summed_dtype(x._meta)
        target = result_dtype(x._meta, natural, dtype, None, ())
    if target.kind in "iub":
        return da.sum(x, axis=axes, dtype=target, keepdims=keepdims, split_every=split_every)
    options = {} if ddof is None else {"ddof": exact_ddof(ddof), "skip_nan": reduction.skip_nan}
    return _exact(name, x, None, axes, keepdims, target, split_every, **options)


def _dot(
    name: str, x: da.Array, y: da.Array, axis: Axis, dtype: DType, keepdims: bool, split_every: SplitEvery
) -> da.Array:
    """The reduction of two arrays of one shape."""
    axes = axes_of(axis, x.ndim)
    target = result_dtype(x._meta, np.result_type(x.dtype, y.dtype), dtype, None, ())
    x, y = _chunked_alike(x, y)
    if target.kind in "iub":
        terms = da.multiply(x.astype(target), y.astype(target))
        return da.sum(terms, axis=axes, keepdims=keepdims, dtype=target, split_every=split_every)
    return _exact(name, x, y, axes, keepdims, target, split_every)


def _chunked_alike(x: da.Array, y: da.Array) -> tuple[da.Array, da.Array]:
    indices = tuple(range(x.ndim))
    _, (x, y) = da.core.unify_chunks(x, indices, y, indices, warn=False)
    return x, y


def _exact(
    name: str,
    x: da.Array,
    y: da.Array | None,
    axes: tuple[int, ...],
    keepdims: bool,
    target: np.dtype,
    split_every: SplitEvery,
    **options: Any,
) -> da.Array:
    """The reduction of one or two arrays whose result is no integer."""
    reduction = REDUCTIONS[name]
    exact = accumulator_dtype(x) if y is None else np.result_type(accumulator_dtype(x), accumulator_dtype(y))
    tree: dict[str, Any] = {"axes": axes, "keepdims": keepdims, "target": target, "split_every": split_every}
    finish = partial(_finished, reduction=reduction, target=target, **options)
    return reduce_exactly(name, x, y, reduction.sums, exact, finish, reduction.skip_nan, **tree)


# The public functions ---------------------------------------------------------------------------------


def sum(
    x: Any,
    axis: Axis = None,
    dtype: DType = None,
    out: None = None,
    keepdims: bool = False,
    *,
    split_every: SplitEvery = None,
) -> da.Array:
    """Return the lazy sum over axes of a Dask array: `ozaki.sum` of the whole array, bit for bit.

    Parameters
    ----------
    x : Dask array with NumPy or CuPy chunks, of any sizes that are known; dtypes as in `ozaki.sum`.
    axis, dtype, keepdims : as in `ozaki.sum`.
    out : None; a Dask array is not written to.
    split_every : how many partial sums a task merges, as in `dask.array.reduction`.

    Returns
    -------
    Dask array of what `ozaki.sum` returns for the whole array.

    Raises
    ------
    TypeError : x is not numeric, or dtype cannot be rounded to; out is given. In a task: a chunk is masked,
        sparse or lazy, or of a dtype that the one of x does not hold.
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
    return _reduce("sum", x, axis, dtype, out, keepdims, split_every)


def mean(
    x: Any,
    axis: Axis = None,
    dtype: DType = None,
    out: None = None,
    keepdims: bool = False,
    *,
    split_every: SplitEvery = None,
) -> da.Array:
    """Return the lazy mean over axes of a Dask array: as `ozaki.mean`; differs as `sum` does.

    >>> import dask.array as da
    >>> mean(da.full(10, 0.1, chunks=3)).compute()
    np.float64(0.1)
    """
    return _reduce("mean", x, axis, dtype, out, keepdims, split_every)


def norm(
    x: Any,
    ord: int | str | None = None,
    axis: Axis = None,
    dtype: DType = None,
    out: None = None,
    keepdims: bool = False,
    *,
    split_every: SplitEvery = None,
) -> da.Array:
    """Return the lazy 2-norm over axes of a Dask array: as `ozaki.norm`; differs as `sum` does.

    >>> import dask.array as da
    >>> norm(da.from_array(np.array([3e300, 4e300]), chunks=1)).compute()
    np.float64(5e+300)
    """
    x = checked_chunks(x, "x")
    check_ord(ord, len(axes_of(axis, x.ndim)))
    return _reduce("norm", x, axis, dtype, out, keepdims, split_every)


def nansum(
    x: Any,
    axis: Axis = None,
    dtype: DType = None,
    out: None = None,
    keepdims: bool = False,
    *,
    split_every: SplitEvery = None,
) -> da.Array:
    """Return the lazy sum of what is not NaN in a Dask array: as `ozaki.nansum`; differs as `sum` does.

    >>> import dask.array as da
    >>> nansum(da.from_array(np.array([1e100, np.nan, 1.0, -1e100]), chunks=2)).compute()
    np.float64(1.0)
    """
    return _reduce("nansum", x, axis, dtype, out, keepdims, split_every)


def nanmean(
    x: Any,
    axis: Axis = None,
    dtype: DType = None,
    out: None = None,
    keepdims: bool = False,
    *,
    split_every: SplitEvery = None,
) -> da.Array:
    """Return the lazy mean of what is not NaN in a Dask array: as `ozaki.nanmean`; differs as `sum` does.

    >>> import dask.array as da
    >>> nanmean(da.from_array(np.array([[1.0, np.nan], [2.0, 4.0]]), chunks=1), axis=1).compute()
    array([1., 3.])
    """
    return _reduce("nanmean", x, axis, dtype, out, keepdims, split_every)


def var(
    x: Any,
    axis: Axis = None,
    dtype: DType = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    split_every: SplitEvery = None,
) -> da.Array:
    """Return the lazy variance over axes of a Dask array: as `ozaki.var`; differs as `sum` does.

    >>> import dask.array as da
    >>> var(da.from_array(np.array([1e16, 1e16 + 2, 1e16 + 4]), chunks=1), ddof=1).compute()
    np.float64(4.0)
    """
    return _reduce("var", x, axis, dtype, out, keepdims, split_every, ddof)


def std(
    x: Any,
    axis: Axis = None,
    dtype: DType = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    split_every: SplitEvery = None,
) -> da.Array:
    """Return the lazy standard deviation over axes of a Dask array: as `ozaki.std`; differs as `sum` does.

    >>> import dask.array as da
    >>> std(da.from_array(np.array([-3e200, 3e200]), chunks=1)).compute()
    np.float64(3e+200)
    """
    return _reduce("std", x, axis, dtype, out, keepdims, split_every, ddof)


def nanvar(
    x: Any,
    axis: Axis = None,
    dtype: DType = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    split_every: SplitEvery = None,
) -> da.Array:
    """Return the lazy variance of what is not NaN in a Dask array: as `ozaki.nanvar`; differs as `sum` does.

    >>> import dask.array as da
    >>> nanvar(da.from_array(np.array([1e16, np.nan, 1e16 + 4]), chunks=1)).compute()
    np.float64(4.0)
    """
    return _reduce("nanvar", x, axis, dtype, out, keepdims, split_every, ddof)


def nanstd(
    x: Any,
    axis: Axis = None,
    dtype: DType = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    split_every: SplitEvery = None,
) -> da.Array:
    """Return the lazy standard deviation of what is not NaN: as `ozaki.nanstd`; differs as `sum` does.

    >>> import dask.array as da
    >>> nanstd(da.from_array(np.array([1.0, np.nan, 3.0]), chunks=2)).compute()
    np.float64(1.0)
    """
    return _reduce("nanstd", x, axis, dtype, out, keepdims, split_every, ddof)


def average(
    x: Any,
    axis: Axis = None,
    weights: Any = None,
    keepdims: bool = False,
    *,
    split_every: SplitEvery = None,
) -> da.Array:
    """Return the lazy weighted mean over axes of a Dask array: as `ozaki.average`; differs as `sum` does.

    The weights are of the shape of x, or of its length along a single axis.

    >>> import dask.array as da
    >>> average(da.from_array(np.array([1e16, 1.0, -1e16]), chunks=1), weights=[1, 2, 1]).compute()
    np.float64(0.5)
    """
    if weights is None:
        return mean(x, axis, keepdims=keepdims, split_every=split_every)
    x, weights = checked_chunks(x, "x"), checked_chunks(weights, "weights")
    like_arrays(x=x, weights=weights)
    axes = axes_of(axis, x.ndim)
    weights = da.broadcast_to(weights_along(x, weights, axes), x.shape)
    target = weighted_dtype(x, weights)
    x, weights = _chunked_alike(x, weights)
    return _exact("average", x, weights, axes, keepdims, target, split_every)


def dot(
    x: Any,
    y: Any,
    axis: int | None = None,
    dtype: DType = None,
    out: None = None,
    keepdims: bool = False,
    *,
    split_every: SplitEvery = None,
) -> da.Array:
    """Return the lazy dot product along an axis of Dask arrays: as `ozaki.dot`; differs as `sum` does.

    At least one of x and y is a Dask array; their chunks need not be alike, but all NumPy's or all CuPy's.

    >>> import dask.array as da
    >>> x, y = np.array([1e200, 1.0, 1e200]), np.array([1e200, 3.0, -1e200])
    >>> dot(da.from_array(x, chunks=2), da.from_array(y, chunks=1)).compute()
    np.float64(3.0)
    """
    no_out(out)
    x, y = checked_chunks(x, "x"), checked_chunks(y, "y")
    like_arrays(x=x, y=y)
    if axis is None:
        check_matrices(x.shape, y.shape)
    try:
        shape = np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        raise ValueError(f"x and y must have shapes that broadcast, got {x.shape} and {y.shape}") from None
    x, y = (da.broadcast_to(without_empty_chunks(z), shape) for z in (x, y))
    return _dot("dot", x, y, -1 if axis is None else axis, dtype, keepdims, split_every)


def vdot(
    x: Any, y: Any, dtype: DType = None, out: None = None, *, split_every: SplitEvery = None
) -> da.Array:
    """Return the lazy Σ conj(x)·y over all elements of Dask arrays: as `ozaki.vdot`; differs as `dot` does.

    >>> import dask.array as da
    >>> x = da.from_array(np.array([1e200 + 2j, 1.0, -1e200]), chunks=1)
    >>> vdot(x, np.array([1j, 1j, 1j])).compute()
    np.complex128(2+1j)
    """
    no_out(out)
    x, y = checked_chunks(x, "x"), checked_chunks(y, "y")
    like_arrays(x=x, y=y)
    if x.size != y.size:
        raise ValueError(f"x and y must have as many elements, got {x.size} and {y.size}")
    if x.shape != y.shape:
        x, y = (without_empty_chunks(z).reshape(-1) for z in (x, y))
    return _dot("vdot", x, y, None, dtype, False, split_every)
