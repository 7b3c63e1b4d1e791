"""Exact sums over axes, rounded once: the NumPy form, and the choice among the forms.

The reduced axes come first and are cut into rows, the others are columns. A block of both
fits in cache, is summed exactly by `extraction`, and the blocks' sums are added exactly again,
so that how an array is cut cannot be seen in the result. `small` does the same for a few numbers,
`reduction_numba` in compiled loops, `reduction_cuda` and `reduction.cu` for CuPy arrays.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from math import inf, prod
from typing import Any, cast

import numpy as np

from multiword.runtime.arrays import Array, is_cupy
from multiword.runtime.compiled import compiled as compiled_form
from ozaki.rounding.conversion import narrow
from ozaki.rounding.error_free import product_error
from ozaki.sums.arguments import float_type, format_of
from ozaki.sums.exact import reduction_cuda, small
from ozaki.sums.exact.accumulator import Superaccumulator
from ozaki.sums.exact.extraction import BLOCK_ROWS, PartialSums, aligned, extract, merged
from ozaki.sums.exact.fixed_point import ORDINARY, DigitRange, FixedPoint, Rounding, flagged, joined
from ozaki.sums.exact.summands import Summands, as_floats, factor_pairs, tiles

_TOGETHER = 1 << 12  # outputs whose sums wait to be rounded together
_MANY = 8  # of so many sums one is computed again by itself
_FEW = 4  # partial sums of a tile that may do without a superaccumulator
_COMPILED_BLOCK = 1 << 18  # elements of a block that is summed by compiled code, and the most columns
_COMPILED_COLUMNS = 1 << 12
_SHORT = 32  # rows or columns that make too short a loop
_COLUMNS = 256  # at least so many together where columns lie side by side: 2 KiB runs of memory
_SAFE = 2.0**500  # two factors up to this, split by Dekker's method, stay finite
_TINY = 2.0**-900  # the error of a product at least this large is a float64

_COMPILED = "ozaki.sums.exact.reduction_numba"

Tile = tuple[slice, ...]
"""A box of outputs, or of rows."""


def rounded_sums(summands: Sequence[Summands], reduced: int, rounding: Rounding) -> Array:
    """Return the sums of all the summands over their first `reduced` axes, rounded, in the format's dtype."""
    if is_cupy(summands[0].factors[0]):
        return reduction_cuda.rounded_sums(summands, reduced, _digits(summands), rounding)
    if len(summands) * summands[0].factors[0].size <= small.LARGEST:
        values = small.rounded_sums(summands, reduced, rounding, _is_small(summands, reduced))
        if values is not None:
            return values
    summands, kept = _in_memory_order(summands, reduced)
    if not kept and (rounded := _vector_rounded(summands, reduced, rounding)):
        return narrow(np.array(rounded[0]), rounding.target.dtype)
    result = _rounded_in_memory(summands, reduced, rounding)
    if result is None:
        result = _rounded_tiles(summands, reduced, rounding)
    return result.transpose(np.argsort(kept))


def _rounded_in_memory(summands: Sequence[Summands], reduced: int, rounding: Rounding) -> np.ndarray | None:
    """Compiled sums of rows or columns as they lie in memory; None for others, and if many are not known."""
    form = compiled()
    found = form.rounded_in_memory(summands[0], reduced, rounding) if form and len(summands) == 1 else None
    if found is None or found[1] > found[0].size // _MANY:
        return None
    result, unknown = found
    if unknown:
        where = np.isnan(result)
        columns = summands[0].apply(lambda x: x[(slice(None),) * reduced + (where,)])
        result[where] = _rounded_tiles([columns], reduced, rounding)
    return cast(np.ndarray, result)


def _rounded_tiles(summands: Sequence[Summands], reduced: int, rounding: Rounding) -> np.ndarray:
    """Sums of tiles of the outputs, one after another."""
    result = np.empty(summands[0].shape[reduced:], rounding.target.dtype)
    for outputs, sums in _tiled_sums(summands, reduced):
        values, start = narrow(rounding(sums), result.dtype), 0
        for output in outputs:
            part = result[cast(Any, (*output, ...))]
            part[...] = values[start : start + part.size].reshape(part.shape)
            start += part.size
    return result


