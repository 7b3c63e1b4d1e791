#include "multiword/runtime/parts.cuh"
#include "ozaki/scaling/exact.cuh"

/* Which numbers of a product's rows of A, then of its columns of B, are not zero: 32 to a word. */
struct Nonzero {
    unsigned *words;
    int count; /* to a part of a row */
    __device__ unsigned &word(int row, int part, int i) const { return words[(row * PARTS + part) * count + i]; }
    __device__ bool any(int row) const {
        unsigned found = 0;
        for (int i = 0; i < PARTS * count; i++) found |= words[row * PARTS * count + i];
        return found;
    }
    /* Whether a row and a column have none in common, in the real part of their product or in the imaginary one. */
    __device__ bool apart(int row, int column) const {
        unsigned common[PARTS] = {};
        for (int i = 0; i < count; i++)
#pragma unroll
            for (int p = 0; p < PARTS; p++)
#pragma unroll
                for (int q = 0; q < PARTS; q++) common[p ^ q] |= word(row, p, i) & word(column, q, i);
        return !common[0] || !common[PARTS - 1];
    }
};

/* `scales_that_lose_nothing`: a block has a product, and a warp one of its rows at a time. */
extern "C" __global__ void __launch_bounds__(THREADS)
lose_nothing(StridedParts a, StridedParts b, const int *given_a, const int *given_b, int *scale_a, int *scale_b, int m, int n,
             int room, int *lossless) {
    extern __shared__ unsigned words[];
    __shared__ bool unfit, found;
    const Nonzero nonzero{words, (a.columns + 31) / 32};
    const int lane = threadIdx.x % 32;
    if (threadIdx.x == 0) unfit = found = false;
    __syncthreads();
    for (int i = threadIdx.x / 32; i < m + n; i += blockDim.x / 32) {
        const bool second = i >= m;
        const int row = second ? blockIdx.x * n + i - m : blockIdx.x * m + i;
        const StridedParts x = second ? b : a; /* no reference to either, which would put both into memory */
        const long long start = x.start(row);
        int lowest = NOTHING, highest = 0;
        for (int part = 0; part < PARTS; part++)
            for (int word = 0; word < nonzero.count; word++) {
                const int column = 32 * word + lane;
                const double y = column < x.columns ? widened(x.part(part)[start + column * x.column_stride]) : 0;
                lowest = min(lowest, last_place(y));
                highest = max(highest, __double2hiint(y) >> 20 & 0x7ff);
                const unsigned mask = __ballot_sync(~0u, y != 0);
                if (lane == 0) nonzero.word(i, part, word) = mask;
            }
        lowest = __reduce_min_sync(~0u, lowest);
        highest = __reduce_max_sync(~0u, highest);
        if (lane) continue;
        const int scale = lowest == NOTHING ? 0 : -lowest;
        (second ? scale_b : scale_a)[row] = scale;
        /* Below 2^(highest - 1022), all of them. */
        if (lowest == BAD || (lowest != NOTHING && 2 * (highest - 1022 + scale) > room)) unfit = true;
    }
    __syncthreads();
    for (int pair = threadIdx.x; pair < m * n && !unfit && !found; pair += blockDim.x) {
        const int row = pair / n, column = m + pair % n;
        if (nonzero.apart(row, column) && nonzero.any(row) && nonzero.any(column)) found = true;
    }
    __syncthreads();
    if (threadIdx.x == 0) lossless[blockIdx.x] = found && !unfit;
    if (found && !unfit) return;
    for (int i = threadIdx.x; i < m; i += blockDim.x) scale_a[blockIdx.x * m + i] = given_a[blockIdx.x * m + i];
    for (int i = threadIdx.x; i < n; i += blockDim.x) scale_b[blockIdx.x * n + i] = given_b[blockIdx.x * n + i];
}
