"""The counting bound: what the row statistics alone say of every row of A and column of B.

If N numbers of a row are at least x, and M numbers of a column at least y, at least N + M - k of their
products are at least x·y, whatever their order. It takes a handful of numbers of both operands, which a
GPU writes to the host's memory without waiting. The same counts say where the numbers of each row lie
that count in a product with one of another matrix: its truncation scale, for the pairwise bound.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from multiword.engines.machine import multiprocessors
from multiword.formats import Format
from multiword.runtime.arrays import Array, is_cupy, namespace
from multiword.runtime.compiled import compiled
from multiword.runtime.kernels import Kernel, Struct, members
from multiword.runtime.readback import Readback
from ozaki.certificate.magnitudes import COMPILED_FORM
from ozaki.definition.decision import LARGEST, OCTAVES
from ozaki.definition.statistics import BITS, FINE, LEVELS, STEP
from ozaki.scaling.scales import norm_limit
from ozaki.scaling.statistics import NONFINITE, STATISTICS_CONSTANTS, Rows, RowStatistics, rows_of
from ozaki.tuning import COUNTS_AT_ONCE, MANY_CHUNKS

_OFFSETS = np.minimum(np.arange(OCTAVES), OCTAVES - 2)
"""|x| is at least Σ_d 2**(top - 1 - offset_d)·[|x| >= 2**(top - d)]: each octave adds half of its own
threshold, the lowest one all of it."""

_SUMS = 2 * (OCTAVES - 2) // 10 + 1

NUMBERS = 5 + _SUMS
"""Numbers that `Bounds` are made of."""

DECIDED, CERTIFIED, OPEN, NOT_FINITE = -2, -1, 0, 1
"""The states of a product: a GPU has decided what it takes; its bounds prove the error that is wanted, by a
margin and without an Inf or NaN; they have to be looked at; there is an Inf or NaN."""

MARGIN = 2.0**-40
"""More than the relative error of a sum of a few float64 numbers and of two products."""


@lru_cache(256)
def counting_tolerance(length: int, target: Format) -> float:
    """Return the error that the counting bound must certify: at most k/2·u, and at most 12·sqrt(k)·u.

    For data without structure that bound is four to ten times too large: where it accepts them, their error
    is about sqrt(k)·u at the very worst.
    """
    return min(length / 2, 12 * math.sqrt(length)) * target.unit_roundoff


def enough(length: int, target: Format) -> float:
    """Return by what T may exceed the sum of `Bounds.sums`: the tolerance in their unit, less a margin."""
    top = norm_limit(target, length).bits // 2
    return math.ldexp(counting_tolerance(length, target) * (1 - MARGIN), 2 * (top - 1))


class Bounds(NamedTuple):
    """Bounds for all rows of A and columns of B that are finite and nonzero, scaled to a' and b'.

    Attributes
    ----------
    nonfinite : whether there is an Inf or NaN in A or B.
    totals : upper bounds of Σ|a'| and of Σ|b'|.
    log2_squares : log2 of upper bounds of Σa'² and Σb'², at least 0, to a few ulps.
    sums : their sum times 4**(top - 1), with top = bits // 2 of the norm limit, is a lower bound of
        Σ|a'||b'|; ten octaves each, and exact.
    length : numbers in a row.
    """

    nonfinite: bool
    totals: tuple[float, float]
    log2_squares: tuple[float, float]
    sums: list[float]
    length: int

    @classmethod
    def of(cls, numbers: list[float], length: int) -> Bounds:
        """Return the bounds in the numbers that the kernel `counting_bound` writes."""
        state, a, b, square_a, square_b, *sums = numbers
        return cls(state == NOT_FINITE, (a, b), (square_a, square_b), sums, length)


@dataclass(frozen=True)
class RowBounds:
    """Bounds for each scaled row of A, or column of B.

    Attributes
    ----------
    total : (r,) float64, an upper bound of Σ|a'|; 0 for a row of zeros or with an Inf or NaN.
    truncation_scale : (r,) int32, the scale that brings into the octave of `LARGEST` what isqrt(k) numbers of
        the row reach, but at most half of those counted. Then a row and a column without structure have
        several such numbers in common.
    scale_offset : (r,) int32, a' is 2**scale_offset times what the truncation scale makes of it.
    """

    total: Array
    truncation_scale: Array
    scale_offset: Array

    def __getitem__(self, rows: Any) -> RowBounds:
        """Return those of some rows, by a slice or by indices in an array of any shape."""
        return RowBounds(self.total[rows], self.truncation_scale[rows], self.scale_offset[rows])


@dataclass(frozen=True)
class PendingNumbers:
    """The bounds of two operands, on their way from the device.

    Attributes
    ----------
    numbers : waits for the arguments of `Bounds.of`, product by product; from a graph, those of its last
        replay, which the next one overwrites.
    length : numbers in a row.
    """

    numbers: Callable[[], np.ndarray]
    length: int

    def wait(self) -> Bounds:
        """Wait for the bounds of a single product."""
        return Bounds.of(self.numbers().tolist(), self.length)

    def wait_for_stack(self) -> np.ndarray:
        """Wait for the bounds of a stack of products, a row of numbers for each."""
        return self.numbers().reshape(-1, NUMBERS).copy()

    def settled(self) -> int | None:
        """Wait, and return `CERTIFIED` if every product is, as nearly always, `DECIDED` if all others are
        that, or else None."""
        states = self.numbers()[::NUMBERS]
        # One number takes Python a tenth of the time of an array.
        if (first := states.item(0)) >= OPEN:
            return None
        if states.size == 1:
            return int(first)
        return int(states.min()) if states.max() < OPEN else None


@dataclass(frozen=True)
class PendingBounds(PendingNumbers):
    """Those of all rows, too.

    Attributes
    ----------
    rows : the rows' bounds, which stay on the device: of a stack, those of all products, one below the other.
    """

    rows: tuple[RowBounds, RowBounds]


def compute_bounds(
    statistics: tuple[RowStatistics, RowStatistics],
    scales: tuple[Array, Array],
    limits: Format,
    stack: int = 1,
) -> PendingBounds:
    """Return the bounds of scaled operands, counted below the norm limit of the format `limits`.

    Of a stack, every product has its own.
    """
    compute = _bounds_device if is_cupy(scales[0]) else _bounds_host
    return compute(statistics, scales, limits, stack)


def _bounds_host(
    statistics: tuple[RowStatistics, RowStatistics],
    scales: tuple[np.ndarray, np.ndarray],
    limits: Format,
    stack: int,
) -> PendingBounds:
    length = statistics[0].length
    top = norm_limit(limits, length).bits // 2
    of_operands = [_operand_host(x, s, top, stack) for x, s in zip(statistics, scales, strict=True)]
    totals, squares, counts, rows = zip(*of_operands, strict=True)
    markers = [(x.exponent == NONFINITE).reshape(stack, -1).any(axis=1) for x in statistics]
    sums = octave_sums(counts[0], counts[1], length)
    states = _states(markers[0] | markers[1], totals, sums, length, enough(length, limits))
    numbers = np.column_stack([states, *totals, *squares, sums]).ravel()
    return PendingBounds(lambda: numbers, length, rows)


def _states(
    nonfinite: np.ndarray, totals: Sequence[np.ndarray], sums: np.ndarray, length: int, limit: float
) -> np.ndarray:
    """Return the state of each product."""
    a, b = totals
    lower = sums @ np.full(sums.shape[1], limit)  # many times faster than sums of short rows
    certified = (a == 0) | (b == 0) | (0.5 * (a + b) + 0.25 * length <= lower)
    return np.where(nonfinite, NOT_FINITE, np.where(certified, CERTIFIED, OPEN))


def _operand_host(
    statistics: RowStatistics, scale: np.ndarray, top: int, stack: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, RowBounds]:
    """Return, by matrix, upper bounds of Σ|a'| and log2 Σa'² and counts that all rows reach; `RowBounds`."""
    summed, length = statistics.finite_nonzero, statistics.length
    form = compiled(COMPILED_FORM)
    if form is not None:
        rows, sums = empty_rows(len(scale), np), (statistics.exponent, statistics.total, statistics.square)
        largest, reached = np.empty((stack, 3)), np.empty((stack + 1, OCTAVES), np.int64)
        given = *sums, statistics.counts, scale.astype(np.int32, copy=False), length, math.isqrt(length), top
        form.row_bounds(*given, rows.total, rows.truncation_scale, rows.scale_offset, largest, reached)
        return largest[:, 1], largest[:, 2], reached[:stack], rows
    # Of the largest integer of each row; rows that do not count get what changes no bound.
    exponent = np.where(summed, statistics.exponent + scale, 0).astype(np.int32)
    total = np.ldexp(statistics.total.astype(np.float64), exponent - BITS)
    log2_square = np.where(summed, np.log2(np.maximum(statistics.square, 1)) + 2.0 * (exponent - BITS), 0.0)
    at_least = _at_least(exponent, statistics.counts, top)
    wanted = np.minimum(math.isqrt(length), np.maximum(1, (at_least[-1] + 1) // 2))
    octave = top - (at_least >= wanted).argmax(axis=0)  # they reach 2**octave
    offset = np.where(summed, octave - (LARGEST.bit_length() - 1), 0).astype(np.int32)
    of_all = np.where(summed, at_least, length).reshape(OCTAVES, stack, -1).min(axis=2)
    maxima = (np.maximum(x.reshape(stack, -1).max(axis=1), 0.0) for x in (total, log2_square))
    return *maxima, of_all.T, RowBounds(total, scale - offset, offset)


def _at_least(exponent: np.ndarray, counts: np.ndarray, top: int) -> np.ndarray:
    """Return how many scaled magnitudes of each row are at least 2**(top - d), d = 0, 1, …: (OCTAVES, r)."""
    # Magnitudes are counted from 2**(exponent - 1 - q): look up the largest such q.
    octave = exponent - 1 - (top - np.arange(OCTAVES)[:, None])
    index = np.where(octave < FINE, octave, FINE - 1 + (octave - (FINE - 1)) // STEP)
    counted = np.take_along_axis(counts, np.clip(index, 0, len(LEVELS) - 1), axis=0)
    return np.where(octave >= 0, counted, 0)


def octave_sums(a: np.ndarray, b: np.ndarray, length: int) -> np.ndarray:
    """`Bounds.sums` of each product from the (s, OCTAVES) counts."""
    exponents, size = np.add.outer(_OFFSETS, _OFFSETS).ravel(), 10 * _SUMS
    sums = np.empty((len(a), _SUMS))
    for i in range(0, len(a), COUNTS_AT_ONCE):
        left, right = (x[i : i + COUNTS_AT_ONCE] for x in (a, b))
        overlap = np.maximum(left[:, :, None] + right[:, None, :] - length, 0).ravel()
        of_products = (size * np.arange(len(left))[:, None] + exponents).ravel()
        terms = np.bincount(of_products, overlap, size * len(left)).reshape(-1, size)
        # Fewer than 2**11 counts below 2**32, times ten powers of two: a float64 holds each sum.
        sums[i : i + len(left)] = (terms * 2.0 ** -np.arange(size)).reshape(-1, _SUMS, 10).sum(axis=2)
    return sums


class ScaledRows(Struct):
    """The scales of an operand, and the arrays of its `RowBounds`."""

    _fields_ = members(ctypes.c_void_p, "scale", "total", "truncation_scale", "scale_offset")


BOUND_CONSTANTS: dict[str, Any] = {
    **STATISTICS_CONSTANTS,
    "OCTAVES": OCTAVES,
    "MAGNITUDE_BITS": LARGEST.bit_length(),
    "SUMS": _SUMS,
    "DECIDED": DECIDED,
    "CERTIFIED": CERTIFIED,
    "OPEN": OPEN,
    "NOT_FINITE": NOT_FINITE,
}
MERGED_NUMBERS = 2 * (3 + OCTAVES) + 1
"""Numbers by which several blocks bring the maxima of a product together: these, and how many are done."""

_TOGETHER, _EACH = {"WARPS": 23, "SHARE": 23}, {"WARPS": 4, "SHARE": 1}
"""Warps of a block, and how many of them share rows: all, which takes the least time for a few, or none,
which takes the fewest operations."""

_COUNTING_BOUND = Kernel(
    "counting_bound",
    Path(__file__).with_suffix(".cu"),
    tuple({**BOUND_CONSTANTS, **block} for block in (_TOGETHER, _EACH)),
    (Rows, ScaledRows),
    equals="ozaki.definition.decision.counting_error",
)


def _bounds_device(
    statistics: tuple[RowStatistics, RowStatistics],
    scales: tuple[Array, Array],
    limits: Format,
    stack: int,
) -> PendingBounds:
    cupy, length = namespace(scales[0]), statistics[0].length
    chunks = sum(-(-len(scale) // stack // 32) for scale in scales)
    few = stack == 1 and chunks < MANY_CHUNKS * multiprocessors()
    block, at_a_time = (_TOGETHER, 2) if few else (_EACH, 12)
    blocks = min(-(-at_a_time * multiprocessors() // stack), -(-chunks * block["SHARE"] // block["WARPS"]))
    # Zeros are filled in at every replay: what that takes lets the split begin first (1024 x 1024: 4 µs).
    maxima = (cupy.zeros if blocks > 1 else cupy.empty)((stack, MERGED_NUMBERS), np.uint64)
    readback = Readback(stack * NUMBERS)
    rows = empty_rows(len(scales[0]), cupy), empty_rows(len(scales[1]), cupy)
    arguments: list[Any] = []
    for x, scale, of_rows in zip(statistics, scales, rows, strict=True):
        arguments += [rows_of(x), ScaledRows(scale=scale, **vars(of_rows))]
    arguments += [np.int64(length), np.int32(math.isqrt(length))]
    arguments += [np.int32(norm_limit(limits, length).bits // 2), np.float64(enough(length, limits))]
    arguments += [maxima, readback.address]
    _COUNTING_BOUND((blocks, stack), (32 * block["WARPS"],), tuple(arguments), **BOUND_CONSTANTS, **block)
    readback.send()
    return PendingBounds(readback.look, length, rows)


def empty_rows(count: int, xp: Any) -> RowBounds:
    """Return bounds of so many rows, to be written."""
    return RowBounds(xp.empty(count, xp.float64), *(xp.empty(count, xp.int32) for _ in range(2)))
