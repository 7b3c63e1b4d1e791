"""Exact sums over axes of CuPy arrays, rounded once: what to launch of `reduction.cu`.

Two kernels, for two ways in which sums lie in memory. In `exact_sums` the threads of a block share
an output, or up to 32 that lie side by side, and a superaccumulator for each in shared memory. In
`exact_columns` every thread has an output of its own. Either way several blocks may share the terms
of an output; the last of them rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_int, c_longlong, c_void_p
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from multiword.engines.machine import multiprocessors
from multiword.formats import FORMATS
from multiword.runtime.arrays import Array, import_cupy
from multiword.runtime.graphs import refuse_captures
from multiword.runtime.kernels import Instance, Kernel, Struct
from multiword.runtime.scoped import Scoped
from ozaki.rounding.conversion import narrow
from ozaki.sums.arguments import format_of
from ozaki.sums.exact.accumulator import Superaccumulator, digits_in_use
from ozaki.sums.exact.extraction import constants
from ozaki.sums.exact.fixed_point import (
    DIGIT_BITS,
    DIGITS_ABOVE,
    DIGITS_BELOW,
    DigitRange,
    FixedPoint,
    Rounding,
)
from ozaki.sums.exact.summands import Summands, tiles
from ozaki.sums.exact.summands_cuda import Terms, at_once, readable

_OUTPUTS = 1 << 17  # outputs that have digits in memory at one time
_SHORT = 512  # neighbouring terms too few for the threads of a block, or of a warp
_LARGEST_DIVISOR = 1 << 32
_THREADS = 256
_WIDEST = 32  # outputs that the threads of a block of `exact_sums` share
_BLOCKS_PER_PROCESSOR = 4  # of _THREADS threads, as the launch bounds of `exact_sums` say
_WAVES = 4  # times that, where blocks need not start together
# Of `exact_columns`, for sums and for products. Sums leave registers to read ahead, products do not.
_COLUMNS_BLOCKS = {False: 3, True: 4}
_COLUMNS_WAVES = {False: 1, True: 4}  # its blocks end with many additions
_KINDS = 1 << 10  # of launches that are cached: some 3 KiB each
_PLAIN = Rounding(FORMATS["fp64"])


class Reduction(Struct):
    """The kernels' parameters; see the comment above the C struct."""

    _fields_ = (
        *((name, c_void_p) for name in ("x", "y", "more_x", "more_y")),
        *((name, c_longlong) for name in ("x_outer", "x_inner", "x_step", "y_outer", "y_inner", "y_step")),
        *((name, c_longlong) for name in ("n", "outputs")),
        *((name, c_int) for name in ("pair", "width", "parts", "negate", "more", "negate_more")),
        ("totals", c_void_p),
        ("stride", c_longlong),
        *((name, c_void_p) for name in ("flags", "tickets", "result")),
        ("divisor", c_longlong),
        *((name, c_int) for name in ("resume", "keep", "root", "precision", "smallest")),
    )


def _vectors_form(width: int, threads: int, packed: bool) -> dict[str, int]:
    """How `exact_sums` shares outputs among threads, as compile-time constants."""
    widest = 1 if width == 1 else _WIDEST
    return {
        "COLUMNS": 0,
        "ALIKE": 1,
        "HEADROOM": 0,
        "THREADS": threads,
        "WIDEST": widest,
        "PACKED": int(packed),
    }


def _columns_form(tile: bool, product: bool) -> dict[str, int]:
    """How `exact_columns` reads, as compile-time constants."""
    return {
        "COLUMNS": 1,
        "ALIKE": 0,
        "HEADROOM": 4,
        "THREADS": _THREADS,
        "TILE": int(tile),
        "AHEAD": int(not tile and not product),
        "BLOCKS": _COLUMNS_BLOCKS[product],
    }


_FILE = Path(__file__).with_name("reduction.cu")

