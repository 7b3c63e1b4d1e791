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

/* The bounds of one row of A, or column of B: half of its total, and 2^offset, both exact; outside of the panel,
   those of zeros. */
struct RowBounds {
    double half, unit;
    __device__ RowBounds() {}
    __device__ RowBounds(const double *total, const int *offset, int i, int count)
        : half(i < count ? total[i] / 2 : 0), unit(i < count ? scalbn(1.0, offset[i]) : 0) {}
};

/* The largest number of a full warp. */
__device__ double largest_of_warp(double x) {
    for (int d = 16; d; d >>= 1) x = fmax(x, __shfl_xor_sync(~0u, x, d));
    return x;
}

/* Raise the largest error so far, by a full warp. */
__device__ void raise(u64 *largest, double error) {
    error = largest_of_warp(error);
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

/* A guess at a quotient: no more than the few leading bits of 1/y are right. */
__device__ double guessed(double x, double y) {
    double inverse;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(inverse) : "d"(y));
    return x * inverse;
}

/* `_raise_host`. Division takes time: a thread divides for the pair that it guesses to have the largest error, and
   nearly all others can be told from the largest of the warp without. */
extern "C" __global__ void __launch_bounds__(256) pairwise_bound(Products y, PanelPairs pairs) {
    __shared__ RowBounds rows[ROWS];
    const int across = (pairs.columns + 255) / 256; /* in one dimension, for it alone may be long */
    const int first = blockIdx.x / across * ROWS, column = blockIdx.x % across * 256 + threadIdx.x;
    if (threadIdx.x < ROWS)
        rows[threadIdx.x] = RowBounds(pairs.total_a, pairs.scale_offset_a, first + threadIdx.x, pairs.rows);
    __syncthreads();
    const RowBounds b(pairs.total_b, pairs.scale_offset_b, column, pairs.columns);
    const double quarter = (double)pairs.length / 4;
    double truncation[ROWS], lower[ROWS], guess = 0, error = 0; /* T and |A||B| of `compare_pairs` */
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        const bool real = b.half > 0 && rows[i].half > 0;
        truncation[i] = real ? rows[i].half + b.half + quarter : 0;
        lower[i] = real ? y.products[(first + i) * y.row_stride + column] * SLACK * rows[i].unit * b.unit : 1;
    }
    double of_guess = 0, lower_of_guess = 1;
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        const double quotient = guessed(truncation[i], lower[i]);
        if (quotient > guess) guess = quotient, of_guess = truncation[i], lower_of_guess = lower[i];
    }
    error = largest_of_warp(of_guess / lower_of_guess);
#pragma unroll
    for (int i = 0; i < ROWS; i++)
        if (!(truncation[i] <= error * lower[i] * SLACK)) error = fmax(error, truncation[i] / lower[i]);
    raise(pairs.largest, error);
    write_bound(pairs);
}
