"""The evidence for the first stage of the certificate: what is true of every row of A and column of B.

It is gathered from the profiles of both operands, and is a handful of numbers, which a GPU writes to the
host's memory and goes on. The same counts say where the numbers of each row lie that count in a product with
one of another matrix: that is its window, for the second stage.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from multiword.formats import Format
from multiword.runtime.arrays import Array, is_cupy, namespace
from multiword.runtime.kernels import Kernel
from multiword.runtime.readback import Message
from ozaki.certificate.magnitudes import LARGEST
from ozaki.scaling.profile import FOLD_CONSTANTS, Profile
from ozaki.scaling.scales import NormLimit, norm_limit
from ozaki.scaling.segments import BITS, COUNT_BITS, FINE, LEVELS, NONFINITE, SEGMENT_CONSTANTS, STEP

OCTAVES = 44
"""Octaves below the norm limit over which scaled magnitudes are counted."""

_OFFSETS = np.minimum(np.arange(OCTAVES), OCTAVES - 2)
"""|x| is at least Σ_d 2**(top - 1 - offset_d)·[|x| >= 2**(top - d)]: each octave adds half of its own
threshold, the lowest one all of it."""

_SUMS = 2 * (OCTAVES - 2) // 10 + 1


@dataclass(frozen=True)
class Evidence:
    """What is true of all usable rows of A and columns of B, scaled to a' and b'.

    Attributes
    ----------
    nonfinite : whether there is an Inf or NaN in A or B.
    totals : upper bounds of Σ|a'| and of Σ|b'|.
    log2_squares : log2 of upper bounds of Σa'² and Σb'², at least 0, to a few ulps.
    sums : their sum times 4**(top - 1), with top = bits // 2 of the norm limit, is a lower bound of
        Σ|a'||b'|; ten octaves each, and exact.
    length : elements in a row.
    """

    nonfinite: bool
    totals: tuple[float, float]
    log2_squares: tuple[float, float]
    sums: list[float]
    length: int

    @classmethod
    def of(cls, numbers: list[float], length: int) -> Evidence:
        """From the numbers that the kernel `summarize` writes."""
        nonfinite, a, b, square_a, square_b, *sums = numbers
        return cls(nonfinite > 0, (a, b), (square_a, square_b), sums, length)


@dataclass(frozen=True)
class Side:
    """What is known of every scaled row of A, or column of B.

    Attributes
    ----------
    total : (r,) float64, an upper bound of Σ|a'|; 0 for a row of zeros or with an Inf or NaN.
    height : (r,) int32, |a'| <= 2**height.
    window : (r,) int32, the scale that brings into the octave of `LARGEST` what isqrt(k) numbers of the
        row reach, but at most half of those counted. A row and a column without structure have a few such
        numbers in common.
    lift : (r,) int32, a' is 2**lift times what the window's scale makes of it.
    """

    total: Array
    height: Array
    window: Array
    lift: Array

    def __getitem__(self, rows: slice) -> Side:
        """Some of the rows."""
        return Side(self.total[rows], self.height[rows], self.window[rows], self.lift[rows])


@dataclass(frozen=True)
class Reading:
    """What has been read of two operands.

    Attributes
    ----------
    sides : what stays on the device.
    wait : the evidence, once it is there; from a graph, that of the last replay.
    """

    sides: tuple[Side, Side]
    wait: Callable[[], Evidence]


def gather(
    profiles: tuple[Profile, Profile], limits: Format, scales: tuple[Array, Array] | None = None
) -> Reading:
    """Return the evidence for scaled operands, looked at below the norm limit of the format `limits`.

    Unless scales are given, for the norm scales of that format.
    """
    length = profiles[0].length
    limit = norm_limit(limits, length)
    if is_cupy(profiles[0].segments.exponent):
        return _gather_device(profiles, limit, scales)
    scales = scales or (profiles[0].rows.norm_scales[limits.name], profiles[1].rows.norm_scales[limits.name])
    summaries = [_summary_host(p, s, limit.bits // 2) for p, s in zip(profiles, scales, strict=True)]
    totals, squares, (left, right), sides = zip(*summaries, strict=True)
    nonfinite = any((p.rows.exponent == NONFINITE).any() for p in profiles)
    evidence = Evidence(nonfinite, totals, squares, _octave_sums(left, right, length), length)
    return Reading(sides, lambda: evidence)


def _summary_host(profile: Profile, scale: np.ndarray, top: int) -> tuple[float, float, np.ndarray, Side]:
    """Upper bounds of Σ|a'| and of log2 Σa'² for all usable rows, the counts that all reach, and the rows."""
    usable, count = profile.rows.usable, len(scale)
    side = Side(np.zeros(count), np.zeros(count, np.int32), scale.copy(), np.zeros(count, np.int32))
    if not usable.any():
        return 0.0, 0.0, np.full(OCTAVES, profile.length), side
    rows, scale = profile.rows[usable], scale[usable]
    height = rows.exponent + scale  # bits of the largest integer of each row
    total = np.ldexp(rows.total.astype(np.float64), height - BITS)
    log2_square = max(0.0, (np.log2(rows.square) + 2.0 * (height - BITS)).max())
    s = profile.segments
    at_least = _at_least(s.exponent[:, usable] + scale, s.counts[..., usable], top)
    wanted = np.minimum(math.isqrt(profile.length), np.maximum(1, (at_least[-1] + 1) // 2))
    octave = top - (at_least >= wanted).argmax(axis=0)  # they reach 2**octave
    lift = octave - (LARGEST.bit_length() - 1)
    for known, values in (
        (side.total, total),
        (side.height, height),
        (side.window, scale - lift),
        (side.lift, lift),
    ):
        known[usable] = values
    return float(total.max()), float(log2_square), at_least.min(axis=1), side


def _at_least(height: np.ndarray, counts: np.ndarray, top: int) -> np.ndarray:
    """How many scaled magnitudes of each row are at least 2**(top - d), for d = 0, 1, …: (OCTAVES, r).

    From the scaled exponents of its segments, and their counts.
    """
    words = counts.transpose(1, 0, 2)
    counts = np.concatenate([words >> COUNT_BITS * i & ((1 << COUNT_BITS) - 1) for i in range(3)])
    found = np.zeros((OCTAVES, height.shape[1]), np.int64)
    for bits in np.unique(height[(counts != 0).any(axis=0)]):  # few, unless the numbers spread far
        here = np.einsum("isr,sr->ir", counts, (height == bits).astype(counts.dtype))
        # Segments of that height count magnitudes from 2**(bits - 1 - q): look up the largest such q.
        level = bits - 1 - (top - np.arange(OCTAVES))
        index = np.where(level < FINE, level, FINE - 1 + (level - (FINE - 1)) // STEP)
        found[level >= 0] += here[np.minimum(index[level >= 0], len(LEVELS) - 1)]
    return found


def _octave_sums(a: np.ndarray, b: np.ndarray, length: int) -> list[float]:
    """`Evidence.sums` from the counts: if N elements reach x, and M reach y, N + M - length products x·y."""
    overlap = np.maximum(np.add.outer(a, b) - length, 0).ravel()
    terms = np.bincount(np.add.outer(_OFFSETS, _OFFSETS).ravel(), overlap, 10 * _SUMS)
    # Fewer than 2**11 counts below 2**32, times ten powers of two: a float64 holds each sum.
    return (terms * 2.0 ** -np.arange(10 * _SUMS)).reshape(_SUMS, 10).sum(axis=1).tolist()


_CONSTANTS: dict[str, Any] = {
    **FOLD_CONSTANTS,
    **SEGMENT_CONSTANTS,
    "OCTAVES": OCTAVES,
    "MAGNITUDE_BITS": LARGEST.bit_length(),
    "SUMS": _SUMS,
    "WARPS": 22,
    "BATCH": 8,
}

_SUMMARIZE = Kernel(
    "summarize",
    Path(__file__).with_name("counting.cu"),
    (_CONSTANTS,),
)


def _gather_device(
    profiles: tuple[Profile, Profile], limit: NormLimit, scales: tuple[Array, Array] | None
) -> Reading:
    cupy, length = namespace(profiles[0].segments.exponent), profiles[0].length
    found, message = cupy.zeros(2 * (3 + OCTAVES) + 1, cupy.uint64), Message(5 + _SUMS)
    rows = [p.segments.exponent.shape[1] for p in profiles]
    sides = _rows_of(rows[0], cupy), _rows_of(rows[1], cupy)
    arguments: list[Any] = []
    for p, given, side, r in zip(profiles, scales or (found, found), sides, rows, strict=True):
        s = p.segments
        arguments += [s.exponent, s.total, s.square, s.counts, given]
        arguments += [side.total, side.height, side.window, side.lift, np.int32(r)]
    blocks = sum(-(-r // 32) for r in rows)
    count = len(profiles[0].segments.exponent)
    sizes = np.int32(count), np.int64(length), np.int32(math.isqrt(length))
    limits = np.int32(limit.bits), np.int32(limit.thirtyseconds)
    ending = *limits, np.int32(scales is not None), found, message.address
    _SUMMARIZE((blocks,), (32 * _CONSTANTS["WARPS"],), (*arguments, *sizes, *ending), **_CONSTANTS)
    message.send()
    return Reading(sides, lambda: Evidence.of(message.wait(), length))


def _rows_of(count: int, xp: ModuleType) -> Side:
    """Room for what becomes known of so many rows."""
    return Side(xp.empty(count, xp.float64), *(xp.empty(count, xp.int32) for _ in range(3)))
