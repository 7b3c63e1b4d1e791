"""Row statistics: the integers by which scales and the certificate judge an operand.

An *operand* is one side of a product: its r rows are the rows of A or the columns of B, its k columns run
along the inner dimension. It comes as a list of real parts, one for a real matrix, two for a complex one,
whose row is then the real and the imaginary parts together.

The statistics of a row are a function of the set of its numbers: its largest exponent is a maximum, and
the sums are sums of integers relative to it. So those of blocks of a row, in any order, add up to its own:

    exponent(x ++ y) = max(exponent(x), exponent(y)),   sums(x ++ y, e) = sums(x, e) + sums(y, e)
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from multiword.engines.machine import multiprocessors
from multiword.runtime.arrays import Array, is_cupy, namespace
from multiword.runtime.compiled import compiled
from multiword.runtime.kernels import Kernel, Struct, members
from multiword.runtime.parallel import (
    as_rows,
    compiled_block,
    over_rows,
    scale_rows,
)
from multiword.runtime.tiles import THREADS, StridedParts, extent, strided_parts, tile_count
from multiword.tuning import ALONE_ELEMENTS
from ozaki.definition.statistics import BITS, FINE, LEVELS, STEP
from ozaki.tuning import FILLED_NUMBERS, SHORT_NUMBERS

ZERO, NONFINITE = -(1 << 14), 1 << 14
"""Exponents that mark a row without a nonzero number, and one with an Inf or NaN."""

NONFINITE_ROW = -(1 << 28)
"""The scale of a row with an Inf or NaN: the exact product takes it as zero (see `ozaki.nonfinite`)."""


COMPILED_FORM = "ozaki.scaling.statistics_numba"


@dataclass(frozen=True)
class RowStatistics:
    """The statistics of every row, all integers.

    Attributes
    ----------
    exponent : (r,) int32, e with 2**(e-1) <= max |x| < 2**e; `ZERO` or `NONFINITE` else.
    total : (r,) int64, the sum of t + 1 for t = floor(|x|·2**(BITS - e)); 0 if e is `ZERO` or `NONFINITE`,
        as are the others.
    square : (r,) int64, the sum of (t + 1)².
    counts : (levels, r) int32, how many |x| >= 2**(e - 1 - q), for the q in LEVELS.
    length : numbers in a row: k, or 2k for a complex operand.
    """

    exponent: Array
    total: Array
    square: Array
    counts: Array
    length: int

    def __getitem__(self, rows: Any) -> RowStatistics:
        """Return the statistics of some rows."""
        sums = self.exponent[rows], self.total[rows], self.square[rows], self.counts[:, rows]
        return RowStatistics(*sums, self.length)

    def merge(self, other: RowStatistics) -> RowStatistics:
        """Return those of rows of which these are of two parts, relative to the same exponents."""
        sums = self.total + other.total, self.square + other.square, self.counts + other.counts
        return RowStatistics(self.exponent, *sums, self.length + other.length)

    @classmethod
    def concatenate(cls, parts: Sequence[RowStatistics]) -> RowStatistics:
        """Return those of the rows of several operands of one length."""
        join = namespace(parts[0].exponent).concatenate
        return cls(
            join([x.exponent for x in parts]),
            join([x.total for x in parts]),
            join([x.square for x in parts]),
            join([x.counts for x in parts], axis=1),
            parts[0].length,
        )

    @property
    def finite_nonzero(self) -> Array:
        """Which rows have a nonzero number and none that is Inf or NaN."""
        return (self.exponent != ZERO) & (self.exponent != NONFINITE)


def row_statistics(parts: list[Array]) -> RowStatistics:
    """Return the statistics of an operand given as (r, k) float32 or float64 parts."""
    if is_cupy(parts[0]):
        if (statistics := in_one_pass(parts)) is not None:
            return statistics
    elif (form := compiled(COMPILED_FORM)) is not None:
        return _statistics_compiled(form, parts)
    return row_sums(parts, largest_exponents(parts))


def _statistics_compiled(form: ModuleType, parts: list[np.ndarray]) -> RowStatistics:
    rows, length = parts[0].shape[0], len(parts) * parts[0].shape[1]
    exponent, total, square, counts = sums = _empty_sums(rows)
    dtype = parts[0].dtype.newbyteorder("=")
    x, y = (np.require(part, dtype) for part in (parts[0], parts[-1]))
    single, inner = dtype.itemsize == 4, x.shape[1]
    copied = single or len(parts) == 2 or x.strides[1] != 8

    def work(block: slice) -> None:
        at = block.start * x.strides[0]
        addresses = x.ctypes.data + at, y.ctypes.data + at
        operand = np.array([*addresses, *x.strides, single, len(parts), inner], np.int64)
        of_block = exponent[block], total[block], square[block], counts[:, block]
        form.row_statistics(operand, *of_block, *form.work_arrays(length if copied else 0))

    over_rows(work, rows, length, compiled_block(rows * length), ALONE_ELEMENTS)
    return RowStatistics(*sums, length)


def _empty_sums(rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    exponent, counts = np.empty(rows, np.int32), np.empty((rows, len(LEVELS)), np.int32).T
    return exponent, np.empty(rows, np.int64), np.empty(rows, np.int64), counts


def largest_exponents(parts: list[Array]) -> Array:
    """Return `RowStatistics.exponent` of (r, k) parts; maxima merge those of blocks of k."""
    return (_exponents_device if is_cupy(parts[0]) else _exponents_host)(parts)


def row_sums(parts: list[Array], exponent: Array) -> RowStatistics:
    """Return the statistics of (r, k) parts relative to the exponents of these rows or of longer ones."""
    return (_sums_device if is_cupy(parts[0]) else _sums_host)(parts, exponent)


def _exponents_host(parts: list[np.ndarray]) -> np.ndarray:
    rows, columns = parts[0].shape
    exponent = np.empty(rows, np.int32)

    def work(block: slice) -> None:
        extremes = [np.abs(f(x[block], axis=1)) for x in parts for f in (np.max, np.min)]
        largest = np.max(extremes, axis=0)
        exponent[block] = _exponents_of(largest)

    over_rows(work, rows, columns)
    return exponent


def _exponents_of(largest: np.ndarray) -> np.ndarray:
    """`RowStatistics.exponent` from the largest magnitudes."""
    e = np.where(largest == 0, ZERO, np.frexp(largest)[1])
    return np.where(np.isfinite(largest), e, NONFINITE)


def _sums_host(parts: list[np.ndarray], exponent: np.ndarray) -> RowStatistics:
    rows, columns = parts[0].shape
    total, square = np.zeros((2, rows), np.int64)
    counts = np.zeros((len(LEVELS), rows), np.int32)
    statistics = RowStatistics(exponent, total, square, counts, len(parts) * columns)
    summed = statistics.finite_nonzero

    def work(block: slice) -> None:
        x = np.abs(as_rows(parts, block))
        x[~summed[block]] = 0
        scale_rows(x, np.where(summed[block], BITS - exponent[block], 0))
        for level, q in enumerate(LEVELS):
            counts[level, block] = (x >= 2.0 ** (BITS - 1 - q)).sum(axis=1)
        t = (x.astype(np.int64) + 1) * summed[block, None]
        total[block], square[block] = t.sum(axis=1), np.vecdot(t, t)

    over_rows(work, rows, len(parts) * columns)
    return statistics


class Rows(Struct):
    """Pointers to the statistics of an operand on a GPU."""

    _fields_ = (
        *members(ctypes.c_void_p, "exponent", "total", "square", "counts"),
        ("rows", ctypes.c_int),
    )


def empty_statistics(exponent: Array, length: int, make: Any = None) -> RowStatistics:
    """Return memory for the statistics of rows with these exponents, by `make` if not as it is."""
    sums = (make or namespace(exponent).empty)((2 + -(-len(LEVELS) // 2), len(exponent)), np.int64)
    counts = sums[2:].view(np.int32).reshape(-1, len(exponent))[: len(LEVELS)]
    return RowStatistics(exponent, sums[0], sums[1], counts, length)


def rows_of(statistics: RowStatistics) -> Rows:
    """Return the statistics as kernels take them."""
    s = statistics
    return Rows(exponent=s.exponent, total=s.total, square=s.square, counts=s.counts, rows=len(s.exponent))


class NormScales(Struct):
    """A pointer to an operand's norm scales, or None, and the limit that they fill."""

    _fields_ = (
        ("scale", ctypes.c_void_p),
        *members(ctypes.c_int, "limit_bits", "significand"),
    )


