"""The exact sums of chunks, and their merge: what a tree reduction of Dask's is made of.

A chunk comes to its *partial sums*, a tuple: one accumulator for each sum that the function needs, and how
many numbers each output has had. Partial sums merge in any order; the last task rounds them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import dask.array as da
import numpy as np
from dask.array.utils import meta_from_array

from multiword.runtime.arrays import Array, real_parts
from ozaki.dask.memory import naming_the_task
from ozaki.dask.trees import flat
from ozaki.sums.arguments import reduced_shape
from ozaki.sums.exactsum import ExactSum
from ozaki.sums.statistics import without_nan

Terms = Callable[[ExactSum, Array, "Array | None"], Any]
"""Adds what a sum is of, from an array of shape (terms, *outputs) or two of them, to an accumulator."""

Partial = tuple[tuple[ExactSum, ...], "np.ndarray | int"]
"""The accumulators of some chunks, and how many numbers each output has had."""


def add_elements(total: ExactSum, x: Array, _: Array | None) -> None:
    """Σ x."""
    total.add(x)


def add_squares(total: ExactSum, x: Array, _: Array | None) -> None:
    """Σ |x|², to a real accumulator."""
    for part in real_parts(x):
        total.add_products(part, part)


def add_products(total: ExactSum, x: Array, y: Array | None) -> None:
    """Σ x·y."""
    total.add_products(x, y)


def reduce_exactly(
    name: str,
    x: da.Array,
    axes: tuple[int, ...],
    keepdims: bool,
    sums: tuple[tuple[Terms, np.dtype], ...],
    finish: Callable[[tuple[ExactSum, ...], Any], Any],
    target: np.dtype,
    y: da.Array | None = None,
    skip_nan: bool = False,
    split_every: int | dict[int, int] | None = None,
) -> da.Array:
    """Return the lazy reduction of x, or of x and y of one shape, over axes.

    Parameters
    ----------
    name : of the function, which the tasks have.
    sums : what is added up, and the dtype of its accumulator.
    finish : makes the rounded result of the accumulators and the counts.
    target : the result's dtype.
    """
    shape = reduced_shape(x.shape, axes, keepdims)
    chunk = partial(_chunk_sums, task=f"ozaki.dask.{name}", sums=sums, skip_nan=skip_nan)
    return da.reduction(
        x,
        chunk,
        partial(_finished, task=f"ozaki.dask.{name}", finish=finish),
        axis=axes,
        keepdims=keepdims,
        dtype=target,
        split_every=split_every,
        combine=partial(_merged_again, task=f"ozaki.dask.{name}"),
        name=f"ozaki-{name}",
        concatenate=False,
        meta=meta_from_array(x._meta.real, ndim=len(shape), dtype=target),
        weights=y,
    )


@naming_the_task
def _chunk_sums(
    x: Array,
    y: Array | None = None,
    *,
    axis: tuple[int, ...],
    keepdims: bool,
    task: str,
    sums: tuple[tuple[Terms, np.dtype], ...],
    skip_nan: bool,
    computing_meta: bool = False,
) -> Any:
    """The partial sums of one chunk."""
    del keepdims, task
    if computing_meta:
        return x.real  # which is cast to the result's dtype, real for a norm
    kept = tuple(a for a in range(x.ndim) if a not in axis)
    first, second = (z if z is None else z.transpose((*axis, *kept)) for z in (x, y))
    counts: np.ndarray | int = prod(x.shape[a] for a in axis)
    if skip_nan:
        first, left = without_nan(first, len(axis))
        counts = np.array(left, np.int64)
    shape = tuple(x.shape[a] for a in kept)
    totals = []
    for add, dtype in sums:
        total = ExactSum(dtype, shape)
        add(total, first, second)
        totals.append(total.compact())
    return tuple(totals), counts


@naming_the_task
def _merged_again(
    parts: Any, *, axis: tuple[int, ...], keepdims: bool, task: str, computing_meta: bool = False
) -> Any:
    """The partial sums of some chunks."""
    del axis, keepdims, task
    return parts if computing_meta else merged(parts)


@naming_the_task
def _finished(
    parts: Any,
    *,
    axis: tuple[int, ...],
    keepdims: bool,
    task: str,
    finish: Callable[[tuple[ExactSum, ...], Any], Any],
    computing_meta: bool = False,
) -> Any:
    """The rounded results of all chunks."""
    del task
    if computing_meta:
        return parts
    totals, counts = merged(parts)
    result = finish(totals, counts)
    if not keepdims:
        return result
    shape = list(totals[0].shape)
    for a in sorted(axis):
        shape.insert(a, 1)
    return result.reshape(shape)


def merged(parts: Any) -> Partial:
    """Merge nested lists of partial sums, which are left as they are: other tasks may want them."""
    totals: tuple[ExactSum, ...] = ()
    counts: np.ndarray | int = 0
    for more, count in flat(parts):
        totals = totals or tuple(ExactSum(x.dtype, x.shape) for x in more)
        for total, x in zip(totals, more, strict=True):
            total.merge(x)
        counts = counts + count
    return tuple(total.compact() for total in totals), counts
