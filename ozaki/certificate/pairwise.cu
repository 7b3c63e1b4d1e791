typedef long long i64;
typedef unsigned long long u64;
#define SLACK (1 - 1.0 / (1ll << 50))

struct Side { double total, largest; int lift; };

__device__ double tolerance(double terms) { return fmin(4 * sqrt(terms), terms / 2); }

/* _raise_host. The largest of positive numbers has the largest bits. The last block tells the host. */
extern "C" __global__ void __launch_bounds__(256)
pair_errors(const PRODUCT *y, i64 row_stride, i64 stride, int m, int n, i64 length,
            const double *total_a, const int *height_a, const int *lift_a,
            const double *total_b, const int *height_b, const int *lift_b, u64 *found, double *message) {
    __shared__ Side row_side[ROWS];
    __shared__ u64 largest[2];
    const int depths[] = {DEPTHS}; /* without that at which terms are counted */
    const int across = (n + 255) / 256; /* in one dimension, for it alone may be long */
    const int first = blockIdx.x / across * ROWS, column = blockIdx.x % across * 256 + threadIdx.x;
    if (threadIdx.x < 2) largest[threadIdx.x] = 0;
    if (threadIdx.x < ROWS && first + threadIdx.x < m) {
        const int i = first + threadIdx.x;
        row_side[threadIdx.x] = Side{total_a[i], scalbn(1.0, height_a[i]), lift_a[i]};
    }
    __syncthreads();
    double error = 0, ratio = 0;
    Side b = {0, 0, 0};
    if (column < n) b = Side{total_b[column], scalbn(1.0, height_b[column]), lift_b[column]};
    if (b.total > 0) {
#pragma unroll 4
        for (int i = 0; i < min(ROWS, m - first); i++) {
            const Side a = row_side[i];
            const PRODUCT *at = y + (first + i) * row_stride + column;
            double lower = 0;
#pragma unroll
            for (int d = 0; d < COUNT; d++, at += stride)
                lower = fmax(lower, (double)*at * __longlong_as_double((i64)(1023 - 2 * depths[d]) << 52));
            lower = scalbn(lower * SLACK, a.lift + b.lift);
            const double terms = COUNTED ? (double)*at / (LARGEST * LARGEST) : (double)length;
            const double of_a = COUNTED ? fmin(a.total, terms * a.largest) : a.total;
            const double of_b = COUNTED ? fmin(b.total, terms * b.largest) : b.total;
            const double truncation = (of_a + of_b) / 2 + terms / 4;
            /* Division takes time: most pairs can be told from the largest without. */
            if (a.total <= 0 || terms <= 0 || (!COUNTED && truncation < error * lower * SLACK)) continue;
            const double relative = truncation / lower;
            error = fmax(error, relative);
            if (COUNTED) ratio = fmax(ratio, relative / tolerance(fmax(terms, 1.0)));
        }
    }
    /* Division by one and the same number keeps the order, so the largest can wait for it. */
    if (!COUNTED) ratio = error / tolerance((double)length);
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
    for (int i = 0; i < 2; i++) message[i] = __longlong_as_double(__ldcg(&found[i]));
}
