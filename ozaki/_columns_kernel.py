"""The CUDA form of `_window` and `_superaccumulator`: exact sums of rows in one pass.

Every warp keeps a window: the levels of `_window.window_terms`, two of them, or three for
products, whose errors (by fma) start at the second. What falls outside goes, digit by digit, to
the block's superaccumulator in shared memory, as do the windows in the end. The last block of
an output rounds.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from multiword._kernels import Kernel
from multiword.formats import FORMATS
from ozaki._fixedpoint_kernel import DIGITS_SOURCE
from ozaki._superaccumulator import Layout
from ozaki._window import LEVEL_BITS

THREADS = 256
BATCH = {False: 8, True: 4}
"""Terms that a thread reads at a time: of a sum, of products."""

SOURCES = {"float64": 0, "float32": 1, "float16": 2, "bfloat16": 3}
"""How the kernel calls the dtypes it reads."""

_WINDOW_SOURCE = (
    f"#define THREADS {THREADS}\n#define LEVEL_BITS {LEVEL_BITS}\n"
    + r"""
#define LEVELS (PRODUCT && SOURCE == 0 ? 3 : 2)
#define ROWS (THREADS / COLUMNS)
/* 1.5·2^k */
__device__ double sigma_of(int k) { return __longlong_as_double((i64)(k + 1023) << 52 | 1ll << 51); }

/* A window: the same in all lanes of a warp, but for the sums, if they share an output. */
struct Window {
    double sigma[LEVELS], limit;
    i64 sum[LEVELS];
    int k, count;
    unsigned ordinary;

    __device__ __forceinline__ Window() {
#pragma unroll
        for (int i = 0; i < LEVELS; i++) { sigma[i] = 0; sum[i] = 0; }
        limit = -1; k = -2000; count = 0; ordinary = 0;
    }

    /* Add the warp's sums to the superaccumulator and begin anew. */
    __device__ __forceinline__ void flush(i64 *digits) {
#pragma unroll
        for (int level = 0; level < LEVELS; level++) {
            const i64 terms = (i64)count * (PRODUCT && LEVELS == 3 && level ? 2 : 1);
            i64 v = sum[level] - terms * __double_as_longlong(sigma[level]);
#if COLUMNS == 1
            for (int step = 16; step; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
#endif
            const int position = k - 52 - level * LEVEL_BITS - LOWEST;
            if (COLUMNS > 1 || threadIdx.x % 32 == 0) add_integer(digits, v, position);
            sum[level] = 0;
        }
        count = 0;
    }

    /* Make room for numbers whose exponent field is at most `field`, if it can be. */
    __device__ __forceinline__ void raise(i64 *digits, unsigned field) {
#if COLUMNS == 1
        field = __reduce_max_sync(0xffffffffu, field);
#endif
        const int wanted = min(max((int)field - 1022 + 8, LEVEL_BITS * (LEVELS - 1) - 1022), 1023);
        if (wanted <= k) return;
        flush(digits);
        k = wanted;
#pragma unroll
        for (int i = 0; i < LEVELS; i++) sigma[i] = sigma_of(k - i * LEVEL_BITS);
        limit = scalbn(1.0, k - 7);
    }

    /* What level i leaves of x. */
    __device__ __forceinline__ double take(int i, double x) {
        const double t = x + sigma[i];
        sum[i] += __double_as_longlong(t);
        return x - (t - sigma[i]);
    }

    /* Note that something other than −0 came. */
    __device__ __forceinline__ void note(double x) {
        ordinary |= __double2loint(x) | (__double2hiint(x) ^ 0x80000000);
    }
};

__device__ unsigned exponent_field(double x) {
    const unsigned field = (unsigned)__double2hiint(x) >> 20 & 2047;
    return field == 2047 ? 0 : field;
}

__device__ double load(const void *p, i64 i) {
#if SOURCE == 0
    return ((const double *)p)[i];
#elif SOURCE == 1
    return ((const float *)p)[i];
#elif SOURCE == 2
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(((const unsigned short *)p)[i]));
    return f;
#else
    return __uint_as_float((unsigned)((const unsigned short *)p)[i] << 16);
#endif
}
"""
)

_KERNEL_SOURCE = r"""
/* result[o] = RN(the sum over i < n of x[o, i], or of ±x[o, i]·y[o, i], divided by a number below
   2^32 or its square root), or the digits of the sum.

   Element (o, i) of x lies at o·x_row + i·x_step. `parts` blocks share an output, or COLUMNS of
   them side by side: 1, or one for each lane of a warp. totals is
   (outputs, DIGITS) zeros or an earlier sum, flags (outputs,) likewise, tickets zeros. `resume`
   says that there is an earlier sum, `keep` that more is to come: without either, one block
   that does the whole of an output touches none of the three. */
