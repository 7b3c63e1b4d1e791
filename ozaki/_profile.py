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
from ozaki._parallel import over_rows

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
    counts : (r, len(LEVELS)) int32, how many |x| >= 2**(e - 1 - q), for the q in LEVELS.
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
        magnitudes = [np.abs(x[block], dtype=np.float64) for x in parts]
        largest = np.max([x.max(axis=1) for x in magnitudes], axis=0)
        e = np.frexp(largest)[1]
        e = np.where(largest == 0, ZERO, np.where(np.isfinite(largest), e, NONFINITE))
        exponent[block] = e
        usable = (largest != 0) & np.isfinite(largest)
        shift = np.where(usable, BITS - e, 0)
        half = shift >> 1
        for x in magnitudes:
            if not usable.all():
                x[~usable] = 0
            # Two factors, because 2**shift alone would overflow for subnormal rows.
            x *= np.ldexp(1.0, half)[:, None]
            x *= np.ldexp(1.0, shift - half)[:, None]
            # Octaves below the largest, from the exponents; zeros and all beyond 255 do not count.
            octave = (BITS - 1 + 1023) - (x.view(np.int64) >> 52)
            octave = np.minimum(octave, 255).astype(np.uint8)
            for i, q in enumerate(LEVELS):
                counts[block, i] += np.count_nonzero(octave <= q, axis=1).astype(np.int32)
            t = x.astype(np.int32)
            total[block] += t.sum(axis=1, dtype=np.int64)
            x = t.astype(np.float64)
            for h in range(0, columns, 1 << 20):  # sums of up to 2**20 squares are exact
                piece = x[:, h : h + (1 << 20)]
                square[block] += np.einsum("ij,ij->i", piece, piece).astype(np.int64)

    over_rows(work, rows, columns)
    return exponent, total, square, counts


OPERAND_SOURCE = r"""
typedef unsigned long long u64;
typedef long long i64;
#define THREADS 256
#define WARPS (THREADS / 32)
/* An operand is read along its contiguous axis: with ALONG_K a warp runs along a row, WARPS rows
   to a block; otherwise the lanes of a warp lie side by side in 32 rows. */
#define BLOCK_ROWS (ALONG_K ? WARPS : 32)

/* CuPy compiles with flushing to zero, which would lose the subnormals of fp32: these do not. */
__device__ double exactly(double x) { return x; }
__device__ double exactly(float x) {
    double y;
    asm("cvt.f64.f32 %0, %1;" : "=d"(y) : "f"(x));
    return y;
}

/* Multiply by 2^shift exactly, in two factors: one alone could overflow for subnormal rows. */
__device__ double power_of_two(int e) { return __longlong_as_double((i64)(e + 1023) << 52); }
struct Scale {
    double first, second;
    __device__ Scale(int s) : first(power_of_two(s >> 1)), second(power_of_two(s - (s >> 1))) {}
    __device__ double operator()(double x) const { return x * first * second; }
};
"""

