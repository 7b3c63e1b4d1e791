#include "ozaki/certificate/counting.cuh"

/* The scales of an operand, and the arrays of its `RowBounds`. */
struct ScaledRows {
    const int *scale;
    double *total;
    int *truncation_scale, *scale_offset;
};

/* A row's magnitudes, counted below 2^top. */
struct Counted {
    const int *counts;
    int rows, octave_of_top; /* below the row's largest */
    bool summed;
    /* How many are at least 2^(top - d). */
    __device__ unsigned at_least(int d) const {
        const int octave = octave_of_top + d;
        return summed && octave >= 0 ? __ldg(counts + (i64)level_of(octave) * rows) : 0;
    }
};

/* `_operand_host` and `octave_sums`: SHARE warps take 32 rows at a time, a lane each, and share the octaves. The
   grid's second dimension counts the products of a stack, whose rows lie one below the other; where several
   blocks share a product, A's rows before B's, they raise its maxima, at first zeros, and the last one writes the
   bounds. */
#define ROUNDS ((OCTAVES + 32 * SHARE - 1) / (32 * SHARE))
extern "C" __global__ void __launch_bounds__(32 * WARPS)
counting_bound(Rows a, ScaledRows scaled_a, Rows b, ScaledRows scaled_b, i64 length, int root, int top, double enough,
               u64 *maxima, double *bounds) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int chunks_a = (a.rows / gridDim.y + 31) / 32;
    __shared__ Maxima largest;
    for (int i = threadIdx.x; i < 2 * MAXIMA; i += blockDim.x) largest[i / MAXIMA][i % MAXIMA] = 0;
    __syncthreads();
    const int rank = warp % SHARE, at_once = WARPS / SHARE;
    int chunk = blockIdx.x * at_once + warp / SHARE;
    for (int second = 0; second < 2; second++) {
        const Rows x = second ? b : a;
        const ScaledRows scaled = second ? scaled_b : scaled_a;
        const int rows = x.rows / gridDim.y, before = second * chunks_a, chunks = before + (rows + 31) / 32;
        if (chunk >= chunks) continue;
        unsigned most[ROUNDS] = {}; /* of this lane's octaves */
        double largest_total = 0, largest_square = 0;
        for (; chunk < chunks; chunk += gridDim.x * at_once) {
            const int index = (chunk - before) * 32 + lane, row = blockIdx.y * rows + index;
            const bool exists = index < rows;
            const int e = exists ? x.exponent[row] : ZERO, scale = exists ? scaled.scale[row] : 0;
            const bool summed = e != ZERO && e != NONFINITE;
            const int exponent = summed ? e + scale : 0; /* of the row's largest integer */
            const Counted counted{x.counts + row, x.rows, exponent - 1 - top, summed};
            const unsigned wanted = min((unsigned)root, max(1u, (counted.at_least(OCTAVES - 1) + 1) / 2));
            int below = 0; /* octaves that do not reach it: counts rise, and loads wait for none before */
#pragma unroll
            for (int round = 0; round < ROUNDS; round++) {
                const int first = rank + 32 * SHARE * round;
#pragma unroll 8
                for (int i = 0; i < min(32, (OCTAVES - first + SHARE - 1) / SHARE); i++) {
                    const unsigned reached = counted.at_least(first + i * SHARE);
                    if (SHARE == 1) below += reached < wanted;
                    const unsigned missed = __reduce_max_sync(~0u, summed ? (unsigned)length - reached : 0);
                    if (lane == i) most[round] = max(most[round], missed);
                }
            }
            if (rank == 0) {
                const double total = summed ? scalbn((double)x.total[row], exponent - BITS) : 0;
                largest_total = fmax(largest_total, total);
                if (summed)
                    largest_square =
                        fmax(largest_square, log2((double)x.square[row]) + 2.0 * (exponent - BITS));
                if (e == NONFINITE) largest[second][0] = 1;
                if (exists) scaled.total[row] = total;
            }
            if (rank == SHARE - 1 && exists) {
                if (SHARE > 1)
#pragma unroll 8
                    for (int i = 0; i < OCTAVES; i++) below += counted.at_least(i) < wanted;
                const int offset = summed ? top - below % OCTAVES - (MAGNITUDE_BITS - 1) : 0;
                scaled.truncation_scale[row] = scale - offset;
                scaled.scale_offset[row] = offset;
            }
        }
#pragma unroll
        for (int round = 0; round < ROUNDS; round++) {
            const int d = rank + (32 * round + lane) * SHARE;
            if (d < OCTAVES) atomicMax(&largest[second][3 + d], (u64)most[round]);
        }
        if (rank == 0) {
            raise(largest[second][1], largest_total);
            raise(largest[second][2], largest_square);
        }
    }
    __syncthreads();
    if (gridDim.x > 1 && !brought_together(largest, maxima + blockIdx.y * (2 * MAXIMA + 1))) return;
    write_bounds(largest, length, enough, bounds + blockIdx.y * (5 + SUMS));
}
