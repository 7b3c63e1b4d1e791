"""The exact sums of chunks, and their merge: what a tree reduction of Dask's is made of.

A chunk comes to its `PartialSums`: one accumulator for each sum that the function needs, in its short form
where that will do (`extracted`), and how many numbers each output has had. They merge in any order; the last
task rounds them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from dask.array.utils import meta_from_array

from multiword.runtime.arrays import Array, device_of
from ozaki.dask.extracted import ExtractedSums
from ozaki.dask.tasks import flat, task
from ozaki.sums.arguments import real_dtype, reduced_shape
from ozaki.sums.exact.summands import Summands
from ozaki.sums.exactsum import ExactSum
from ozaki.sums.table import Reduction

Sums = ExactSum | ExtractedSums
"""What adds up exactly."""


class PartialSums(NamedTuple):
    """The accumulators of some chunks, and how many numbers each output has had."""

    totals: tuple[Sums, ...]
    counts: np.ndarray | int


def reduce_exactly(
    reduction: Reduction,
    arrays: Sequence[da.Array],
    dtype: np.dtype,
    finish: Callable[[tuple[Sums, ...], Any], Any],
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
        combine=task(called, _merged),
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
) -> PartialSums:
    """The partial sums of one chunk."""
    outputs = tuple(a for a in range(x.ndim) if a not in axis)
    first, second = (z if z is None else z.transpose((*axis, *outputs)) for z in (x, y))
    counts: np.ndarray | int = prod(x.shape[a] for a in axis)
    if reduction.skip_nan or masked:
        first, left = reduction.counted(first, len(axis), second if masked else None)
        counts = np.array(left, np.int64)
    shape = tuple(x.shape[a] for a in outputs)
    return PartialSums(tuple(summed(terms(first, second), exact, shape) for terms in reduction.sums), counts)


def summed(summands: list[list[Summands]], dtype: np.dtype, shape: tuple[int, ...]) -> Sums:
    """The sums of summands of shape (..., *shape), in their short form if possible; of one part real."""
    dtype = dtype if len(summands) == 2 else real_dtype(dtype)
    if (short := ExtractedSums.of(dtype, shape, summands)) is not None:
        return short
    with device_of(summands[0][0].factors[0]):
        return ExactSum(dtype, shape)._add(summands).compact()


def _finished(
    parts: Any, *, axis: tuple[int, ...], keepdims: bool, finish: Callable[[tuple[Sums, ...], Any], Any]
) -> Any:
    """The rounded results of all chunks."""
    totals, counts = _merged(parts)
    result = finish(totals, counts)
    if not keepdims:
        return result
    shape = list(totals[0].shape)
    for a in sorted(axis):
        shape.insert(a, 1)
    return result.reshape(shape)


def _merged(parts: Any, **_: Any) -> PartialSums:
    """Nested lists of partial sums, merged; they are left as they are: other tasks may want them."""
    totals, counts = zip(*flat(parts), strict=True)
    return PartialSums(tuple(added_up(sums) for sums in zip(*totals, strict=True)), sum(counts))


def added_up(sums: Sequence[Sums]) -> Sums:
    """The sum of accumulators, in its short form if these are and it will do."""
    short = [x for x in sums if isinstance(x, ExtractedSums)]
    if len(short) == len(sums) and (together := short[0].merge(short[1:])) is not None:
        return together
    total = ExactSum(sums[0].dtype, sums[0].shape)
    for x in sums:
        total.merge(x.exact() if isinstance(x, ExtractedSums) else x)
    return total.compact()
