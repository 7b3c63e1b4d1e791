"""Row statistics of blocks, merged over the inner dimension: what scales of a product in pieces follow from.

Of every row of A (column of B) the largest exponent first, a maximum over blocks, then sums relative to it;
both at once where rows lie in one block.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import dask.array as da
import numpy as np

from multiword.runtime.arrays import Array, device_of, namespace
from ozaki.arguments import exactly
from ozaki.dask.memory import naming_the_task
from ozaki.dask.trees import as_it_is, merged
from ozaki.factor import Factor
from ozaki.scaling.equilibration import shifted
from ozaki.scaling.scales import NONFINITE_ROW
from ozaki.scaling.statistics import NONFINITE, ZERO, RowStatistics, largest_exponents, row_sums

_NO_ROW = np.int32(-(1 << 27))
"""The exact scale of a row of zeros, below all others."""


@dataclass(frozen=True)
class Rows:
    """What is known of the rows of A, or columns of B, that blocks have in common.

    Attributes
    ----------
    exponent : (r,) int32, as in `RowStatistics`.
    exact : (r,) int32, the smallest scales that lose nothing.
    sums : the statistics relative to the exponents, once these are known.
    """

    exponent: Array
    exact: Array
    sums: RowStatistics | None = None

    def merge(self, other: Rows) -> Rows:
        """Those of the rows of which these are pieces."""
        xp = namespace(self.exponent)
        exponent, exact = xp.maximum(self.exponent, other.exponent), xp.maximum(self.exact, other.exact)
        sums = None
        if self.sums is not None and other.sums is not None:
            one, two = self.sums, other.sums
            sums = RowStatistics(
                exponent,
                one.total + two.total,
                one.square + two.square,
                one.counts + two.counts,
                one.length + two.length,
            )
        return Rows(exponent, exact, sums)

    @classmethod
    def side_by_side(cls, pieces: list[Rows]) -> Rows:
        """Those of several blocks of rows."""
        xp = namespace(pieces[0].exponent)
        sums = [piece.sums for piece in pieces if piece.sums is not None]
        exponent = xp.concatenate([piece.exponent for piece in pieces])
        exact = xp.concatenate([piece.exact for piece in pieces])
        total, square = (xp.concatenate([getattr(x, name) for x in sums]) for name in ("total", "square"))
        counts = xp.concatenate([x.counts for x in sums], axis=1)
        return cls(exponent, exact, RowStatistics(exponent, total, square, counts, sums[0].length))

    def factor(self, side: int, k: int, dtype: np.dtype) -> Factor:
        """A factor with this knowledge and no numbers, for the steps that need none."""
        assert self.sums is not None
        xp = namespace(self.exponent)
        shape = (len(self.exponent), k) if side == 0 else (k, len(self.exponent))
        factor = Factor(xp.broadcast_to(xp.zeros((), dtype), shape), side)
        factor.statistics = self.sums
        exact = xp.where(self.exponent == ZERO, 0, self.exact)
        factor.exact_scales = xp.where(self.exponent == NONFINITE, NONFINITE_ROW, exact).astype(xp.int32)
        return factor


Shifts = np.ndarray | None
"""The (1, k) shifts by which a block of the inner dimension is equilibrated, if it is."""


def factor_of(x: Array, side: int, dtype: np.dtype, shifts: Shifts = None) -> Factor:
    """A block of A or B as a factor, with shifts that of A·D or D⁻¹·B."""
    factor = Factor(exactly("ab"[side], x, dtype), side)
    return factor if shifts is None else shifted(factor, shifts if side == 0 else -shifts)[0]


def merged_rows(x: da.Array, side: int, dtype: np.dtype, shifts: da.Array | None = None) -> da.Array:
    """Return a Dask array with a block of `Rows` for each block of rows of A, or of columns of B.

    With shifts, those of A·D or D⁻¹·B; None where the blocks of shifts are.
    """
    name, k_axis, indices = "ab"[side], 1 - side, "ik" if side == 0 else "ki"
    options: dict[str, Any] = {
        "task": f"ozaki.dask.matmul, row statistics of {name}",
        "side": side,
        "dtype": dtype,
        "always": shifts is None,
    }
    blocks = x, indices, shifts, None if shifts is None else "k"
    merge = partial(merged, merge=Rows.merge)
    tree = {"axis": k_axis, "dtype": object, "concatenate": False, "meta": np.empty((0,), object)}
    if x.numblocks[k_axis] == 1:
        whole = partial(_of_whole_rows, **options)
        return da.blockwise(whole, "i", *blocks, dtype=object, meta=tree["meta"], token=f"ozaki-rows-{name}")
    objects = {"dtype": object, "meta": np.empty((0, 0), object)}
    largest = da.blockwise(
        partial(_largest, **options), indices, *blocks, token=f"ozaki-exponents-{name}", **objects
    )
    exponents = da.reduction(
        largest, as_it_is, merge, combine=merge, name=f"ozaki-largest-exponents-{name}", **tree
    )
    sums = da.blockwise(
        partial(_sums, **options), indices, *blocks, exponents, "i", token=f"ozaki-row-sums-{name}", **objects
    )
    return da.reduction(sums, as_it_is, merge, combine=merge, name=f"ozaki-rows-{name}", **tree)


@naming_the_task
def _of_whole_rows(
    blocks: list[Array], shifts: list[Shifts] | None, *, task: str, side: int, dtype: np.dtype, always: bool
) -> Rows | None:
    """The statistics of rows that are in one block."""
    del task
    (x,), shift = blocks, shifts[0] if shifts else None
    if shift is None and not always:
        return None
    with device_of(x):
        block = factor_of(x, side, dtype, shift)
        return _rows(block, block.statistics.exponent, block.statistics)


def _rows(block: Factor, exponent: Array, sums: RowStatistics | None = None) -> Rows:
    return Rows(exponent, namespace(exponent).where(exponent == ZERO, _NO_ROW, block.exact_scales), sums)


@naming_the_task
def _largest(x: Array, shifts: Shifts, *, task: str, side: int, dtype: np.dtype, always: bool) -> Rows | None:
    del task
    if shifts is None and not always:
        return None
    block = factor_of(x, side, dtype, shifts)
    return _rows(block, largest_exponents(block.parts))


@naming_the_task
def _sums(
    x: Array, shifts: Shifts, rows: Rows | None, *, task: str, side: int, dtype: np.dtype, always: bool
) -> Rows | None:
    del task, always
    if rows is None:
        return None
    block = factor_of(x, side, dtype, shifts)
    return Rows(rows.exponent, rows.exact, row_sums(block.parts, rows.exponent))