exact_sums = Kernel(
    "exact_sums",
    _FILE,
    tuple(
        constants(
            dtype, DigitRange.of(format_of(dtype)), product, square, **_vectors_form(width, threads, packed)
        )
        for dtype, product, square, width, threads, packed in (
            ("float64", False, False, 1, 256, True),
            ("float64", True, False, 1, 256, True),
            ("float64", True, True, 1, 64, True),
            ("float64", True, False, 2, 256, False),
            ("float32", False, False, 1, 32, True),
            ("float32", True, False, 1, 256, True),
            ("float16", True, True, 1, 256, True),
            ("bfloat16", False, False, 1, 256, False),
        )
    ),
    (Reduction,),
    equals="ozaki.definition.sums.rounded_sum",
)

exact_columns = Kernel(
    "exact_columns",
    _FILE,
    tuple(
        constants(dtype, DigitRange.of(format_of(dtype)), product, square, **_columns_form(tile, product))
        for dtype, product, square, tile in (
            ("float64", False, False, False),
            ("float64", True, False, True),
            ("float64", True, True, False),
            ("float32", False, False, True),
            ("float32", True, False, False),
            ("float16", True, True, True),
            ("bfloat16", False, False, False),
        )
    ),
    (Reduction,),
    equals="ozaki.definition.sums.rounded_sum",
)


class Repetition(NamedTuple):
    """A launch that makes all of a result, to be made again on other arrays of the same layout."""

    launch: Launch
    digits: DigitRange
    rounding: Rounding

    def __call__(self, arrays: tuple[Array, ...], result: Array) -> None:
        """Write the rounded sums of these arrays to a result, one after the other."""
        state = _zero_state(self.digits, self.launch.outputs) if self.launch.shared else None
        self.launch(arrays, self.digits, self.rounding, state, result, False, False)


Noted = tuple[Repetition | None, tuple[Array, ...], Array]
"""A launch, None if it cannot be made again, what it read, and what it wrote."""

launches: Scoped[list[Noted] | None] = Scoped(None)
"""Where a thread notes its launches."""


def rounded_sums(summands: Sequence[Summands], reduced: int, digits: DigitRange, rounding: Rounding) -> Array:
    """Return the sums over the first `reduced` axes, in the dtype of the target format.

    Means of more elements than the kernel divides by are finished on the host.
    """
    cupy = import_cupy()
    shape = summands[0].shape[reduced:]
    if not prod(shape):
        return cupy.empty(shape, rounding.target.dtype)
    if rounding.divisor >= _LARGEST_DIVISOR:
        sums = accumulated_on_device(summands, reduced, digits).on_host().fixed_point()
        return cupy.asarray(narrow(rounding(sums), rounding.target.dtype)).reshape(shape)
    if prod(shape) <= _OUTPUTS or _in_one_launch(summands, reduced):
        return _sum_up(summands, reduced, digits, rounding).reshape(shape)
    result = cupy.empty(shape, rounding.target.dtype)
    for output in tiles(shape, _OUTPUTS):
        part = result[cast(Any, (*output, ...))]
        values = _sum_up(_chosen(summands, reduced, output), reduced, digits, rounding)
        part[...] = values.reshape(part.shape)
    return result


def accumulated_on_device(summands: Sequence[Summands], reduced: int, digits: DigitRange) -> Superaccumulator:
    """Return the exact sums for all outputs in C order, in the digits that they use."""
    cupy, shape = import_cupy(), summands[0].shape[reduced:]
    total = Superaccumulator(digits, prod(shape), cupy)
    if not prod(shape):
        return total
    index = np.arange(prod(shape)).reshape(shape)
    for output in tiles(shape, _OUTPUTS):
        part = _in_use(*exact_totals(_chosen(summands, reduced, output), reduced, digits), digits)
        if part.flags.size == total.flags.size:
            return part
        total.merge(part, cupy.asarray(index[cast(Any, (*output, ...))].reshape(-1)))
    return total


def _chosen(summands: Sequence[Summands], reduced: int, output: tuple[slice, ...]) -> list[Summands]:
    """The terms of some of the outputs."""
    part = (slice(None),) * reduced + output
    return [terms.apply(lambda x: x[part]) for terms in summands]