def accumulate(total: Superaccumulator, columns: slice, summands: Sequence[Summands], reduced: int) -> None:
    """Add the sums over the first `reduced` axes to columns of a superaccumulator, in C order."""
    if is_cupy(summands[0].factors[0]):
        total.merge(reduction_cuda.accumulated_on_device(summands, reduced, total.range), columns)
        return
    if is_cupy(total.flags):
        part = Superaccumulator(total.range, columns.stop - columns.start)
        accumulate(part, slice(0, part.flags.size), summands, reduced)
        total.merge(part, columns)
        return
    few, tiling = _is_small(summands, reduced), Tiling.of(summands[0], reduced)
    index = np.arange(columns.start, columns.stop).reshape(summands[0].shape[reduced:])
    for output in tiling.outputs():
        places = index[output].reshape(-1)
        if not few and (found := _column_sum(summands, tiling, output)):
            (value, _, flags), exponent = found
            total.add_exact(value, exponent, flags, places)
        else:
            total.add(_partial_sums(summands, tiling, output), places)


def exact_sums(summands: Sequence[Summands], reduced: int) -> FixedPoint:
    """Return the exact sums over the first `reduced` axes, on the host, for all outputs in C order."""
    shape = summands[0].shape[reduced:]
    if is_cupy(summands[0].factors[0]):
        return reduction_cuda.accumulated(summands, reduced, _digits(summands)).fixed_point()
    if _is_small(summands, reduced) and (found := small.integer_sums(summands, reduced)) is not None:
        return FixedPoint.of(found, np.full(len(found), ORDINARY))
    summands, kept = _in_memory_order(summands, reduced)
    index, places, sums = np.arange(prod(shape)).reshape(shape).transpose(kept), [], []
    for outputs, exact in _tiled_sums(summands, reduced):
        places += [index[output].reshape(-1) for output in outputs]
        sums.append(exact)
    order = np.argsort(np.concatenate([[], *places]))
    if len(sums) == 1:
        return sums[0].columns(order)
    flags = np.concatenate([np.empty(0, np.uint8), *(exact.flags for exact in sums)])
    return FixedPoint.of([v for exact in sums for v in exact.integers()], flags).columns(order)


def _is_small(summands: Sequence[Summands], reduced: int) -> bool:
    """Whether exact sums are of so few numbers that `small` is faster; nothing is compiled for these."""
    factors, most = summands[0].factors, small.LARGEST
    if reduced == factors[0].ndim and _COMPILED in sys.modules and compiled():
        most = min(most, small.FSUM if len(factors) == 1 else 0)
    return len(summands) * factors[0].size <= most


def _digits(summands: Sequence[Summands]) -> DigitRange:
    """The digits of a superaccumulator: those of the widest format hold what the others need."""
    ranges = (DigitRange.of(format_of(float_type(x))) for terms in summands for x in terms.factors)
    return max(ranges, key=lambda r: r.digits)


def compiled() -> Any:
    """The compiled form, where numba is installed."""
    return compiled_form(_COMPILED)


def _in_memory_order(
    summands: Sequence[Summands], reduced: int
) -> tuple[Sequence[Summands], tuple[int, ...]]:
    """Put the reduced axes, and the others, in the order of their steps in memory.

    Return also which of the others is where.
    """
    x = summands[0].factors[0]
    places = sorted(range(x.ndim), key=lambda a: (a >= reduced, -abs(x.strides[a]) or -inf))
    kept = tuple(a - reduced for a in places[reduced:])
    if places == list(range(x.ndim)):
        return summands, kept
    return [terms.apply(lambda x: x.transpose(places)) for terms in summands], kept


