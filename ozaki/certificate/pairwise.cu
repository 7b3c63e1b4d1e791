typedef long long i64;
typedef unsigned long long u64;
#define SLACK (1 - 1.0 / (1ll << 50))

/* The `RowBounds` of a panel that its pairs are compared by; the bits of the largest T / |A||B| so far, which order as
   the numbers do, and how many blocks are done; the bound, in the host's memory. */
struct PanelPairs {
    const double *total_a, *total_b;
    const int *scale_offset_a, *scale_offset_b;
    int rows, columns;
    i64 length;
    u64 *largest;
    double *bound;
};

/* The bounds of one row of A, or column of B; outside of the panel, those of zeros. */
struct RowBounds { double total; int offset; };
__device__ RowBounds row_of_a(const PanelPairs &pairs, int i) {
    return i < pairs.rows ? RowBounds{pairs.total_a[i], pairs.scale_offset_a[i]} : RowBounds{0, 0};
}
__device__ RowBounds column_of_b(const PanelPairs &pairs, int j) {
    return j < pairs.columns ? RowBounds{pairs.total_b[j], pairs.scale_offset_b[j]} : RowBounds{0, 0};
}

/* The larger one of an error and of T / |A||B| of a pair, from the product of its magnitudes: `compare_pairs`. */
__device__ double larger(double error, double product, RowBounds a, RowBounds b, i64 length) {
    const double lower = scalbn(product * SLACK, a.offset + b.offset);
    const double truncation = (a.total + b.total) / 2 + (double)length / 4;
    /* Division takes time: most pairs can be told from the largest without. */
    if (a.total <= 0 || b.total <= 0 || truncation < error * lower * SLACK) return error;
    return fmax(error, truncation / lower);
}

/* Raise the largest error so far, by a full warp. */
__device__ void raise(u64 *largest, double error) {
    for (int d = 16; d; d >>= 1) error = fmax(error, __shfl_xor_sync(~0u, error, d));
    const u64 bits = (u64)__double_as_longlong(error);
    if (threadIdx.x % 32 == 0 && bits > __ldcg(largest)) atomicMax(largest, bits);
}

/* By each block, when all of its warps have raised the largest error: the last one writes it to the host. Division
   by one and the same tolerance keeps the order, so that of the largest is the largest. */
__device__ void write_bound(const PanelPairs &pairs) {
    __syncthreads();
    if (threadIdx.x > 0) return;
    __threadfence();
    if (atomicAdd(&pairs.largest[1], 1ull) < gridDim.x - 1) return;
    __threadfence();
    pairs.largest[1] = 0; /* for the next launch */
    const double error = __longlong_as_double(__ldcg(pairs.largest)), terms = (double)pairs.length;
    pairs.bound[0] = error;
    pairs.bound[1] = error / fmin(4 * sqrt(terms), terms / 2); /* `tolerance` */
}

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
    raise(pairs.largest, error);
    write_bound(pairs);
}
