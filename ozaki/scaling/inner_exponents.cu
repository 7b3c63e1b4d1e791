/* `largest_sums` of one product of a stack to a block of THREADS: to `sums`, and to the host's memory. */
extern "C" __global__ void __launch_bounds__(THREADS)
largest_sums(const int *p, const int *q, int columns, int *sums, int *on_host) {
    __shared__ int of_warps[THREADS / 32];
    p += (long long)blockIdx.x * columns;
    q += (long long)blockIdx.x * columns;
    int best = NOTHING;
#pragma unroll 8
    for (int h = threadIdx.x; h < columns; h += THREADS) {
        const int of_a = p[h], of_b = q[h]; /* both on their way at once */
        if (min(of_a, of_b) > NOTHING) best = max(best, of_a + of_b);
    }
    of_warps[threadIdx.x / 32] = __reduce_max_sync(~0u, best);
    __syncthreads();
    if (threadIdx.x) return;
    for (int warp = 0; warp < THREADS / 32; warp++) best = max(best, of_warps[warp]);
    sums[blockIdx.x] = on_host[blockIdx.x] = best;
}

/* `_column_shifts_host`. The grid's second dimension counts the products of a stack. */
extern "C" __global__ void __launch_bounds__(THREADS)
column_shifts(const int *p, const int *q, int columns, const int *sums, int *shifts) {
    const int h = blockIdx.x * THREADS + threadIdx.x, middle = sums[blockIdx.y] >> 1;
    if (h >= columns) return;
    const long long at = (long long)blockIdx.y * columns + h;
    const bool in_a = p[at] > NOTHING, in_b = q[at] > NOTHING;
    const int shift = in_a && in_b ? (q[at] - p[at]) >> 1 : in_a ? middle - p[at] : in_b ? q[at] - middle : 0;
    shifts[at] = min(max(shift, -FURTHEST), FURTHEST);
}
