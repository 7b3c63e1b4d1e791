"""Row profiles: all that scales and certificates need to know of an operand, in integers.

A profile is made of exponents, counts and sums of integers. Integer sums do not depend on
their order, so the profile, and all that is decided from it, is the same on every machine.

An *operand* is one side of a product: its r rows are the rows of A or the columns of B, its
k columns run along the inner dimension. It comes as a list of real parts, one for a real
matrix, two for a complex one, whose row is then the real and the imaginary parts together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from multiword._arrays import Array, is_cupy, namespace
from multiword._kernels import Kernel
from ozaki._parallel import contiguous_rows, over_rows, scratch
from ozaki._tiles import TILES_SOURCE, operand_layout, tile_shape

BITS = 16
"""Magnitudes are taken as integers of this many bits, relative to the row's largest."""

FINE, COARSE, STEP = 10, 8, 3
LEVELS = (*range(FINE), *range(FINE - 1 + STEP, FINE + STEP * COARSE, STEP))
"""Octaves below the row's largest magnitude down to which elements are counted: each of the first,
where most numbers are, then every third, for rows that spread far."""

ZERO, NONFINITE = -(1 << 14), 1 << 14
"""Exponents that mark a row without a nonzero element and one with an Inf or NaN."""


@dataclass(frozen=True)
class Profile:
    """What is known of the rows of an operand, all integers.

    Attributes
    ----------
    exponent : (r,) int32, e with 2**(e-1) <= max |x| < 2**e; `ZERO` or `NONFINITE` else.
    total : (r,) int64, the sum of t = floor(|x|·2**(BITS - e)).
    square : (r,) int64, the sum of t².
    counts : (r, len(LEVELS)) int32, how many |x| >= 2**(e - 1 - q), for the q in LEVELS; on a GPU
        stored by columns.
    length : elements in a row: k, or 2k for a complex operand.
    """

    exponent: Array
    total: Array
    square: Array
    counts: Array
    length: int

    def block(self, rows: slice) -> Profile:
        """The profile of some of the rows."""
        return Profile(
            self.exponent[rows], self.total[rows], self.square[rows], self.counts[rows], self.length
        )


def profile(parts: list[Array]) -> Profile:
    """Return the profile of an operand given as (r, k) float32 or float64 parts."""
    make = _profile_device if is_cupy(parts[0]) else _profile_host
    exponent, total, square, counts = make(parts)
    return Profile(exponent, total, square, counts, len(parts) * parts[0].shape[1])


def _profile_host(parts: list[np.ndarray]) -> tuple[np.ndarray, ...]:
    rows, columns = parts[0].shape
    exponent = np.empty(rows, np.int32)
    total, square = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    counts = np.zeros((rows, len(LEVELS)), np.int32)

    def work(block: slice) -> None:
        magnitudes = scratch("magnitudes", (len(parts), *parts[0][block].shape))
        for x, out in zip(parts, magnitudes, strict=True):
            np.abs(contiguous_rows(x, block, out), out=out)
        largest = magnitudes.max(axis=(0, 2))
        e = np.frexp(largest)[1]
        e = np.where(largest == 0, ZERO, np.where(np.isfinite(largest), e, NONFINITE))
        exponent[block] = e
        usable = (largest != 0) & np.isfinite(largest)
        shift = np.where(usable, BITS - e, 0)
        half = shift >> 1
        for x in magnitudes:
            if not usable.all():
                x[~usable] = 0
            if np.abs(shift).max() < 1000:
                x *= np.ldexp(1.0, shift)[:, None]
            else:  # two factors, because 2**shift alone would overflow for subnormal rows
                x *= np.ldexp(1.0, half)[:, None]
                x *= np.ldexp(1.0, shift - half)[:, None]
            counts[block] += _count_octaves(x)
            np.floor(x, out=x)
            for h in range(0, columns, 1 << 20):  # sums of up to 2**20 squares are exact
                piece = x[:, h : h + (1 << 20)]
                total[block] += piece.sum(axis=1).astype(np.int64)
                square[block] += np.einsum("ij,ij->i", piece, piece).astype(np.int64)

    over_rows(work, rows, columns)
    return exponent, total, square, counts


