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
from typing import Any

import numpy as np

from multiword._arrays import Array, is_cupy, namespace
from multiword._kernels import Kernel
from ozaki._parallel import contiguous_rows, over_rows, scale_rows, scratch
from ozaki._tiles import TILES_SOURCE, operand_layout, tile_count, tile_instances

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


_SEGMENTS_SOURCE = (
    TILES_SOURCE
    + r"""
/* A tile holds SIDE_BY_SIDE segments of a row; EACH of a thread's numbers are of one of them. */
#define SIDE_BY_SIDE (ALONG_K ? DEPTH * PARTS / SEGMENT : 1)
#define EACH (RUN / SIDE_BY_SIDE)

/* What a thread knows of a segment. Its counts lie side by side in FIELD bits each, the fine and the
   coarse ones in a word of their own: adding ones from the field of a number's octave upwards counts
   it in all of them at once. */
#define FIELD 6
#define COARSE (COUNTS - FINE)
#define ONES(fields) (((1ull << (fields) * FIELD) - 1) / ((1 << FIELD) - 1)) /* in every field */
__device__ u64 ones_from(int bit) {
    u64 y;
    asm("shl.b64 %0, %1, %2;" : "=l"(y) : "l"(~0ull), "r"(bit)); /* 0 beyond bit 63 */
    return y;
}
struct Sums {
    u64 fine, coarse, square;
    unsigned total;
    __device__ Sums() : fine(0), coarse(0), square(0), total(0) {
        static_assert(EACH * PARTS < 1 << FIELD && FINE * FIELD < 64 && COARSE * FIELD < 64, "");
        static_assert(COUNTS == 3 * COUNT_WORDS && BITS < 20 && FIELD % STEP == 0, "");
        static_assert(SEGMENT < 1 << COUNT_BITS && COUNT_WORDS == 6 && WARPS == 8, "");
    }
    /* The high half of |x|, whose 21 leading bits suffice, and the exponent field of the largest. */
    __device__ void add(unsigned high, int largest) {
        const int octave = largest - (int)(high >> 20);
        unsigned t;
        asm("shr.u32 %0, %1, %2;" : "=r"(t) : "r"((high & 0xfffff) | 0x100000), "r"(21 - BITS + octave));
        fine += ones_from(octave * FIELD) & ONES(FINE);
        coarse += ones_from(max(0, octave - (FINE - 1 + STEP)) * (FIELD / STEP)) & ONES(COARSE);
        total += t;
        square += (u64)t * t;
    }
    __device__ unsigned count(int q) const {
        return (unsigned)(q < FINE ? fine >> q * FIELD : coarse >> (q - FINE) * FIELD) & ((1 << FIELD) - 1);
    }
    __device__ unsigned word(int i) const {
        return count(i) | count(i + COUNT_WORDS) << COUNT_BITS | count(i + 2 * COUNT_WORDS) << 2 * COUNT_BITS;
    }
};

struct Found {
    int *exponent, *total;
    u64 *square;
    unsigned *counts;
};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
segments(const REAL *x0, const REAL *x1, i64 row_stride, i64 column_stride, int rows, int columns,
        int *exponents, int *totals, u64 *squares, unsigned *counts) {
    const Operand x(x0, x1, row_stride, column_stride, rows, columns);
    const Tile at(rows, columns);
    const int row = at.row(), lane = threadIdx.x % 32;
    unsigned highs[PARTS][RUN], lows[SIDE_BY_SIDE] = {};
    at.read(x, [&](int part, int j, REAL y) {
        highs[part][j] = __double2hiint(fabs(exactly(y)));
        lows[j / EACH] = max(lows[j / EACH], __double2loint(exactly(y)));
    });
#if !ALONG_K
    __shared__ unsigned best[2][WARPS][32], words[COUNT_WORDS + 1][WARPS][32];
    __shared__ u64 squared[WARPS][32];
#endif
#pragma unroll
    for (int s = 0; s < SIDE_BY_SIDE; s++) {
        const int first = at.first_column + s * (SEGMENT / PARTS);
        const i64 place = (i64)(first / (SEGMENT / PARTS)) * rows + row;
        /* The bits of a positive double order as the numbers do, Inf and NaN above all. The low halves
           decide only where all high ones are zero: only the exponent is of interest. */
        unsigned high = 0, low = lows[s];
#pragma unroll
        for (int part = 0; part < PARTS; part++)
#pragma unroll
            for (int j = s * EACH; j < (s + 1) * EACH; j++) high = max(high, highs[part][j]);
#if ALONG_K
        high = __reduce_max_sync(~0u, high);
        low = __reduce_max_sync(~0u, low);
#else
        best[0][at.local_column][at.local_row] = high;
        best[1][at.local_column][at.local_row] = low;
        __syncthreads();
        for (int i = 0; i < WARPS; i++) {
            high = max(high, best[0][i][at.local_row]);
            low = max(low, best[1][i][at.local_row]);
        }
#endif
        const bool zero = high == 0 && low == 0, usable = !zero && high < 0x7ff00000u;
        const int e = zero ? ZERO : usable ? ilogb(__hiloint2double(high, low)) + 1 : NONFINITE;
        /* Subnormal numbers are few: where they might count, all are read again and made larger. */
        const int lift = usable && e < -900 ? 200 : 0;
        if (lift)
            at.read(x, [&](int part, int j, REAL y) {
                if (j / EACH == s) highs[part][j] = __double2hiint(fabs(exactly(y)) * power_of_two(lift));
            });
        Sums sums;
#pragma unroll
        for (int part = 0; part < PARTS; part++)
#pragma unroll
            for (int j = s * EACH; j < (s + 1) * EACH; j++) sums.add(highs[part][j], e + 1022 + lift);
        const int length = min(SEGMENT, (columns - first) * PARTS);
        const bool exists = row < rows && length > 0;
#if ALONG_K
        const unsigned total = __reduce_add_sync(~0u, sums.total);
        const u64 square = __reduce_add_sync(~0u, (unsigned)sums.square & 0xfffff)
            + ((u64)__reduce_add_sync(~0u, (unsigned)(sums.square >> 20)) << 20);
        unsigned mine = 0;
#pragma unroll
        for (int i = 0; i < COUNT_WORDS; i++) {
            const unsigned word = __reduce_add_sync(~0u, sums.word(i));
            if (lane == i && usable) mine = word;
        }
        if (!exists) continue;
        if (lane < COUNT_WORDS) counts[(place - row) * COUNT_WORDS + (i64)lane * rows + row] = mine;
        if (lane > 0) continue;
        exponents[place] = e;
        totals[place] = usable ? total + length : 0;
        squares[place] = usable ? square + 2 * total + length : 0;
#else
#pragma unroll
        for (int i = 0; i < COUNT_WORDS; i++) words[i][at.local_column][at.local_row] = sums.word(i);
        words[COUNT_WORDS][at.local_column][at.local_row] = sums.total;
        squared[at.local_column][at.local_row] = sums.square;
        __syncthreads();
        if (!exists) return;
        /* Each warp adds up one of the words, and the last two the sums. */
        unsigned sum = 0;
        for (int i = 0; i < WARPS; i++) sum += words[min(at.local_column, COUNT_WORDS)][i][at.local_row];
        if (at.local_column < COUNT_WORDS) {
            counts[(place - row) * COUNT_WORDS + (i64)at.local_column * rows + row] = usable ? sum : 0;
        } else if (at.local_column == COUNT_WORDS) {
            exponents[place] = e;
            totals[place] = usable ? sum + length : 0;
        } else {
            u64 square = 2 * (u64)sum + length;
            for (int i = 0; i < WARPS; i++) square += squared[i][at.local_row];
            squares[place] = usable ? square : 0;
        }
#endif
    }
}
"""
)

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
    _SEGMENTS_SOURCE,
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
