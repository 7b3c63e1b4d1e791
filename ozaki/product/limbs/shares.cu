#include "ozaki/product/limbs/limbs.cuh"
#define THREADS 256

/* RN(C'·2^(-s-t)) from the sums of shares, a thread for each of its rows and columns. */
extern "C" __global__ void __launch_bounds__(THREADS) add_limb_products(const u64 *sums, LimbProduct to, int shares) {
    const i64 index = blockIdx.x * (i64)THREADS + threadIdx.x, each = (i64)to.m * to.n;
    if (index >= each) return;
    const int row = index % to.m, column = index / to.m;
    for (int part = 0; part < PARTS; part++) {
        u64 total[COUNT] = {};
#pragma unroll 4
        for (int share = 0; share < shares; share++)
            add(total, sums + (((i64)share * PARTS + part) * each + index) * COUNT);
        to.round(total, row, column, column, part);
    }
}