def _count_octaves(x: np.ndarray) -> np.ndarray:
    """How many magnitudes of each row, all below 2**BITS, are at least 2**(BITS - 1 - q), q in LEVELS."""
    rows, columns = x.shape
    # The leading 16 bits order as the numbers do. Eight bytes of a comparison are added at once.
    bits = np.right_shift(x.view(np.int64), 48, out=scratch("bits", x.shape, np.int64))
    padded = rows, -(-columns // 8) * 8
    leading, above = scratch("leading", padded, np.uint16), scratch("above", padded, np.bool_)
    leading[:, :columns], leading[:, columns:] = bits, 0
    counts = np.zeros((rows, len(LEVELS)), np.int64)
    for i, q in enumerate(LEVELS):
        eights = np.greater_equal(leading, (1023 + BITS - 1 - q) << 4, out=above).view(np.uint64)
        for h in range(0, eights.shape[1], 255):  # sums that a byte can hold
            sums = np.add.reduce(eights[:, h : h + 255], axis=1)
            counts[:, i] += sums.view(np.uint8).reshape(rows, 8).sum(axis=1, dtype=np.int64)
    return counts


_PROFILE_SOURCE = (
    TILES_SOURCE
    + r"""
/* Blocks draw tiles in an order in which pass 2 of a group of panels (rows of tiles) comes one group
   after pass 1. What a block waits for was drawn before it, and runs: nobody waits for ever. */
struct Work {
    int pass, panel, chunk;
    __device__ Work(int *drawn, int panels, int chunks, int group) {
        __shared__ int ticket;
        if (threadIdx.x == 0) ticket = atomicAdd(drawn, 1);
        __syncthreads();
        const int tiles = group * chunks, step = ticket / tiles, place = ticket % tiles;
        const int last = 2 * ((panels + group - 1) / group) - 1;
        pass = (step > 0 && step % 2 == 0) || step == last ? 2 : 1;
        panel = ((step + 1) / 2 - (pass - 1)) * group + place / chunks;
        chunk = place % chunks;
    }
};

/* Every block of pass 1 announces its tile; those of pass 2 wait for all tiles of the panel. */
__device__ void announce(int *done) {
    __syncthreads();
    if (threadIdx.x == 0) asm volatile("red.release.gpu.global.add.s32 [%0], 1;" ::"l"(done) : "memory");
}
__device__ void await(const int *done, int chunks) {
    if (threadIdx.x == 0) {
        int count;
        do asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(count) : "l"(done) : "memory");
        while (count < chunks);
    }
    __syncthreads();
}

/* Pass 1: the largest magnitude of every row. The bits of a positive double order as the numbers do,
   Inf and NaN above all. */
__device__ void find_largest(const Operand &x, const Tile &at, u64 *largest) {
    /* The low halves decide only where all high ones are zero: only the exponent is of interest. */
    unsigned highs = 0, lows = 0;
    at.read(x, [&](int, int, REAL y) {
        const double z = exactly(y);
        highs = max(highs, __double2hiint(z) & 0x7fffffffu);
        lows = max(lows, (unsigned)__double2loint(z));
    });
    u64 mine = (u64)highs << 32 | lows;
#if ALONG_K
    const unsigned high = __reduce_max_sync(~0u, (unsigned)(mine >> 32));
    const unsigned low = __reduce_max_sync(~0u, mine >> 32 == high ? (unsigned)mine : 0u);
    if ((threadIdx.x & 31) == 0 && at.row() < x.rows) atomicMax(&largest[at.row()], (u64)high << 32 | low);
#else
    __shared__ u64 best[WARPS][32];
    best[at.local_column][at.local_row] = mine;
    __syncthreads();
    if (at.local_column == 0 && at.row() < x.rows) {
        for (int i = 1; i < WARPS; i++) mine = max(mine, best[i][at.local_row]);
        atomicMax(&largest[at.row()], mine);
    }
#endif
}

/* Pass 2: with t = floor(|x|·2^(BITS - e)) the sums of t and t², and the counts by octaves. The counts
   of a thread lie side by side in FIELD bits each, the fine and the coarse ones in a word of their own:
   adding ones from the field of a number's octave upwards counts it in all of them at once. */
#define FIELD 6
#define HALF (COUNTS / 2)
#define COARSE (COUNTS - FINE)
#define ONES(fields) (((1ull << (fields) * FIELD) - 1) / ((1 << FIELD) - 1)) /* in every field */
__device__ u64 ones_from(int bit) {
    u64 y;
    asm("shl.b64 %0, %1, %2;" : "=l"(y) : "l"(~0ull), "r"(bit)); /* 0 beyond bit 63 */
    return y;
}
struct Sums { u64 *total, *square; int *counts; };

__device__ void add_up(const Operand &x, const Tile &at, const u64 *largest, int *exponent,
                       const Sums &sums) {
    static_assert(RUN * PARTS < 1 << FIELD && FINE * FIELD < 64 && COARSE * FIELD < 64, "");
    static_assert(COUNTS % 2 == 0 && BITS < 20 && FIELD % STEP == 0, "");
    const int row = at.row();
    const double greatest = row < x.rows ? __longlong_as_double(__ldcg(largest + row)) : 0;
    const bool usable = greatest > 0 && greatest < __longlong_as_double(0x7ff0000000000000ll);
    const int e = greatest == 0 ? ZERO : usable ? ilogb(greatest) + 1 : NONFINITE;
    if (row < x.rows && at.first_column + at.local_column == 0) exponent[row] = e;
    const Scale scale(usable ? BITS - e : 0);
    u64 fine = 0, coarse = 0, square = 0;
    unsigned total = 0;
    at.read(x, [&](int, int, REAL y) {
        const double z = usable ? scale(fabs(exactly(y))) : 0;
        const unsigned t = __double2loint(__dadd_rz(z, 4503599627370496.0));
        const int octave = BITS - 1 + 1023 - (__double2hiint(z) >> 20);
        fine += ones_from(octave * FIELD) & ONES(FINE);
        coarse += ones_from(max(0, octave - (FINE - 1 + STEP)) * (FIELD / STEP)) & ONES(COARSE);
        total += t;
        square += (u64)t * t;
    });
    unsigned pair[HALF];
    const auto count = [&](int q) {
        return (unsigned)(q < FINE ? fine >> q * FIELD : coarse >> (q - FINE) * FIELD) & ((1 << FIELD) - 1);
    };
    for (int q = 0; q < HALF; q++) pair[q] = count(q) | count(q + HALF) << 16;
#if ALONG_K
    total = __reduce_add_sync(~0u, total);
    const unsigned low = __reduce_add_sync(~0u, (unsigned)square & 0xfffff);
    square = low + ((u64)__reduce_add_sync(~0u, (unsigned)(square >> 20)) << 20);
    for (int q = 0; q < HALF; q++) pair[q] = __reduce_add_sync(~0u, pair[q]);
    if (!usable || threadIdx.x % 32) return;
    atomicAdd(&sums.total[row], (u64)total);
    atomicAdd(&sums.square[row], square);
    for (int q = 0; q < HALF; q++) {
        atomicAdd(&sums.counts[(i64)q * x.rows + row], pair[q] & 0xffff);
        atomicAdd(&sums.counts[(i64)(q + HALF) * x.rows + row], pair[q] >> 16);
    }
#else
    __shared__ u64 squares[WARPS][32];
    __shared__ unsigned others[1 + HALF][WARPS][32];
    squares[at.local_column][at.local_row] = square;
    others[HALF][at.local_column][at.local_row] = total;
    for (int q = 0; q < HALF; q++) others[q][at.local_column][at.local_row] = pair[q];
    __syncthreads();
    if (!usable) return;
    /* Every warp now adds up some of the sums. */
    for (int which = at.local_column; which < 2 + HALF; which += WARPS) {
        u64 sum = 0;
        for (int i = 0; i < WARPS; i++)
            sum += which > HALF ? squares[i][at.local_row] : others[which][i][at.local_row];
        if (which > HALF) {
            atomicAdd(&sums.square[row], sum);
        } else if (which == HALF) {
            atomicAdd(&sums.total[row], sum);
        } else {
            atomicAdd(&sums.counts[(i64)which * x.rows + row], (int)(sum & 0xffff));
            atomicAdd(&sums.counts[(i64)(which + HALF) * x.rows + row], (int)(sum >> 16));
        }
    }
#endif
}
extern "C" __global__ void __launch_bounds__(THREADS, 3)
profile(const REAL *x0, const REAL *x1, i64 row_stride, i64 column_stride, int rows, int columns,
        int panels, int chunks, int group, u64 *largest, int *exponent, u64 *total, u64 *square, int *counts,
        int *tally) {
    const Operand x(x0, x1, row_stride, column_stride, rows, columns);
    int *const drawn = tally, *const done = tally + 1;
    const Work work(drawn, panels, chunks, group);
    if (work.panel >= panels) return;
    const Tile at(work.panel, work.chunk);
    if (work.pass == 1) {
        find_largest(x, at, largest);
        announce(done + work.panel);
    } else {
        await(done + work.panel, chunks);
        add_up(x, at, largest, exponent, {total, square, counts});
    }
}
"""
)

PROFILE_CONSTANTS: dict[str, Any] = {
    "BITS": BITS,
    "FINE": FINE,
    "STEP": STEP,
    "COUNTS": len(LEVELS),
    "ZERO": ZERO,
    "NONFINITE": NONFINITE,
}
_RUN = 32
"""Numbers to a thread in a tile, of both parts together."""

_GROUP_TILES = 128
"""Tiles, of 64 KiB in double precision, that pass 1 goes over before pass 2 follows: the groups
that the two are at share the GPU's second-level cache, where pass 2 finds its numbers, and there
are nearly as many blocks at a time, so that pass 1 is mostly done when pass 2 arrives."""

_SMALL_TILES = 512
"""Operands of up to this many tiles stay in the cache as a whole."""

_PROFILE = Kernel(
    "profile",
    _PROFILE_SOURCE,
    tuple(
        {**PROFILE_CONSTANTS, "ALONG_K": along, "UNIT": 2 - parts, "REAL": t, "PARTS": parts}
        | {"RUN": _RUN // parts, "LANES": 32}
        for along in (0, 1)
        for t in ("float", "double")
        for parts in (1, 2)
    ),
)


def _profile_device(parts: list[Array]) -> tuple[Array, ...]:
    xp = namespace(parts[0])
    rows, columns = parts[0].shape
    strides, layout = operand_layout(parts[0])
    constants = {**PROFILE_CONSTANTS, **layout, "PARTS": len(parts), "RUN": _RUN // len(parts), "LANES": 32}
    height, depth = tile_shape(constants)
    panels, chunks = -(-rows // height), -(-columns // depth)
    small = panels * chunks <= _SMALL_TILES
    group = panels if small else max(1, _GROUP_TILES // chunks)
    # One stroke zeroes all that the kernel adds to.
    memory = xp.zeros(3 * rows + -(-(len(LEVELS) * rows + 1 + panels) // 2), xp.int64)
    largest, total, square = memory[: 3 * rows].reshape(3, rows)
    narrow = memory[3 * rows :].view(xp.int32)
    counts, tally = narrow[: len(LEVELS) * rows], narrow[len(LEVELS) * rows :]
    exponent = xp.empty(rows, xp.int32)
    sizes = (*map(np.int64, strides), *map(np.int32, (rows, columns, panels, chunks, group)))
    found = (largest, exponent, total, square, counts, tally)
    blocks = 2 * -(-panels // group) * group * chunks
    _PROFILE((blocks,), (256,), (parts[0], parts[-1], *sizes, *found), **constants)
    return exponent, total, square, counts.reshape(len(LEVELS), rows).T
