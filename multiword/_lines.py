"""The lines of a product, rows of A and columns of B: a power of two and a centre for each.

CuPy compiles with -ftz=true, which would take fp32's subnormal numbers away. Arithmetic that
must keep them is therefore written in PTX (`FP32`), where no .ftz stands, and comparisons are
made between bit patterns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from multiword._arrays import Array, import_cupy, is_cupy
from multiword._kernels import Kernel

LINE = np.dtype(
    [
        *(("total", "f8"), ("norm1", "f4"), ("norm2", "f4"), ("centre", "f4")),
        *(("shift", "i4"), ("bad", "i4"), ("unused", "i4")),
    ]
)
"""What is known of a line: Σx as k·c + Σy·2^-s, Σ|y|, the 2-norm of y, c, s, whether it has
infinities or NaNs."""

LINES = 32
"""Lines that one block of the kernels takes."""

MEAN_THRESHOLD = 0.3
"""A line can be centred if its mean is at least this much of its root mean square."""

RUNS, RUN = 32, 16
"""Where scale and centre are guessed: from so many runs of so many neighbours of each line."""

COMMON = 2
"""Lines whose largest elements are at most this many powers of two apart share one scale."""

FIELDS = ("uncentred", "bits", "highest", "lowest", "bad", "small", "deficit", "top", "low", "spread")
"""What is counted or maximised over all lines of one operand: lines whose mean does not stand
out; bits of the elements as integers, as far as they were looked at; 300 + E and 300 - E of the
lines' largest elements; then, of the scaled elements y: whether any line has infinities or NaNs;
in one line (fp16) nonzero |y| < `SMALL`, and |y| < 2^(target - 7); 300 + E of the largest |y|;
(tf32, bf16) 300 - E of the smallest nonzero one; 1000·(1 - (Σ|y|)²/(k·Σy²))."""

SIDE, FAILED, FLAGS = 16, 32, 34
"""Where B's fields begin among the flags, the two places of `inspect`'s and `finish`'s verdict, their
number. On the device counters of the splitting kernel follow, one and then one for each group of lines."""

FP32 = r"""
typedef unsigned int u32;
typedef unsigned short u16;
typedef long long i64;
struct Line { double total; float norm1, norm2, centre; int shift, bad, unused; };
enum { UNCENTRED, BITS, HIGHEST, LOWEST, BAD, SMALL, DEFICIT, TOP, LOW, SPREAD };
enum { SIDE = 16, FAILED = 32, GROUPS = 34, COUNTERS };

