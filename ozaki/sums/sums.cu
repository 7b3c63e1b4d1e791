#include "ozaki/sums/window.cuh"

/* result[o] = RN(the sum over i < n of x[o, i], or of ±x[o, i]·y[o, i], divided by a number below
   2^32 or its square root).

   Element (o, i) of x lies at (o >> pair)·x_outer + (o & pair)·x_inner + i·x_step, where `pair` is 1 if
   outputs come in pairs. A block takes `width` outputs side by side, and `parts` blocks share them.
   Digit l of output o lies at totals[(l + 3)·stride + o]; there is room for three below and four above.
   totals and flags (outputs,) are zeros or an earlier sum, tickets zeros. `resume` says that there is
   an earlier sum, `keep` that more is to come. */
#define PARAMETERS                                                                                 \
    const char *x, i64 x_outer, i64 x_inner, i64 x_step, const char *y, i64 y_outer, i64 y_inner,  \
        i64 y_step, i64 n, i64 outputs, int pair, int width, int parts, int negate, i64 *totals,   \
        i64 stride, unsigned *flags, unsigned *tickets, double *result, int resume, int keep,      \
        i64 divisor, int root, int precision, int smallest

__device__ __forceinline__ i64 place_of(i64 output, int pair, i64 outer, i64 inner) {
    return SIZE * ((output >> pair) * outer + (output & pair) * inner);
}

#if PACKED
/* As `read`, where terms are neighbours in memory and words of 8 bytes aligned: p is the block's. */
#define PACK (8 / SIZE)
__device__ __forceinline__ void read_words(Value (&v)[BATCH], const char *p, i64 left, Value beyond,
                                           bool negate) {
    if (THREADS * BATCH <= left) {
        u64 words[BATCH / PACK];
#pragma unroll
        for (int j = 0; j < BATCH / PACK; j++) words[j] = ((const u64 *)p)[j * THREADS + threadIdx.x];
#pragma unroll
        for (int j = 0; j < BATCH; j++) {
            const Value element = value_of(words[j / PACK] >> j % PACK * 8 * SIZE);
            v[j] = PAIRS && negate ? -element : element;
        }
    } else {
        read(v, p + threadIdx.x * SIZE, SIZE, THREADS, left - threadIdx.x, beyond, negate);
    }
}
#endif

/* A block for up to WIDEST outputs. Without `resume`, `keep` and parts it touches none of totals,
   flags and tickets. */
extern "C" __global__ void __launch_bounds__(THREADS, 1024 / THREADS) exact_sums(PARAMETERS)
{
    __shared__ i64 room[WIDEST][DIGITS + 7];
    __shared__ unsigned seen[WIDEST], last_block;
    __shared__ int first[WIDEST], last[WIDEST];
    if (WIDEST == 1) width = 1;
    const int rows = THREADS / width, row = threadIdx.x / width, column = threadIdx.x % width;
    const i64 group = (i64)(blockIdx.x / parts) * width, output = group + column;
    const int part = blockIdx.x % parts;
    for (int c = 0; c < width; c++)
        for (int i = threadIdx.x; i < DIGITS + 7; i += THREADS) room[c][i] = 0;
    if (threadIdx.x < width) {
        seen[threadIdx.x] = n > 0 ? MINUS_ZERO : 0;
        first[threadIdx.x] = DIGITS;
        last[threadIdx.x] = 0;
    }
    __syncthreads();

    Register to = {room[column] + 3, 1, true, 0};
    Window window;
    const i64 length = output < outputs && row < rows ? n : 0;
    const int lanes = width & (width - 1) ? 32 : width;
    x += place_of(output, pair, x_outer, x_inner);
    y += place_of(output, pair, y_outer, y_inner);
    const i64 block = (i64)rows * BATCH;
    for (i64 base = part * block; base < n; base += parts * block) {
        Batch terms;
#if PACKED
        read_words(terms.a, x + base * SIZE, length - base, -0.0, negate);
#if PAIRS
        read_words(terms.b, y + base * SIZE, length - base, 1.0, false);
#endif
#else
        const i64 mine = base + row;
        read(terms.a, x + mine * x_step * SIZE, x_step * SIZE, rows, length - mine, -0.0, negate);
#if PAIRS
        read(terms.b, y + mine * y_step * SIZE, y_step * SIZE, rows, length - mine, 1.0, false);
#endif
#endif
        window.add(terms, to, lanes);
    }
    window.flush(to, lanes);
    if (to.seen) atomicOr(&seen[column], to.seen);
    __syncthreads();

    /* Hand over to the outputs' totals, 32 bits at a time so that no digit overflows. */
    const int here = (int)min((i64)width, outputs - group);
    if (parts > 1 || keep) {
        for (int i = threadIdx.x; i < here * DIGITS; i += THREADS) {
            const int c = WIDEST == 1 ? 0 : i % here, l = WIDEST == 1 ? i : i / here;
            u64 *total = (u64 *)totals + (3 + l) * stride + group + c;
            const i64 v = room[c][3 + l];
            const i64 over = l < DIGITS - 1 ? v >> 32 : 0;
            if (v) atomicAdd(total, (u64)(v - (over << 32)));
            if (over) atomicAdd(total + stride, (u64)over);
        }
        if (threadIdx.x < here) atomicOr(flags + output, seen[column]);
        if (keep) return;
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) last_block = atomicAdd(tickets + group, 1u) == parts - 1;
        __syncthreads();
        if (!last_block) return;
        __threadfence();
    }
    const bool together = parts > 1;
    for (int i = threadIdx.x; i < here * DIGITS; i += THREADS) {
        const int c = WIDEST == 1 ? 0 : i % here, l = WIDEST == 1 ? i : i / here;
        i64 v = together ? 0 : room[c][3 + l];
        if (together || resume) v += ((volatile i64 *)totals)[(3 + l) * stride + group + c];
        room[c][3 + l] = v;
        if (v) { atomicMin(&first[c], l); atomicMax(&last[c], l + 1); }
    }
    __syncthreads();
    if (threadIdx.x < here) {
        unsigned all = together ? 0 : seen[column];
        if (together || resume) all |= ((volatile unsigned *)flags)[output];
        double value = 0;
        if (last[column])
            value = round_sum({room[column] + 3, 1}, first[column], last[column], LOWEST, divisor, root,
                              precision, smallest);
        result[output] = with_flags(value, all);
    }
}
