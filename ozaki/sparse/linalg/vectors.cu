#include "ozaki/sparse/enclosure.cuh"

#define WARPS (THREADS / 32)

/* The first thread gets the sums of all threads of the block. */
__device__ __forceinline__ void add_block(Enclosure (&s)[2], Enclosure (&room)[2][WARPS]) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int i = 0; i < 2; i++) {
        add_lanes<32>(&s[i]);
        if (lane == 0) room[i][warp] = s[i];
    }
    __syncthreads();
    for (int i = 0; i < 2; i++) {
        s[i] = room[i][threadIdx.x % WARPS];
        add_lanes<WARPS>(&s[i]);
    }
    __syncthreads();
}

/* results[0] = RN(Σ x·y), results[1] = RN(√Σ x·y) and, where there is a z, results[2] = RN(Σ x·z), of vectors of n
   numbers; NaN where that is undecided, as in `vectors_numba`.

   Each block leaves its two sums in `sums`, and the last one to do so adds these up. The ticket, which counts the
   blocks, is 0 before and after. */
extern "C" __global__ void enclosed_dots(const double *x, const double *y, const double *z, long long n,
                                         Enclosure *sums, unsigned *ticket, double *results)
{
    __shared__ Enclosure room[2][WARPS];
    __shared__ bool last;
    Enclosure s[2] = {{0, 0, 0}, {0, 0, 0}};
    for (long long i = (long long)blockIdx.x * THREADS + threadIdx.x; i < n; i += (long long)gridDim.x * THREADS) {
        s[0].add_product(x[i], y[i]);
        if (z) s[1].add_product(x[i], z[i]);
    }
    add_block(s, room);
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) sums[2 * blockIdx.x + i] = s[i];
        __threadfence();
        last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    for (int i = 0; i < 2; i++) {
        s[i] = {0, 0, 0};
        for (unsigned block = threadIdx.x; block < gridDim.x; block += THREADS) {
            const volatile double *other = &sums[2 * block + i].high;
            s[i].merge({other[0], other[1], other[2]});
        }
    }
    add_block(s, room);
    if (threadIdx.x) return;
    results[0] = s[0].rounded(false);
    results[1] = s[0].root().rounded(false);
    results[2] = s[1].rounded(false);
}

/* out = x + a·y, with two roundings. */
extern "C" __global__ void add_scaled(const double *x, double a, const double *y, double *out, long long n)
{
    const long long i = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (i < n) out[i] = __dadd_rn(__dmul_rn(y[i], a), x[i]);
}