__device__ __forceinline__ float add32(float a, float b) {
    float r; asm("add.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r;
}
__device__ __forceinline__ float sub32(float a, float b) {
    float r; asm("sub.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r;
}
__device__ __forceinline__ float mul32(float a, float b) {
    float r; asm("mul.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r;
}
__device__ __forceinline__ float fma32(float a, float b, float c) {
    float r; asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(r) : "f"(a), "f"(b), "f"(c)); return r;
}
__device__ __forceinline__ double widen(float a) {
    double r; asm("cvt.f64.f32 %0, %1;" : "=d"(r) : "f"(a)); return r;
}
__device__ __forceinline__ float narrow(double a) {
    float r; asm("cvt.rn.f32.f64 %0, %1;" : "=f"(r) : "d"(a)); return r;
}
__device__ __forceinline__ u32 magnitude(float a) { return __float_as_uint(a) & 0x7FFFFFFFu; }
__device__ __forceinline__ int exponent(u32 bits) {
    return bits >> 23 ? (int)(bits >> 23) - 126 : bits ? 32 - __clz(bits) - 149 : 0;
}
// Integers are neither centred nor compensated, so that their exact products stay exact.
__device__ __forceinline__ bool integers(const int* flags, int exact_bits) {
    return flags[BITS] + flags[SIDE + BITS] <= exact_bits;
}
__device__ __forceinline__ bool centring(const int* flags, int exact_bits) {
    return flags[UNCENTRED] == 0 && flags[SIDE + UNCENTRED] == 0 && !integers(flags, exact_bits);
}
// Tell the host what failed: 1, sums of one sign; 2, centring. Once, for its memory is far away.
__device__ __forceinline__ void announce(int* flags, int* report, int failed) {
    int fresh = failed & ~atomicOr(flags + FAILED, failed);
    if (fresh & 1) report[FAILED] = 1;
    if (fresh & 2) report[FAILED + 1] = 2;
}
// `common_shift`, or else the line's own.
__device__ __forceinline__ int shift_of(const Line* l, const int* side, int target) {
    int range = side[HIGHEST] + side[LOWEST];
    return range > 0 && range <= 600 + COMMON ? target - (side[HIGHEST] - 300) : l->shift;
}
""".replace("600 + COMMON", f"{600 + COMMON}")

MEASURE = Kernel(
    "multiword_measure",
    FP32
    + r"""
// From the first samples of each run of 2^run neighbours, the runs `step` apart, of each line of A
// and of B: the shift that brings the largest of them below 2^target, the mean, and for the flags
// whether it stands out of the spread, and how many bits the elements have as integers. A block
// takes 32 lines; lanes go along lines that are contiguous, and across the others.
extern "C" __global__ void __launch_bounds__(1024) multiword_measure(
        const float* xa, i64 line_stride_a, i64 inner_stride_a, int lines_a,
        const float* xb, i64 line_stride_b, i64 inner_stride_b, int lines_b,
        int samples, int run, int step, int target, float threshold, int centred,
        Line* data_a, Line* data_b, int* flags) {
    __shared__ double sums[32][33], squares[32][33];
    __shared__ u32 largest[32][33];
    __shared__ int lowest[32][33], seen[4];
    int groups_a = (lines_a + 31) / 32;
    bool second = blockIdx.x >= groups_a;
    const float* x = second ? xb : xa;
    i64 line_stride = second ? line_stride_b : line_stride_a;
    i64 inner_stride = second ? inner_stride_b : inner_stride_a;
    int lines = second ? lines_b : lines_a, first = 32 * (blockIdx.x - (second ? groups_a : 0));
    int tx = threadIdx.x % 32, ty = threadIdx.x / 32;
    int along = inner_stride == 1 ? tx : ty, place = inner_stride == 1 ? ty : tx, line = first + place;
    u32 top = 0u;
    int low = 999;                                  // exponent of the lowest bit that is set
    double sum = 0.0, square = 0.0;
    if (line < lines)
#pragma unroll 8
        for (int s = along; s < samples; s += 32) {
            i64 h = (i64)(s >> run) * step + (s & ((1 << run) - 1));
            float v = x[line * line_stride + h * inner_stride];
            if (magnitude(v) >= 0x7F800000u) v = 0.0f;
            u32 bits = magnitude(v);
            top = max(top, bits);
            u32 digits = (bits & 0x7FFFFFu) | (bits >> 23 ? 0x800000u : 0u);
            if (bits) low = min(low, max((int)(bits >> 23), 1) - 151 + __ffs(digits));
            sum += widen(v);
            square += widen(v) * widen(v);
        }
    largest[along][place] = top; lowest[along][place] = low;
    sums[along][place] = sum; squares[along][place] = square;
    if (threadIdx.x < 4) seen[threadIdx.x] = 0;
    __syncthreads();
    top = largest[tx][ty]; low = lowest[tx][ty]; sum = sums[tx][ty]; square = squares[tx][ty];
    for (int half = 16; half > 0; half /= 2) {
        top = max(top, __shfl_xor_sync(~0u, top, half));
        low = min(low, __shfl_xor_sync(~0u, low, half));
        sum += __shfl_xor_sync(~0u, sum, half);
        square += __shfl_xor_sync(~0u, square, half);
    }
    line = first + ty;
    if (tx == 0 && line < lines) {
        Line* l = (second ? data_b : data_a) + line;
        double mean = sum / samples;
        int e = exponent(top);
        l->shift = target - e;
        l->centre = centred ? __uint_as_float(__float_as_uint(narrow(mean)) & 0xFFFFE000u) : 0.0f;
        if (centred && fabs(mean) < widen(threshold) * sqrt(square / samples)) atomicAdd(&seen[UNCENTRED], 1);
        if (top) {
            atomicMax(&seen[BITS], e - low);
            atomicMax(&seen[HIGHEST], 300 + e);
            atomicMax(&seen[LOWEST], 300 - e);
        }
    }
    __syncthreads();
    int* side = flags + (second ? SIDE : 0);
    if (threadIdx.x == UNCENTRED && seen[UNCENTRED]) atomicAdd(side, seen[UNCENTRED]);
    else if (threadIdx.x < 4) atomicMax(side + threadIdx.x, seen[threadIdx.x]);
}
""",
)


def samples_of(k: int, guess: bool) -> tuple[int, int, int]:
    """Samples of a line, log2 of the neighbours in a run, and the distance of the runs."""
    if guess and k >= 2 * RUNS * RUN:
        return RUNS * RUN, RUN.bit_length() - 1, k // RUNS
    return k, 30, 0


def measure(
    x: Array, samples: tuple[int, int, int], target: int, centred: bool, lines: Array, side: Array
) -> None:
    """Choose each line's power of two, and its centre (the kernel `MEASURE`)."""
    count, run, step = samples
    s = np.arange(count)
    seen = x[:, (s >> run) * step + (s & ((1 << run) - 1))].astype(np.float64)
    seen = np.where(np.isfinite(seen), seen, 0.0)
    largest = np.abs(seen).max(axis=1)
    top = np.frexp(largest)[1]
    lines["shift"] = target - top
    digits, exponent = np.frexp(seen)
    whole = np.ldexp(digits, 24).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(np.float64))[1] - 25 + exponent
    length = top - np.where(whole == 0, 999, lowest).min(axis=1)
    side[1] = max(length.max(), 0)
    if largest.any():
        nonzero = top[largest > 0]
        side[2:4] = 300 + nonzero.max(), 300 - nonzero.min()
    if centred:
        mean = seen.mean(axis=1)
        bits = mean.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000)
        lines["centre"] = bits.view(np.float32)
        spread = np.float64(np.float32(MEAN_THRESHOLD)) * np.sqrt((seen * seen).mean(axis=1))
        side[0] = (np.abs(mean) < spread).sum()


