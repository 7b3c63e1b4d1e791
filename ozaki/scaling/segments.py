"""The segments of an operand's rows: what is known of every 256 numbers, in integers.

An *operand* is one side of a product: its r rows are the rows of A or the columns of B, its
k columns run along the inner dimension. It comes as a list of real parts, one for a real
matrix, two for a complex one, whose row is then the real and the imaginary parts together.

Magnitudes are taken as integers relative to the largest in the same *segment* of `SEGMENT` numbers
of the row, not to the largest in the row: so one pass over the operand is enough. `_profile` puts
the segments of a row together.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, is_cupy, namespace
from multiword.runtime.kernels import Kernel
from multiword.runtime.parallel import contiguous_rows, over_rows, scale_rows, scratch
from multiword.runtime.tiles import operand_layout, tile_count, tile_instances

SEGMENT = 256
"""Numbers to a segment of a row: consecutive ones, or half as many complex ones; fewer in the last."""

BITS = 16
"""Magnitudes are taken as integers of this many bits, relative to the largest in their segment."""

FINE, COARSE, STEP = 10, 8, 3
LEVELS = (*range(FINE), *range(FINE - 1 + STEP, FINE + STEP * COARSE, STEP))
"""Octaves below a segment's largest magnitude down to which elements are counted: each of the first,
where most numbers are, then every third, for numbers that spread far."""

COUNT_BITS = 10
COUNT_WORDS = len(LEVELS) // 3
"""Three counts share a word: those of the levels i, i + COUNT_WORDS and i + 2·COUNT_WORDS."""

ZERO, NONFINITE = -(1 << 14), 1 << 14
"""Exponents that mark a row, or a segment, without a nonzero element and one with an Inf or NaN."""


@dataclass(frozen=True)
class Segments:
    """What is known of the s segments of every row, all integers.

    Attributes
    ----------
    exponent : (s, r) int32, e with 2**(e-1) <= max |x| < 2**e; `ZERO` or `NONFINITE` else.
    total : (s, r) int32, the sum of t + 1 for t = floor(|x|·2**(BITS - e)); 0 if e is `ZERO` or
        `NONFINITE`, as are the others.
    square : (s, r) int64, the sum of (t + 1)².
    counts : (s, COUNT_WORDS, r) uint32, how many |x| >= 2**(e - 1 - q), for the q in LEVELS.
    """

    exponent: Array
    total: Array
    square: Array
    counts: Array


def segments_of(parts: list[Array]) -> Segments:
    """Return the segments of an operand given as (r, k) float32 or float64 parts."""
    return (_segments_device if is_cupy(parts[0]) else _segments_host)(parts)


def _segments_host(parts: list[np.ndarray]) -> Segments:
    rows, columns = parts[0].shape
    width = SEGMENT // len(parts)
    count, whole = -(-columns // width), columns // width
    exponent, total = (np.empty((count, rows), np.int32) for _ in range(2))
    square, counts = np.empty((count, rows), np.int64), np.empty((count, COUNT_WORDS, rows), np.uint32)

    def work(block: slice) -> None:
        height = block.stop - block.start
        # The segments of full width side by side, then what is left.
        for first, last, wide in ((0, whole, width), (whole, count, columns - whole * width)):
            if first == last:
                continue
            shape = len(parts), height, (last - first) * wide
            magnitudes = scratch("magnitudes", shape)
            start = first * width
            for x, out in zip(parts, magnitudes, strict=True):
                np.abs(contiguous_rows(x[:, start : start + shape[2]], block, out), out=out)
            found = _describe(magnitudes.reshape(len(parts), -1, wide))
            for into, values in zip((exponent, total, square), found[:3], strict=True):
                into[first:last, block] = values.reshape(height, -1).T
            counts[first:last, :, block] = found[3].reshape(COUNT_WORDS, height, -1).transpose(2, 0, 1)

    over_rows(work, rows, columns)
    return Segments(exponent, total, square, counts)


def _describe(magnitudes: np.ndarray) -> tuple[np.ndarray, ...]:
    """Exponent, total, square and words of counts of segments given as (parts, segments, numbers)."""
    largest = magnitudes.max(axis=(0, 2))
    usable = (largest != 0) & np.isfinite(largest)
    e = np.where(usable, np.frexp(largest)[1], np.where(largest == 0, ZERO, NONFINITE))
    shift = np.where(usable, BITS - e, 0)
    total, square = np.zeros((2, len(e)), np.int64)
    counts = np.zeros((len(LEVELS), len(e)), np.uint32)
    for x in magnitudes:
        if not usable.all():
            x[~usable] = 0
        scale_rows(x, shift)
        counts += _count_octaves(x)
        np.floor(x, out=x)
        total += x.sum(axis=1).astype(np.int64)
        square += np.vecdot(x, x).astype(np.int64)
    length = magnitudes.shape[0] * magnitudes.shape[2]
    square += 2 * total + length
    total += length
    first, second, third = counts.reshape(3, COUNT_WORDS, -1)
    words = first | second << COUNT_BITS | third << 2 * COUNT_BITS
    return e, np.where(usable, total, 0), np.where(usable, square, 0), words


_THRESHOLDS = np.array([(1023 + BITS - 1 - q) << 4 for q in LEVELS], np.uint16)[:, None, None]


def _count_octaves(x: np.ndarray) -> np.ndarray:
    """How many of the up to 256 numbers of each row, below 2**BITS, are at least 2**(BITS - 1 - q)."""
    rows, columns = x.shape
    # The leading 16 bits order as the numbers do. Eight bytes of a comparison are added at once.
    padded = rows, -(-columns // 8) * 8
    leading = scratch("leading", padded, np.uint16)
    leading[:, columns:] = 0
    np.right_shift(x.view(np.int64), 48, out=leading[:, :columns], casting="unsafe")
    above = np.greater_equal(leading, _THRESHOLDS, out=scratch("above", (len(LEVELS), *padded), np.bool_))
    sums = above.view(np.uint64).sum(axis=2)
    # Each sum is eight bytes, of up to 32: add them up in pairs, then the four pairs at once.
    pairs = (sums & 0x00FF00FF00FF00FF) + (sums >> 8 & 0x00FF00FF00FF00FF)
    return (pairs * 0x0001000100010001 >> 48).astype(np.uint32)


SEGMENT_CONSTANTS: dict[str, Any] = {
    "BITS": BITS,
    "FINE": FINE,
    "STEP": STEP,
    "COUNTS": len(LEVELS),
    "COUNT_BITS": COUNT_BITS,
    "COUNT_WORDS": COUNT_WORDS,
    "ZERO": ZERO,
    "NONFINITE": NONFINITE,
}
"""What kernels that read segments have to know of them."""

_CONSTANTS: dict[str, Any] = {**SEGMENT_CONSTANTS, "SEGMENT": SEGMENT, "LANES": 32, "BLOCKS": 3}
_RUN = 32
"""Numbers to a thread in a tile, of both parts together."""

_DESCRIBE = Kernel(
    "segments",
    Path(__file__).with_name("segments.cu"),
    tile_instances(_CONSTANTS, _RUN),
)


def _segments_device(parts: list[Array]) -> Segments:
    xp = namespace(parts[0])
    rows, columns = parts[0].shape
    strides, layout = operand_layout(parts[0])
    constants = {**_CONSTANTS, **layout, "PARTS": len(parts), "RUN": _RUN // len(parts)}
    count = -(-columns * len(parts) // SEGMENT)
    exponent, total = (xp.empty((count, rows), xp.int32) for _ in range(2))
    square, counts = xp.empty((count, rows), xp.int64), xp.empty((count, COUNT_WORDS, rows), xp.uint32)
    sizes = (*map(np.int64, strides), *map(np.int32, (rows, columns)))
    arguments = (parts[0], parts[-1], *sizes, exponent, total, square, counts)
    _DESCRIBE((tile_count(constants, rows, columns),), (256,), arguments, **constants)
    return Segments(exponent, total, square, counts)
