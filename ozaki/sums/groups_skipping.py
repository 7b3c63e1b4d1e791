"""Sums by group that leave out NaN, and weighted means by group: exact, rounded once."""

from __future__ import annotations

import math
from math import prod
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, check_same_device, namespace, on_device_of_arrays
from multiword.runtime.options import integer
from multiword.runtime.readback import has_nan
from ozaki.public import public
from ozaki.sums.arguments import DType, broadcast_shape, numbers
from ozaki.sums.exact.groups import check_labels
from ozaki.sums.groups import columns_of, grouped, labelled, rounded_rows, used_groups
from ozaki.sums.table import REDUCTIONS, filled, is_nan, without
from ozaki.sums.variance import exact_ddof
from ozaki.tuning import GROUPS_PER_NUMBER


@public("Sums by group", dask=True)
@on_device_of_arrays
def group_nansum(
    values: Array, labels: Array, num_groups: int, dtype: DType = None, *, min_count: int = 0
) -> Any:
    """Return the sum of what is not NaN in each group, correctly rounded: pandas' `groupby(keys).sum()`.

    As `ozaki.group_sum`; differs in that NaN, and complex numbers with a NaN part, count as 0.

    Parameters
    ----------
    values, labels, num_groups, dtype : as in `group_sum`.
    min_count : the fewest numbers that have a sum, others having NaN; with it sums of integers are float64.

    >>> group_nansum(np.array([1e100, np.nan, 1.0, -1e100]), np.array([0, 1, 0, 0]), 2, min_count=1)
    array([ 1., nan])
    """
    return _without_nan("sum", values, labels, num_groups, dtype, min_count)


@public("Sums by group", dask=True)
@on_device_of_arrays
def group_nanmean(
    values: Array, labels: Array, num_groups: int, dtype: DType = None, *, min_count: int = 1
) -> Any:
    """Return the mean of what is not NaN in each group, correctly rounded.

    As `ozaki.group_nansum`; differs as `group_mean` does.

    >>> group_nanmean(np.array([1e100, np.nan, 2.0, -1e100]), np.array([0, 1, 0, 0]), 2)
    array([0.66666667,        nan])
    """
    return _without_nan("mean", values, labels, num_groups, dtype, min_count)


@public("Sums by group", dask=True)
@on_device_of_arrays
def group_nanvar(
    values: Array,
    labels: Array,
    num_groups: int,
    dtype: DType = None,
    ddof: float = 0,
    *,
    min_count: int = 1,
) -> Any:
    """Return the variance of what is not NaN in each group, correctly rounded.

    As `ozaki.group_nansum`; differs as `group_var` does, and in NaN where a group has no more than ddof.

    Parameters
    ----------
    values, labels, num_groups, dtype, min_count : as in `group_nansum`.
    ddof : as in `var`.

    >>> group_nanvar(np.array([1e16, np.nan, 1e16 + 2, 1e16 + 4]), np.array([0, 1, 0, 0]), 2, ddof=1)
    array([ 4., nan])
    """
    return _without_nan("var", values, labels, num_groups, dtype, min_count, ddof)


@public("Sums by group", dask=True)
@on_device_of_arrays
def group_nanstd(
    values: Array,
    labels: Array,
    num_groups: int,
    dtype: DType = None,
    ddof: float = 0,
    *,
    min_count: int = 1,
) -> Any:
    """Return the standard deviation of what is not NaN in each group, correctly rounded.

    As `ozaki.group_nanvar`; differs in the root.

    >>> group_nanstd(np.array([-3e200, np.nan, 3e200]), np.array([0, 0, 0]), 1)
    array([3.e+200])
    """
    return _without_nan("std", values, labels, num_groups, dtype, min_count, ddof)


