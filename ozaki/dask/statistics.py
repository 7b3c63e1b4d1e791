"""Statistics of the rows of A and the columns of B, merged over the inner dimension.

What scales follow from: of each row first the largest exponent, a maximum over blocks, then sums relative to
it; both at once where the inner dimension is in one chunk. Those of A·D and D⁻¹·B come from blocks that each
task equilibrates for itself: if one task did it for all, its result would be another chunk on one worker,
sent to others that have the block already, and so for data that are not equilibrated, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import dask.array as da
import numpy as np

from multiword.runtime.arrays import Array, device_of
from multiword.runtime.options import exactly
from multiword.runtime.readback import everywhere
from ozaki.dask.arguments import as_chunk
from ozaki.dask.tasks import merge_tree, merged, objects, task
from ozaki.product.factor import Factor
from ozaki.product.partial import FactorStatistics, larger, maxima
from ozaki.scaling.statistics import largest_exponents, row_sums


@dataclass(frozen=True)
class Side:
    """The blocks of A, or of B, as factors.

    Attributes
    ----------
    side : 0 for A, 1 for B.
    declared : the dtype that the Dask array says its blocks have.
    dtype : of the product.
    """

    side: int
    declared: np.dtype
    dtype: np.dtype

    @property
    def name(self) -> str:
        """Of the argument."""
        return "ab"[self.side]

    def block(self, x: Array) -> Factor:
        """A block as it came. TypeError for what the dtype of the product does not hold."""
        return Factor(exactly(self.name, as_chunk(x, self.name, self.declared), self.dtype), self.side)

    def shifted(self, x: Array, statistics: FactorStatistics, shifts: np.ndarray) -> tuple[Factor, bool]:
        """A block of A·D or D⁻¹·B, and whether it is multiplied exactly; of no rows where shifts are of none.

        Rows that are not finite, as statistics of A or B tell, are left as they are.
        """
        if not len(shifts):
            return Factor(np.empty((0, 1) if self.side == 0 else (1, 0), self.dtype), self.side), True
        with np.errstate(all="ignore"):
            factor, exact = self.block(x).shifted(statistics.exact_scales, -shifts if self.side else shifts)
        return Factor(factor.matrix, self.side), everywhere(exact())


def factor_statistics(
    x: da.Array, side: Side, statistics: da.Array | None = None, shifts: da.Array | None = None
) -> da.Array:
    """Return a Dask array with the `FactorStatistics` of each block of rows of A, or of columns of B.

    With statistics of A or B and the (1, k) shifts of each block of the inner dimension: those of A·D, or of
    D⁻¹·B; of no rows where shifts are of none.
    """
    equilibration = () if shifts is None else (statistics, "i", shifts, "h")
    indices, inner = ("hi", 0) if side.side else ("ih", 1)
    token = f"ozaki-{{}}-{side.name}{'-equilibrated' if equilibration else ''}"
    called = f"ozaki.dask.matmul, row statistics of {side.name}{', equilibrated' if equilibration else ''}"
    if x.numblocks[inner] == 1:
        unsplit = task(called, _unsplit_rows, side=side)
        return objects(unsplit, "i", x, indices, *equilibration, token=token.format("row-statistics"))
    largest, sums = task(called, _block_maxima, side=side), task(called, _block_sums, side=side)
    maximum, add = partial(merged, merge=larger), partial(merged, merge=FactorStatistics.merge)
    of_blocks = objects(largest, indices, x, indices, *equilibration, token=token.format("exponents"))
    of_rows = merge_tree(of_blocks, inner, maximum, maximum, token.format("largest-exponents"))
    blocks = x, indices, of_rows, "i", *equilibration
    return merge_tree(
        objects(sums, indices, *blocks, token=token.format("row-sums")),
        inner,
        *(add, add, token.format("row-statistics")),
    )


def _block(x: Array, side: Side, *equilibration: Any) -> tuple[Factor, bool]:
    return side.shifted(x, *equilibration) if equilibration else (side.block(x), True)


def _unsplit_rows(blocks: list[Array], *equilibration: Any, side: Side) -> FactorStatistics:
    (x,), shifts = blocks, equilibration[1:]
    with device_of(x):
        block, lossless = _block(x, side, *equilibration[:1], *(of_block for (of_block,) in shifts))
        largest = maxima(block, block.statistics.exponent, lossless)
        return FactorStatistics.of(largest, block.statistics, side.dtype)


def _block_maxima(x: Array, *equilibration: Any, side: Side) -> Array:
    with device_of(x):
        block, lossless = _block(x, side, *equilibration)
        return maxima(block, largest_exponents(block.parts), lossless)


def _block_sums(x: Array, largest: Array, *equilibration: Any, side: Side) -> FactorStatistics:
    with device_of(x):
        block, _ = _block(x, side, *equilibration)
        return FactorStatistics.of(largest, row_sums(block.parts, largest[0]), side.dtype)
