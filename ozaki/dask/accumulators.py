"""The exact sums of chunks, and their merge: what a tree reduction of Dask's is made of.

A chunk comes to its *partial sums*, a tuple: one accumulator for each sum that the function needs, in its
short form where that will do (`extracted`), and how many numbers each output has had. Partial sums merge in
any order; the last task rounds them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import dask.array as da
import numpy as np
from dask.array.utils import meta_from_array

from multiword.runtime.arrays import Array, real_parts
from ozaki.dask.extracted import ExtractedSums
from ozaki.dask.tasks import flat, task
from ozaki.sums.arguments import reduced_shape
from ozaki.sums.exact.summands import Summands, products
from ozaki.sums.exactsum import ExactSum
from ozaki.sums.table import without_nan

Sums = ExactSum | ExtractedSums
"""What adds up exactly."""

Partial = tuple[tuple[Sums, ...], "np.ndarray | int"]
"""The accumulators of some chunks, and how many numbers each output has had."""


@dataclass(frozen=True)
class Terms:
    """What a sum is of: from an array of shape (terms, *outputs), or two of them.

    Attributes
    ----------
    add : adds it to an accumulator.
    summands : the terms of its real part, then of its imaginary part if there is one.
    """

    add: Callable[[ExactSum, Array, Array | None], Any]
    summands: Callable[[Array, Array | None], list[list[Summands]]]


def _add_elements(total: ExactSum, x: Array, _: Array | None) -> None:
    total.add(x)


def _elements(x: Array, _: Array | None) -> list[list[Summands]]:
    return [[Summands((part,))] for part in real_parts(x)]


def _add_squares(total: ExactSum, x: Array, _: Array | None) -> None:
    for part in real_parts(x):  # to a real accumulator
        total.add_products(part, part)


def _squares(x: Array, _: Array | None) -> list[list[Summands]]:
    return [[Summands((part, part)) for part in real_parts(x)]]


def _add_products(total: ExactSum, x: Array, y: Array | None) -> None:
    total.add_products(x, y)


ELEMENTS = Terms(_add_elements, _elements)
"""Σ x."""

SQUARES = Terms(_add_squares, _squares)
"""Σ |x|²."""

PRODUCTS = Terms(_add_products, products)
"""Σ x·y."""


def reduce_exactly(
    name: str,
    x: da.Array,
    axes: tuple[int, ...],
    keepdims: bool,
    sums: tuple[tuple[Terms, np.dtype], ...],
    finish: Callable[[tuple[Sums, ...], Any], Any],
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
    shape, called = reduced_shape(x.shape, axes, keepdims), f"ozaki.dask.{name}"
    return da.reduction(
        x,
        task(called, _chunk_sums, sums=sums, skip_nan=skip_nan),
        task(called, _finished, finish=finish),
        axis=axes,
        keepdims=keepdims,
        dtype=target,
        split_every=split_every,
        combine=task(called, merged),
        name=f"ozaki-{name}",
        concatenate=False,
        meta=meta_from_array(x._meta.real, ndim=len(shape), dtype=target),
        weights=y,
    )


def _chunk_sums(
    x: Array,
    y: Array | None = None,
    *,
    axis: tuple[int, ...],
    sums: tuple[tuple[Terms, np.dtype], ...],
    skip_nan: bool,
    **_: Any,
) -> Partial:
    """The partial sums of one chunk."""
    kept = tuple(a for a in range(x.ndim) if a not in axis)
    first, second = (z if z is None else z.transpose((*axis, *kept)) for z in (x, y))
    counts: np.ndarray | int = prod(x.shape[a] for a in axis)
    if skip_nan:
        first, left = without_nan(first, len(axis))
        counts = np.array(left, np.int64)
    shape = tuple(x.shape[a] for a in kept)
    return tuple(summed(terms, dtype, shape, first, second) for terms, dtype in sums), counts


def summed(terms: Terms, dtype: np.dtype, shape: tuple[int, ...], x: Array, y: Array | None) -> Sums:
    """The sum of a chunk, in its short form if possible."""
    if (short := ExtractedSums.of(dtype, shape, terms.summands(x, y))) is not None:
        return short
    total = ExactSum(dtype, shape)
    terms.add(total, x, y)
    return total.compact()


def _finished(
    parts: Any, *, axis: tuple[int, ...], keepdims: bool, finish: Callable[[tuple[Sums, ...], Any], Any]
) -> Any:
    """The rounded results of all chunks."""
    totals, counts = merged(parts)
    result = finish(totals, counts)
    if not keepdims:
        return result
    shape = list(totals[0].shape)
    for a in sorted(axis):
        shape.insert(a, 1)
    return result.reshape(shape)


def merged(parts: Any, **_: Any) -> Partial:
    """Merge nested lists of partial sums, which are left as they are: other tasks may want them."""
    totals, counts = zip(*flat(parts), strict=True)
    return tuple(added_up(sums) for sums in zip(*totals, strict=True)), sum(counts)


def added_up(sums: tuple[Sums, ...]) -> Sums:
    """The sum of accumulators, in its short form if these are and it will do."""
    first, *others = sums
    short = [x for x in others if isinstance(x, ExtractedSums)]
    if isinstance(first, ExtractedSums) and len(short) == len(others):
        together = first.merge(short)
        if together is not None:
            return together
    total = ExactSum(first.dtype, first.shape)
    for x in sums:
        total.merge(x.exact() if isinstance(x, ExtractedSums) else x)
    return total.compact()
