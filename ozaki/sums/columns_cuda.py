"""Exact sums over axes of CuPy arrays: what `_columns` does on the host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import prod
from typing import Any, cast

import numpy as np

from multiword.formats import FORMATS, Format
from multiword.runtime.arrays import Array, import_cupy
from multiword.runtime.kernels import Kernel
from ozaki.sums.columns import Stream, as_floats, factor_pairs, tiles
from ozaki.sums.columns_kernel import (
    COLUMNS_BLOCKS,
    WIDEST,
    columns_form,
    exact_columns,
    exact_sums,
    sums_form,
)
from ozaki.sums.columns_window import SOURCES, THREADS, batch, constants, name_of
from ozaki.sums.fixedpoint import LastStep
from ozaki.sums.superaccumulator import Layout, Superaccumulator

_PANEL = 1 << 17  # outputs that have digits in memory at one time
_PIECE = 1 << 25  # elements copied at a time, where dtype or strides do not allow reading in place
_SHORT = 512  # neighbouring terms too few for the threads of a block, or of a warp
_LARGEST_DIVISOR = 1 << 32
_BLOCKS_PER_PROCESSOR = 4  # of THREADS threads, as the launch bounds of `exact_sums` say
_WAVES = 4  # times that, where blocks need not start together
_COLUMNS_WAVES = {False: 1, True: 4}  # the same for `exact_columns`, whose blocks end with many additions
SPARE_DIGITS = 7
"""Digits beyond a layout's that the kernels want: three below, four above."""


Panel = tuple[slice, ...] | None
"""Some of the outputs, or all of them."""


@dataclass(frozen=True)
class Rows:
    """An array as the kernels read it; in elements, from one to the next.

    outer : between outputs, or pairs of them.
    inner : between the two of a pair.
    step : between an output's terms.
    """

    array: Array
    outer: int
    inner: int
    step: int
    pair: bool = False


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


_PLAIN = Ending(FORMATS["fp64"], LastStep())


def rounded_sums(
    streams: Sequence[Stream], reduced: int, target: Format, layout: Layout, last_step: LastStep
) -> Array:
    """Return the sums over the first `reduced` axes as float64 numbers of the target format.

    Means of more elements than the kernel divides by are finished on the host.
    """
    cupy = import_cupy()
    shape = streams[0].factors[0].shape[reduced:]
    ending, on_device = Ending(target, last_step), last_step.divisor < _LARGEST_DIVISOR
    if on_device and (prod(shape) <= _PANEL or _in_one_launch(streams, reduced)):
        return _sum_panel(streams, reduced, None, layout, ending).reshape(shape)
    result = cupy.empty(shape, np.float64)
    for output in tiles(shape, _PANEL):
        part = result[cast(Any, (*output, ...))]
        if on_device:
            values = _sum_panel(streams, reduced, output, layout, ending)
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


def exact_totals(streams: Sequence[Stream], reduced: int, layout: Layout) -> tuple[Array, Array]:
    """Return the digits (layout.digits + SPARE_DIGITS, outputs), three below the first, and flags."""
    return _sum_panel(streams, reduced, None, layout, None)


def _superaccumulator(panel: tuple[Array, Array], layout: Layout) -> Superaccumulator:
    totals, flags = panel
    sums = Superaccumulator(layout, len(flags))
    sums.digits[:] = totals[3 : 3 + layout.digits].get()
    sums.flags[:] = flags.get()
    sums.carry()
    return sums


def _sum_panel(
    streams: Sequence[Stream], reduced: int, output: Panel, layout: Layout, ending: Ending | None
) -> Any:
    """Launch for all terms of a panel. Return the results, or without an ending digits and flags."""
    cupy = import_cupy()
    if output is not None:
        panel = (slice(None),) * reduced + output
        streams = [stream.apply(lambda x: x[panel]) for stream in streams]
    outputs = prod(streams[0].factors[0].shape[reduced:])
    result = cupy.empty(outputs)
    state: tuple[Array, Array, Array] | None = None
    operands = _operands(streams, reduced)
    current: Operand | None = next(operands)
    while current is not None:
        following = next(operands, None)
        keep = ending is None or following is not None
        launch = Launch.of(current, outputs)
        resume = state is not None
        if state is None and (keep or launch.shared):
            zeros = cupy.zeros((layout.digits + SPARE_DIGITS + 1, outputs), np.int64)
            flags_and_tickets = zeros[-1].view(np.uint32)
            state = zeros[:-1], flags_and_tickets[:outputs], flags_and_tickets[outputs:]
        if state is None:  # every thread, or block, has all the terms of its outputs
            totals = (
                cupy.empty((layout.digits + SPARE_DIGITS, launch.room), np.int64) if launch.room else result
            )
            memory = (totals, np.int64(launch.room), result, result)
        else:
            memory = (state[0], np.int64(outputs), *state[1:])
        launch((*memory, result, np.int32(resume), np.int32(keep)), layout, ending or _PLAIN)
        current = following
    return state[:2] if ending is None and state is not None else result


