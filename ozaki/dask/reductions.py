"""Reductions of Dask arrays: rows of `ozaki.sums.table`, whose exact sums are those of all chunks.

The public functions follow from the records of `ozaki`: their signatures, and one parameter more.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial, reduce
from math import prod
from typing import Any

import dask.array as da
import numpy as np

from multiword.runtime.arrays import where_lies
from ozaki.dask.accumulators import reduce_exactly
from ozaki.dask.arguments import (
    SplitEvery,
    accumulator_dtype,
    check_sizes,
    checked_chunks,
    like_arrays,
    no_out,
    partial_sums_a_task,
    without_empty_chunks,
)
from ozaki.dask.tasks import public_form
from ozaki.public import PUBLIC, Record
from ozaki.sums.arguments import (
    Axis,
    DType,
    axes_of,
    broadcast_shape,
    check_mask,
    check_matrices,
    check_ord,
    weights_along,
)
from ozaki.sums.exactsum import ExactSum
from ozaki.sums.partial import PartialSums
from ozaki.sums.table import REDUCTIONS, Reduction
from ozaki.sums.variance import exact_ddof

Operands = tuple[tuple[da.Array, ...], Axis]
"""The arrays that are reduced, of one shape, and over which axes."""


def _one(x: Any, axis: Axis) -> Operands:
    return (checked_chunks(x, "x", reduced=axis),), axis


def _of_order(x: Any, ord: int | str | None, axis: Axis) -> Operands:
    x = checked_chunks(x, "x", reduced=axis)
    check_ord(ord, len(axes_of(axis, x.ndim)))
    return (x,), axis


def _weighted(x: Any, axis: Axis, weights: Any) -> Operands:
    if weights is None:
        return _one(x, axis)
    x, weights = _pair(x=x, weights=weights)
    weights = weights_along(x, without_empty_chunks(weights), axes_of(axis, x.ndim))
    return (x, da.broadcast_to(weights, x.shape)), axis


def _broadcast(x: Any, y: Any, axis: int | None) -> Operands:
    x, y = _pair(x=x, y=y)
    if axis is None:
        check_matrices(x.shape, y.shape)
    shape = broadcast_shape(x=x.shape, y=y.shape)
    x, y = (da.broadcast_to(without_empty_chunks(z), shape) for z in (x, y))
    return (x, y), -1 if axis is None else axis


def _flattened(x: Any, y: Any) -> Operands:
    x, y = _pair(x=x, y=y)
    if x.size != y.size:
        raise ValueError(f"x and y must have as many elements, got {x.size} and {y.size}")
    if x.shape != y.shape:
        x, y = (without_empty_chunks(z).reshape(-1) for z in (x, y))
    return (x, y), None


def _pair(**arrays: Any) -> tuple[da.Array, ...]:
    chunked = {name: checked_chunks(x, name) for name, x in arrays.items()}
    like_arrays(**chunked)
    return tuple(chunked.values())


def _reduced(
    name: str,
    arrays: tuple[da.Array, ...],
    axis: Axis,
    dtype: DType = None,
    out: None = None,
    keepdims: bool = False,
    *,
    split_every: SplitEvery,
    where: Any = None,
    **options: Any,
) -> da.Array:
    """The lazy reduction of one or two arrays of one shape."""
    no_out(out)
    if "ddof" in options:
        options["ddof"] = exact_ddof(options["ddof"], options.pop("correction"))
    axes, reduction = axes_of(axis, arrays[0].ndim), REDUCTIONS[name]
    target = reduction.dtype([x._meta for x in arrays], dtype)
    exact = np.result_type(*map(accumulator_dtype, arrays))
    if where is not None:
        arrays = (*arrays, _mask(where, arrays[0]))
    if len(arrays) > 1:
        indices = tuple(range(arrays[0].ndim))
        _, arrays = da.core.unify_chunks(*[z for x in arrays for z in (x, indices)], warn=False)
    tree: dict[str, Any] = {
        "keepdims": keepdims,
        "split_every": partial_sums_a_task(split_every, arrays[0].numblocks),
    }
    if target.kind in "iub":  # a mask leaves 0
        terms = reduce(da.multiply, [x.astype(target) for x in arrays])
        return da.sum(terms, axis=axes, dtype=target, **tree)
    finish = partial(rounded_sums, reduction=reduction, target=target, **options)
    masked = where is not None
    return reduce_exactly(reduction, arrays, exact, finish, axes=axes, target=target, masked=masked, **tree)


def _mask(where: Any, x: da.Array) -> da.Array:
    """Booleans in the shape of x. ValueError where x has chunks of unknown sizes."""
    check_sizes(x, "x")
    where = checked_chunks(where, "where")
    like_arrays(x=x, where=where)
    check_mask(where, x)
    return da.broadcast_to(without_empty_chunks(where), x.shape)


def rounded_sums(
    totals: Sequence[PartialSums | ExactSum],
    counts: Any,
    reduction: Reduction,
    target: np.dtype,
    **options: Any,
) -> Any:
    """Return the rounded results of merged sums, in their shape, where they lie."""
    sums, shape = [total.fixed_points() for total in totals], totals[0].shape
    like = sums[0][0].flags
    if not reduction.plain:  # what is more than the sums is made of them on the host
        sums = [[part.on_host() for part in parts] for parts in sums]
    counts = np.broadcast_to(np.ravel(counts), prod(shape)).tolist()
    return where_lies(like, reduction.rounded(sums, counts, target, **options).reshape(shape))[()]


_DIFFERENCE = """

    As `ozaki.{name}`; differs in being lazy: it has the bits of that function on the whole arrays.

    Parameters
    ----------
    {arrays} : in chunks of NumPy or CuPy arrays, of any sizes. Those along the axes that one array is reduced
        over need not be known, but beside where.
    split_every : how many partial sums a task merges, at least 2, or that by axis, as in
        `dask.array.reduction`.

    Raises
    ------
    TypeError : as `ozaki.{name}`; out is given, since a Dask array is not written to, or initial, mean,
        returned, fweights or aweights. In a task: a chunk is masked, sparse or lazy, or of a dtype that the
        one of its array does not hold.
    ValueError : as `ozaki.{name}`; chunks of unknown sizes elsewhere.
    MemoryError : in a task, which it names.

    >>> import dask.array as da, numpy as np, ozaki
    >>> x = np.array([1e200, 3.0, -1e200])
    >>> ozaki.{name}(da.from_array(x, chunks=1){example}).compute() == ozaki.{name}(x{example})
    np.True_
    """


_OPERANDS: dict[str, Callable[..., Operands]] = {
    "norm": _of_order,
    "dot": _broadcast,
    "vdot": _flattened,
    "average": _weighted,
}
"""Of the reductions that take more than one array and the axes."""


_IN_MEMORY = {"initial", "mean", "returned", "fweights", "aweights"}
"""What functions take of arrays in memory alone."""


def _on_dask(record: Record) -> Callable[..., da.Array]:
    """Return a function of `ozaki` for Dask arrays, with its signature and documentation, and split_every."""
    name, parameters, operands = record.name, record.parameters, _OPERANDS.get(record.name, _one)
    taken = inspect.signature(operands).parameters
    ours = [p for p in parameters.values() if p.name not in _IN_MEMORY]
    split = inspect.Parameter("split_every", inspect.Parameter.KEYWORD_ONLY, default=None)
    signature = inspect.Signature([*ours, split], return_annotation="da.Array")

    def compute(**rest: Any) -> da.Array:
        arrays, axis = operands(**{p: rest.pop(p) for p in taken})
        return _reduced("mean" if name == "average" and len(arrays) == 1 else name, arrays, axis, **rest)

    differs = _DIFFERENCE.format(
        name=name, arrays=", ".join(record.arrays), example=record.example and f", {record.example}"
    )
    return public_form(compute, record, signature, "of Dask arrays", differs)


LAZY = {name: _on_dask(PUBLIC[name]) for name in REDUCTIONS}
"""Every reduction of `ozaki`, by name."""
