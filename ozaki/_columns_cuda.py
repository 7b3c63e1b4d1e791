"""Exact sums over axes of CuPy arrays: what `_columns` does on the host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import prod
from typing import Any, cast

import numpy as np

from multiword._arrays import Array, import_cupy
from multiword.formats import FORMATS, Format
from ozaki._columns import Stream, as_floats, factor_pairs, tiles
from ozaki._columns_kernel import BATCH, SOURCES, THREADS, constants, exact_sums
from ozaki._fixedpoint import LastStep
from ozaki._superaccumulator import Layout, Superaccumulator

_PANEL = 1 << 17  # outputs of one launch
_PIECE = 1 << 25  # elements copied at a time, where dtype or strides do not allow reading in place
_SHORT = 256  # terms of an output that do not keep a block busy
_LARGEST_DIVISOR = 1 << 32
_BLOCKS_PER_PROCESSOR = 4  # as the kernel's launch bounds say

Rows = tuple[Array, int, int]
"""An array, and how many elements lie between its outputs and between its terms."""


def rounded_sums(
    streams: Sequence[Stream], reduced: int, target: Format, layout: Layout, last_step: LastStep
) -> Array:
    """Return the sums over the first `reduced` axes as float64 numbers of the target format.

    Means of more elements than the kernel divides by are finished on the host.
    """
    cupy = import_cupy()
    shape = streams[0].factors[0].shape[reduced:]
    if prod(shape) <= _PANEL and last_step.divisor < _LARGEST_DIVISOR:
        everything = tuple(slice(None) for _ in shape)
        return _sum_panel(streams, reduced, everything, layout, Ending(target, last_step)).reshape(shape)
    result = cupy.empty(shape, np.float64)
    for output in tiles(shape, _PANEL):
        part = result[cast(Any, (*output, ...))]
        if last_step.divisor < _LARGEST_DIVISOR:
            values = _sum_panel(streams, reduced, output, layout, Ending(target, last_step))
        else:
            sums = _superaccumulator(_sum_panel(streams, reduced, output, layout, None), layout)
            values = cupy.asarray(last_step(sums.fixed_point()).round(target))
        part[...] = values.reshape(part.shape)
    return result


def device_sums(streams: Sequence[Stream], reduced: int, layout: Layout) -> Superaccumulator:
    """Return the exact sums, on the host, for all outputs in C order."""
    shape = streams[0].factors[0].shape[reduced:]
    total = Superaccumulator(layout, prod(shape))
    index = np.arange(prod(shape)).reshape(shape)
    for output in tiles(shape, _PANEL):
        part = _superaccumulator(_sum_panel(streams, reduced, output, layout, None), layout)
        total.merge(part, index[cast(Any, (*output, ...))].reshape(-1))
    return total


def _superaccumulator(panel: tuple[Array, Array], layout: Layout) -> Superaccumulator:
    totals, flags = panel
    sums = Superaccumulator(layout, len(flags))
    sums.digits[:] = totals.get().T
    sums.flags[:] = flags.get()
    sums.carry()
    return sums


@dataclass(frozen=True)
class Ending:
    """How the kernel turns a sum into a result."""

    target: Format
    last_step: LastStep

    def arguments(self) -> tuple:
        """The kernel's: divisor, root, precision, smallest."""
        smallest = self.target.emin - self.target.precision + 1
        divisor, root = self.last_step.divisor, self.last_step.root
        return np.int64(divisor), np.int32(root), np.int32(self.target.precision), np.int32(smallest)


def _sum_panel(
    streams: Sequence[Stream], reduced: int, output: tuple[slice, ...], layout: Layout, ending: Ending | None
) -> Any:
    """Launch for all terms of a panel. Return the results, or without an ending digits and flags."""
    cupy = import_cupy()
    outputs = prod(streams[0].factors[0][(slice(None),) * reduced + output].shape[reduced:])
    result, flags_and_tickets = cupy.empty(outputs), cupy.zeros(2 * outputs, np.uint32)
    flags, tickets = flags_and_tickets[:outputs], flags_and_tickets[outputs:]
    totals = flags  # not touched unless it is replaced below
    operands = _operands(streams, reduced, output)
    current: Operand | None = next(operands)
    started = False
    while current is not None:
        following = next(operands, None)
        keep = ending is None or following is not None
        blocks = current.blocks(outputs)
        if not started and (keep or blocks > 1):
            totals = cupy.zeros((outputs, layout.digits), np.int64)
        state = np.int32(started), np.int32(keep)
        memory = (totals, flags, tickets, result, *state)
        current.launch(outputs, blocks, memory, layout, ending or _PLAIN)
        current, started = following, True
    return (totals, flags) if ending is None else result