extern "C" __global__ void __launch_bounds__(THREADS, 4) exact_sums(
    const char *x, i64 x_row, i64 x_step, const char *y, i64 y_row, i64 y_step, i64 n,
    i64 outputs, int parts, int negate,
    i64 *totals, unsigned *flags, unsigned *tickets, double *result,
    int resume, int keep, i64 divisor, int root, int precision, int smallest)
{
    __shared__ i64 room[COLUMNS][DIGITS + 7];
    __shared__ unsigned seen[COLUMNS], last_block;
    __shared__ int first[COLUMNS], last[COLUMNS];
    const int column = COLUMNS == 1 ? 0 : threadIdx.x % 32, row = threadIdx.x / COLUMNS;
    const i64 group = (i64)(blockIdx.x / parts) * COLUMNS, output = group + column;
    const int part = blockIdx.x % parts;
    for (int i = threadIdx.x; i < COLUMNS * (DIGITS + 7); i += THREADS) room[0][i] = 0;
    if (threadIdx.x < COLUMNS) {
        seen[threadIdx.x] = n > 0 ? MINUS_ZERO : 0;
        first[threadIdx.x] = DIGITS;
        last[threadIdx.x] = 0;
    }
    __syncthreads();

    i64 *digits = room[column] + 3;
    const int size = SOURCE == 0 ? 8 : SOURCE == 1 ? 4 : 2;
    const i64 length = output < outputs ? n : 0;
    x += output * x_row * size;
    y += output * y_row * size;
#if UNIT
    x_step = y_step = 1;
#endif
    Window window;
    for (i64 base = (i64)part * ROWS * BATCH; base < n; base += (i64)parts * ROWS * BATCH) {
        double a[BATCH];
        bool outside = false;
        unsigned field = 0;
#if PRODUCT
        double b[BATCH];
#endif
        const bool whole = base + ROWS * BATCH <= length;
#pragma unroll
        for (int j = 0; j < BATCH; j++) {
            const i64 i = base + j * ROWS + row;
            a[j] = whole || i < length ? load(x, i * x_step) : -0.0;
#if PRODUCT
            if (negate && i < length) a[j] = -a[j];
            b[j] = whole || i < length ? load(y, i * y_step) : 1.0;
#endif
        }
#pragma unroll
        for (int j = 0; j < BATCH; j++) {
#if PRODUCT
#if LEVELS == 2
            a[j] = a[j] * b[j];
#endif
            const double p = LEVELS == 2 ? a[j] : a[j] * b[j];
#else
            const double p = a[j];
#endif
            outside |= !(fabs(p) <= window.limit);
        }
        if (__any_sync(0xffffffffu, outside)) {
#pragma unroll
            for (int j = 0; j < BATCH; j++) {
#if PRODUCT && LEVELS == 3
                field = max(field, exponent_field(a[j] * b[j]));
#else
                field = max(field, exponent_field(a[j]));
#endif
            }
            window.raise(digits, field);
        }
#pragma unroll
        for (int j = 0; j < BATCH; j++) {
#if PRODUCT && LEVELS == 3
            double p = a[j] * b[j];
            double e = __fma_rn(a[j], b[j], -p);
            window.note(p);
            /* An error that might underflow, a product that overflows or has no window. */
            if (!(fabs(p) <= window.limit) || (fabs(p) < 0x1p-900 && a[j] != 0 && b[j] != 0)) {
                add_product(digits, &seen[column], a[j], b[j]);
                p = e = 0;
            }
            double r = window.take(1, window.take(0, p));
            e = window.take(1, e);
            r = window.take(2, r);
            e = window.take(2, e);
            if (r != 0) add_number(digits, &seen[column], r);
            if (e != 0) add_number(digits, &seen[column], e);
#else
            double p = a[j];
            window.note(p);
            if (!(fabs(p) <= window.limit)) {
                add_number(digits, &seen[column], p);
                p = 0;
            }
            const double r = window.take(1, window.take(0, p));
            if (r != 0) add_number(digits, &seen[column], r);
#endif
        }
        window.count += BATCH;
        if (window.count >= 2048) window.flush(digits);
    }
    window.flush(digits);
    if (window.ordinary) atomicOr(&seen[column], ORDINARY);
    __syncthreads();

    /* Hand over to the outputs' totals, 32 bits at a time so that no digit overflows. */
    if (parts > 1 || keep) {
        for (int c = 0; c < COLUMNS && group + c < outputs; c++) {
            u64 *total = (u64 *)totals + (group + c) * DIGITS;
            for (int i = threadIdx.x; i < DIGITS; i += THREADS) {
                const i64 v = room[c][3 + i];
                const i64 over = i < DIGITS - 1 ? v >> 32 : 0;
                if (v) atomicAdd(total + i, (u64)(v - (over << 32)));
                if (over) atomicAdd(total + i + 1, (u64)over);
            }
        }
        if (row == 0 && output < outputs) atomicOr(flags + output, seen[column]);
        if (keep) return;
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) last_block = atomicAdd(tickets + group, 1u) == parts - 1;
        __syncthreads();
        if (!last_block) return;
        __threadfence();
    }
    const bool together = parts > 1;
    for (int c = 0; c < COLUMNS && group + c < outputs; c++)
        for (int i = threadIdx.x; i < DIGITS; i += THREADS) {
            i64 v = together ? 0 : room[c][3 + i];
            if (together || resume) v += ((volatile i64 *)totals)[(group + c) * DIGITS + i];
            room[c][3 + i] = v;
            if (v) { atomicMin(&first[c], i); atomicMax(&last[c], i + 1); }
        }
    __syncthreads();
    if (row == 0 && output < outputs) {
        unsigned all = together ? 0 : seen[column];
        if (together || resume) all |= ((volatile unsigned *)flags)[output];
        double value = 0;
        if (last[column])
            value = round_digits(digits, first[column], last[column], divisor, root, precision, smallest);
        result[output] = with_flags(value, all);
    }
}
"""


@cache
def constants(dtype: str, product: bool, unit: bool, columns: int, layout: Layout) -> dict[str, Any]:
    """The compile-time constants for arrays of this dtype, summed into digits of this layout."""
    return {
        "SOURCE": SOURCES[dtype],
        "PRODUCT": int(product),
        "UNIT": int(unit),
        "COLUMNS": columns,
        "BATCH": BATCH[product],
        "DIGITS": layout.digits,
        "LOWEST": f"({layout.exponent})",
    }


_OWN_LAYOUTS = {
    "float64": Layout.of(FORMATS["fp64"]),
    "float32": Layout.of(FORMATS["fp32"]),
    "float16": Layout.of(FORMATS["fp16"]),
    "bfloat16": Layout.of(FORMATS["bf16"]),
}

exact_sums = Kernel(
    "exact_sums",
    DIGITS_SOURCE + _WINDOW_SOURCE + _KERNEL_SOURCE,
    tuple(
        constants(dtype, product, columns == 1, columns, _OWN_LAYOUTS[dtype])
        for dtype, product, columns in (
            *(("float64", product, columns) for product in (False, True) for columns in (1, 32)),
            *(("float32", True, 1), ("float16", False, 1), ("bfloat16", False, 32)),
        )
    ),
)
"""See the comment above its CUDA source."""
