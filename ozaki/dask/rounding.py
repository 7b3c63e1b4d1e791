"""What becomes of the merged sums of all chunks: one division or root, one rounding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, namespace
from ozaki.dask.accumulators import Sums
from ozaki.rounding.conversion import joined, narrow
from ozaki.sums.arguments import format_of, real_dtype
from ozaki.sums.exact.fixed_point import Rounding
from ozaki.sums.table import quotients
from ozaki.sums.variance import variances


def rounded_sum(totals: Sequence[Sums], _: Any, target: np.dtype) -> Any:
    (total,) = totals
    fixed = total.fixed_point()
    return _delivered(fixed.round(format_of(target)), fixed.flags, total, target)


def rounded_mean(totals: Sequence[Sums], _: Any, count: int, target: np.dtype) -> Any:
    (total,) = totals
    fixed = total.fixed_point()
    values = np.full(fixed.flags.size, np.nan)
    if count:
        values = Rounding(format_of(target), count)(fixed.on_host())
    return _delivered(values, fixed.flags, total, target)


def rounded_norm(totals: Sequence[Sums], _: Any, target: np.dtype) -> Any:
    (total,) = totals
    fixed = total.fixed_point()
    values = Rounding(format_of(target), root=True)(fixed.on_host())
    return _delivered(values, fixed.flags, total, target)


def rounded_nanmean(totals: Sequence[Sums], counts: Any, target: np.dtype) -> Any:
    (total,) = totals
    fixed = total.fixed_point()
    host, all_counts = fixed.on_host(), counts.tolist()
    all_counts *= host.flags.size // max(1, len(all_counts))  # once more for imaginary parts
    values = quotients(host, all_counts, Rounding(format_of(target)))
    return _delivered(values, fixed.flags, total, target)


def rounded_deviation(
    totals: Sequence[Sums], counts: Any, ddof: Any, target: np.dtype, root: bool, skip_nan: bool
) -> Any:
    elements, squares = totals
    fixed, q = elements.fixed_point().on_host(), squares.fixed_point()
    size = q.flags.size
    sums = [fixed.columns(slice(i, i + size)) for i in range(0, fixed.flags.size, max(1, size))] or [fixed]
    every = np.broadcast_to(counts, q.flags.shape).tolist()
    host, rounding = q.on_host(), Rounding(format_of(target), root=root)
    values = variances(host, sums, every, ddof, rounding, skip_nan)
    return _delivered(values, q.flags, squares, target)


def _delivered(values: Array, like: Array, total: Sums, target: np.dtype) -> Any:
    """Float64 numbers, real parts first, in the result's dtype and shape, where `like` lies."""
    count = 2 if total.dtype.kind == "c" else 1
    parts = narrow(values, real_dtype(target)).reshape(count, *total.shape)
    return namespace(like).asarray(joined(list(parts), target))[()]
