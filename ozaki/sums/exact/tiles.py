"""Sums of any terms over any axes, tile by tile: what all other forms are tested against.

The reduced axes come first and are cut into rows, the others are columns. A block of both fits in cache. Its
sums are added up by compiled windows (`extraction`) or, where these do not hold it and where nothing is
compiled, number by number (`Superaccumulator.add_terms`). The blocks' sums are added exactly again, so that
how an array is cut cannot be seen in the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf, prod
from operator import itemgetter
from typing import Any, cast

import numpy as np

from ozaki.rounding.conversion import narrow
from ozaki.sums.arguments import float_type, format_of
from ozaki.sums.exact.accumulator import Superaccumulator
from ozaki.sums.exact.extraction import block_sums
from ozaki.sums.exact.fixed_point import DigitRange, FixedPoint, Rounding, merged
from ozaki.sums.exact.levels import BLOCK_ROWS
from ozaki.sums.exact.summands import Summands, tiles
from ozaki.sums.exact.vectors import vector_sum
from ozaki.tuning import BLOCK_TERMS, PLAIN_TERMS, SHORT_LOOP, TILE_COLUMNS

Tile = tuple[slice, ...]
"""A box of outputs, or of rows."""


def rounded_tiles(summands: Sequence[Summands], reduced: int, rounding: Rounding) -> np.ndarray:
    """Return the sums over the first `reduced` axes, rounded."""
    tiling, dtype = Tiling.of(summands[0], reduced), rounding.target.dtype
    result = np.empty(summands[0].shape[reduced:], dtype)
    for output in tiling.outputs():
        part = result[cast(Any, (*output, ...))]
        part[...] = narrow(rounding(_tile_sums(summands, tiling, output)), dtype).reshape(part.shape)
    return result


def _tile_sums(summands: Sequence[Summands], tiling: Tiling, output: Tile) -> FixedPoint:
    """The exact sums of one tile; those of one window as they are."""
    if (vector := tiling.vector(summands, output)) is not None:
        return vector
    total = Superaccumulator(digits_of(summands), tiling.columns(output))
    columns = np.arange(total.flags.size)
    sums = list(merged(_windows(summands, tiling, output, total, columns)))
    if len(sums) == 1 and not total.flags.any():
        return sums[0]
    for part in sums:
        total.add(part)
    return total.fixed_point()


def add_tiles(
    total: Superaccumulator, columns: np.ndarray, summands: Sequence[Summands], reduced: int
) -> None:
    """Add the sums over the first `reduced` axes to columns of an accumulator, an array of their shape."""
    tiling = Tiling.of(summands[0], reduced)
    for output in tiling.outputs():
        index = columns[output].reshape(-1)
        if (vector := tiling.vector(summands, output)) is not None:
            total.add(vector, slice(index[0], index[0] + 1))  # sooner than at an array of one index
            continue
        for part in merged(_windows(summands, tiling, output, total, index)):
            total.add(part, index)


def _windows(
    summands: Sequence[Summands], tiling: Tiling, output: Tile, total: Superaccumulator, columns: np.ndarray
) -> Iterator[FixedPoint]:
    """Yield the sums of a tile's blocks; those that windows do not hold are added to the total."""
    for terms in summands:
        for rows in tiling.rows(columns.size):
            block = terms.apply(partial(tiling.part, rows=rows, output=output))
            sums = block_sums(block)
            for part in () if sums else _rows(block):
                total.add_terms(part, columns)
            yield from sums