@dataclass(frozen=True)
class Tiling:
    """How an index space, `reduced` axes first, is cut into blocks of rows and columns."""

    shape: tuple[int, ...]
    reduced: int
    by_columns: bool
    width: int
    block: int

    @classmethod
    def of(cls, terms: Summands, reduced: int) -> Tiling:
        """Choose so that runs of memory stay together, and inner loops long.

        by_columns : blocks hold one column after another rather than one row after another.
        width : the most columns in a block.
        block : the most elements in a block, unless it is a single row.
        """
        x = terms.factors[0]
        step = [abs(s) if n > 1 else np.inf for s, n in zip(x.strides, x.shape, strict=True)]
        rows, columns = prod(x.shape[:reduced]), prod(x.shape[reduced:])
        nearest = min(step[:reduced], default=np.inf) < min(step[reduced:], default=np.inf)
        block, most = BLOCK_ROWS, _COLUMNS
        if compiled():
            block, most = _COMPILED_BLOCK // len(terms.factors), _COMPILED_COLUMNS
        whole = max(1, block // max(rows, 1)) if rows <= BLOCK_ROWS else 1
        if columns == 1 or (nearest and rows >= _SHORT):
            return cls(x.shape, reduced, True, whole, block)
        if rows >= _SHORT > columns:
            return cls(x.shape, reduced, True, columns, block)
        return cls(x.shape, reduced, False, max(whole, min(columns, most)), block)

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

    def part(self, x: np.ndarray, rows: Tile, output: Tile) -> np.ndarray:
        """Return these rows and columns as an (n, m) array, a view where that is possible."""
        part = x[rows + output]
        n, m = prod(part.shape[: self.reduced]), prod(part.shape[self.reduced :])
        if not self.by_columns:
            return np.ascontiguousarray(part).reshape(n, m)
        axes = (*range(self.reduced, part.ndim), *range(self.reduced))
        return np.ascontiguousarray(part.transpose(axes)).reshape(m, n).T


def _tiled_sums(summands: Sequence[Summands], reduced: int) -> Iterator[tuple[list[Tile], FixedPoint]]:
    """Yield tiles of the outputs, and their exact sums, one tile after another."""
    tiling = Tiling.of(summands[0], reduced)
    outputs = list(tiling.outputs())
    together = max(1, _TOGETHER // max(1, max(map(tiling.columns, outputs), default=1)))
    for start in range(0, len(outputs), together):
        alike: dict[tuple[int, int], list[tuple[Tile, FixedPoint]]] = {}
        for output in outputs[start : start + together]:
            sums = _tile_sums(summands, tiling, output)
            alike.setdefault((sums.base_bits, len(sums.digits)), []).append((output, sums))
        for group in alike.values():
            yield [output for output, _ in group], joined([sums for _, sums in group])


def _tile_sums(summands: Sequence[Summands], tiling: Tiling, output: Tile) -> FixedPoint:
    """One tile; without the whole length of a superaccumulator where that is not needed."""
    if found := _column_sum(summands, tiling, output):
        (value, _, flags), exponent = found
        return FixedPoint.of([(value, exponent)], np.array([flags], np.uint8))
    sums = _partial_sums(summands, tiling, output)
    first = list(islice(sums, _FEW + 1))
    if len(first) <= _FEW and (few := aligned(first)):
        return few
    accumulator = Superaccumulator(_digits(summands), tiling.columns(output))
    accumulator.add(chain(first, sums))
    return accumulator.fixed_point()


def _column_sum(summands: Sequence[Summands], tiling: Tiling, output: Tile) -> tuple[Any, int] | None:
    """`_vector_sum` of a tile that is one column; None for others."""
    return _vector_sum(summands, tiling.reduced, output) if tiling.columns(output) == 1 else None


def _vector_rounded(summands: Sequence[Summands], reduced: int, rounding: Rounding) -> tuple[float] | None:
    """The compiled sum of a single output, rounded: first of what is not far below the largest number."""
    for exact in (False, True):
        found = _vector_sum(summands, reduced, exact=exact)
        if found is None:
            return None
        (value, error, flags), exponent = found
        if error and abs(value) <= error:
            continue
        rounded = rounding.ratio(value - error, rounding.divisor, exponent)
        if not error or rounded == rounding.ratio(value + error, rounding.divisor, exponent):
            break
    if flags != ORDINARY:
        rounded = flagged(np.array([rounded]), np.array([flags], np.uint8)).item()
    return (rounded,)


def _vector_sum(
    summands: Sequence[Summands], reduced: int, output: Tile = (), exact: bool = True
) -> tuple[Any, int] | None:
    """The compiled sum of a single output: value, error and flags, and the exponent of the unit."""
    form = compiled()
    if form is None:
        return None
    total = form.NOTHING_ADDED
    for terms in summands:
        for part in _vectors(terms, reduced, output, form.readable):
            found = form.sum_of_vectors(part, exact)
            if found is None:
                return None
            total = total.plus(found) if total.flags else found
    return total, form.unit(summands[0])


def _vectors(
    terms: Summands, reduced: int, output: Tile, readable: Callable[[np.ndarray], bool]
) -> Iterator[Summands]:
    """The terms of a single output, cut into blocks where they would have to be copied."""
    if output:
        terms = terms.apply(lambda x: x[(slice(None),) * reduced + output].reshape(x.shape[:reduced]))
    if all(x.flags.c_contiguous and readable(x) for x in terms.factors):
        yield terms if reduced == 1 else terms.apply(lambda x: x.reshape(-1))
        return
    for rows in tiles(terms.shape, _COMPILED_BLOCK):
        yield terms.apply(partial(_flat, rows=rows))


def _flat(x: np.ndarray, rows: Tile) -> np.ndarray:
    return x[rows].reshape(-1)


def _partial_sums(summands: Sequence[Summands], tiling: Tiling, output: Tile) -> Iterator[PartialSums]:
    """Sum the columns of a tile exactly, block by block."""
    return merged(
        sums
        for terms in summands
        for rows in tiling.rows(tiling.columns(output))
        for sums in _block_sums(terms.apply(partial(tiling.part, rows=rows, output=output)))
    )


def _block_sums(block: Summands) -> list[PartialSums]:
    """Sum the columns of (n, m) factors exactly."""
    form = compiled()
    if form and (sums := form.block_sums(block)) is not None:
        return sums
    with np.errstate(all="ignore"):
        if len(block.factors) == 1:
            return [extract(part) for part in as_floats(block.factors[0])]
        pairs = factor_pairs(*block.factors)
        return [s for x, y in pairs for s in _product_sums(x if block.sign > 0 else -x, y, block.narrow())]


def _product_sums(x: np.ndarray, y: np.ndarray, narrow: bool) -> Iterator[PartialSums]:
    """Sum the columns of x·y exactly, for (n, m) float64 blocks.

    A product is p + e with p = fl(x·y) and e its error (two_product). Where p is so small that
    e might underflow, or factors so large that splitting them overflows, the significands are
    multiplied instead and the exponents kept apart.

    narrow : every product of two elements is known to be a float64.
    """
    p = x * y
    if narrow:
        yield extract(p)
        return
    apart = np.zeros(p.shape, bool)
    for factor in (x, y):
        if factor.size and not max(factor.max(), -factor.min()) <= _SAFE:
            apart |= ~(np.abs(factor) <= _SAFE)
    magnitude = np.abs(p)
    if p.size and not magnitude.min() >= _TINY:
        tiny = magnitude < _TINY
        apart |= tiny & (x != 0) & (y != 0)
    if apart.any():
        apart &= np.isfinite(x) & np.isfinite(y)
        nonzero = apart & (x != 0) & (y != 0)
        yield _significand_products(x, y, nonzero)
        p = np.where(nonzero, 0.0, p)
        x, y = np.where(apart, 0.0, x), np.where(apart, 0.0, y)
    yield extract(p)
    error = product_error(x, y, p)
    if not np.isfinite(p).all():
        error[~np.isfinite(p)] = 0
    yield replace(extract(error), flags=np.zeros(p.shape[1], np.uint8))


def _significand_products(x: np.ndarray, y: np.ndarray, where: np.ndarray) -> PartialSums:
    """The products at some places, as significands that are exact and exponents."""
    rows, columns = np.nonzero(where)
    (x, i), (y, j) = np.frexp(x[rows, columns]), np.frexp(y[rows, columns])
    p = x * y
    nothing = np.zeros(where.shape[1], np.int64)
    flags = np.where(where.any(axis=0), ORDINARY, np.uint8(0))
    scale = i.astype(np.int64) + j
    values = np.concatenate([p, product_error(x, y, p)])
    return PartialSums(nothing, nothing, nothing, np.tile(columns, 2), values, flags, np.tile(scale, 2))
