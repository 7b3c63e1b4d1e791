"""Reductions of Dask arrays: each is a row of a table, what it sums and what becomes of the exact sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import dask.array as da
import numpy as np

from multiword.formats import Format
from multiword.runtime.arrays import conjugated, namespace
from ozaki.dask.accumulators import Sums, Terms, elements, products, reduce_exactly, squares
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
    format_of,
    real_dtype,
    real_result_dtype,
    result_dtype,
    summed_dtype,
)
from ozaki.sums.exact.fixed_point import FixedPoint, Rounding
from ozaki.sums.statistics import exact_ddof, quotients, variances


class Reduction(NamedTuple):
    """What a reduction sums, and what becomes of the sums.

    Attributes
    ----------
    terms : of each sum.
    value : the rounded float64 numbers of the exact sums, of how many numbers each output has, and of the
        format of the result.
    real : what the result is called where it is real whatever x is.
    divides : whether it is float64 for integers.
    skip_nan : whether NaN counts as nothing.
    """

    terms: tuple[Terms, ...]
    value: Callable[..., np.ndarray]
    real: str = ""
    divides: bool = False
    skip_nan: bool = False

    def target(self, x: da.Array, dtype: DType) -> np.dtype:
        """The dtype of the result."""
        if self.real:
            return real_result_dtype(x._meta, dtype, None, (), self.real)
        quotient = self.divides and x.dtype.kind in "iub"
        return result_dtype(x._meta, np.dtype(float) if quotient else summed_dtype(x._meta), dtype, None, ())


# What becomes of exact sums ---------------------------------------------------------------------------


def _sum(sums: Sequence[FixedPoint], _: Any, target: Format) -> np.ndarray:
    return sums[0].round(target)


def _mean(sums: Sequence[FixedPoint], counts: Any, target: Format) -> np.ndarray:
    total = sums[0].on_host()
    every: Any = np.resize(counts, total.flags.size)  # once more for imaginary parts
    return quotients(total, every, Rounding(target))


def _norm(sums: Sequence[FixedPoint], _: Any, target: Format) -> np.ndarray:
    return Rounding(target, root=True)(sums[0].on_host())


def _deviation(
    sums: Sequence[FixedPoint], counts: Any, target: Format, ddof: Any, root: bool, skip_nan: bool = False
) -> np.ndarray:
    total, square = (x.on_host() for x in sums)
    size = square.flags.size
    parts = [total.columns(slice(i, i + size)) for i in range(0, total.flags.size, max(1, size))] or [total]
    every = np.broadcast_to(counts, size).tolist()
    return variances(square, parts, every, ddof, Rounding(target, root=root), skip_nan)


def _finished(
    totals: Sequence[Sums], counts: Any, value: Callable[..., np.ndarray], target: np.dtype, **options: Any
) -> Any:
    """The rounded results, in the shape of the sums, where these lie."""
    sums = [total.fixed_point() for total in totals]
    values = narrow(value(sums, counts, format_of(target), **options), real_dtype(target))
    parts = values.reshape(2 if totals[-1].dtype.kind == "c" else 1, *totals[-1].shape)
    return namespace(sums[-1].flags).asarray(joined(list(parts), target))[()]


_VARIANCE, _DEVIATION = "a variance", "a standard deviation"

REDUCTIONS = {
    "sum": Reduction((elements,), _sum),
    "nansum": Reduction((elements,), _sum, skip_nan=True),
    "mean": Reduction((elements,), _mean, divides=True),
    "nanmean": Reduction((elements,), _mean, divides=True, skip_nan=True),
    "norm": Reduction((squares,), _norm, "a norm"),
    "var": Reduction((elements, squares), partial(_deviation, root=False), _VARIANCE),
    "std": Reduction((elements, squares), partial(_deviation, root=True), _DEVIATION),
    "nanvar": Reduction(
        (elements, squares), partial(_deviation, root=False, skip_nan=True), _VARIANCE, skip_nan=True
    ),
    "nanstd": Reduction(
        (elements, squares), partial(_deviation, root=True, skip_nan=True), _DEVIATION, skip_nan=True
    ),
}
"""The reductions of one array."""


def _reduce(
    name: str,
    x: Any,
    axis: Axis,
    dtype: DType,
    out: None,
    keepdims: bool,
    split_every: SplitEvery,
    **options: Any,
) -> da.Array:
    no_out(out)
    x = checked_chunks(x, "x")
    axes, reduction = axes_of(axis, x.ndim), REDUCTIONS[name]
    target = reduction.target(x, dtype)
    if target.kind in "iub":
        return da.sum(x, axis=axes, dtype=target, keepdims=keepdims, split_every=split_every)
    exact = accumulator_dtype(x)
    sums = tuple((terms, real_dtype(exact) if terms is squares else exact) for terms in reduction.terms)
    finish = partial(_finished, value=reduction.value, target=target, **options)
    return reduce_exactly(
        name, x, axes, keepdims, sums, finish, target, skip_nan=reduction.skip_nan, split_every=split_every
    )


def _dot(
    name: str, x: da.Array, y: da.Array, axis: Axis, dtype: DType, keepdims: bool, split_every: SplitEvery
) -> da.Array:
    """Σ x·y of arrays of one shape."""
    axes, indices = axes_of(axis, x.ndim), tuple(range(x.ndim))
    target = result_dtype(x._meta, np.result_type(x.dtype, y.dtype), dtype, None, ())
    _, (x, y) = da.core.unify_chunks(x, indices, y, indices, warn=False)
    if target.kind in "iub":
        terms = da.multiply(x.astype(target), y.astype(target))
        return da.sum(terms, axis=axes, keepdims=keepdims, dtype=target, split_every=split_every)
    sums = ((products, np.result_type(accumulator_dtype(x), accumulator_dtype(y))),)
    finish = partial(_finished, value=_sum, target=target)
    return reduce_exactly(name, x, axes, keepdims, sums, finish, target, y, split_every=split_every)


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
    return _reduce("var", x, axis, dtype, out, keepdims, split_every, ddof=exact_ddof(ddof))


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
    return _reduce("std", x, axis, dtype, out, keepdims, split_every, ddof=exact_ddof(ddof))


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
    return _reduce("nanvar", x, axis, dtype, out, keepdims, split_every, ddof=exact_ddof(ddof))


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
    return _reduce("nanstd", x, axis, dtype, out, keepdims, split_every, ddof=exact_ddof(ddof))


def dot(
    x: Any,
    y: Any,
    axis: int = -1,
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
    try:
        shape = np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        raise ValueError(f"x and y must have shapes that broadcast, got {x.shape} and {y.shape}") from None
    x, y = (da.broadcast_to(without_empty_chunks(z), shape) for z in (x, y))
    return _dot("dot", x, y, axis, dtype, keepdims, split_every)


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
    if x.dtype.kind == "c":
        x = x.map_blocks(conjugated, dtype=x.dtype, meta=x._meta)
    return _dot("vdot", x, y, None, dtype, False, split_every)
