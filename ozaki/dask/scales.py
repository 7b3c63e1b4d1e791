"""Row statistics of blocks, merged over the inner dimension: what scales of a product in pieces follow from.

Of every row of A (column of B) the largest exponent first, a maximum over blocks, then sums relative to it;
both at once where rows lie in one block. So it is with rows of equilibrated blocks, which tasks equilibrate
for themselves (`known` says why).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
from dask.layers import ArrayBlockIdDep

from multiword.runtime.arrays import Array, device_of, namespace
from ozaki.arguments import exactly
from ozaki.dask.memory import task
from ozaki.dask.trees import as_it_is, merged
from ozaki.product.factor import Factor
from ozaki.scaling.statistics import (
    NONFINITE,
    NONFINITE_ROW,
    ZERO,
    RowStatistics,
    largest_exponents,
    row_sums,
)

_NO_ROW = np.int32(-(1 << 27))
"""The exact scale of a row of zeros, below all others."""

Shifts = tuple[np.ndarray, ...] | None
"""The (1, k) shifts by which each block of the inner dimension is equilibrated, if it is."""


@dataclass(frozen=True)
class Rows:
    """What is known of the rows of A, or columns of B, that blocks have in common.

    Attributes
    ----------
    exponent : (r,) int32, as in `RowStatistics`.
    exact : (r,) int32, the smallest scales that lose nothing.
    sums : the statistics relative to the exponents, once these are known.
    lossless : whether the blocks are as they came, or were equilibrated exactly.
    """

    exponent: Array
    exact: Array
    sums: RowStatistics | None = None
    lossless: bool = True

    def __sizeof__(self) -> int:
        sums = () if self.sums is None else (self.sums.total, self.sums.square, self.sums.counts)
        return object.__sizeof__(self) + sum(int(x.nbytes) for x in (self.exponent, self.exact, *sums))

    @property
    def exact_scales(self) -> Array:
        """As those of a factor."""
        xp = namespace(self.exponent)
        exact = xp.where(self.exponent == ZERO, 0, self.exact)
        return xp.where(self.exponent == NONFINITE, NONFINITE_ROW, exact).astype(xp.int32)

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
        return Rows(exponent, exact, sums, self.lossless and other.lossless)

    @classmethod
    def side_by_side(cls, pieces: list[Rows]) -> Rows:
        """Those of several blocks of rows."""
        xp = namespace(pieces[0].exponent)
        sums = [piece.sums for piece in pieces if piece.sums is not None]
        exponent = xp.concatenate([piece.exponent for piece in pieces])
        exact = xp.concatenate([piece.exact for piece in pieces])
        total, square = (xp.concatenate([getattr(x, name) for x in sums]) for name in ("total", "square"))
        counts = xp.concatenate([x.counts for x in sums], axis=1)
        statistics = RowStatistics(exponent, total, square, counts, sums[0].length)
        return cls(exponent, exact, statistics, all(piece.lossless for piece in pieces))

    def factor(self, side: int, k: int, dtype: np.dtype) -> Factor:
        """A factor with this knowledge and no numbers, for the steps that need none."""
        assert self.sums is not None
        xp = namespace(self.exponent)
        shape = (len(self.exponent), k) if side == 0 else (k, len(self.exponent))
        factor = Factor(xp.broadcast_to(xp.zeros((), dtype), shape), side)
        factor.statistics, factor.exact_scales = self.sums, self.exact_scales
        return factor


def merged_rows(
    x: da.Array, side: int, dtype: np.dtype, equilibrated: tuple[da.Array, da.Array] | None = None
) -> da.Array:
    """Return a Dask array with a block of `Rows` for each block of rows of A, or of columns of B.

    equilibrated : for A·D or D⁻¹·B: the `Shifts`, in an array of one block, and the `Rows` of A or B.
        Every block is None if the shifts are.
    """
    name, k_axis, indices = "ab"[side], 1 - side, "ik" if side == 0 else "ki"
    given: tuple[Any, ...] = ()
    if equilibrated:
        shifts, rows = equilibrated
        given = (shifts, "", rows, "i", ArrayBlockIdDep((x.chunks[k_axis],)), "k")
    called = f"ozaki.dask.matmul, row statistics of {name}{', equilibrated' if equilibrated else ''}"
    whole, largest_of, sums_of = (
        task(called, function, side=side, dtype=dtype) for function in (_of_whole_rows, _largest, _sums)
    )
    merge = partial(merged, merge=Rows.merge)
    tree = {"axis": k_axis, "dtype": object, "concatenate": False, "meta": np.empty((0,), object)}
    if x.numblocks[k_axis] == 1:
        array = {"dtype": object, "meta": tree["meta"], "token": f"ozaki-rows-{name}", "align_arrays": False}
        return da.blockwise(whole, "i", x, indices, *given, **array)
    objects = {"dtype": object, "meta": np.empty((0, 0), object), "align_arrays": False}
    largest = da.blockwise(
        largest_of, indices, x, indices, *given, token=f"ozaki-exponents-{name}", **objects
    )
    exponents = da.reduction(
        largest, as_it_is, merge, combine=merge, name=f"ozaki-largest-exponents-{name}", **tree
    )
    pairs = x, indices, exponents, "i", *given
    sums = da.blockwise(sums_of, indices, *pairs, token=f"ozaki-row-sums-{name}", **objects)
    return da.reduction(sums, as_it_is, merge, combine=merge, name=f"ozaki-rows-{name}", **tree)


def _of_whole_rows(blocks: list[Array], *given: Any, side: int, dtype: np.dtype) -> Rows | None:
    """The statistics of rows that are in one block."""
    (x,) = blocks
    with device_of(x):
        if (found := _block(x, side, dtype, *given)) is None:
            return None
        block, lossless = found
        return _rows(block, block.statistics.exponent, block.statistics, lossless)


def _block(x: Array, side: int, dtype: np.dtype, *given: Any) -> tuple[Factor, bool] | None:
    """A block as a factor, equilibrated if asked for, and whether that is exact; None without shifts."""
    if not given:
        return Factor(exactly("ab"[side], x, dtype), side), True
    if given[0] is None:
        return None
    block, exact = shifted_block(x, side, dtype, *given)
    return block, bool(exact().all())


def shifted_block(
    x: Array, side: int, dtype: np.dtype, shifts: tuple[np.ndarray, ...], rows: Rows, number: Any
) -> tuple[Factor, Callable[[], Array]]:
    """A block of A·D or D⁻¹·B as a factor, and, when asked, whether it is multiplied exactly.

    The number is that of the block along the inner dimension, as `da.blockwise` gives it, and rows are those
    of A or B: they say which are not finite.
    """
    while isinstance(number, list | tuple):
        (number,) = number
    block, shift = Factor(exactly("ab"[side], x, dtype), side), shifts[number]
    with np.errstate(all="ignore"):
        factor, exact = block.shifted(rows.exact_scales, shift if side == 0 else -shift)
    return Factor(factor.matrix, side), exact


def _rows(block: Factor, exponent: Array, sums: RowStatistics | None, lossless: bool) -> Rows:
    exact = namespace(exponent).where(exponent == ZERO, _NO_ROW, block.exact_scales)
    return Rows(exponent, exact, sums, lossless)


def _largest(x: Array, *given: Any, side: int, dtype: np.dtype) -> Rows | None:
    with device_of(x):
        if (found := _block(x, side, dtype, *given)) is None:
            return None
        block, lossless = found
        return _rows(block, largest_exponents(block.parts), None, lossless)


def _sums(x: Array, rows: Rows | None, *given: Any, side: int, dtype: np.dtype) -> Rows | None:
    with device_of(x):
        if rows is None or (found := _block(x, side, dtype, *given)) is None:
            return None
        return Rows(rows.exponent, rows.exact, row_sums(found[0].parts, rows.exponent), rows.lossless)
