"""Statistics of the rows of A and the columns of B, merged over the inner dimension.

What scales follow from: of each row first the largest exponent, a maximum over blocks, then sums relative to
it; both at once where the inner dimension is in one chunk. Those of A·D and D⁻¹·B come from blocks that each
task equilibrates for itself: if one task did it for all, its result would be another chunk on one worker,
sent to others that have the block already, and so for data that are not equilibrated, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import dask.array as da
import numpy as np

from multiword.runtime.arrays import Array, device_of, namespace
from multiword.runtime.options import exactly
from ozaki.dask.arguments import as_chunk
from ozaki.dask.tasks import merge_tree, merged, objects, task
from ozaki.product.factor import Factor
from ozaki.scaling.statistics import (
    NONFINITE,
    NONFINITE_ROW,
    ZERO,
    RowStatistics,
    largest_exponents,
    row_sums,
)

_NO_SCALE = np.int32(-(1 << 27))
"""The exact scale of a row of zeros, below all others."""


@dataclass(frozen=True)
class FactorStatistics:
    """What scaling and the certificate take from some rows of A, or columns of B.

    Attributes
    ----------
    rows : their statistics.
    exact_scales : (r,) int32, the smallest scales that lose nothing.
    lossless : whether the blocks are as they came, or were equilibrated exactly.
    dtype : of the product.
    """

    rows: RowStatistics
    exact_scales: Array
    lossless: bool
    dtype: np.dtype

    def __sizeof__(self) -> int:
        rows = self.rows
        arrays = rows.exponent, rows.total, rows.square, rows.counts, self.exact_scales
        return object.__sizeof__(self) + sum(int(x.nbytes) for x in arrays)

    @classmethod
    def of(cls, maxima: Array, rows: RowStatistics, dtype: np.dtype) -> FactorStatistics:
        """Those of rows with these sums, and with the maxima of `_maxima`."""
        exponent, scale, lost = maxima
        xp = namespace(maxima)
        exact = xp.where(exponent == NONFINITE, NONFINITE_ROW, xp.where(exponent == ZERO, 0, scale))
        return cls(rows, exact.astype(xp.int32), not bool(lost.any()), dtype)

    def merge(self, other: FactorStatistics) -> FactorStatistics:
        """Those of the same rows, with the sums over two parts of the inner dimension."""
        return replace(self, rows=self.rows.merge(other.rows))

    @classmethod
    def concatenate(cls, parts: Sequence[FactorStatistics]) -> FactorStatistics:
        """Those of several blocks of rows."""
        exact = namespace(parts[0].exact_scales).concatenate([part.exact_scales for part in parts])
        rows = RowStatistics.concatenate([part.rows for part in parts])
        return cls(rows, exact, all(part.lossless for part in parts), parts[0].dtype)

    def factor(self, side: int) -> Factor:
        """A factor with these statistics and no numbers, for the steps that need none."""
        r, k = len(self.exact_scales), self.rows.length // (2 if self.dtype.kind == "c" else 1)
        zero = namespace(self.exact_scales).zeros((), self.dtype)
        factor = Factor(namespace(zero).broadcast_to(zero, (k, r) if side else (r, k)), side)
        factor.statistics, factor.exact_scales = self.rows, self.exact_scales
        return factor


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
        return Factor(factor.matrix, self.side), bool(exact().all())


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
    maximum, add = partial(merged, merge=_maximum), partial(merged, merge=FactorStatistics.merge)
    maxima = objects(largest, indices, x, indices, *equilibration, token=token.format("exponents"))
    maxima = merge_tree(maxima, inner, maximum, maximum, token.format("largest-exponents"))
    blocks = x, indices, maxima, "i", *equilibration
    return merge_tree(
        objects(sums, indices, *blocks, token=token.format("row-sums")),
        inner,
        *(add, add, token.format("row-statistics")),
    )


def _block(x: Array, side: Side, *equilibration: Any) -> tuple[Factor, bool]:
    return side.shifted(x, *equilibration) if equilibration else (side.block(x), True)


def _maxima(block: Factor, exponent: Array, lossless: bool) -> Array:
    """What blocks of the same rows merge by maxima: (3, r) int32, exponents, exact scales, 1 for "lost"."""
    xp = namespace(exponent)
    exact = xp.where(exponent == ZERO, _NO_SCALE, block.exact_scales)
    return xp.stack([exponent, exact, xp.full_like(exponent, not lossless)])


def _maximum(x: Array, y: Array) -> Array:
    return namespace(x).maximum(x, y)


def _unsplit_rows(blocks: list[Array], *equilibration: Any, side: Side) -> FactorStatistics:
    (x,), shifts = blocks, equilibration[1:]
    with device_of(x):
        block, lossless = _block(x, side, *equilibration[:1], *(of_block for (of_block,) in shifts))
        maxima = _maxima(block, block.statistics.exponent, lossless)
        return FactorStatistics.of(maxima, block.statistics, side.dtype)


def _block_maxima(x: Array, *equilibration: Any, side: Side) -> Array:
    with device_of(x):
        block, lossless = _block(x, side, *equilibration)
        return _maxima(block, largest_exponents(block.parts), lossless)


def _block_sums(x: Array, maxima: Array, *equilibration: Any, side: Side) -> FactorStatistics:
    with device_of(x):
        block, _ = _block(x, side, *equilibration)
        return FactorStatistics.of(maxima, row_sums(block.parts, maxima[0]), side.dtype)
