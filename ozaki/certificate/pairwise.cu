#include "ozaki/certificate/pairwise.cuh"

/* Products of magnitudes of a panel: (m, n), a stride in elements. */
struct Products {
    const PRODUCT *products;
    i64 row_stride;
};

/* `_raise_host` */
extern "C" __global__ void __launch_bounds__(256) pairwise_bound(Products y, PanelPairs pairs) {
    __shared__ RowBounds rows[ROWS];
    const int across = (pairs.columns + 255) / 256; /* in one dimension, for it alone may be long */
    const int first = blockIdx.x / across * ROWS, column = blockIdx.x % across * 256 + threadIdx.x;
    if (threadIdx.x < ROWS) rows[threadIdx.x] = row_of_a(pairs, first + threadIdx.x);
    __syncthreads();
    const RowBounds b = column_of_b(pairs, column);
    double error = 0;
    if (b.total > 0) {
#pragma unroll 4
        for (int i = 0; i < min(ROWS, pairs.rows - first); i++)
            error = larger(error, y.products[(first + i) * y.row_stride + column], rows[i], b, pairs.length);
    }
    raise(pairs.found, error);
    tell(pairs);
}