def exact_bits(k: int) -> int:
    """Bits that integers of A and of B may have together for their sums to be exact in fp32.

    Sums of k terms of random sign, that is.
    """
    return 21 - (max(k, 1).bit_length() + 1) // 2


@dataclass(frozen=True)
class Seen:
    """The flags, read: each operand's `FIELDS`, and the verdict on the product."""

    a: dict[str, int]
    b: dict[str, int]
    failed: int

    @classmethod
    def of(cls, flags: list[int]) -> Seen:
        """From the array of flags, as integers."""
        a, b = (dict(zip(FIELDS, side, strict=False)) for side in (flags, flags[SIDE:]))
        return cls(a, b, flags[FAILED] | flags[FAILED + 1])

    def integers(self, k: int) -> bool:
        """Whether the elements are integers short enough for exact sums (`exact_bits`)."""
        return self.a["bits"] + self.b["bits"] <= exact_bits(k)

    def centring(self, k: int) -> bool:
        """Whether the centres count: they do if none lies within the spread of its line."""
        return not (self.a["uncentred"] or self.b["uncentred"] or self.integers(k))

    def common_shift(self, target: int) -> int | None:
        """The power of two by which every product of lines is scaled; None if there is no one such."""
        shifts = [common_shift(side["highest"], side["lowest"], target) for side in (self.a, self.b)]
        return None if None in shifts else sum(s for s in shifts if s is not None)


class Report:
    """The flags on their way to the host, into whose memory kernels write them."""

    def __init__(self, flags: Array) -> None:
        self._host, self.address = flags, np.uint64(0)
        self._event: Any = None
        if is_cupy(flags):
            memory = import_cupy().cuda.alloc_pinned_memory(4 * FLAGS)
            self._host = np.frombuffer(memory, np.int32, FLAGS)
            self._host[:] = 0
            self.address = np.uint64(memory.ptr)

    def sent(self) -> Report:
        """To be called when the kernel has been launched."""
        if self.address:
            self._event = import_cupy().cuda.Event(disable_timing=True)
            self._event.record()
        return self

    def read(self) -> Seen:
        """Wait for the kernel, and return what it saw."""
        if self._event is not None:
            self._event.synchronize()
        return Seen.of(self._host.tolist())

    def __del__(self) -> None:
        # The memory may become another report's: not before the kernel has written to it.
        if self._event is not None:
            self._event.synchronize()


def common_shift(highest: int, lowest: int, target: int) -> int | None:
    """The shift of all lines of an operand, from two of its `FIELDS`; None if each has its own."""
    return target - (highest - 300) if 0 < highest + lowest <= 600 + COMMON else None
