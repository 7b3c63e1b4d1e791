#include "ozaki/certificate/pairwise.cuh"

typedef long long i64;
typedef unsigned long long u64;

/* The `RowBounds` of a panel that its pairs are compared by; the bits of the largest T / |A||B| so far, which order as
   the numbers do, and how many blocks are done, at first zeros, which the last of all launches leaves behind; the bound, in
   the host's memory. */
struct PanelPairs {
    const double *total_a, *total_b;
    const int *scale_offset_a, *scale_offset_b;
    int rows, columns;
    int last;
    i64 length;
    u64 *largest;
    double *bound;
};

/* By each block, with the largest error of each warp: the last one writes that of all to the host. Division by one and
   the same tolerance keeps the order, so that of the largest is the largest. */
__device__ void write_bound(const PanelPairs &pairs, double error_of_warp) {
    const u64 bits = (u64)__double_as_longlong(error_of_warp);
    if (threadIdx.x % 32 == 0 && bits > __ldcg(pairs.largest)) atomicMax(pairs.largest, bits);
    __syncthreads();
    if (threadIdx.x > 0) return;
    __threadfence();
    if (atomicAdd(&pairs.largest[1], 1ull) < gridDim.x - 1) return;
    __threadfence();
    const double error = __longlong_as_double(__ldcg(pairs.largest)), terms = (double)pairs.length;
    pairs.largest[1] = 0;
    if (pairs.last) pairs.largest[0] = 0;
    pairs.bound[0] = error;
    pairs.bound[1] = error / fmin(4 * sqrt(terms), terms / 2); /* `tolerance` */
}

/* Products of magnitudes of a panel: (m, n), a stride in elements. */
struct Products {
    const PRODUCT *products;
    i64 row_stride;
};

/* `_raise_host`. A block has WIDTH columns, and rows in groups of TALL, of which each thread has every SIDE_BY_SIDE-th. */
#define THREADS 256
#define SIDE_BY_SIDE (THREADS / WIDTH)
#define TALL (ROWS * SIDE_BY_SIDE)
extern "C" __global__ void __launch_bounds__(THREADS) pairwise_bound(Products y, PanelPairs pairs) {
    __shared__ RowBounds rows[TALL];
    const int across = (pairs.columns + WIDTH - 1) / WIDTH; /* in one dimension, for it alone may be long */
    const int column = blockIdx.x % across * WIDTH + threadIdx.x % WIDTH, down = gridDim.x / across;
    const int local = threadIdx.x / WIDTH;
    const RowBounds b(pairs.total_b, pairs.scale_offset_b, column, pairs.columns);
    const double quarter = (double)pairs.length / 4;
    double error = 0; /* of the warp */
    for (int first = blockIdx.x / across * TALL; first < pairs.rows; first += down * TALL) {
        __syncthreads();
        for (int i = threadIdx.x; i < TALL; i += THREADS)
            rows[i] = RowBounds(pairs.total_a, pairs.scale_offset_a, first + i, pairs.rows);
        __syncthreads();
        PRODUCT product[ROWS]; /* all on their way at once */
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            const int row = first + local + i * SIDE_BY_SIDE;
            product[i] = row < pairs.rows && b.half > 0 ? y.products[row * y.row_stride + column] : 0;
        }
#pragma unroll
        for (int i = 0; i < ROWS; i += AT_ONCE) {
            const auto pair = [&](int j) { return Pair(product[j], rows[local + j * SIDE_BY_SIDE], b, quarter); };
            bool more = false; // none of them waits for another
#pragma unroll
            for (int j = i; j < i + AT_ONCE; j++) more |= pair(j).may_exceed(error);
            if (!__any_sync(~0u, more)) continue;
            double found = error;
#pragma unroll
            for (int j = i; j < i + AT_ONCE; j++) found = pair(j).larger(found);
            error = largest_of_warp(found);
        }
    }
    write_bound(pairs, error);
}
