"""Exact sums over axes of NumPy arrays, block by block.

The reduced axes come first and are cut into rows, the others are columns. A block of both
fits in cache, is summed exactly by `_window`, and the blocks' sums are added exactly again,
so that how an array is cut cannot be seen in the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from math import prod
from typing import Any, cast

import numpy as np

from multiword.runtime.arrays import Array, namespace
from ozaki.sums.fixedpoint import ORDINARY, FixedPoint, joined
from ozaki.sums.superaccumulator import Layout, Superaccumulator
from ozaki.sums.textbook import SPLITTER, product_error
from ozaki.sums.window import BLOCK_ROWS, Terms, align_terms, merged, window_terms, workspace

_PANEL = 1 << 12  # outputs whose sums wait to be rounded together
_FEW = 4  # terms of a tile that may do without a superaccumulator
_SHORT = 32  # rows or columns that make too short a loop
_COLUMNS = 256  # at least so many together where columns lie side by side: 2 KiB runs of memory
_SAFE = 2.0**500  # two factors up to this, split by Dekker's method, stay finite
_TINY = 2.0**-900  # the error of a product at least this large is a float64
_MASK32 = (1 << 32) - 1


@dataclass(frozen=True)
class Stream:
    """One sum's terms: x, or sign·x·y, element by element.

    factors : one or two arrays of real numbers, of one shape, reduced axes first; the same array
        twice for squares.
    """

    factors: tuple[Array, ...]
    sign: int = 1

    def apply(self, view: Callable[[Array], Array]) -> Stream:
        """Take a view of the factors; of one that is there twice, one view."""
        first = view(self.factors[0])
        others = (first if x is self.factors[0] else view(x) for x in self.factors[1:])
        return Stream((first, *others), self.sign)

    def narrow(self) -> bool:
        """Whether a product of two elements is a float64: 24 bits times 24, or 16 times 24."""
        bits = [x.dtype.itemsize * 8 for x in self.factors if x.dtype.kind in "iu"]
        floats = [x.dtype.itemsize for x in self.factors if x.dtype.kind in "fV"]
        return max(bits, default=0) <= 16 and max(floats, default=0) <= 4


Block = tuple[Stream, tuple[slice, ...]]
"""A stream and the rows of it to add."""


@dataclass(frozen=True)
class Tiling:
    """How an index space, `reduced` axes first, is cut into blocks of rows and columns."""

    shape: tuple[int, ...]
    reduced: int
    by_columns: bool
    width: int

    @classmethod
    def of(cls, x: np.ndarray, reduced: int) -> Tiling:
        """Choose so that runs of memory stay together, and inner loops long.

        by_columns : blocks hold one column after another rather than one row after another.
        width : the most columns in a block.
        """
        step = [abs(s) if n > 1 else np.inf for s, n in zip(x.strides, x.shape, strict=True)]
        rows, columns = prod(x.shape[:reduced]), prod(x.shape[reduced:])
        nearest = min(step[:reduced], default=np.inf) < min(step[reduced:], default=np.inf)
        whole = max(1, BLOCK_ROWS // max(rows, 1))
        if columns == 1 or (nearest and rows >= _SHORT):
            return cls(x.shape, reduced, True, whole)
        if rows >= _SHORT > columns:
            return cls(x.shape, reduced, True, columns)
        return cls(x.shape, reduced, False, max(whole, min(columns, _COLUMNS)))

    def outputs(self) -> Iterator[tuple[slice, ...]]:
        """Cut the axes that remain."""
        return tiles(self.shape[self.reduced :], self.width)

    def rows(self, columns: int) -> Iterator[tuple[slice, ...]]:
        """Cut the reduced axes, for blocks of so many columns."""
        return tiles(self.shape[: self.reduced], max(1, BLOCK_ROWS // max(columns, 1)))

    def columns(self, output: tuple[slice, ...]) -> int:
        """How many outputs a tile has."""
        kept = self.shape[self.reduced :]
        return prod(len(range(n)[s]) for n, s in zip(kept, output, strict=True))

    def blocks(self, streams: Sequence[Stream], output: tuple[slice, ...]) -> Iterator[Block]:
        """What has to be added up for a tile."""
        return ((stream, rows) for stream in streams for rows in self.rows(self.columns(output)))

    def part(self, x: np.ndarray, rows: tuple[slice, ...], output: tuple[slice, ...]) -> np.ndarray:
        """Return these rows and columns as an (n, m) array, a view where that is possible."""
        part = x[rows + output]
        n, m = prod(part.shape[: self.reduced]), prod(part.shape[self.reduced :])
        if not self.by_columns:
            return np.ascontiguousarray(part).reshape(n, m)
        axes = (*range(self.reduced, part.ndim), *range(self.reduced))
        return np.ascontiguousarray(part.transpose(axes)).reshape(m, n).T


def column_sums(streams: Sequence[Stream], reduced: int, layout: Layout) -> Iterator[Panel]:
    """Yield the exact sums over the first `reduced` axes of all the streams, panel by panel."""
    tiling = Tiling.of(streams[0].factors[0], reduced)
    outputs = list(tiling.outputs())
    together = max(1, _PANEL // max(1, max(map(tiling.columns, outputs), default=1)))
    for start in range(0, len(outputs), together):
        part = outputs[start : start + together]
        sums = [_tile_sums(streams, tiling, output, layout) for output in part]
        for indices in _alike(sums):
            yield Panel([part[i] for i in indices], joined([sums[i] for i in indices]))


@dataclass(frozen=True)
class Panel:
    """Exact sums for some tiles of the outputs, one tile after another."""

    outputs: list[tuple[slice, ...]]
    sums: FixedPoint

    def store(self, values: np.ndarray, result: np.ndarray) -> None:
        """Put one value per column where it belongs."""
        start = 0
        for output in self.outputs:
            part = result[cast(Any, (*output, ...))]
            part[...] = values[start : start + part.size].reshape(part.shape)
            start += part.size


def _alike(sums: list[FixedPoint]) -> list[list[int]]:
    """Group the tiles whose digits have the same form."""
    groups: dict[tuple[int, int], list[int]] = {}
    for i, value in enumerate(sums):
        groups.setdefault((value.base_bits, len(value.digits)), []).append(i)
    return list(groups.values())


def _tile_sums(
    streams: Sequence[Stream], tiling: Tiling, output: tuple[slice, ...], layout: Layout
) -> FixedPoint:
    """One tile; without the whole length of a superaccumulator where that is not needed."""
    terms = merged(block_terms(tiling.blocks(streams, output), tiling, output))
    first = list(islice(terms, _FEW + 1))
    if len(first) <= _FEW and (aligned := align_terms(first)):
        return aligned
    accumulator = Superaccumulator(layout, tiling.columns(output))
    accumulator.add_all(chain(first, terms))
    return accumulator.fixed_point()


def block_terms(blocks: Iterable[Block], tiling: Tiling, output: tuple[slice, ...]) -> Iterator[Terms]:
    """Sum the columns of blocks exactly."""
    for stream, rows in blocks:
        with np.errstate(all="ignore"):
            block = stream.apply(partial(tiling.part, rows=rows, output=output))
            terms = list(_stream_terms(stream, block.factors))
        yield from terms


def _stream_terms(stream: Stream, parts: Sequence[np.ndarray]) -> Iterator[Terms]:
    if len(parts) == 2:
        for x, y in factor_pairs(*parts):
            yield from product_terms(x if stream.sign > 0 else -x, y, stream.narrow())
        return
    for part in as_floats(parts[0]):
        yield window_terms(part)


def as_floats(block: Array) -> list[Array]:
    """Return float64 arrays whose sum is the block exactly: two for 64-bit integers.

    The first is zero only where the block is.
    """
    if block.dtype.kind not in "iu" or block.dtype.itemsize < 8:
        return [block.astype(np.float64, copy=False)]
    xp = namespace(block)
    high = (block >> 32).astype(np.float64) * 2.0**32
    low = (block & block.dtype.type(_MASK32)).astype(np.float64)
    return [xp.where(high == 0, low, high), xp.where(high == 0, 0.0, low)]


def factor_pairs(x: Array, y: Array) -> Iterator[tuple[Array, Array]]:
    """Return pairs of float64 arrays whose products sum to x·y exactly."""
    xs, ys = as_floats(x), as_floats(y)
    yield xs[0], ys[0]
    if len(xs) + len(ys) == 2:
        return
    xp = namespace(x)
    xs, ys = ([xp.where(xp.isfinite(f), f, 0.0) for f in factors] for factors in (xs, ys))
    yield from ((f, g) for i, f in enumerate(xs) for j, g in enumerate(ys) if i or j)


def product_terms(x: np.ndarray, y: np.ndarray, narrow: bool = False) -> Iterator[Terms]:
    """Sum the columns of x·y exactly, for (n, m) float64 blocks.

    A product is p + e with p = fl(x·y) and e its error (two_product). Where p is so small that
    e might underflow, or factors so large that splitting them overflows, the significands are
    multiplied instead and the exponents kept apart.

    narrow : every product of two elements is known to be a float64.
    """
    p, magnitude = workspace(x, 2, first=7)
    np.multiply(x, y, out=p)
    if narrow:
        yield window_terms(p)
        return
    apart = np.zeros(p.shape, bool)
    for factor in (x, y):
        if factor.size and not max(factor.max(), -factor.min()) <= _SAFE:
            apart |= ~(np.abs(factor) <= _SAFE)
    np.abs(p, out=magnitude)
    if p.size and not magnitude.min() >= _TINY:
        tiny = magnitude < _TINY
        apart |= tiny & (x != 0) & (y != 0)
    if apart.any():
        apart &= np.isfinite(x) & np.isfinite(y)
        nonzero = apart & (x != 0) & (y != 0)
        yield _significand_products(x, y, nonzero)
        p = np.where(nonzero, 0.0, p)
        x, y = np.where(apart, 0.0, x), np.where(apart, 0.0, y)
    yield window_terms(p)
    error = _product_error(x, y, p)
    if not np.isfinite(p).all():
        error[~np.isfinite(p)] = 0
    yield replace(window_terms(error), flags=np.zeros(p.shape[1], np.uint8))


def _product_error(x: np.ndarray, y: np.ndarray, p: np.ndarray) -> np.ndarray:
    """`_summation.product_error` in memory that is there already."""
    x_high, x_low, y_high, y_low, rest = workspace(p, 5, first=2)
    for factor, high, low in ((x, x_high, x_low), (y, y_high, y_low))[: 1 if x is y else 2]:
        np.multiply(factor, SPLITTER, out=high)
        np.subtract(high, factor, out=low)
        high -= low
        np.subtract(factor, high, out=low)
    if x is y:
        y_high[...], y_low[...] = x_high, x_low
    np.multiply(x_high, y_high, out=rest)
    np.subtract(p, rest, out=rest)
    y_high *= x_low
    rest -= y_high
    x_high *= y_low
    rest -= x_high
    x_low *= y_low
    x_low -= rest
    return x_low


def _significand_products(x: np.ndarray, y: np.ndarray, where: np.ndarray) -> Terms:
    """The products at some places, as significands that are exact and exponents."""
    rows, columns = np.nonzero(where)
    (x, i), (y, j) = np.frexp(x[rows, columns]), np.frexp(y[rows, columns])
    p = x * y
    nothing = np.zeros(where.shape[1], np.int64)
    flags = np.where(where.any(axis=0), ORDINARY, np.uint8(0))
    scale = i.astype(np.int64) + j
    values = np.concatenate([p, product_error(x, y, p)])
    return Terms(nothing, nothing, nothing, np.tile(columns, 2), values, flags, np.tile(scale, 2))


def tiles(shape: tuple[int, ...], limit: int) -> Iterator[tuple[slice, ...]]:
    """Cut an index space into boxes of at most `limit` points, the last axes whole if possible."""
    if not shape:
        yield ()
        return
    inner = prod(shape[1:])
    if inner > limit and len(shape) > 1:
        for i in range(shape[0]):
            for rest in tiles(shape[1:], limit):
                yield (slice(i, i + 1), *rest)
        return
    step = max(1, limit // max(inner, 1))
    pieces = -(-shape[0] // step)
    step = -(-shape[0] // max(pieces, 1)) or 1
    for i in range(0, shape[0], step):
        yield (slice(i, i + step), *(slice(None) for _ in shape[1:]))
