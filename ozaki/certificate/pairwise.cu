typedef long long i64;
typedef unsigned long long u64;
#define SLACK (1 - 1.0 / (1ll << 50))

/* Products of magnitudes of a panel: (m, n), a stride in elements. */
struct Products {
    const PRODUCT *products;
    i64 row_stride;
    int rows, columns;
};

/* The `RowBounds` of a panel that its pairs are compared by, and those of one row. */
struct PanelRows {
    const double *total;
    const int *scale_offset;
};
struct RowBounds { double total; int offset; };

__device__ double tolerance(double terms) { return fmin(4 * sqrt(terms), terms / 2); }

/* `_raise_host`. The largest of positive numbers has the largest bits. The last block tells the host. */
extern "C" __global__ void __launch_bounds__(256)
pairwise_bound(Products y, PanelRows of_a, PanelRows of_b, i64 length, u64 *found, double *bound) {
    __shared__ RowBounds row_bounds[ROWS];
    __shared__ u64 largest[2];
    const int m = y.rows, n = y.columns, across = (n + 255) / 256; /* in one dimension, for it alone may be long */
    const int first = blockIdx.x / across * ROWS, column = blockIdx.x % across * 256 + threadIdx.x;
    if (threadIdx.x < 2) largest[threadIdx.x] = 0;
    if (threadIdx.x < ROWS && first + threadIdx.x < m) {
        const int i = first + threadIdx.x;
        row_bounds[threadIdx.x] = RowBounds{of_a.total[i], of_a.scale_offset[i]};
    }
    __syncthreads();
    double error = 0;
    RowBounds b = {0, 0};
    if (column < n) b = RowBounds{of_b.total[column], of_b.scale_offset[column]};
    if (b.total > 0) {
#pragma unroll 4
        for (int i = 0; i < min(ROWS, m - first); i++) {
            const RowBounds a = row_bounds[i];
            const double product = y.products[(first + i) * y.row_stride + column];
            const double lower = scalbn(product * SLACK, a.offset + b.offset);
            const double truncation = (a.total + b.total) / 2 + (double)length / 4;
            /* Division takes time: most pairs can be told from the largest without. */
            if (a.total <= 0 || truncation < error * lower * SLACK) continue;
            error = fmax(error, truncation / lower);
        }
    }
    /* Division by one and the same number keeps the order, so the largest can wait for it. */
    double ratio = error / tolerance((double)length);
    for (int d = 16; d; d >>= 1) {
        error = fmax(error, __shfl_xor_sync(~0u, error, d));
        ratio = fmax(ratio, __shfl_xor_sync(~0u, ratio, d));
    }
    if (threadIdx.x % 32 == 0) {
        atomicMax(&largest[0], (u64)__double_as_longlong(error));
        atomicMax(&largest[1], (u64)__double_as_longlong(ratio));
    }
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int i = 0; i < 2; i++)
        if (largest[i] > __ldcg(&found[i])) atomicMax(&found[i], largest[i]);
    __threadfence();
    if (atomicAdd(&found[2], 1ull) < gridDim.x - 1) return;
    __threadfence();
    found[2] = 0; /* for the next launch */
    for (int i = 0; i < 2; i++) bound[i] = __longlong_as_double(__ldcg(&found[i]));
}