def _in_use(totals: Array, flags: Array, digits: DigitRange) -> Superaccumulator:
    """The digits that some output uses, without the kernels' spare ones."""
    held = totals[DIGITS_BELOW : DIGITS_BELOW + digits.digits]
    used, sums = digits_in_use(held), Superaccumulator(digits, flags.size, import_cupy())
    exponent = digits.exponent + DIGIT_BITS * used.start
    sums.add(FixedPoint(held[used], DIGIT_BITS, exponent, flags.astype(np.uint8)))
    return sums


def exact_totals(summands: Sequence[Summands], reduced: int, digits: DigitRange) -> tuple[Array, Array]:
    """Return digits (DIGITS_BELOW + digits.digits + DIGITS_ABOVE, outputs), and flags."""
    return _sum_up(summands, reduced, digits, None)


def _sum_up(summands: Sequence[Summands], reduced: int, digits: DigitRange, rounding: Rounding | None) -> Any:
    """Launch for all terms. Return the results or, without a rounding, digits and flags."""
    refuse_captures("sums")  # what is freed when this returns would be another's when the graph is launched
    outputs = prod(summands[0].shape[reduced:])
    result = import_cupy().empty(outputs, (rounding or _PLAIN).target.dtype)
    state = None if rounding else _zero_state(digits, outputs)
    resume = False
    batches = readable(summands, reduced)
    current = next(batches, None)
    while current is not None:
        following = next(batches, None)
        keep = rounding is None or following is not None
        terms, arrays = current
        launch = _launch(terms, outputs, multiprocessors())
        if state is None and (keep or launch.shared):
            state = _zero_state(digits, outputs)
        launch(arrays, digits, rounding or _PLAIN, state, result, resume, keep)
        if launches.value is not None:
            repeat = None if rounding is None or keep or resume else Repetition(launch, digits, rounding)
            launches.value.append((repeat, arrays, result))
        current, resume = following, True
    return result if rounding else state[:2]  # type: ignore[index]


def _held(digits: DigitRange) -> int:
    """Return the digits of an output in memory."""
    return DIGITS_BELOW + digits.digits + DIGITS_ABOVE


def _zero_state(digits: DigitRange, outputs: int) -> tuple[Array, Array, Array]:
    """Digits, flags and tickets for outputs whose terms several launches, or blocks, share."""
    zeros = import_cupy().zeros((_held(digits) + 1, outputs), np.int64)
    flags, tickets = zeros[-1].view(np.uint32).reshape(2, outputs)
    return zeros[:-1], flags, tickets


@dataclass(frozen=True, eq=False)
class Launch:
    """Which kernel sums the terms, and how its threads and blocks share the work.

    width : outputs that a block takes side by side.
    parts : blocks that share outputs.
    room : threads whose digits need room in memory if each has all the terms of an output.
    shared : whether threads of several blocks, or rows of a block, meet in totals in memory.
    """

    terms: Terms
    outputs: int
    kernel: Kernel
    form: dict[str, int]
    width: int
    parts: int
    grid: int
    room: int
    shared: bool

    def __call__(
        self,
        arrays: tuple[Array, ...],
        digits: DigitRange,
        rounding: Rounding,
        state: tuple[Array, Array, Array] | None,
        result: Array,
        resume: bool,
        keep: bool,
    ) -> None:
        """Sum, and round if nothing is to be kept for later launches.

        state : digits, flags and tickets; None if every thread, or block, has all the terms of its outputs.
        """
        totals, flags, tickets = state or (None, None, None)
        if self.room and state is None:
            totals = import_cupy().empty((_held(digits), self.room), np.int64)
        instance, parameters = _prepared(self, digits, rounding, state is not None, resume, keep)
        read = dict(zip(("x", "y", "more_x", "more_y"), arrays * 4, strict=False))
        of_call = parameters.with_arrays(**read, totals=totals, flags=flags, tickets=tickets, result=result)
        instance((self.grid,), (self.form["THREADS"],), (of_call,))


