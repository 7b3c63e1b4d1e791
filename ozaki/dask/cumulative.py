"""Running sums of Dask arrays: every chunk goes on from the exact sum of what comes before it.

The exact sums of chunks merge to those of all chunks before each, in twice log2(n) steps. Such a sum is a few
floating-point numbers that add up to it exactly; after these, a chunk's running sums are those of the whole
array.
"""

from __future__ import annotations

from itertools import product
from typing import Any, cast

import dask.array as da
import numpy as np
from dask.array.utils import meta_from_array
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from multiword.runtime.arrays import Array, device_of, namespace
from multiword.runtime.options import integer
from ozaki.dask.arguments import (
    accumulator_dtype,
    as_chunk,
    checked_chunks,
    known_chunks,
    no_out,
    without_empty_chunks,
)
from ozaki.dask.tasks import objects, task
from ozaki.sums.arguments import DType, axes_of, result_dtype, summed_dtype
from ozaki.sums.cumulative import running_sums
from ozaki.sums.partial import PartialSums
from ozaki.sums.table import elements

_TASK = "ozaki.dask.cumsum"


def cumsum(x: Any, axis: int | None = None, dtype: DType = None, out: None = None) -> da.Array:
    """Return the lazy running sums along an axis of a Dask array: as `ozaki.cumsum`; differs as `sum` does.

    The result has the chunks of x, each of which is taken twice.

    References
    ----------
    As `ozaki.cumsum`: Kulisch. Blelloch, Prefix sums and their applications, 1990 (the merges).

    >>> import dask.array as da
    >>> cumsum(da.from_array(np.array([1.0, 1e100, 1.0, -1e100]), chunks=1)).compute()
    array([1.e+000, 1.e+100, 1.e+100, 2.e+000])
    """
    no_out(out)
    x = known_chunks(x, "x")
    (along,) = (0,) if axis is None else axes_of(integer("axis", axis), x.ndim)
    target = result_dtype(x._meta, summed_dtype(x._meta), dtype, None, ())
    x = _flat(x) if axis is None else x
    chunks, x = x.chunks, without_empty_chunks(x)
    if target.kind in "iub":
        sums = da.cumsum(checked_chunks(x, "x"), axis=along, dtype=target)
    else:
        indices = tuple(range(x.ndim))
        sums = da.blockwise(
            task(_TASK, _running, axis=along, target=target, declared=x.dtype),
            indices,
            *(x, indices, _sums_before(x, along), indices),
            align_arrays=False,
            dtype=target,
            meta=meta_from_array(x._meta, ndim=x.ndim, dtype=target),
            token="ozaki-cumsum",
        )
    return sums if sums.chunks == chunks else sums.rechunk(chunks)


def _flat(x: da.Array) -> da.Array:
    if x.size == 0:
        return da.zeros_like(x._meta, shape=(0,), chunks=0, dtype=x.dtype)
    return without_empty_chunks(x).reshape(-1)


def _sums_before(x: da.Array, axis: int) -> da.Array:
    """An object for each chunk: the exact sums of those before it along the axis, None for the first."""
    indices, count = tuple(range(x.ndim)), x.numblocks[axis]
    options = {"axis": axis, "dtype": accumulator_dtype(x), "declared": x.dtype}
    total = task(f"{_TASK}, sums of chunks", _total, **options)
    totals = objects(total, indices, x, indices, token="ozaki-cumsum-totals")
    name = f"ozaki-cumsum-starts-{tokenize(totals.name, axis)}"
    graph: dict[Any, Any] = {}
    for rest in product(*(range(n) for a, n in enumerate(x.numblocks) if a != axis)):
        of_chunks, starts = (
            [(array, *rest[:axis], i, *rest[axis:]) for i in range(count)] for array in (totals.name, name)
        )
        graph[starts[0]] = None
        for i in range(1, count):
            _merge(0, i, of_chunks, starts, graph)
    layers = HighLevelGraph.from_collections(name, graph, dependencies=[cast(Any, totals)])
    return da.Array(layers, name, totals.chunks, dtype=object, meta=totals._meta)


def _merge(first: int, end: int, of_chunks: list[Any], starts: list[Any], graph: dict[Any, Any]) -> Any:
    """The key of the sum of chunks first to end - 1, which merges two sums of which others are made, too.

    Spans of 2**n chunks are two halves; what comes before a chunk is such spans, as its number has bits.
    """
    if end - first == 1 and first > 0:
        return of_chunks[first]
    key = starts[end] if first == 0 else ("ozaki-cumsum-merged", first, end, *of_chunks[first])
    if key not in graph:
        middle = end - (end & -end)
        middle = middle if middle > first else (first + end) // 2
        parts = [(first, middle), (middle, end)] if end > 1 else []
        merged = [_merge(*part, of_chunks, starts, graph) for part in parts] or of_chunks[:1]
        graph[key] = (PartialSums.merged, merged)
    return key


def _total(x: Array, *, axis: int, dtype: np.dtype, declared: np.dtype) -> PartialSums:
    """The exact sums of a chunk along the axis."""
    x = as_chunk(x, "x", declared)
    moved = namespace(x).moveaxis(x, axis, 0)
    return PartialSums.of(elements(moved), dtype, moved.shape[1:])


def _running(
    x: Array, before: PartialSums | None, *, axis: int, target: np.dtype, declared: np.dtype
) -> Array:
    """The running sums of a chunk, after the exact sums of what comes before it."""
    x = as_chunk(x, "x", declared)
    with device_of(x):
        first = before if before is None else before.numbers(2 * x.shape[axis])
        return running_sums(x, axis, target, first)
