"""Exact sums over axes of NumPy arrays, block by block.

The reduced axes come first and are cut into rows, the others are columns. A block of both
fits in cache, is summed exactly by `_window`, and the blocks' sums are added exactly again,
so that how an array is cut cannot be seen in the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from ozaki._fixedpoint import ORDINARY, FixedPoint
from ozaki._summation import product_error
from ozaki._superaccumulator import Layout, Superaccumulator
from ozaki._window import BLOCK_ROWS, Terms, window_terms

_BATCH = 64  # blocks whose sums wait to be added together
_COLUMNS = 256  # at least so many together where columns lie side by side: 2 KiB runs of memory
_SAFE = 2.0**500  # two factors up to this, split by Dekker's method, stay finite
_TINY = 2.0**-900  # the error of a product at least this large is a float64
_MASK32 = (1 << 32) - 1


@dataclass(frozen=True)
class Stream:
    """One sum's terms: sign·x, or sign·x·y, element by element.

    factors : one or two arrays of real numbers, of one shape, reduced axes first.
    """

    factors: tuple[np.ndarray, ...]
    sign: int = 1

    def narrow(self) -> bool:
        """Whether a product of two elements is a float64."""
        return all(x.dtype.kind == "V" or x.dtype.itemsize < 8 for x in self.factors)


@dataclass(frozen=True)
class Tiling:
    """How an index space, `reduced` axes first, is cut into blocks of rows and columns."""

    shape: tuple[int, ...]
    reduced: int
    by_columns: bool

    @classmethod
    def of(cls, x: np.ndarray, reduced: int) -> Tiling:
        """Choose so that runs of memory stay together."""
        step = [abs(s) if n > 1 else np.inf for s, n in zip(x.strides, x.shape, strict=True)]
        rows, columns = prod(x.shape[:reduced]), prod(x.shape[reduced:])
        nearest = min(step[:reduced], default=np.inf) < min(step[reduced:], default=np.inf)
        return cls(x.shape, reduced, columns == 1 or (nearest and rows >= 32))

    def outputs(self) -> Iterator[tuple[slice, ...]]:
        """Cut the axes that remain."""
        rows, columns = prod(self.shape[: self.reduced]), prod(self.shape[self.reduced :])
        width = max(1, BLOCK_ROWS // max(rows, 1))
        return _tiles(
            self.shape[self.reduced :], width if self.by_columns else max(width, min(columns, _COLUMNS))
        )

    def rows(self, columns: int) -> Iterator[tuple[slice, ...]]:
        """Cut the reduced axes, for blocks of so many columns."""
        return _tiles(self.shape[: self.reduced], max(1, BLOCK_ROWS // max(columns, 1)))

    def block(self, x: np.ndarray, rows: tuple[slice, ...], output: tuple[slice, ...]) -> np.ndarray:
        """Return these rows and columns as an (n, m) array, a view where that is possible."""
        part = x[rows + output]
        n, m = prod(part.shape[: self.reduced]), prod(part.shape[self.reduced :])
        if not self.by_columns:
            return np.ascontiguousarray(part).reshape(n, m)
        axes = (*range(self.reduced, part.ndim), *range(self.reduced))
        return np.ascontiguousarray(part.transpose(axes)).reshape(m, n).T


def column_sums(
    streams: Sequence[Stream], tiling: Tiling, output: tuple[slice, ...], layout: Layout
) -> FixedPoint:
    """Return the exact sums, over all the streams, for one tile of the outputs."""
    sizes = [len(range(n)[s]) for n, s in zip(tiling.shape[tiling.reduced :], output, strict=True)]
    columns = prod(sizes)
    accumulator = None
    batch: list[Terms] = []
    for terms in block_terms(streams, tiling, output, columns):
        batch.append(terms)
        if len(batch) == _BATCH:
            accumulator = accumulator or Superaccumulator(layout, columns)
            accumulator.add_terms(batch)
            batch = []
    if accumulator is None and len(batch) == 1 and not batch[0].values.size:
        return batch[0].fixed_point()
    accumulator = accumulator or Superaccumulator(layout, columns)
    accumulator.add_terms(batch)
    return accumulator.fixed_point()


def block_terms(
    streams: Sequence[Stream], tiling: Tiling, output: tuple[slice, ...], columns: int
) -> Iterator[Terms]:
    """Sum the columns of every block of every stream exactly."""
    with np.errstate(all="ignore"):
        for stream in streams:
            for rows in tiling.rows(columns):
                blocks = [tiling.block(x, rows, output) for x in stream.factors]
                if len(blocks) == 2:
                    x, y = (block.astype(np.float64, copy=False) for block in blocks)
                    yield from product_terms(x if stream.sign > 0 else -x, y, stream.narrow())
                else:
                    for part in as_floats(blocks[0]):
                        yield window_terms(part if stream.sign > 0 else -part)


def as_floats(block: np.ndarray) -> list[np.ndarray]:
    """Return float64 arrays whose sum is the block exactly: 64-bit integers need two."""
    if block.dtype.kind in "iu" and block.dtype.itemsize == 8:
        high = (block >> 32).astype(np.float64) * 2.0**32
        low = (block & block.dtype.type(_MASK32)).astype(np.float64)
        return [high, low]
    return [block.astype(np.float64, copy=False)]


def product_terms(x: np.ndarray, y: np.ndarray, narrow: bool = False) -> Iterator[Terms]:
    """Sum the columns of x·y exactly, for (n, m) float64 blocks.

    A product is p + e with p = fl(x·y) and e its error (two_product). Where p is so small that
    e might underflow, or factors so large that splitting them overflows, the significands are
    multiplied instead and the exponents kept apart.

    narrow : every product of two elements is known to be a float64.
    """
    p = x * y
    if narrow:
        yield window_terms(p)
        return
    apart = np.zeros(p.shape, bool)
    for factor in (x, y):
        if factor.size and not max(factor.max(), -factor.min()) <= _SAFE:
            apart |= ~(np.abs(factor) <= _SAFE)
    tiny = np.abs(p) < _TINY
    if tiny.any():
        apart |= tiny & (x != 0) & (y != 0)
    if apart.any():
        apart &= np.isfinite(x) & np.isfinite(y)
        nonzero = apart & (x != 0) & (y != 0)
        yield _significand_products(x, y, nonzero)
        p = np.where(nonzero, 0.0, p)
        x, y = np.where(apart, 0.0, x), np.where(apart, 0.0, y)
    yield window_terms(p)
    error = product_error(x, y, p)
    if not np.isfinite(p).all():
        error[~np.isfinite(p)] = 0
    yield replace(window_terms(error), flags=np.zeros(p.shape[1], np.uint8))


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


def _tiles(shape: tuple[int, ...], limit: int) -> Iterator[tuple[slice, ...]]:
    """Cut an index space into boxes of at most `limit` points, the last axes whole if possible."""
    if not shape:
        yield ()
        return
    inner = prod(shape[1:])
    if inner > limit and len(shape) > 1:
        for i in range(shape[0]):
            for rest in _tiles(shape[1:], limit):
                yield (slice(i, i + 1), *rest)
        return
    count = -(-shape[0] * max(inner, 1) // limit)
    step = -(-shape[0] // max(count, 1))
    while step * inner > limit and step > 1:
        step -= 1
    for i in range(0, shape[0], max(step, 1)):
        yield (slice(i, i + step), *(slice(None) for _ in shape[1:]))