_PLAIN = Ending(FORMATS["fp64"], LastStep())


@dataclass(frozen=True)
class Operand:
    """The terms of one launch: one or two arrays that the kernel can read, outputs × n."""

    rows: tuple[Rows, ...]
    n: int
    negate: bool

    def columns(self, outputs: int) -> int:
        """How many outputs a block takes side by side: neighbours in memory, or of few terms."""
        _, row, step = self.rows[0]
        return 32 if outputs >= 16 and (abs(row) < abs(step) or self.n < _SHORT) else 1

    def blocks(self, outputs: int) -> int:
        """How many blocks share an output."""
        columns = self.columns(outputs)
        groups = -(-outputs // columns)
        batches = -(-self.n // (THREADS // columns * BATCH[len(self.rows) == 2]))
        wanted = _resident_blocks() if groups == 1 else -(-2 * _resident_blocks() // groups)
        return max(1, min(batches, wanted))

    def launch(self, outputs: int, blocks: int, memory: tuple, layout: Layout, ending: Ending) -> None:
        """Sum, and round if nothing is to be kept for later launches."""
        addresses: list[Any] = []
        for array, row, step in (self.rows * 2)[:2]:
            addresses += [array, np.int64(row), np.int64(step)]
        sizes = (np.int64(self.n), np.int64(outputs), np.int32(blocks), np.int32(self.negate))
        columns = self.columns(outputs)
        packed = columns == 1 and all(step == 1 for _, _, step in self.rows)
        chosen = constants(self.rows[0][0].dtype.name, len(self.rows) == 2, packed, columns, layout)
        grid = (-(-outputs // columns) * blocks,)
        exact_sums(grid, (THREADS,), (*addresses, *sizes, *memory, *ending.arguments()), **chosen)


def _operands(streams: Sequence[Stream], reduced: int, output: tuple[slice, ...]) -> Iterator[Operand]:
    """Find what the kernel can read in place, and copy the rest piece by piece."""
    for stream in streams:
        factors = [x[(slice(None),) * reduced + output] for x in stream.factors]
        shape = factors[0].shape
        n, outputs = prod(shape[:reduced]), prod(shape[reduced:])
        if len(factors) == 1:  # whose terms may come in any order
            order = sorted(range(reduced), key=lambda a: -abs(factors[0].strides[a]))
            factors = [factors[0].transpose(*order, *range(reduced, len(shape)))]
        rows = tuple(_as_rows(x, reduced) for x in factors)
        alike = factors[0].dtype == factors[-1].dtype and factors[0].dtype.name in SOURCES
        if n == 0 or (alike and all(rows)):
            empty = import_cupy().zeros(1, factors[0].dtype if alike else np.float64)
            yield Operand(tuple(r if r and n else (empty, 0, 1) for r in rows), n, stream.sign < 0)
            continue
        for part in tiles(factors[0].shape[:reduced], max(1, _PIECE // max(1, outputs))):
            xs = [x[cast(Any, (*part, ...))] for x in factors]
            for together in factor_pairs(*xs) if len(xs) == 2 else ((x,) for x in as_floats(xs[0])):
                packed = [_packed(x, reduced, outputs) for x in together]
                length = packed[0].shape[1]
                yield Operand(tuple((x, length, 1) for x in packed), length, stream.sign < 0)


def _as_rows(x: Array, reduced: int) -> Rows | None:
    """Return strides if the reduced axes, and the others, are each evenly spaced; else None."""
    spacing = []
    for axes in (range(reduced, x.ndim), range(reduced)):
        strides = [(x.strides[a] // x.itemsize, x.shape[a]) for a in axes if x.shape[a] > 1]
        for (outer, _), (inner, length) in pairwise(strides):
            if outer != inner * length:
                return None
        spacing.append(strides[-1][0] if strides else 1)
    return x, spacing[0], spacing[1]


def _packed(x: Array, reduced: int, outputs: int) -> Array:
    """A contiguous (outputs, n) copy."""
    moved = x.transpose(*range(reduced, x.ndim), *range(reduced))
    return import_cupy().ascontiguousarray(moved).reshape(outputs, -1)


@cache
def _resident_blocks() -> int:
    """Blocks that run at one time on the current device, taken for all devices'."""
    device = import_cupy().cuda.Device()
    return device.attributes["MultiProcessorCount"] * _BLOCKS_PER_PROCESSOR
