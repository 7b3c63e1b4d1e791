#include "ozaki/scaling/fold.cuh"

#define OFFSET(d) min(d, OCTAVES - 2)
#define COUNT_MASK ((1u << COUNT_BITS) - 1)
/* The bits of a positive double order as the numbers do. */
__device__ void raise(u64 *largest, double x) {
    for (int d = 16; d; d >>= 1) x = fmax(x, __shfl_xor_sync(~0u, x, d));
    if (threadIdx.x == 0) atomicMax(largest, (u64)__double_as_longlong(x));
}

/* _octave_sums, and what else has been found of both operands. */
__device__ void gather(const u64 *found, i64 length, double *evidence) {
    __shared__ i64 count[2][OCTAVES];
    __shared__ double terms[10 * SUMS];
    const u64 *const of[2] = {found, found + 3 + OCTAVES};
    for (int i = threadIdx.x; i < 2 * OCTAVES; i += blockDim.x)
        count[i / OCTAVES][i % OCTAVES] = length - __ldcg(of[i / OCTAVES] + 3 + i % OCTAVES);
    __syncthreads();
    const int share = threadIdx.x % 8; /* eight lanes to a term */
    for (int t = threadIdx.x / 8; t < 10 * SUMS; t += blockDim.x / 8) {
        i64 sum = 0;
        for (int d = share; d < OCTAVES; d += 8) {
            const int e = t - OFFSET(d);
            if (e < 0 || e > OCTAVES - 2) continue;
            sum += max(0ll, count[0][d] + count[1][e] - length);
            if (e == OCTAVES - 2) sum += max(0ll, count[0][d] + count[1][e + 1] - length);
        }
        for (int i = 4; i; i >>= 1) sum += __shfl_xor_sync(0xffu << (threadIdx.x & 24), sum, i);
        if (share == 0) terms[t] = (double)sum * __longlong_as_double((u64)(1023 - t) << 52);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < SUMS; i += blockDim.x) {
        double sum = 0;
        for (int j = 0; j < 10; j++) sum += terms[10 * i + j];
        evidence[5 + i] = sum;
    }
    if (threadIdx.x == 0) evidence[0] = __ldcg(of[0]) || __ldcg(of[1]);
    if (threadIdx.x < 2) {
        evidence[1 + threadIdx.x] = __longlong_as_double(__ldcg(of[threadIdx.x] + 1));
        evidence[3 + threadIdx.x] = __longlong_as_double(__ldcg(of[threadIdx.x] + 2));
    }
}

struct Side {
    const int *exponents, *totals;
    const i64 *squares;
    const unsigned *counts;
    const int *scale;
    double *total;
    int *height, *window, *lift;
    int rows;
};

/* _summary_host: every lane has a row, every warp some of the octaves; the blocks of A's rows go first.
   What is found of an operand: nonfinite, the bits of its total and log2_square, length - at_least[OCTAVES].
   The last of all blocks gathers the evidence. */
extern "C" __global__ void __launch_bounds__(32 * WARPS)
summarize(const int *exponents_a, const int *totals_a, const i64 *squares_a, const unsigned *counts_a,
          const int *scale_a, double *total_a, int *height_a, int *window_a, int *lift_a, int rows_a,
          const int *exponents_b, const int *totals_b, const i64 *squares_b, const unsigned *counts_b,
          const int *scale_b, double *total_b, int *height_b, int *window_b, int *lift_b, int rows_b,
          int segments, i64 length, int root, int limit_bits, int thirtyseconds, int given, u64 *found,
          double *evidence) {
    const Side a = {exponents_a, totals_a, squares_a, counts_a, scale_a,
                    total_a,     height_a, window_a,  lift_a,   rows_a};
    const Side b = {exponents_b, totals_b, squares_b, counts_b, scale_b,
                    total_b,     height_b, window_b,  lift_b,   rows_b};
    const int blocks_a = (rows_a + 31) / 32, second = blockIdx.x >= blocks_a;
    const Side x = second ? b : a;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int rows = x.rows, row = (blockIdx.x - second * blocks_a) * 32 + lane;
    u64 *const out = found + second * (3 + OCTAVES);
    __shared__ bool last;
    __shared__ unsigned at_least[OCTAVES][32];
    const Row all = fold(x.exponents, x.totals, x.squares, segments, rows, row);
    const bool usable = all.exponent != ZERO && all.exponent != NONFINITE;
    int s = norm_scale(all, limit_bits, thirtyseconds);
    if (given && row < rows) s = x.scale[row];
    const int units = all.exponent + s - BITS;
    const double total = usable ? scalbn((double)all.total, units) : 0;
    if (warp == 0) {
        raise(&out[1], total);
        raise(&out[2], usable ? fmax(0.0, log2((double)all.square) + 2.0 * units) : 0);
        if (all.exponent == NONFINITE) atomicMax(&out[0], 1ull);
    }
    for (int d = warp; d < OCTAVES; d += WARPS) {
        unsigned reached = 0;
        for (int first = 0; first < segments; first += BATCH) {
            int level[BATCH]; /* several at once: each lookup has to wait for memory twice */
#pragma unroll
            for (int i = 0; i < BATCH; i++) {
                const bool exists = usable && first + i < segments;
                const i64 at = (i64)(first + i) * rows + row;
                level[i] = exists ? x.exponents[at] + s - 1 - (limit_bits / 2 - d) : -1;
            }
#pragma unroll
            for (int i = 0; i < BATCH; i++) {
                const int coarse = FINE - 1 + (level[i] - (FINE - 1)) / STEP;
                const int index = min(level[i] < FINE ? level[i] : coarse, COUNTS - 1);
                const i64 at = ((i64)(first + i) * COUNT_WORDS + index % COUNT_WORDS) * rows + row;
                if (level[i] >= 0) reached += x.counts[at] >> index / COUNT_WORDS * COUNT_BITS & COUNT_MASK;
            }
        }
        at_least[d][lane] = reached;
        const unsigned most = __reduce_max_sync(~0u, usable ? (unsigned)length - reached : 0);
        if (lane == 0) atomicMax(&out[3 + d], (u64)most);
    }
    __threadfence();
    __syncthreads();
    if (warp == 0 && row < rows) {
        const unsigned wanted = min((unsigned)root, max(1u, (at_least[OCTAVES - 1][lane] + 1) / 2));
        int d = 0;
        while (d < OCTAVES && at_least[d][lane] < wanted) d++;
        const int lift = usable ? limit_bits / 2 - d % OCTAVES - (MAGNITUDE_BITS - 1) : 0;
        x.total[row] = total;
        x.height[row] = usable ? all.exponent + s : 0;
        x.window[row] = s - lift;
        x.lift[row] = lift;
    }
    if (threadIdx.x == 0) last = atomicAdd((unsigned *)(found + 2 * (3 + OCTAVES)), 1u) == gridDim.x - 1;
    __syncthreads();
    if (!last) return;
    __threadfence();
    gather(found, length, evidence);
}
