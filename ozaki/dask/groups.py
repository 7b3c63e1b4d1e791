"""Sums by group of Dask arrays: exact sums of each chunk's groups, merged as a tree, rounded once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial, reduce
from math import isnan
from operator import add
from typing import Any

import dask.array as da
import numpy as np
from dask.array.utils import meta_from_array

from multiword.runtime.arrays import Array, namespace, where_lies
from ozaki.dask.accumulators import chunk_sums_by_group, merged_sums
from ozaki.dask.arguments import (
    SplitEvery,
    accumulator_dtype,
    check_sizes,
    checked_chunks,
    like_arrays,
    partial_sums_a_task,
)
from ozaki.dask.reductions import rounded_sums
from ozaki.dask.tasks import flat, merge_tree, objects, public_form, task
from ozaki.public import PUBLIC, Record
from ozaki.sums.arguments import DType, broadcast_shape, numbers
from ozaki.sums.groups import group_count, grouped, label_vector, labelled, number_of_groups
from ozaki.sums.groups_covariance import variables
from ozaki.sums.groups_skipping import checked_min_count, dtype_of_counted, most_for_nan
from ozaki.sums.table import COVARIANCE, REDUCTIONS, Reduction, filled, without
from ozaki.sums.variance import exact_ddof

_DIFFERENCE = """

    As `ozaki.{name}`; differs in being lazy: it has the bits of that function on the whole arrays.

    Parameters
    ----------
    {arrays} : in chunks of NumPy or CuPy arrays, or an array; sizes along the last axis need not be
        known, if those of all are not, as of columns of one data frame.
    {options} : as in `ozaki.{name}`.
    split_every : how many partial sums a task merges, at least 2, as in `dask.array.reduction`.

    Raises
    ------
    TypeError, ValueError : as `ozaki.{name}`, of labels out of range in a task; chunks of unknown sizes.
    MemoryError : in a task, which it names.

    >>> import dask.array as da, numpy as np, ozaki
    >>> x, labels = np.array([1e200, 3.0, -1e200]), np.array([0, 1, 0])
    >>> lazy = ozaki.{name}({lazy}da.from_array(labels, chunks=1), 2{weights})
    >>> lazy.compute().tobytes() == ozaki.{name}({whole}labels, 2{weights}).tobytes()
    True
    """


def _on_dask(record: Record) -> Callable[..., da.Array]:
    """Return a function of `ozaki` for Dask arrays, with its signature and documentation, and split_every."""
    arrays = [name for name in record.arrays if name not in ("labels", "num_groups")]
    split = inspect.Parameter("split_every", inspect.Parameter.KEYWORD_ONLY, default=None)
    signature = inspect.Signature([*record.parameters.values(), split], return_annotation="da.Array")

    def compute(**rest: Any) -> da.Array:
        if record.name == "group_count":
            return _counted(**rest)
        if record.name == "group_cov":
            return _covariances(**rest)
        return _grouped(record.name, {name: rest.pop(name) for name in arrays}, **rest)

    return public_form(compute, record, signature, "of Dask arrays", _difference(record, arrays))


def _difference(record: Record, arrays: list[str]) -> str:
    """How the form for Dask arrays differs, with an example."""
    weighted = "weights" in arrays
    lazy, whole = ("".join(f"{x}, " for _ in arrays[weighted:]) for x in ("da.from_array(x, chunks=2)", "x"))
    options = [name for name in record.parameters if name not in (*arrays, "labels")]
    return _DIFFERENCE.format(
        name=record.name,
        arrays=", ".join([*arrays, "labels"]),
        options=", ".join(options),
        lazy=lazy,
        whole=whole,
        weights=", np.array([1, 2, 3])" * weighted,
    )


def _counted(labels: Any, num_groups: Any, split_every: SplitEvery) -> da.Array:
    """The lazy counts of labels."""
    groups = number_of_groups(num_groups)
    if not isinstance(labels, da.Array):
        labels = da.from_array(label_vector(labels, groups), chunks=-1)
    label_vector(labels._meta, groups)
    like_arrays(labels=labels)
    counts = da.map_blocks(
        _counts,
        labels,
        size=groups,
        new_axis=1,
        chunks=((1,) * labels.numblocks[0], (groups,)),
        dtype=np.dtype(np.int64),
        meta=meta_from_array(labels._meta, ndim=2, dtype=np.int64),
    )
    return counts.sum(axis=0, split_every=split_every)


def _counts(labels: Array, *, size: int) -> Array:
    return group_count(labels, size)[None]


def _covariances(values: Any, rowvar: bool, **options: Any) -> da.Array:
    """The lazy matrices of groups: each pair of variables has one result, which stands in two places."""
    x = values if isinstance(values, da.Array) else da.asarray(numbers(values, "values"))
    x = variables(x, rowvar)
    check_sizes(x, "values", {1})
    lower, upper = pairs = np.triu_indices(len(x))
    place = np.empty((len(x), len(x)), np.int64)
    place[pairs] = place.T[pairs] = np.arange(len(lower))
    found = _grouped("group_cov", {"x": x[lower], "y": x[upper]}, **options)
    return found[place.reshape(-1)].reshape((*place.shape, found.shape[1])).transpose(2, 0, 1)


_ROWS = {COVARIANCE.name: COVARIANCE}
"""Rows that the table of reductions over axes does not have."""


def _grouped(
    name: str,
    given: dict[str, Any],
    labels: Any,
    num_groups: Any,
    split_every: SplitEvery,
    dtype: DType = None,
    min_count: Any = 0,
    **options: Any,
) -> da.Array:
    """The lazy results of groups."""
    skip_nan, least = name.startswith("group_nan"), checked_min_count(min_count)
    groups = number_of_groups(num_groups)
    reduction = _ROWS.get(name) or REDUCTIONS[name.removeprefix("group_").removeprefix("nan")]
    if "ddof" in options:
        options["ddof"] = exact_ddof(options["ddof"])
    *arrays, index = _operands(given, labels, groups)
    limit = most_for_nan(least, **options) if skip_nan else -1
    dtype = dtype_of_counted(arrays[0].dtype, dtype, least)
    target = reduction.dtype([x._meta for x in arrays], dtype)
    every = tuple(range(arrays[0].ndim))
    pairs = [z for x in arrays for z in (x, every)]
    chunk = partial(
        _of_chunk,
        reduction=reduction,
        exact=np.result_type(*map(accumulator_dtype, arrays)),
        size=groups,
        target=target,
        skip_nan=skip_nan,
    )
    merge = _added if target.kind in "iub" else merged_sums
    called = f"ozaki.dask.{name}"
    parts = objects(task(called, chunk), every, *pairs, index, every[-1:], token=f"ozaki-{name}")
    finish: Callable[..., Any] = _added
    if merge is not _added:
        rounded = rounded_averages if reduction.name == "average" else rounded_sums
        rounded = partial(rounded, reduction=reduction, target=target, **options)
        finish = partial(_finished, finish=rounded, limit=limit)
    at_once = partial_sums_a_task(split_every, parts.numblocks[-1:])
    result = merge_tree(parts, every[-1], finish, merge, f"ozaki-{name}-merged", at_once, keepdims=True)
    meta = meta_from_array(arrays[0]._meta.real, ndim=len(every), dtype=target)
    return da.Array(result.dask, result.name, (*result.chunks[:-1], (groups,)), meta=meta)


def _operands(given: dict[str, Any], labels: Any, groups: int) -> list[da.Array]:
    """Return arrays of one shape, and their labels, in chunks that are alike along the last axis."""
    given = {name: x if isinstance(x, da.Array) else numbers(x, name) for name, x in given.items()}
    for name, x in given.items():
        if not x.ndim:
            raise ValueError(f"{name} must have an axis, along which labels name the groups, got a number")
    arrays = {name: checked_chunks(x, name, reduced=-1) for name, x in given.items()}
    if "weights" in arrays and arrays["weights"].dtype.kind == "c":
        raise TypeError(f"weights must be real, got {arrays['weights'].dtype}; take the real part first")
    if isinstance(labels, da.Array):
        label_vector(labels._meta, groups)
    else:
        labels = da.from_array(label_vector(labels, groups), chunks=-1)
    like_arrays(**arrays, labels=labels)
    together = [*arrays.values(), labels]
    if any(isnan(x.shape[-1]) for x in together):
        return _of_unknown_sizes(arrays, labels)
    shape = broadcast_shape(**{name: x.shape for name, x in arrays.items()})
    if "weights" in arrays and shape != (of_values := arrays["values"].shape):
        raise ValueError(
            f"weights must broadcast to values, of shape {of_values}, got shape {arrays['weights'].shape}"
        )
    if shape[-1:] != labels.shape:
        raise ValueError(f"arrays must have shape (..., {labels.size}), as many as labels, got {shape}")
    every = [da.broadcast_to(x, shape) for x in arrays.values()]
    indices = tuple(range(len(shape)))
    pairs = [z for x in every for z in (x, indices)]
    return list(da.core.unify_chunks(*pairs, labels, indices[-1:], warn=False)[1])


def _of_unknown_sizes(arrays: dict[str, da.Array], labels: da.Array) -> list[da.Array]:
    """Return arrays as they are, if chunks may be alike: tasks see whether they are."""
    first, *_ = arrays.values()
    for name, x in arrays.items():
        if x.chunks[:-1] != first.chunks[:-1] or x.numblocks[-1:] != labels.numblocks:
            check_sizes(x, name)
            check_sizes(labels, "labels")
    return [*arrays.values(), labels]


def _of_chunk(
    *blocks: Array, reduction: Reduction, exact: np.dtype, size: int, target: np.dtype, skip_nan: bool
) -> Any:
    """The exact sums of a chunk by group; of integers as NumPy has them."""
    *arrays, labels = blocks
    first, index, shape = labelled(arrays[0], labels, size)
    if any(x.shape != first.shape for x in arrays):
        raise ValueError(f"chunks must be alike, got shapes {', '.join(str(x.shape) for x in arrays)}")
    if target.kind in "iub":
        return grouped(reduction.name, tuple(arrays), index, shape, target)
    return chunk_sums_by_group(reduction, arrays, index, size, exact, skip_nan)


def _finished(parts: Any, *, finish: Callable[..., Any], limit: float, **_: Any) -> Any:
    """The rounded results; NaN of no more numbers than the limit."""
    sums, counts = merged_sums(parts)
    result = finish(sums, counts)
    return result if limit < 0 else without(result, namespace(result).asarray(counts <= limit), np.nan)


def rounded_averages(totals: Any, counts: np.ndarray, reduction: Reduction, target: np.dtype) -> Array:
    """Return the weighted means of groups, NaN of those that have no number."""
    used = np.flatnonzero(counts)
    sums = [[part.on_host().columns(used) for part in total.fixed_points()] for total in totals]
    result = filled(counts, counts.shape, np.nan, target)
    result.ravel()[used] = reduction.rounded(sums, counts.ravel()[used], target)
    return where_lies(totals[0].fixed_points()[0].flags, result)


def _added(parts: Any, **_: Any) -> Any:
    return reduce(add, flat(parts))


LAZY = {
    name: _on_dask(record) for name, record in PUBLIC.items() if record.dask and name.startswith("group_")
}
"""Reductions by group of `ozaki`, by name."""
