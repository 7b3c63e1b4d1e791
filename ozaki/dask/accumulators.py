"""The exact sums of chunks, and their merge: what a tree reduction of Dask's is made of.

A chunk comes to its `ChunkSums`: the `PartialSums` of each sum that the function needs, and how many numbers
each output has had. They merge in any order; the last task rounds them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from dask.array.utils import meta_from_array

from multiword.runtime.arrays import Array, device_of, on_host
from ozaki.dask.tasks import flat, task
from ozaki.sums.arguments import real_dtype, reduced_shape
from ozaki.sums.exact.groups import check_labels
from ozaki.sums.exactsum import ExactSum
from ozaki.sums.groups import columns_of
from ozaki.sums.groups_skipping import counted
from ozaki.sums.partial import PartialSums
from ozaki.sums.table import Reduction


class ChunkSums(NamedTuple):
    """The exact sums of some chunks, and how many numbers each output has had."""

    totals: tuple[PartialSums, ...]
    counts: np.ndarray | int


def reduce_exactly(
    reduction: Reduction,
    arrays: Sequence[da.Array],
    dtype: np.dtype,
    finish: Callable[[tuple[PartialSums, ...], Any], Any],
    *,
    axes: tuple[int, ...],
    keepdims: bool,
    target: np.dtype,
    split_every: int | dict[int, int] | None,
    masked: bool,
) -> da.Array:
    """Return the lazy reduction of one or two arrays, of one shape and chunks, over axes.

    Parameters
    ----------
    masked : whether the second array says which elements of the first count.
    dtype : of the accumulators, or of its parts where what they add up is real.
    finish : makes the rounded result of the accumulators and the counts.
    target : the result's dtype.
    """
    x, *others = arrays
    shape, called = reduced_shape(x.shape, axes, keepdims), f"ozaki.dask.{reduction.name}"
    return da.reduction(
        x,
        task(called, _chunk_sums, reduction=reduction, exact=dtype, masked=masked),
        task(called, _finished, finish=finish),
        axis=axes,
        keepdims=keepdims,
        dtype=target,
        split_every=split_every,
        combine=task(called, merged_sums),
        name=f"ozaki-{reduction.name}",
        concatenate=False,
        meta=meta_from_array(x._meta.real, ndim=len(shape), dtype=target),
        weights=others[0] if others else None,
    )


def _chunk_sums(
    x: Array,
    y: Array | None = None,
    *,
    axis: tuple[int, ...],
    reduction: Reduction,
    exact: np.dtype,
    masked: bool,
    **_: Any,
) -> ChunkSums:
    """The partial sums of one chunk."""
    outputs = tuple(a for a in range(x.ndim) if a not in axis)
    first, second = (z if z is None else z.transpose((*axis, *outputs)) for z in (x, y))
    counts: np.ndarray | int = prod(x.shape[a] for a in axis)
    if reduction.skip_nan or masked:
        first, left = reduction.counted(first, len(axis), second if masked else None)
        counts = np.array(left, np.int64)
    shape = tuple(x.shape[a] for a in outputs)
    totals = tuple(PartialSums.of(terms(first, second), exact, shape) for terms in reduction.sums)
    return ChunkSums(totals, counts)


def chunk_sums_by_group(
    reduction: Reduction,
    arrays: Sequence[Array],
    index: Array,
    size: int,
    exact: np.dtype,
    skip_nan: bool = False,
) -> ChunkSums:
    """Return the exact sums of a chunk, of one array or two, by the labels of their last axis."""
    flattened, shape = [x.reshape(-1) for x in arrays], (*arrays[0].shape[:-1], size)
    check_labels(index, size)
    columns, totals = columns_of(index, prod(shape[:-1]), size), []
    present = columns
    if skip_nan:
        flattened[0], columns, present = counted(reduction.name, flattened[0], columns)
    for terms in (of(*flattened) for of in reduction.sums):
        dtype = exact if len(terms) > 1 else real_dtype(exact)
        with device_of(index):
            register = ExactSum(dtype, shape).merge_terms(terms, columns).compact()
        totals.append(PartialSums(dtype, shape, (), register))
    counts = np.bincount(on_host(present), minlength=prod(shape))
    return ChunkSums(tuple(totals), counts.reshape(shape))


def _finished(
    parts: Any,
    *,
    axis: tuple[int, ...],
    keepdims: bool,
    finish: Callable[[tuple[PartialSums, ...], Any], Any],
) -> Any:
    """The rounded results of all chunks."""
    totals, counts = merged_sums(parts)
    result = finish(totals, counts)
    if not keepdims:
        return result
    shape = list(totals[0].shape)
    for a in sorted(axis):
        shape.insert(a, 1)
    return result.reshape(shape)


def merged_sums(parts: Any, **_: Any) -> ChunkSums:
    """Nested lists of partial sums, merged; they are left as they are: other tasks may want them."""
    totals, counts = zip(*flat(parts), strict=True)
    return ChunkSums(tuple(map(PartialSums.merged, zip(*totals, strict=True))), sum(counts))
