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

/* A window's sum, rounded. */
__device__ __forceinline__ double rounded(const Window &window, i64 divisor, int root, int precision,
                                          int smallest)
{
    const int unit = window.place(LEVELS - 1), odd = unit & 1;
    if (window.count <= 1 << (54 - LEVEL_BITS)) { /* then the levels' sums are float64 numbers */
        const double weight = 1ll << LEVEL_BITS;
        Distilled sum = {window.value(0) * (LEVELS == 3 ? weight * weight : weight), 0, 0, false};
#if LEVELS == 3
        sum.add(window.value(1) * weight);
#endif
        sum.add(window.value(LEVELS - 1));
        double result;
        if (sum.round(unit, divisor, root, precision, &result)) return result;
    }
    u64 limb[3] = {0, 0, 0};
#pragma unroll
    for (int level = 0; level < LEVELS; level++)
        add_shifted<3>(limb, window.value(level), (LEVELS - 1 - level) * LEVEL_BITS + odd);
    i64 room[3 + 6 + 2];
#pragma unroll
    for (int i = 0; i < 3; i++) {
        room[3 + 2 * i] = limb[i] & MASK32;
        room[4 + 2 * i] = i < 2 ? (i64)(limb[i] >> 32) : (i64)limb[i] >> 32;
    }
    return round_digits({room + 3, 1}, 0, 6, unit - odd, divisor, root, precision, smallest);
}

/* The digits of an output, rounded; those of it that are not zero from memory that is near, if few. */
__device__ __noinline__ double rounded(i64 *digits, i64 stride, i64 divisor, int root, int precision,
                                       int smallest)
{
    const int near = 12;
    int first = DIGITS, last = 0;
#pragma unroll 16
    for (int i = 0; i < DIGITS; i++)
        if (__ldcg(digits + i * stride)) { first = min(first, i); last = i + 1; }
    if (!last) return 0;
    if (last - first > near)
        return round_digits({digits, stride}, first, last, LOWEST, divisor, root, precision, smallest);
    i64 room[3 + near + 2];
#pragma unroll
    for (int i = 0; i < near; i++) room[3 + i] = first + i < last ? __ldcg(digits + (first + i) * stride) : 0;
    return round_sum({room + 3, 1}, 0, last - first, LOWEST + 32 * first, divisor, root, precision, smallest);
}

#if TILE
/* Lanes of a warp read each other's terms, so that neighbours in memory are read together: the terms
   of an output are neighbours, and 32 outputs `outer` bytes apart; p is where the lane's first lies. */
__device__ __forceinline__ void read_tile(Value (&v)[BATCH], Value (&tile)[32][BATCH + 1], const char *p,
                                          i64 outer, i64 left, int outputs, Value beyond, bool negate) {
    const int lane = threadIdx.x % 32, term = lane % BATCH, first = lane / BATCH;
    if (term >= left) outputs = 0;
#pragma unroll
    for (int j = 0; j < BATCH; j++) {
        const int output = j * (32 / BATCH) + first;
        const Value element = output < outputs ? load(p + output * outer) : beyond;
        tile[output][term] = PAIRS && negate && output < outputs ? -element : element;
    }
    __syncwarp();
#pragma unroll
    for (int j = 0; j < BATCH; j++) v[j] = tile[lane][j];
    __syncwarp();
}
#endif

/* A thread for an output, and as many more as there are rows of `width` threads. Where one thread has
   all the terms of its output, totals are not zeros but room for every thread of the grid. */
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) exact_columns(PARAMETERS)
{
    __shared__ unsigned last_block;
#if TILE
    __shared__ Value x_tile[THREADS / 32][32][BATCH + 1];
#if PAIRS
    __shared__ Value y_tile[THREADS / 32][32][BATCH + 1];
#endif
#endif
    const int rows = THREADS / width, row = threadIdx.x / width, column = threadIdx.x % width;
    const bool alone = rows == 1 && parts == 1 && !resume && !keep;
    const unsigned pieces = (outputs + width - 1) / width * parts;
    for (unsigned piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
        const unsigned part = parts == 1 ? 0 : piece % parts;
        const i64 group = (i64)(parts == 1 ? piece : piece / parts) * width, output = group + column;
        const bool there = output < outputs && row < rows;
        const i64 place = alone ? blockIdx.x * (i64)THREADS + threadIdx.x : output;
        Register to = {totals + 3 * stride + place, stride, !alone, n > 0 ? MINUS_ZERO : 0u};
        Window window;
        const i64 block = (i64)rows * BATCH, skip = (i64)parts * block;
#if TILE
        const i64 lead = output - threadIdx.x % 32;
        const int led = (int)min(outputs - lead, (i64)32), term = threadIdx.x % BATCH;
        const char *x_lead = x + (lead * x_outer + term * x_step) * SIZE;
#if PAIRS
        const char *y_lead = y + (lead * y_outer + term * y_step) * SIZE;
#endif
        for (i64 base = part * block; base < n; base += skip) {
            Batch terms;
            read_tile(terms.a, x_tile[threadIdx.x / 32], x_lead + base * x_step * SIZE, x_outer * SIZE,
                      n - base, led, -0.0, negate);
#if PAIRS
            read_tile(terms.b, y_tile[threadIdx.x / 32], y_lead + base * y_step * SIZE, y_outer * SIZE,
                      n - base, led, 1.0, false);
#endif
            window.add(terms, to, 1);
        }
#else
        const char *x_mine = x + place_of(output, pair, x_outer, x_inner);
        const char *y_mine = y + place_of(output, pair, y_outer, y_inner);
        const i64 length = there ? n : 0;
        i64 mine = part * block + row; /* the first of the terms that are read next */
        const auto read_next = [&](Batch &terms) {
            read(terms.a, x_mine + mine * x_step * SIZE, x_step * SIZE, rows, length - mine, -0.0, negate);
#if PAIRS
            read(terms.b, y_mine + mine * y_step * SIZE, y_step * SIZE, rows, length - mine, 1.0, false);
#endif
            mine += skip;
        };
#if AHEAD
        Batch next;
        if (mine < length) read_next(next);
#endif
        for (i64 base = part * block + row; base < length; base += skip) {
#if AHEAD
            const Batch terms = next;
            if (mine < length) read_next(next);
#else
            Batch terms;
            read_next(terms);
#endif
            window.add(terms, to, 1);
        }
#endif
        if (alone) {
            double value;
            if (to.open) {
                window.flush(to, 1);
                value = rounded(to.digits, stride, divisor, root, precision, smallest);
            } else {
                value = rounded(window, divisor, root, precision, smallest);
            }
            if (there) result[output] = with_flags(value, to.seen);
            continue;
        }
        if (there) {
            window.flush(to, 1);
            atomicOr(flags + output, to.seen);
        }
        if (keep) continue;
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) last_block = atomicAdd(tickets + group, 1u) == parts - 1;
        __syncthreads();
        if (!last_block) continue;
        __threadfence();
        if (there && row == 0)
            result[output] = with_flags(rounded(to.digits, stride, divisor, root, precision, smallest),
                                        ((volatile unsigned *)flags)[output]);
    }
}