@public("Sums by group", dask=True)
@on_device_of_arrays
def group_average(values: Array, labels: Array, num_groups: int, weights: Array) -> Any:
    """Return the weighted mean of each group, correctly rounded: exact sums, divided and rounded once.

    As `ozaki.group_mean`; differs as `average` does from `mean`.

    Parameters
    ----------
    values, labels, num_groups : as in `group_sum`.
    weights : real array that broadcasts to values. ZeroDivisionError where those of a group that has numbers
        sum to exactly zero.

    >>> x, labels = np.array([1e100, 3.0, -1e100, 5.0]), np.array([0, 0, 0, 2])
    >>> group_average(x, labels, 3, weights=np.array([1.0, 2.0, 1.0, 4.0]))
    array([1.5, nan, 5. ])
    """
    x, w = numbers(values, "values"), numbers(weights, "weights")
    xp = check_same_device(values=x, weights=w)
    if w.dtype.kind == "c":
        raise TypeError(f"weights must be real, got {w.dtype}; take the real part first")
    if w.shape != x.shape:
        if broadcast_shape(values=x.shape, weights=w.shape) != x.shape:
            raise ValueError(f"weights must broadcast to values, of shape {x.shape}, got shape {w.shape}")
        w = xp.broadcast_to(w, x.shape)
    x, index, shape = labelled(x, labels, num_groups)
    if (found := _at_once("average", (x, w), index, shape, None)) is not None:
        return found
    check_labels(index, shape[-1])
    used, renumbered = used_groups(index, shape[-1])
    dense = (*shape[:-1], len(used))
    means = grouped("average", (x, w), renumbered, dense, None)
    result = filled(x, shape, np.nan, means.dtype)
    result[..., used] = means
    return result


def _without_nan(
    name: str,
    values: Any,
    labels: Any,
    num_groups: Any,
    dtype: DType,
    min_count: Any,
    ddof: Any = None,
) -> Array:
    """Return the results of a reduction of what is not NaN, group by group."""
    x, index, shape = labelled(values, labels, num_groups)
    least = checked_min_count(min_count)
    dtype = dtype_of_counted(x.dtype, dtype, least)
    options = {} if ddof is None else {"ddof": exact_ddof(ddof)}
    if name != "sum" and least <= max(1, math.floor(options.get("ddof", 0)) + 1):
        found = _at_once(f"nan{name}", (x,), index, shape, dtype, **options)
        if found is not None:
            return found
    check_labels(index, shape[-1])
    columns = columns_of(index, prod(shape[:-1]), shape[-1])
    flat, columns, present = counted(name, x.reshape(-1), columns)
    result = grouped(name, (flat,), columns, (prod(shape),), dtype, **options)
    limit = most_for_nan(least, **options)
    if limit >= 0:
        counts = namespace(x).bincount(present, minlength=prod(shape))
        result = without(result, counts <= limit, np.nan)
    return result.reshape(shape)


def _at_once(
    name: str, arrays: tuple[Array, ...], index: Array, shape: tuple[int, ...], dtype: DType, **options: Any
) -> Array | None:
    """Return the results from a compiled form or kernel; None where it does not take such numbers.

    It has NaN of groups of nothing, and of those that ddof leaves no freedom.
    """
    reduction, groups = REDUCTIONS[name], shape[-1]
    target = reduction.dtype(arrays, dtype, None, shape)
    # A complex mean leaves out both parts of a number where one is NaN, and the kernel takes part by part.
    if (reduction.skip_nan and target.kind in "iubc") or not 0 < groups <= GROUPS_PER_NUMBER * index.size:
        return None
    return rounded_rows(reduction, arrays, index, shape, target, **options)


def checked_min_count(min_count: Any) -> int:
    """Return of how many numbers there is a result. TypeError or ValueError for what is no such count."""
    if (least := integer("min_count", min_count)) < 0:
        raise ValueError(f"min_count must not be negative, got {least}")
    return least


def dtype_of_counted(of_x: np.dtype, dtype: DType, least: int) -> DType:
    """Return the dtype of results, which are NaN of fewer numbers than `least`."""
    if least > 0 and dtype is not None and np.dtype(dtype).kind in "iub":
        raise TypeError(f"dtype must hold NaN for min_count={least}, got {np.dtype(dtype)}; leave out dtype")
    return np.float64 if of_x.kind in "iub" and least > 0 and dtype is None else dtype


def most_for_nan(least: int, ddof: Any = -1) -> float:
    """Return the largest count whose result is NaN; below 0 none is."""
    return max(least - 1, float(ddof))


def counted(name: str, flat: Array, columns: Array) -> tuple[Array, Array, Array]:
    """Return numbers and their columns without NaN, which is 0 to a sum, and the columns of others."""
    if not has_nan(flat):
        return flat, columns, columns
    missing = is_nan(flat)
    present = columns[~missing]
    if name == "sum":
        return without(flat, missing), columns, present
    return flat[~missing], present, present
