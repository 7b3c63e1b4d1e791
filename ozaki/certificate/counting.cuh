#include "ozaki/scaling/statistics.cuh"

#define OFFSET(d) min(d, OCTAVES - 2)

/* The maxima over the rows of each operand: whether one is not finite; the bits of the total and of the
   log2_square, which order as the numbers do; length - at_least[OCTAVES]. */
#define MAXIMA (3 + OCTAVES)
typedef u64 Maxima[2][MAXIMA];

/* Raise maxima in memory, at first zeros, to a block's, where several blocks share a product; the last one learns
   those of all, and leaves zeros. */
__device__ bool brought_together(Maxima &largest, u64 *maxima) {
    __shared__ bool last;
    for (int i = threadIdx.x; i < 2 * MAXIMA; i += blockDim.x)
        if (const u64 x = largest[i / MAXIMA][i % MAXIMA]) atomicMax(maxima + i, x);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd((unsigned *)(maxima + 2 * MAXIMA), 1u) == gridDim.x - 1;
    __syncthreads();
    if (!last) return false;
    __threadfence();
    for (int i = threadIdx.x; i < 2 * MAXIMA; i += blockDim.x) {
        largest[i / MAXIMA][i % MAXIMA] = __ldcg(maxima + i);
        maxima[i] = 0; /* for the next launch */
    }
    if (threadIdx.x == 0) maxima[2 * MAXIMA] = 0;
    __syncthreads();
    return true;
}

/* Write `_octave_sums` and the other bounds of both operands to the host's memory at once. */
__device__ void write_bounds(const Maxima &maxima, i64 length, double enough, double *bounds) {
    __shared__ i64 count[2][OCTAVES];
    __shared__ double terms[10 * SUMS], numbers[5 + SUMS];
    for (int i = threadIdx.x; i < 2 * OCTAVES; i += blockDim.x)
        count[i / OCTAVES][i % OCTAVES] = length - maxima[i / OCTAVES][3 + i % OCTAVES];
    __syncthreads();
    const int share = threadIdx.x % 8; /* eight lanes to a term */
    for (int t = threadIdx.x / 8; t < 10 * SUMS; t += blockDim.x / 8) {
        i64 sum = 0;
#pragma unroll
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
        numbers[5 + i] = sum;
    }
    if (threadIdx.x < 2) {
        numbers[1 + threadIdx.x] = __longlong_as_double(maxima[threadIdx.x][1]);
        numbers[3 + threadIdx.x] = __longlong_as_double(maxima[threadIdx.x][2]);
    }
    __syncthreads();
    if (threadIdx.x == 0) { /* `_states` */
        double sum = 0;
        for (int i = 0; i < SUMS; i++) sum += numbers[5 + i];
        const double a = numbers[1], b = numbers[2], truncation = 0.5 * (a + b) + 0.25 * length;
        const bool certified = a == 0 || b == 0 || truncation <= sum * enough;
        numbers[0] = maxima[0][0] || maxima[1][0] ? NOT_FINITE : certified ? CERTIFIED : OPEN;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 5 + SUMS; i += blockDim.x) bounds[i] = numbers[i];
}
