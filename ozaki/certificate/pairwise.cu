#include "ozaki/certificate/pairwise.cuh"

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
            double found = error;
#pragma unroll
            for (int j = i; j < i + AT_ONCE; j++) {
                found = Pair(product[j], rows[local + j * SIDE_BY_SIDE], b, quarter).larger(found);
            }
            if (__any_sync(~0u, found > error)) error = largest_of_warp(found);
        }
    }
    write_bound(pairs, error);
}
