#include "ozaki/scaling/statistics.cuh"

#define OFFSET(d) min(d, OCTAVES - 2)

/* The scales of an operand, and where its `RowBounds` go. */
struct ScaledRows {
    const int *scale;
    double *total;
    int *truncation_scale, *scale_offset;
};

/* The bits of a positive double order as the numbers do. */
__device__ void raise(u64 *largest, double x) {
    for (int d = 16; d; d >>= 1) x = fmax(x, __shfl_xor_sync(~0u, x, d));
    if (threadIdx.x == 0) atomicMax(largest, (u64)__double_as_longlong(x));
}

/* `_octave_sums`, and what else has been found of both operands. */
__device__ void write_bounds(const u64 *found, i64 length, double *bounds) {
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
        bounds[5 + i] = sum;
    }
    if (threadIdx.x == 0) bounds[0] = __ldcg(of[0]) || __ldcg(of[1]);
    if (threadIdx.x < 2) {
        bounds[1 + threadIdx.x] = __longlong_as_double(__ldcg(of[threadIdx.x] + 1));
        bounds[3 + threadIdx.x] = __longlong_as_double(__ldcg(of[threadIdx.x] + 2));
    }
}

/* `_operand_host` and `_octave_sums`: every lane has a row, every warp some of the octaves; the blocks of A's
   rows go first. What is found of an operand: nonfinite, the bits of its total and log2_square,
   length - at_least[OCTAVES]. The last of all blocks writes the bounds. The grid's second dimension counts
   the products of a stack, whose rows lie one below the other. */
extern "C" __global__ void __launch_bounds__(32 * WARPS)
counting_bound(Rows a, ScaledRows scaled_a, Rows b, ScaledRows scaled_b, i64 length, int root, int top, u64 *found,
               double *bounds) {
    const int blocks_a = (a.rows / gridDim.y + 31) / 32, second = blockIdx.x >= blocks_a;
    const Rows x = second ? b : a;
    const ScaledRows scaled = second ? scaled_b : scaled_a;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int rows = x.rows / gridDim.y, index = (blockIdx.x - second * blocks_a) * 32 + lane;
    const int row = blockIdx.y * rows + index;
    const bool exists = index < rows;
    found += blockIdx.y * (2 * (3 + OCTAVES) + 1);
    u64 *const out = found + second * (3 + OCTAVES);
    __shared__ bool last;
    __shared__ unsigned at_least[OCTAVES][32];
    const int e = exists ? x.exponent[row] : ZERO, scale = exists ? scaled.scale[row] : 0;
    const bool summed = e != ZERO && e != NONFINITE;
    const int exponent = summed ? e + scale : 0; /* of the row's largest integer */
    double total = 0;
    if (warp == 0) {
        total = summed ? scalbn((double)x.total[row], exponent - BITS) : 0;
        raise(&out[1], total);
        raise(&out[2], summed ? fmax(0.0, log2((double)x.square[row]) + 2.0 * (exponent - BITS)) : 0);
        if (e == NONFINITE) atomicMax(&out[0], 1ull);
    }
    for (int d = warp; d < OCTAVES; d += WARPS) {
        const int octave = exponent - 1 - (top - d);
        const int level = min(octave < FINE ? octave : FINE - 1 + (octave - (FINE - 1)) / STEP, COUNTS - 1);
        const unsigned reached = summed && octave >= 0 ? x.counts[(i64)level * x.rows + row] : 0;
        at_least[d][lane] = reached;
        const unsigned most = __reduce_max_sync(~0u, summed ? (unsigned)length - reached : 0);
        if (lane == 0) atomicMax(&out[3 + d], (u64)most);
    }
    __threadfence();
    __syncthreads();
    if (warp == 0 && exists) {
        const unsigned wanted = min((unsigned)root, max(1u, (at_least[OCTAVES - 1][lane] + 1) / 2));
        int d = 0;
        while (d < OCTAVES && at_least[d][lane] < wanted) d++;
        const int offset = summed ? top - d % OCTAVES - (MAGNITUDE_BITS - 1) : 0;
        scaled.total[row] = total;
        scaled.truncation_scale[row] = scale - offset;
        scaled.scale_offset[row] = offset;
    }
    if (threadIdx.x == 0) last = atomicAdd((unsigned *)(found + 2 * (3 + OCTAVES)), 1u) == gridDim.x - 1;
    __syncthreads();
    if (!last) return;
    __threadfence();
    write_bounds(found, length, bounds + blockIdx.y * (5 + SUMS));
}