@dataclass(frozen=True)
class Operand:
    """The terms of one launch: one or two arrays that the kernels can read, outputs × n."""

    rows: tuple[Rows, ...]
    n: int
    negate: bool = False
    square: bool = False


@dataclass(frozen=True)
class Launch:
    """Which kernel sums an operand, and how its threads and blocks share the work.

    width : outputs that a block takes side by side.
    parts : blocks that share outputs.
    room : threads whose digits need room in memory if each has all the terms of an output.
    shared : whether threads of several blocks, or rows of a block, meet in totals in memory.
    """

    operand: Operand
    outputs: int
    kernel: Kernel
    form: dict[str, int]
    width: int
    parts: int
    grid: int
    room: int
    shared: bool

    @classmethod
    def of(cls, operand: Operand, outputs: int) -> Launch:
        """Choose so that neighbouring threads read neighbouring memory, and all of them have work."""
        x, n = operand.rows[0], operand.n
        near = abs(x.outer) < abs(x.step) and not x.pair
        if outputs == 1 or (near and outputs <= WIDEST) or (x.pair and n >= _SHORT):
            return cls._sums(operand, outputs, 2 if x.pair else outputs)
        if not near and not x.pair and (n >= _SHORT or outputs < 1 << 10):
            return cls._sums(operand, outputs, 1)
        return cls._columns(operand, outputs, not near and not x.pair)

    @classmethod
    def _sums(cls, operand: Operand, outputs: int, width: int) -> Launch:
        groups = -(-outputs // width)
        threads = THREADS
        if width == 1 and groups > 8 * _resident_blocks():
            # Many small blocks, of which some read while others round.
            threads = 32 if operand.n < 1 << 12 else 64 if operand.n < 1 << 15 else THREADS
        batches = -(-operand.n // (threads // width * _batch(operand)))
        wanted = (
            _resident_blocks() if groups == 1 else min(batches // 4, _WAVES * _resident_blocks() // groups)
        )
        parts = max(1, min(batches, wanted))
        packed = width == 1 and all(_packed_in_words(r) for r in operand.rows)
        form = sums_form(width, threads, packed)
        return cls(operand, outputs, exact_sums, form, width, parts, groups * parts, 0, parts > 1)

    @classmethod
    def _columns(cls, operand: Operand, outputs: int, tile: bool) -> Launch:
        width = min(outputs, THREADS)
        groups, rows = -(-outputs // width), THREADS // width
        if tile:
            width, rows = THREADS, 1
        batches = -(-operand.n // (rows * _batch(operand)))
        product = len(operand.rows) == 2 or operand.square
        resident = _processors() * COLUMNS_BLOCKS[product]
        parts = max(1, min(batches // 8, _COLUMNS_WAVES[product] * resident // groups))
        shared = rows * parts > 1
        grid = groups * parts if shared else min(groups, resident)
        room = 0 if shared else grid * THREADS
        return cls(
            operand, outputs, exact_columns, columns_form(tile, product), width, parts, grid, room, shared
        )

    def __call__(self, memory: tuple, layout: Layout, ending: Ending) -> None:
        """Sum, and round if nothing is to be kept for later launches."""
        operand = self.operand
        addresses: list[Any] = []
        for rows in (operand.rows * 2)[:2]:
            addresses += [rows.array, np.int64(rows.outer), np.int64(rows.inner), np.int64(rows.step)]
        sizes = (np.int64(operand.n), np.int64(self.outputs), np.int32(operand.rows[0].pair))
        work = (np.int32(self.width), np.int32(self.parts), np.int32(operand.negate))
        product = len(operand.rows) == 2 or operand.square
        chosen = constants(name_of(operand.rows[0].array.dtype), product, operand.square, layout, **self.form)
        threads = (self.form["THREADS"],)
        self.kernel(
            (self.grid,), threads, (*addresses, *sizes, *work, *memory, *ending.arguments()), **chosen
        )


def _batch(operand: Operand) -> int:
    return batch(
        name_of(operand.rows[0].array.dtype), len(operand.rows) == 2 or operand.square, operand.square
    )


def _packed_in_words(rows: Rows) -> bool:
    """Whether neighbouring terms are neighbours in memory, and an output's first has a word's address."""
    size = rows.array.itemsize
    return rows.step == 1 and not rows.pair and rows.array.data.ptr % 8 == 0 and rows.outer * size % 8 == 0


def _in_one_launch(streams: Sequence[Stream], reduced: int) -> bool:
    """Whether there is one launch, and no output's digits need memory beyond it."""
    if len(streams) > 1 or (operand := _in_place(streams[0], reduced)) is None:
        return False
    return not Launch.of(operand, prod(streams[0].factors[0].shape[reduced:])).shared


def _in_place(stream: Stream, reduced: int) -> Operand | None:
    """What the kernels can read where it is, or None."""
    x = stream.factors[0]
    n = prod(x.shape[:reduced])
    square = len(stream.factors) == 2 and stream.factors[1] is x and stream.sign > 0
    factors = stream.factors[:1] if square else stream.factors
    if len(factors) == 1 and reduced > 1:  # whose terms may come in any order
        order = sorted(range(reduced), key=lambda a: -abs(x.strides[a]))
        factors = (x.transpose(*order, *range(reduced, x.ndim)),)
    alike = factors[0].dtype == factors[-1].dtype and name_of(x.dtype) in SOURCES
    if n == 0:
        empty = import_cupy().zeros(1, x.dtype if alike else np.float64)
        return Operand((Rows(empty, 0, 0, 1),) * len(factors), 0, stream.sign < 0, square)
    rows = [_as_rows(f, reduced) for f in factors] if alike else [None]
    found = tuple(r for r in rows if r is not None)
    if len(found) < len(rows) or found[0].pair != found[-1].pair:
        return None
    return Operand(found, n, stream.sign < 0, square)


def _operands(streams: Sequence[Stream], reduced: int) -> Iterator[Operand]:
    """Find what the kernels can read in place, and copy the rest piece by piece."""
    for stream in streams:
        if (operand := _in_place(stream, reduced)) is not None:
            yield operand
            continue
        factors = stream.factors
        shape = factors[0].shape
        outputs = prod(shape[reduced:])
        for part in tiles(shape[:reduced], max(1, _PIECE // max(1, outputs))):
            xs = [x[cast(Any, (*part, ...))] for x in factors]
            for together in factor_pairs(*xs) if len(xs) == 2 else ((x,) for x in as_floats(xs[0])):
                packed = [_packed(x, reduced, outputs) for x in together]
                n = packed[0].shape[1]
                yield Operand(tuple(Rows(x, n, 0, 1) for x in packed), n, stream.sign < 0)


def _as_rows(x: Array, reduced: int) -> Rows | None:
    """Return strides if the reduced axes, and the others, are each evenly spaced; else None.

    The others may also be evenly spaced but for the last, if that has length 2.
    """
    kept = [(x.strides[a] // x.itemsize, x.shape[a]) for a in range(reduced, x.ndim) if x.shape[a] > 1]
    terms = [(x.strides[a] // x.itemsize, x.shape[a]) for a in range(reduced) if x.shape[a] > 1]
    if not _even(terms):
        return None
    step = terms[-1][0] if terms else 1
    if _even(kept):
        return Rows(x, kept[-1][0] if kept else 1, 0, step)
    if kept[-1][1] == 2 and _even(kept[:-1]):
        return Rows(x, kept[-2][0], kept[-1][0], step, pair=True)
    return None


def _even(axes: list[tuple[int, int]]) -> bool:
    """Whether axes, as strides and lengths, are together evenly spaced."""
    return all(outer == inner * length for (outer, _), (inner, length) in pairwise(axes))


def _packed(x: Array, reduced: int, outputs: int) -> Array:
    """A contiguous (outputs, n) copy."""
    moved = x.transpose(*range(reduced, x.ndim), *range(reduced))
    return import_cupy().ascontiguousarray(moved).reshape(outputs, -1)


def _resident_blocks() -> int:
    """Blocks of `exact_sums` that run at one time."""
    return _processors() * _BLOCKS_PER_PROCESSOR


@cache
def _processors() -> int:
    """Multiprocessors of the current device, taken for all devices'."""
    return import_cupy().cuda.Device().attributes["MultiProcessorCount"]