_PROFILE_SOURCE = (
    OPERAND_SOURCE
    + r"""
struct Place {
    int row, first, step, last, local;
    __device__ Place(int columns, int chunk) {
        const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
        local = ALONG_K ? warp : lane;
        row = blockIdx.x * BLOCK_ROWS + local;
        first = blockIdx.y * chunk + (ALONG_K ? lane : warp);
        step = ALONG_K ? 32 : WARPS;
        last = min(columns, (int)(blockIdx.y + 1) * chunk);
    }
};

extern "C" __global__ void __launch_bounds__(THREADS)
profile_largest(const REAL *x, i64 row_stride, i64 column_stride, int rows, int columns, int chunk,
                u64 *largest) {
    __shared__ u64 best[BLOCK_ROWS];
    const Place at(columns, chunk);
    if (threadIdx.x < BLOCK_ROWS) best[threadIdx.x] = 0;
    __syncthreads();
    if (at.row < rows) {
        const REAL *row = x + at.row * row_stride;
        u64 mine = 0;
#pragma unroll 8
        for (int h = at.first; h < at.last; h += at.step) {
            /* The bits of a positive double order as the numbers do, Inf and NaN above all. */
            const u64 bits = __double_as_longlong(fabs(exactly(row[h * column_stride])));
            mine = max(mine, bits);
        }
        atomicMax(&best[at.local], mine);
    }
    __syncthreads();
    const int row = blockIdx.x * BLOCK_ROWS + threadIdx.x;
    if (threadIdx.x < BLOCK_ROWS && row < rows) atomicMax(&largest[row], best[threadIdx.x]);
}

extern "C" __global__ void __launch_bounds__(THREADS)
profile_sums(const REAL *x, i64 row_stride, i64 column_stride, int rows, int columns, int chunk,
             const u64 *largest, int *exponent, u64 *total, u64 *square, int *counts) {
    __shared__ u64 sums[2][BLOCK_ROWS];
    __shared__ int above[COUNTS][BLOCK_ROWS];
    const Place at(columns, chunk);
    for (int i = threadIdx.x; i < 2 * BLOCK_ROWS; i += THREADS) sums[i / BLOCK_ROWS][i % BLOCK_ROWS] = 0;
    for (int i = threadIdx.x; i < COUNTS * BLOCK_ROWS; i += THREADS)
        above[i / BLOCK_ROWS][i % BLOCK_ROWS] = 0;
    __syncthreads();
    u64 mine = 0, squared = 0;
    int count[COUNTS] = {};
    bool usable = false;
    if (at.row < rows) {
        const double greatest = __longlong_as_double(largest[at.row]);
        usable = greatest > 0 && greatest < __longlong_as_double(0x7ff0000000000000ll);
        const int e = greatest == 0 ? ZERO : usable ? ilogb(greatest) + 1 : NONFINITE;
        if (at.first == 0) exponent[at.row] = e;
        if (usable) {
            const Scale scale(BITS - e);
            const REAL *row = x + at.row * row_stride;
#pragma unroll 4
            for (int h = at.first; h < at.last; h += at.step) {
                const double z = scale(fabs(exactly(row[h * column_stride])));
                const unsigned t = (unsigned)z;
                const int octave = BITS - 1 + 1023 - (__double2hiint(z) >> 20);
                mine += t;
                squared += (u64)t * t;
#pragma unroll
                for (int q = 0; q < COUNTS; q++)
                    count[q] += octave <= (q < FINE ? q : FINE - 1 + STEP * (q - FINE + 1));
            }
        }
    }
    if (ALONG_K) {
        for (int d = 16; d; d >>= 1) {
            mine += __shfl_xor_sync(~0u, mine, d);
            squared += __shfl_xor_sync(~0u, squared, d);
#pragma unroll
            for (int q = 0; q < COUNTS; q++) count[q] += __shfl_xor_sync(~0u, count[q], d);
        }
    }
    if (usable && (!ALONG_K || (threadIdx.x & 31) == 0)) {
        atomicAdd(&sums[0][at.local], mine);
        atomicAdd(&sums[1][at.local], squared);
#pragma unroll
        for (int q = 0; q < COUNTS; q++) atomicAdd(&above[q][at.local], count[q]);
    }
    __syncthreads();
    const int row = blockIdx.x * BLOCK_ROWS + threadIdx.x;
    if (threadIdx.x < BLOCK_ROWS && row < rows) {
        atomicAdd(&total[row], sums[0][threadIdx.x]);
        atomicAdd(&square[row], sums[1][threadIdx.x]);
        for (int q = 0; q < COUNTS; q++) atomicAdd(&counts[row * COUNTS + q], above[q][threadIdx.x]);
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
_INSTANCES = tuple(
    {**PROFILE_CONSTANTS, "ALONG_K": along, "REAL": t} for along in (0, 1) for t in ("float", "double")
)
_LARGEST = Kernel("profile_largest", _PROFILE_SOURCE, _INSTANCES)
_SUMS = Kernel("profile_sums", _PROFILE_SOURCE, _INSTANCES)

_CHUNK = {0: 512, 1: 1024}
"""Columns to a block, by ALONG_K: enough work for each, and enough blocks for the device."""


def operand_layout(x: Array) -> tuple[tuple[int, int], dict[str, Any]]:
    """Strides of an (r, k) operand in elements, and the constants that its kernels are built with."""
    strides = (x.strides[0] // x.itemsize, x.strides[1] // x.itemsize)
    along = abs(strides[1]) <= abs(strides[0]) or x.shape[0] == 1
    return strides, {"ALONG_K": int(along), "REAL": "float" if x.dtype == np.float32 else "double"}


def _profile_device(parts: list[Array]) -> tuple[Array, ...]:
    xp = namespace(parts[0])
    rows, columns = parts[0].shape
    exponent = xp.empty(rows, xp.int32)
    sums = xp.zeros((3 + len(LEVELS) // 2, rows), xp.int64)
    totals, counts = sums[:3], sums[3:].view(xp.int32).reshape(rows, len(LEVELS))  # largest, total, square
    for kernel, outputs in ((_LARGEST, ()), (_SUMS, (exponent, totals[1], totals[2], counts))):
        for x in parts:
            strides, constants = operand_layout(x)
            block_rows, chunk = 8 if constants["ALONG_K"] else 32, _CHUNK[constants["ALONG_K"]]
            grid = (-(-rows // block_rows), -(-columns // chunk))
            extent = (*strides, rows, columns, chunk)
            arguments = (x, *map(np.int64, extent[:2]), *map(np.int32, extent[2:]), totals[0], *outputs)
            kernel(grid, (256,), arguments, **PROFILE_CONSTANTS, **constants)
    return exponent, totals[1], totals[2], counts
