"""Sums by group, and what follows from them: exact, rounded once, the same for every order of the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from multiword.runtime.arrays import (
    Array,
    as_array,
    check_same_device,
    is_cupy,
    namespace,
    on_device_of_arrays,
    on_host,
    real_parts,
    where_lies,
)
from multiword.runtime.options import integer
from ozaki.public import public
from ozaki.rounding.conversion import joined, narrow
from ozaki.sums.arguments import DType, broadcast_shape, format_of, numbers, real_dtype
from ozaki.sums.exact.groups import check_labels, group_sums, rounded_group_sums
from ozaki.sums.table import REDUCTIONS, Reduction, is_nan
from ozaki.sums.variance import exact_ddof
from ozaki.tuning import GROUPS_PER_NUMBER, OUTPUTS_ON_HOST


@public("Sums by group", dask=True)
@on_device_of_arrays
def group_sum(values: Array, labels: Array, num_groups: int, dtype: DType = None) -> Any:
    """Return the sum of each group, correctly rounded: `numpy.bincount` with weights and one rounding.

    Parameters
    ----------
    values : (..., n) array, NumPy or CuPy; dtypes as in `sum`. Integers and booleans are summed in integers.
    labels : (n,) integers from 0 to num_groups − 1, in any order: the groups of elements on the last axis.
    num_groups : how many groups there are; some may be empty.
    dtype : dtype of the result, default that of values.

    Returns
    -------
    (..., num_groups) array: each group's exact sum, rounded to nearest as in `sum`; 0 for an empty group.
    For sums of parts of the data, which merge exactly, there is `ExactSum.add_groups`.

    Raises
    ------
    TypeError : values are not numeric; labels are no integers, as keys with NaN are not.
    ValueError : labels outside of 0 to num_groups − 1, the first of which is named, or of another length.

    References
    ----------
    As `sum`: Rump, Ogita and Oishi; Kulisch.

    >>> group_sum(np.array([1e100, 0.1, 1.0, -1e100, 0.2]), np.array([0, 1, 0, 0, 1]), 3)
    array([1. , 0.3, 0. ])
    """
    return by_group("sum", values, labels, num_groups, dtype)


@public("Sums by group", dask=True)
@on_device_of_arrays
def group_mean(values: Array, labels: Array, num_groups: int, dtype: DType = None) -> Any:
    """Return the mean of each group, correctly rounded.

    As `ozaki.group_sum`; differs in dividing by the group's count, in float64 for integers, and is NaN for an
    empty group.

    >>> group_mean(np.array([1e100, 0.5, 2.0, -1e100]), np.array([0, 1, 0, 0]), 3)
    array([0.66666667, 0.5       ,        nan])
    """
    return by_group("mean", values, labels, num_groups, dtype)


@public("Sums by group", dask=True)
@on_device_of_arrays
def group_var(values: Array, labels: Array, num_groups: int, dtype: DType = None, ddof: float = 0) -> Any:
    """Return the variance of each group, correctly rounded: about the exact mean of the group.

    As `ozaki.group_sum`; differs as `var` does from `sum`: in a real dtype, and in NaN for an empty group.

    Parameters
    ----------
    values, labels, num_groups : as in `group_sum`.
    dtype, ddof : as in `var`.

    >>> group_var(np.array([1e16, 1.0, 1e16 + 2, 1e16 + 4]), np.array([0, 1, 0, 0]), 2, ddof=1)
    array([ 4., nan])
    """
    return by_group("var", values, labels, num_groups, dtype, ddof=exact_ddof(ddof))


@public("Sums by group", dask=True)
@on_device_of_arrays
def group_std(values: Array, labels: Array, num_groups: int, dtype: DType = None, ddof: float = 0) -> Any:
    """Return the standard deviation of each group, correctly rounded: the root of the exact variance.

    As `ozaki.group_var`; differs in the root.

    >>> group_std(np.array([-3e200, 1.0, 3e200]), np.array([0, 1, 0]), 2)
    array([3.e+200, 0.e+000])
    """
    return by_group("std", values, labels, num_groups, dtype, ddof=exact_ddof(ddof))


@public("Sums by group", dask=True)
@on_device_of_arrays
def group_dot(x: Array, y: Array, labels: Array, num_groups: int, dtype: DType = None) -> Any:
    """Return Σ x·y of each group, correctly rounded.

    As `ozaki.group_sum`; differs in adding exact products, neither of whose factors is conjugated.

    Parameters
    ----------
    x, y : arrays that broadcast to (..., n); dtypes as in `sum`.
    labels, num_groups, dtype : as in `group_sum`.

    >>> group_dot(np.array([1e200, 1.0, 1e200]), np.array([1e200, 3.0, -1e200]), np.array([0, 0, 0]), 1)
    array([3.])
    """
    x, y = numbers(x, "x"), numbers(y, "y")
    if x.shape != y.shape:
        broadcast_shape(x=x.shape, y=y.shape)
    xp = check_same_device(x=x, y=y)
    if x.shape != y.shape:
        x, y = xp.broadcast_arrays(x, y)
    x, index, shape = labelled(x, labels, num_groups, "x")
    return grouped("dot", (x, y), index, shape, dtype)


@public("Sums by group", dask=True)
@on_device_of_arrays
def group_count(labels: Array, num_groups: int) -> Any:
    """Return how many labels each group has, as int64.

    As `ozaki.group_sum`; differs in counting.

    Parameters
    ----------
    labels, num_groups : as in `group_sum`.

    Returns
    -------
    (num_groups,) array.

    Raises
    ------
    TypeError, ValueError : as `group_sum`.

    >>> group_count(np.array([2, 0, 2]), 4)
    array([1, 0, 2, 0])
    """
    groups = number_of_groups(num_groups)
    index = label_vector(labels, groups)
    check_labels(index, groups)
    return namespace(index).bincount(index, minlength=groups)


_INT64 = np.dtype(np.int64)

_HINTS = {
    "b": "labels.astype(int) makes 0 and 1 of them",
    "f": "leave out NaN keys, then labels.astype(int) makes integers of whole numbers",
}
"""What makes labels of arrays of other kinds."""


def label_vector(labels: Any, groups: int) -> Array:
    """Return labels as a vector of int64. TypeError or ValueError if they are no vector of integers.

    ValueError, too, for those that int64 does not hold; others may name no group (`check_labels`).
    """
    if type(labels) is np.ndarray and labels.dtype is _INT64 and labels.ndim == 1:
        return np.ascontiguousarray(labels)  # the usual case: what follows takes microseconds
    if isinstance(labels, list | tuple) and not labels:
        labels = np.zeros(0, np.int64)
    index = labels if isinstance(labels, np.ndarray) else as_array(labels, "labels")
    if index.dtype.kind not in "iu":
        hint = _HINTS.get(
            index.dtype.kind, "np.unique(keys, return_inverse=True)[1] numbers keys of any kind"
        )
        raise TypeError(f"labels must be integers from 0 to num_groups − 1, got {index.dtype}; {hint}")
    index = as_array(index, "labels")
    if index.ndim != 1:
        raise ValueError(f"labels must have one dimension, got shape {index.shape}")
    if index.dtype == np.uint64:
        check_labels(index, groups)
    return namespace(index).ascontiguousarray(index.astype(np.int64, copy=False))


def columns_of(index: Array, lead: int, groups: int) -> Array:
    """Return the columns of `lead` rows of elements, a row of groups for each."""
    if lead == 1:
        return index
    xp = namespace(index)
    return (xp.arange(lead, dtype=np.int64)[:, None] * groups + index).reshape(-1)


def number_of_groups(num_groups: Any) -> int:
    """Return a number of groups. TypeError for what is no integer, ValueError out of range."""
    groups = integer("num_groups", num_groups)
    if not 0 <= groups <= 1 << 48:
        raise ValueError(f"num_groups must be from 0 to 2**48, got {groups}")
    return groups


def by_group(
    name: str, values: Any, labels: Any, num_groups: int, dtype: DType = None, **options: Any
) -> Array:
    """Return the results of a reduction of one array, group by group."""
    x, index, shape = labelled(values, labels, num_groups)
    return grouped(name, (x,), index, shape, dtype, **options)


def labelled(
    values: Any, labels: Any, num_groups: Any, name: str = "values"
) -> tuple[Array, Array, tuple[int, ...]]:
    """Return the array, its labels, from wherever to wherever, and the shape of a result."""
    x, groups = numbers(values, name), number_of_groups(num_groups)
    index = label_vector(labels, groups)
    check_same_device(**{name: x, "labels": index})
    if not x.ndim or x.shape[-1] != index.size:
        remedy = f": give {name}.T" if x.ndim == 2 and len(x) == index.size else ""
        raise ValueError(
            f"{name} must have shape (..., {index.size}), as many as labels, got {x.shape}{remedy}"
        )
    return x, index, (*x.shape[:-1], groups)


def used_groups(index: Array, groups: int) -> tuple[Array, Array]:
    """Return the groups that have numbers, and for each label where among them its group is.

    >>> used_groups(np.array([3, 0, 3]), 5)
    (array([0, 3]), array([1, 0, 1]))
    """
    xp = namespace(index)
    if groups > GROUPS_PER_NUMBER * index.size:
        return xp.unique(index, return_inverse=True)
    there = xp.bincount(index, minlength=groups) > 0  # no sort
    used = xp.flatnonzero(there)
    return used, index if len(used) == groups else (xp.cumsum(there) - 1)[index]


def grouped(
    name: str,
    arrays: tuple[Array, ...],
    index: Array,
    shape: tuple[int, ...],
    dtype: DType,
    **options: Any,
) -> Array:
    """The results of a reduction of the table, group by group."""
    reduction, groups = REDUCTIONS[name], shape[-1]
    target = reduction.dtype(arrays, dtype, None, shape)
    if target.kind in "iub":
        check_labels(index, groups)
        return _integer_sums(arrays, index, shape, target)
    if groups > GROUPS_PER_NUMBER * index.size > 0:
        return _grouped_sparsely(name, arrays, index, shape, dtype, **options)
    found = rounded_rows(reduction, arrays, index, shape, target, **options)
    if found is not None:
        return found
    columns, flat = columns_of(index, prod(shape[:-1]), groups), [x.reshape(-1) for x in arrays]
    exact = exact_by_group(reduction, flat, columns, prod(shape), target, **options)
    return where_lies(index, exact.reshape(shape))


def rounded_rows(
    reduction: Reduction,
    arrays: tuple[Array, ...],
    index: Array,
    shape: tuple[int, ...],
    target: np.dtype,
    **options: Any,
) -> Array | None:
    """Return the results of arrays by group from one compiled form or kernel; as `rounded_at_once`."""
    if len(shape) == 1:  # the usual case: the form sees whether columns are there
        return rounded_at_once(reduction, arrays, index, shape[0], target, **options)
    check_labels(index, shape[-1])
    columns, flat = columns_of(index, prod(shape[:-1]), shape[-1]), [x.reshape(-1) for x in arrays]
    found = rounded_at_once(reduction, flat, columns, prod(shape), target, **options)
    return None if found is None else found.reshape(shape)


def exact_by_group(
    reduction: Reduction,
    arrays: Sequence[Array],
    columns: Array,
    outputs: int,
    target: np.dtype,
    **options: Any,
) -> Array:
    """Return the results of vectors by group, from exact sums; a few from a GPU's are on the host."""
    if reduction.plain:
        (terms,), formats = reduction.sums, format_of(target)
        parts = terms(*arrays)
        at_once = (rounded_group_sums(part, columns, outputs, formats) for part in parts)
        values = [narrow(x, real_dtype(target)) for x in at_once if x is not None]
        if len(values) == len(parts):
            return joined(values, target)
    sums = [[group_sums(part, columns, outputs) for part in terms(*arrays)] for terms in reduction.sums]
    counts = None
    if not reduction.plain:
        counts = namespace(columns).bincount(columns, minlength=outputs)
        if outputs <= OUTPUTS_ON_HOST:
            counts, sums = on_host(counts), [[part.on_host() for part in parts] for parts in sums]
    return reduction.rounded(sums, counts, target, **options)


