"""Exact sums over axes, rounded once, by the first of several forms that takes them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from multiword.runtime.arrays import Array, is_cupy
from ozaki.sums.exact import reduction_cuda, rows, tiles, vectors
from ozaki.sums.exact.accumulator import Superaccumulator
from ozaki.sums.exact.fixed_point import FixedPoint, Rounding
from ozaki.sums.exact.summands import Summands
from ozaki.sums.exact.tiles import digits_of, in_memory_order

FORMS = (rows.few, rows.rounded, vectors.rounded, tiles.rounded_tiles)
"""In the order in which they are tried: what takes the least wherever it takes a sum at all. Each returns
None for sums that it does not take; the last one takes all."""


def rounded_sums(summands: Sequence[Summands], reduced: int, rounding: Rounding) -> Array:
    """Return the sums of all the summands over their first `reduced` axes, rounded, in the format's dtype."""
    if is_cupy(summands[0].factors[0]):
        return reduction_cuda.rounded_sums(summands, reduced, digits_of(summands), rounding)
    if (result := FORMS[0](summands, reduced, rounding)) is not None:  # however they lie
        return result
    summands, kept = in_memory_order(summands, reduced)
    for form in FORMS[1:]:
        result = form(summands, reduced, rounding)
        if result is not None:
            return result.transpose(np.argsort(kept)) if len(kept) > 1 else result
    raise AssertionError("the last form takes all sums")


def accumulate(total: Superaccumulator, columns: slice, summands: Sequence[Summands], reduced: int) -> None:
    """Add the sums over the first `reduced` axes to columns of a superaccumulator, in C order."""
    if is_cupy(summands[0].factors[0]):
        total.merge(reduction_cuda.accumulated_on_device(summands, reduced, total.range), columns)
        return
    shape = summands[0].shape[reduced:]
    part = Superaccumulator(total.range, prod(shape)) if is_cupy(total.flags) else total
    index = np.arange(prod(shape)) + (columns.start if part is total else 0)
    summands, kept = in_memory_order(summands, reduced)
    tiles.add_tiles(part, index.reshape(shape).transpose(kept), summands, reduced)
    if part is not total:
        total.merge(part, columns)


def exact_sums(summands: Sequence[Summands], reduced: int) -> FixedPoint:
    """Return the exact sums over the first `reduced` axes, on the host, for all outputs in C order."""
    if reduced == len(summands[0].shape) and (vector := vectors.vector_sum(summands)) is not None:
        return vector
    outputs = prod(summands[0].shape[reduced:])
    total = Superaccumulator(digits_of(summands), outputs)
    accumulate(total, slice(0, outputs), summands, reduced)
    return total.on_host().fixed_point()
