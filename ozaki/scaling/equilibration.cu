#include "multiword/runtime/exact.cuh"
#include "multiword/runtime/parts.cuh"

typedef long long i64;
#define THREADS 256

/* The real parts of a matrix to write to; strides in elements. */
struct Matrix {
    REAL *part0, *part1;
    i64 row_stride, column_stride;
    __device__ REAL *part(int i) const { return i ? part1 : part0; }
};

/* What a thread reads: one column, `run` rows of one product of a stack, which has `each`. Threads lie side
   by side along the contiguous axis: with ALONG_K each has a column of its own, otherwise the lanes of a warp
   share one. */
struct Share {
    int product, column, first, last;
    static const int lanes = ALONG_K ? 1 : 32, step = lanes;
    __device__ Share(const StridedParts &x, int each, int run) {
        const int across = THREADS / lanes, strips = (x.columns + across - 1) / across;
        const int chunks = (each + run * lanes - 1) / (run * lanes);
        const int chunk = blockIdx.x / strips % chunks;
        product = blockIdx.x / strips / chunks;
        column = blockIdx.x % strips * across + threadIdx.x / lanes;
        first = product * each + chunk * run * lanes;
        last = min(first + run * lanes, (product + 1) * each);
        first += threadIdx.x % lanes;
        if (column >= x.columns) last = first;
    }
};

/* The exponent of `frexp`, subnormal numbers included. */
__device__ int exponent_of(double x) {
    const int exponent = __double2hiint(x) >> 20 & 0x7ff;
    return exponent ? exponent - 1022 : ilogb(x) + 1;
}

/* `_exponents_host`. The exponents begin with NOTHING. */
extern "C" __global__ void __launch_bounds__(THREADS)
column_exponents(StridedParts x, const int *scale, int each, int run, int *largest) {
    const Share at(x, each, run);
    int best = NOTHING;
#pragma unroll 4
    for (int row = at.first; row < at.last; row += at.step) {
        const int s = scale[row];
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            const double y = widened(x.part(part)[row * x.row_stride + at.column * x.column_stride]);
            if (y != 0 && s != NONFINITE_ROW) best = max(best, exponent_of(y) + s);
        }
    }
#if !ALONG_K
    best = __reduce_max_sync(~0u, best);
#endif
    if (best > NOTHING && threadIdx.x % at.lanes == 0)
        atomicMax(&largest[(i64)at.product * x.columns + at.column], best);
}

/* The largest exponent of a column in every step-th row, of those that are finite; a warp has one of WARPS of them. */
#define WARPS (THREADS / 32)
__device__ int sampled_exponent(const StridedParts &x, const int *scale, int step, int column) {
    int best = NOTHING;
#pragma unroll 4
    for (i64 row = threadIdx.x / 32 * (i64)step; row < x.rows; row += WARPS * (i64)step) {
        const int s = scale[row];
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            const double y = widened(x.part(part)[row * x.row_stride + column * x.column_stride]);
            if (y != 0 && s != NONFINITE_ROW) best = max(best, exponent_of(y) + s);
        }
    }
    return best;
}

/* `largest_sums` of the exponents of some rows of both factors, a column to a lane: to the host's memory. What blocks
   raise, above NOTHING, and how many have, are zeros at first, and afterwards. */
extern "C" __global__ void __launch_bounds__(THREADS)
sampled_sums(StridedParts a, StridedParts b, const int *scale_a, const int *scale_b, int step_a, int step_b,
             unsigned *raised, int *on_host) {
    __shared__ int exponents[2][WARPS][32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, column = blockIdx.x * 32 + lane;
    const bool exists = column < a.columns;
    exponents[0][warp][lane] = exists ? sampled_exponent(a, scale_a, step_a, column) : NOTHING;
    exponents[1][warp][lane] = exists ? sampled_exponent(b, scale_b, step_b, column) : NOTHING;
    __syncthreads();
    if (warp) return;
    int p = NOTHING, q = NOTHING;
    for (int i = 0; i < WARPS; i++) p = max(p, exponents[0][i][lane]), q = max(q, exponents[1][i][lane]);
    const unsigned above = __reduce_max_sync(~0u, min(p, q) > NOTHING ? p + q - NOTHING : 0);
    if (lane) return;
    if (above) atomicMax(raised, above);
    __threadfence();
    if (atomicAdd(raised + 1, 1u) < gridDim.x - 1) return;
    __threadfence();
    *on_host = (int)__ldcg(raised) + NOTHING;
    raised[0] = raised[1] = 0;
}

__device__ float rounded(double y, float) { return narrowed(y); }
__device__ double rounded(double y, double) { return y; }

/* `_shift_host`: lost[product] is set where a number is not multiplied exactly. */
extern "C" __global__ void __launch_bounds__(THREADS)
shift_columns(StridedParts x, const int *scale, Matrix out, const int *shifts, int each, int run, int *lost) {
    const Share at(x, each, run);
    if (at.first >= at.last) return;
    const int d = shifts[(i64)at.product * x.columns + at.column], half = d >> 1;
    const double first = power_of_two(half), second = power_of_two(d - half);
    const double back_first = power_of_two(-half), back_second = power_of_two(half - d);
    bool exact = true;
#pragma unroll 4
    for (int row = at.first; row < at.last; row += at.step) {
        const bool left_alone = scale[row] == NONFINITE_ROW;
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            const REAL from = x.part(part)[row * x.row_stride + at.column * x.column_stride];
            const double y = widened(from);
            const REAL to = left_alone ? from : rounded(y * first * second, from);
            exact &= left_alone || widened(to) * back_first * back_second == y;
            out.part(part)[row * out.row_stride + at.column * out.column_stride] = to;
        }
    }
    if (!exact) lost[at.product] = 1;
}