def rounded_at_once(
    reduction: Reduction,
    arrays: Sequence[Array],
    columns: Array,
    outputs: int,
    target: np.dtype,
    **options: Any,
) -> Array | None:
    """Return the results of vectors by group from one compiled form or kernel, if there is one.

    None where it does not decide them all.
    """
    first, *others = arrays
    on_gpu = is_cupy(columns)
    form: Any = reduction.groups_on_gpu if on_gpu else reduction.groups_on_cpu
    if form is None or (others and any(x.dtype.kind == "c" for x in others)):
        return None
    rounding, values, real = reduction.rounding(target), [], real_dtype(target)
    for x in [first] if reduction.real else real_parts(first):
        found = form(x, *others, columns, outputs, rounding, **options)
        if found is None:
            return None
        part, hard = (found, None) if on_gpu else found
        part = narrow(part, real)
        if hard is not None and len(hard):
            part[hard] = _some_exactly(reduction, [x, *others], columns, hard, outputs, real, **options)
        values.append(part)
    return joined(values, target)


def _some_exactly(
    reduction: Reduction,
    arrays: Sequence[np.ndarray],
    columns: np.ndarray,
    some: np.ndarray,
    outputs: int,
    target: np.dtype,
    **options: Any,
) -> np.ndarray:
    """Return the results of some groups alone, from exact sums of their numbers."""
    wanted = np.zeros(outputs, bool)
    wanted[some] = True
    there = np.flatnonzero(wanted[columns])
    if reduction.skip_nan:
        there = there[~is_nan(arrays[0][there])]
    few, renumbered = [x[there] for x in arrays], np.searchsorted(some, columns[there])
    return exact_by_group(reduction, few, renumbered, len(some), target, **options)


def _grouped_sparsely(
    name: str, arrays: tuple[Array, ...], index: Array, shape: tuple[int, ...], dtype: DType, **options: Any
) -> Array:
    """The same, of the groups that have numbers alone: the others take no memory but their results'."""
    check_labels(index, shape[-1])
    used, renumbered = used_groups(index, shape[-1])
    some = grouped(name, arrays, renumbered, (*shape[:-1], len(used)), dtype, **options)
    nothing = grouped(name, tuple(x[..., :0] for x in arrays), index[:0], (*shape[:-1], 1), dtype, **options)
    result = namespace(index).empty(shape, some.dtype)
    result[...], result[..., used] = nothing, some
    return result


def _integer_sums(arrays: tuple[Array, ...], index: Array, shape: tuple[int, ...], target: np.dtype) -> Array:
    """The sums of products of integers, in integers as NumPy adds them: modulo 2**bits of the dtype."""
    xp = namespace(index)
    total, terms = xp.zeros(prod(shape), np.uint64), reduce(xp.multiply, [x.astype(target) for x in arrays])
    columns = columns_of(index, prod(shape[:-1]), shape[-1])
    xp.add.at(total, columns, terms.reshape(-1).astype(np.uint64))
    return total.astype(target).reshape(shape)