@lru_cache(_KINDS)
def _launch(terms: Terms, outputs: int, processors: int) -> Launch:
    """Choose so that neighbouring threads read neighbouring memory, and all of them have work."""
    x, n = terms.rows[0], terms.n
    near = abs(x.outer) < abs(x.step) and not x.pair
    if outputs == 1 or (near and outputs <= _WIDEST) or (x.pair and n >= _SHORT):
        return _of_vectors(terms, outputs, 2 if x.pair else outputs, processors)
    if not near and not x.pair and (n >= _SHORT or outputs < 1 << 10):
        return _of_vectors(terms, outputs, 1, processors)
    return _of_columns(terms, outputs, not near and not x.pair, processors)


def _of_vectors(terms: Terms, outputs: int, width: int, processors: int) -> Launch:
    groups, resident = -(-outputs // width), processors * _BLOCKS_PER_PROCESSOR
    threads = _THREADS
    if width == 1 and groups >= 2 * resident:
        # Many small blocks, of which some read while others round (4000 × 4000: 53 to 38 µs on an H200).
        threads = 32 if terms.n < 1 << 12 else 64 if terms.n < 1 << 15 else _THREADS
    batches = -(-terms.n // (threads // width * terms.batch))
    wanted = resident if groups == 1 else min(batches // 4, _WAVES * resident // groups)
    parts = max(1, min(batches, wanted))
    packed = width == 1 and all(rows.packed for rows in terms.rows)
    form = _vectors_form(width, threads, packed)
    return Launch(terms, outputs, exact_sums, form, width, parts, groups * parts, 0, parts > 1)


def _of_columns(terms: Terms, outputs: int, tile: bool, processors: int) -> Launch:
    width, product = min(outputs, _THREADS), terms.product
    groups, rows = -(-outputs // width), _THREADS // width
    if tile:
        width, rows = _THREADS, 1
    batches = -(-terms.n // (rows * terms.batch))
    resident = processors * _COLUMNS_BLOCKS[product]
    parts = max(1, min(batches // 8, _COLUMNS_WAVES[product] * resident // groups))
    shared = rows * parts > 1
    grid = groups * parts if shared else min(groups, resident)
    form, room = _columns_form(tile, product), 0 if shared else grid * _THREADS
    return Launch(terms, outputs, exact_columns, form, width, parts, grid, room, shared)


@lru_cache(_KINDS)
def _prepared(
    launch: Launch, digits: DigitRange, rounding: Rounding, in_totals: bool, resume: bool, keep: bool
) -> tuple[Instance, Reduction]:
    """Return the kernel of such launches, and its parameters but for the addresses."""
    terms, (x, y) = launch.terms, (launch.terms.rows * 2)[:2]
    parameters = Reduction(
        **dict.fromkeys(("x", "y", "more_x", "more_y", "totals", "flags", "tickets", "result")),
        **x.parameters("x"),
        **y.parameters("y"),
        n=terms.n,
        outputs=launch.outputs,
        pair=x.pair,
        negate=terms.negate[0],
        more=terms.more,
        negate_more=terms.negate[1],
        width=launch.width,
        parts=launch.parts,
        stride=launch.outputs if in_totals else launch.room,
        resume=resume,
        keep=keep,
        divisor=rounding.divisor,
        root=rounding.root,
        precision=rounding.target.precision,
        smallest=rounding.target.last_place,
    )
    chosen = constants(terms.dtype, digits, terms.product, terms.square, **launch.form)
    return launch.kernel.instance(**chosen), parameters


def _in_one_launch(summands: Sequence[Summands], reduced: int) -> bool:
    """Whether there is one launch, and no output's digits need memory beyond it."""
    if (terms := at_once(summands, reduced)) is None:
        return False
    return not _launch(terms, prod(summands[0].shape[reduced:]), multiprocessors()).shared
