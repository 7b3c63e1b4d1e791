"""Row profiles: all that scales and certificates need to know of an operand, in integers.

A profile is made of exponents, counts and sums of integers. Integer sums do not depend on
their order, so the profile, and all that is decided from it, is the same on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from multiword._arrays import Array, is_cupy, namespace
from multiword._kernels import Kernel
from multiword.formats import FORMATS
from ozaki._scales import DISCARD, NORM_LIMITS, norm_limit, norm_scales
from ozaki._segments import BITS, NONFINITE, ZERO, Segments, segments_of


@dataclass(frozen=True)
class Rows:
    """What the segments of each row make together, all integers.

    Attributes
    ----------
    exponent : (r,) int32, e with 2**(e-1) <= max |x| < 2**e; `ZERO` or `NONFINITE` else.
    total : (r,) int64, an upper bound of the sum of |x|·2**(BITS - e).
    square : (r,) int64, an upper bound of the sum of x²·4**(BITS - e).
    norm_scales : by format, the (r,) int32 scales that fill its norm limit.
    """

    exponent: Array
    total: Array
    square: Array
    norm_scales: dict[str, Array]

    def __getitem__(self, rows: Any) -> Rows:
        """Some of the rows."""
        scales = {name: scale[rows] for name, scale in self.norm_scales.items()}
        return Rows(self.exponent[rows], self.total[rows], self.square[rows], scales)

    @property
    def usable(self) -> Array:
        """Which rows have a nonzero element and none that is Inf or NaN."""
        return (self.exponent != ZERO) & (self.exponent != NONFINITE)


@dataclass(frozen=True)
class Profile:
    """What is known of an operand.

    Attributes
    ----------
    segments : of its rows.
    length : elements in a row: k, or 2k for a complex operand.
    """

    segments: Segments
    length: int

    @cached_property
    def rows(self) -> Rows:
        """The segments of each row, put together when they are first asked for."""
        fold = _fold_device if is_cupy(self.segments.exponent) else _fold_host
        exponent, total, square, *scales = fold(self.segments, self.length)
        return Rows(exponent, total, square, dict(zip(NORM_LIMITS, scales, strict=True)))


def profile(parts: list[Array]) -> Profile:
    """Return the profile of an operand given as (r, k) float32 or float64 parts."""
    return Profile(segments_of(parts), len(parts) * parts[0].shape[1])


def _fold_host(segments: Segments, length: int) -> tuple[np.ndarray, ...]:
    """Exponent, total and square of the rows: those of their segments, in the row's units, rounded up.

    And the norm scales that follow from them.
    """
    exponent = segments.exponent.max(axis=0)
    shift = exponent.astype(np.int64) - segments.exponent
    total = -(-segments.total.astype(np.int64) >> np.minimum(shift, 63)).sum(axis=0)
    square = -(-segments.square >> np.minimum(2 * shift, 63)).sum(axis=0)
    finite = exponent != NONFINITE
    total, square = np.where(finite, total, 0), np.where(finite, square, 0)
    limits = (norm_limit(FORMATS[name], length) for name in NORM_LIMITS)
    return exponent, total, square, *(norm_scales(exponent, square, limit) for limit in limits)


FOLD_CONSTANTS: dict[str, Any] = {"BITS": BITS, "ZERO": ZERO, "NONFINITE": NONFINITE, "DISCARD": DISCARD}

FOLD_SOURCE = r"""
typedef unsigned long long u64;
typedef long long i64;
struct Row { int exponent; i64 total, square; };

/* _fold_host: every lane has a row, every one of a block's WARPS some of its segments. All learn the row. */
__device__ Row fold(const int *exponents, const int *totals, const i64 *squares, int segments, int rows,
                    int row) {
    __shared__ int largest[WARPS][32];
    __shared__ i64 sums[2][WARPS][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, last = row < rows ? segments : 0;
    int e = ZERO;
    for (int s = warp; s < last; s += WARPS) e = max(e, exponents[(i64)s * rows + row]);
    largest[warp][lane] = e;
    __syncthreads();
    for (int i = 0; i < WARPS; i++) e = max(e, largest[i][lane]);
    Row found = {e, 0, 0};
    for (int s = warp; s < last; s += WARPS) {
        const i64 at = (i64)s * rows + row;
        const int shift = e - exponents[at];
        found.total -= -(i64)totals[at] >> min(shift, 63);
        found.square -= -squares[at] >> min(2 * shift, 63);
    }
    sums[0][warp][lane] = found.total;
    sums[1][warp][lane] = found.square;
    __syncthreads();
    found.total = found.square = 0;
    if (e == NONFINITE) return found;
    for (int i = 0; i < WARPS; i++) {
        found.total += sums[0][i][lane];
        found.square += sums[1][i][lane];
    }
    return found;
}

/* norm_scales: the largest s with square·4^s below thirtyseconds/32·2^limit_bits. */
__device__ int norm_scale(const Row &row, int limit_bits, int thirtyseconds) {
    if (row.exponent == ZERO) return 0;
    if (row.exponent == NONFINITE) return DISCARD;
    const int bits = 63 - __clzll(row.square);
    const i64 threshold = (1ll << bits) + (((thirtyseconds - 32) * (1ll << bits)) >> 5);
    return ((limit_bits - bits - (row.square > threshold)) >> 1) + BITS - row.exponent;
}
"""

_CONSTANTS: dict[str, Any] = {**FOLD_CONSTANTS, "WARPS": 8}

_FOLD = Kernel(
    "fold_segments",
    FOLD_SOURCE
    + r"""
extern "C" __global__ void __launch_bounds__(32 * WARPS)
fold_segments(const int *exponents, const int *totals, const i64 *squares, int segments, int rows,
              int fp64_bits, int fp64_thirtyseconds, int fp32_bits, int fp32_thirtyseconds,
              int *exponent, i64 *total, i64 *square, int *fp64_scale, int *fp32_scale) {
    const int row = blockIdx.x * 32 + threadIdx.x;
    const Row found = fold(exponents, totals, squares, segments, rows, blockIdx.x * 32 + threadIdx.x % 32);
    if (threadIdx.x >= 32 || row >= rows) return;
    exponent[row] = found.exponent;
    total[row] = found.total;
    square[row] = found.square;
    fp64_scale[row] = norm_scale(found, fp64_bits, fp64_thirtyseconds);
    fp32_scale[row] = norm_scale(found, fp32_bits, fp32_thirtyseconds);
}
""",
    (_CONSTANTS,),
)


def _fold_device(segments: Segments, length: int) -> tuple[Array, ...]:
    xp = namespace(segments.exponent)
    count, rows = segments.exponent.shape
    exponent, *scales = xp.empty((1 + len(NORM_LIMITS), rows), xp.int32)
    sums = xp.empty((2, rows), xp.int64)
    limits = [norm_limit(FORMATS[name], length) for name in NORM_LIMITS]
    numbers = [count, rows, *(x for limit in limits for x in (limit.bits, limit.thirtyseconds))]
    given = (segments.exponent, segments.total, segments.square, *map(np.int32, numbers))
    _FOLD((-(-rows // 32),), (256,), (*given, exponent, *sums, *scales), **_CONSTANTS)
    return exponent, *sums, *scales
