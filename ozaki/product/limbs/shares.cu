#include "ozaki/product/limbs/limbs.cuh"

#define THREADS 256
/* Threads that share an element. */
#define LANES 8

/* RN(C'·2^(-s-t)) from the sums of shares of k. */
extern "C" __global__ void __launch_bounds__(THREADS) add_limb_products(const u64 *sums, LimbProduct to, int shares) {
    const i64 index = (blockIdx.x * (i64)THREADS + threadIdx.x) / LANES, each = (i64)to.m * to.n;
    const int lane = threadIdx.x % LANES, mine = index < each ? shares : 0;
    for (int part = 0; part < PARTS; part++) {
        u64 total[COUNT] = {};
#pragma unroll 4
        for (int share = lane; share < mine; share += LANES)
            add(total, sums + (((i64)share * PARTS + part) * each + index) * COUNT);
#pragma unroll
        for (int apart = 1; apart < LANES; apart *= 2) {
            u64 more[COUNT];
#pragma unroll
            for (int i = 0; i < COUNT; i++) more[i] = __shfl_xor_sync(~0u, total[i], apart);
            add(total, more);
        }
        const int row = index % to.m, column = index / to.m;
        if (mine && lane == 0) to.round(total, row, column, column, part);
    }
}