_NO_SCALES = NormScales(scale=None, limit_bits=0, significand=0)

STATISTICS_CONSTANTS: dict[str, Any] = {
    "BITS": BITS,
    "FINE": FINE,
    "STEP": STEP,
    "COUNTS": len(LEVELS),
    "ZERO": ZERO,
    "NONFINITE": NONFINITE,
    "NONFINITE_ROW": NONFINITE_ROW,
}
"""The constants of all kernels that read statistics."""

_RUN = 32
"""Numbers to a thread in a tile, of both parts together, at most."""

_RUNS = {True: (2, 4, 6, 8, 12, 16, 20, 24, 28, 32), False: (2, 4, 8, 16, 32)}
"""The same of tiles that hold rows unsplit, by whether there are `FILLED_NUMBERS`: what rows do not fill is
added up as well, which takes longer than to compile another kernel where there are many."""

_UNSPLIT_ROWS = {1: (8, 4, 2, 1), 0: (32, 16, 8, 4)}
"""Rows of a tile that holds them unsplit, by ALONG_K, as many as fit: where rows lie side by side, fewer
than four would read less than the 32 bytes that memory gives at once."""


def _constants(along: int, rows: int, run: int, parts: int) -> dict[str, Any]:
    """Return the constants of tiles that hold so many rows unsplit; of parts of rows for 0."""
    shape = {"LANES": rows or 32, "ALONG_ROWS": rows or 8, "UNSPLIT": int(rows > 0)}
    return {**STATISTICS_CONSTANTS, **shape, "ALONG_K": along, "PARTS": parts, "RUN": run // parts}


_INSTANCES = tuple(
    {**_constants(along, rows, run, parts), "UNIT": 2 - parts, "REAL": t}
    for along, rows, run in ((0, 0, _RUN), (1, 0, _RUN), (0, 4, 28), (0, 32, 6), (1, 8, 20), (1, 1, _RUN))
    for t, parts in (("float", 1), ("double", 1), ("float", 2), ("double", 2), ("BFloat16", 1))
)
_FILE = Path(__file__).with_suffix(".cu")
_EXPONENTS = Kernel(
    "largest_exponents",
    _FILE,
    _INSTANCES,
    (StridedParts, Rows),
    equals="ozaki.definition.statistics.statistics_of",
)
_SUMS = Kernel(
    "row_sums",
    _FILE,
    _INSTANCES,
    (StridedParts, Rows, NormScales),
    equals="ozaki.definition.statistics.statistics_of",
)


def _exponents_device(parts: list[Array]) -> Array:
    exponent = namespace(parts[0]).full(extent(parts)[0], ZERO, np.int32)
    _launch(parts, exponent, None)
    return exponent


def _sums_device(parts: list[Array], exponent: Array) -> RowStatistics:
    return _launch(parts, exponent, _NO_SCALES)


def in_one_pass(parts: list[Array], scales: NormScales = _NO_SCALES) -> RowStatistics | None:
    """Return the statistics of rows that a tile holds unsplit, on a GPU, and write norm scales; else None."""
    rows, columns = extent(parts)
    along = strided_parts(parts)[1]["ALONG_K"] if columns * len(parts) > SHORT_NUMBERS else 0
    fitting = [height for height in _UNSPLIT_ROWS[along] if columns * len(parts) * height <= THREADS * _RUN]
    if not fitting:
        return None
    # As many as leave every multiprocessor two blocks.
    height = next((x for x in fitting if rows >= 2 * multiprocessors() * x), fitting[-1])
    numbers = columns * len(parts)
    run = next(x for x in _RUNS[rows * numbers >= FILLED_NUMBERS] if numbers * height <= THREADS * x)
    return _launch(parts, namespace(parts[0]).empty(rows, np.int32), scales, height, run, along)


def _launch(
    parts: list[Array],
    exponent: Array,
    scales: NormScales | None,
    height: int = 0,
    run: int = _RUN,
    along: int | None = None,
) -> RowStatistics:
    """Add up below the exponents, and write norm scales; if `scales` is None, raise the exponents alone.

    Tiles are read along rows where these are contiguous, unless `along` says otherwise.
    """
    xp, kernel = namespace(parts[0]), _EXPONENTS if scales is None else _SUMS
    rows, columns = extent(parts)
    # What tiles add to has to begin with zeros; the first kernel only writes exponents.
    make = xp.empty if height or scales is None else xp.zeros
    statistics = empty_statistics(exponent, len(parts) * columns, make)
    operand, layout = strided_parts(parts)
    if along is not None:
        layout["ALONG_K"] = along
    constants = {**_constants(layout["ALONG_K"], height, run, len(parts)), **layout}
    blocks = tile_count(constants, rows, columns)
    arguments = operand, rows_of(statistics)
    kernel((blocks,), (THREADS,), arguments if scales is None else (*arguments, scales), **constants)
    return statistics