def _rows(block: Summands) -> Iterator[Summands]:
    """Some rows of a block at a time, as many as NumPy's temporaries are to take room for."""
    n, m = block.shape
    step = max(1, PLAIN_TERMS // max(m, 1))
    for start in range(0, n, step):
        yield block.apply(itemgetter(slice(start, start + step)))


def digits_of(summands: Sequence[Summands]) -> DigitRange:
    """Return the digits of a superaccumulator: those of the widest format hold what the others need."""
    ranges = (DigitRange.of(format_of(float_type(x))) for terms in summands for x in terms.factors)
    return max(ranges, key=lambda r: r.digits)


def in_memory_order(summands: Sequence[Summands], reduced: int) -> tuple[Sequence[Summands], tuple[int, ...]]:
    """Put the reduced axes, and the others, in the order of their steps in memory.

    Return also the order of the axes that are kept, numbered without the reduced ones.
    """
    x = summands[0].factors[0]
    if x.ndim < 2:
        return summands, tuple(range(x.ndim - reduced))
    axes = sorted(range(x.ndim), key=lambda a: (a >= reduced, -abs(x.strides[a]) or -inf))
    kept = tuple(a - reduced for a in axes[reduced:])
    if axes == list(range(x.ndim)):
        return summands, kept
    return [terms.apply(lambda x: x.transpose(axes)) for terms in summands], kept


@dataclass(frozen=True)
class Tiling:
    """How an index space, `reduced` axes first, is cut into blocks of rows and columns.

    by_columns : blocks hold one column after another rather than one row after another.
    width : the most columns in a block.
    block : the most elements in a block, unless it is a single row.
    """

    shape: tuple[int, ...]
    reduced: int
    by_columns: bool
    width: int
    block: int

    @classmethod
    def of(cls, terms: Summands, reduced: int) -> Tiling:
        """Choose so that runs of memory stay together, and inner loops long."""
        x = terms.factors[0]
        step = [abs(s) if n > 1 else inf for s, n in zip(x.strides, x.shape, strict=True)]
        rows, columns = prod(x.shape[:reduced]), prod(x.shape[reduced:])
        nearest = min(step[:reduced], default=inf) < min(step[reduced:], default=inf)
        block = BLOCK_TERMS // len(terms.factors)
        fitting = max(1, block // max(rows, 1)) if rows <= BLOCK_ROWS else 1  # columns that are not cut
        if columns == 1 or (nearest and rows >= SHORT_LOOP):
            return cls(x.shape, reduced, True, fitting, block)
        if rows >= SHORT_LOOP > columns:
            return cls(x.shape, reduced, True, columns, block)
        return cls(x.shape, reduced, False, max(fitting, min(columns, TILE_COLUMNS)), block)

    def outputs(self) -> Iterator[Tile]:
        """Cut the axes that remain."""
        return tiles(self.shape[self.reduced :], self.width)

    def rows(self, columns: int) -> Iterator[Tile]:
        """Cut the reduced axes, for blocks of so many columns."""
        return tiles(self.shape[: self.reduced], min(BLOCK_ROWS, max(1, self.block // max(columns, 1))))

    def columns(self, output: Tile) -> int:
        """How many outputs a tile has."""
        kept = self.shape[self.reduced :]
        return prod(len(range(n)[s]) for n, s in zip(kept, output, strict=True))

    def vector(self, summands: Sequence[Summands], output: Tile) -> FixedPoint | None:
        """Return the exact sum of a tile that is one column; None for others, and where it needs blocks."""
        if self.columns(output) != 1:
            return None
        chosen = (slice(None),) * self.reduced + output
        shape = self.shape[: self.reduced]
        return vector_sum([terms.apply(lambda x: x[chosen].reshape(shape)) for terms in summands])

    def part(self, x: np.ndarray, rows: Tile, output: Tile) -> np.ndarray:
        """Return these rows and columns as an (n, m) array, a view where that is possible."""
        part = x[rows + output]
        n, m = prod(part.shape[: self.reduced]), prod(part.shape[self.reduced :])
        if not self.by_columns:
            return np.ascontiguousarray(part).reshape(n, m)
        axes = (*range(self.reduced, part.ndim), *range(self.reduced))
        return np.ascontiguousarray(part.transpose(axes)).reshape(m, n).T
