#include "ozaki/scaling/statistics.cuh"

#define OFFSET(d) min(d, OCTAVES - 2)

/* The maxima over the rows of each operand: whether one is not finite; the bits of the total and of the
   log2_square, which order as the numbers do; length - at_least[OCTAVES]. */
#define MAXIMA (3 + OCTAVES)
typedef u64 Maxima[2][MAXIMA];

/* Raise a maximum, by a full warp. */
__device__ void raise(u64 &largest, double x) {
    for (int d = 16; d; d >>= 1) x = fmax(x, __shfl_xor_sync(~0u, x, d));
    if (threadIdx.x % 32 == 0) atomicMax(&largest, (u64)__double_as_longlong(x));
}

/* By a full warp, of a finite row that is not zero and whose largest integer is below 2^largest: its scale offset, as
   `counting_bound` finds it. */
__device__ __forceinline__ int scale_offset(const int *counts, int largest, int top, int root) {
    const int first = largest - 1 - top; // octave of the top
    const auto at_least = [&](int d) { return first + d >= 0 ? counts[level_of(first + d)] : 0; };
    const int wanted = min(root, max(1, (at_least(OCTAVES - 1) + 1) / 2));
    unsigned below = 0;
    for (int d = threadIdx.x % 32; d < OCTAVES; d += 32) below += at_least(d) < wanted;
    return top - (int)(__reduce_add_sync(~0u, below) % OCTAVES) - (MAGNITUDE_BITS - 1);
}

/* What a warp has seen of an operand's rows; its lanes share the octaves. */
struct Seen {
    bool nonfinite = false;
    double total = 0, log2_square = 0;        /* of the rows that this lane measured */
    unsigned below[(OCTAVES + 31) / 32] = {}; /* length - at_least */

    /* The sums of a row, of a lane's own or of all. */
    __device__ void measure(int largest, i64 sum, i64 square, int scale) {
        nonfinite |= largest == NONFINITE;
        if (largest == ZERO || largest == NONFINITE) return;
        total = fmax(total, scalbn((double)sum, largest + scale - BITS));
        log2_square = fmax(log2_square, log2((double)square) + 2.0 * (largest + scale - BITS));
    }
    /* The counts of a row. */
    __device__ void count(int largest, int scale, unsigned length, int top, const int *counts) {
        if (largest == ZERO || largest == NONFINITE) return;
#pragma unroll
        for (int i = 0; i < (OCTAVES + 31) / 32; i++) {
            const int octave = largest + scale - 1 - top + threadIdx.x % 32 + 32 * i;
            below[i] = max(below[i], length - (octave >= 0 ? counts[level_of(octave)] : 0));
        }
    }
    /* Raise maxima, in whichever memory. */
    __device__ void raise(u64 *largest) const {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int i = 0; i < (OCTAVES + 31) / 32; i++)
            if (lane + 32 * i < OCTAVES) atomicMax(&largest[3 + lane + 32 * i], (u64)below[i]);
        if (nonfinite) largest[0] = 1;
        ::raise(largest[1], total);
        ::raise(largest[2], log2_square);
    }
};

/* Raise maxima in memory, at first zeros, to a block's; how many blocks have done so before. */
__device__ unsigned raise_in_memory(const Maxima &largest, u64 *maxima) {
    __shared__ unsigned before;
    for (int i = threadIdx.x; i < 2 * MAXIMA; i += blockDim.x)
        if (const u64 x = largest[i / MAXIMA][i % MAXIMA]) atomicMax(maxima + i, x);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) before = atomicAdd((unsigned *)(maxima + 2 * MAXIMA), 1u);
    __syncthreads();
    return before;
}

/* Learn the maxima of all blocks, when they are there, and leave zeros for the next launch. */
__device__ void take_from_memory(Maxima &largest, u64 *maxima) {
    __threadfence();
    for (int i = threadIdx.x; i < 2 * MAXIMA; i += blockDim.x) {
        largest[i / MAXIMA][i % MAXIMA] = __ldcg(maxima + i);
        maxima[i] = 0;
    }
    if (threadIdx.x == 0) maxima[2 * MAXIMA] = 0;
    __syncthreads();
}

/* Where several blocks share a product, the last one learns the maxima of all. */
__device__ bool brought_together(Maxima &largest, u64 *maxima) {
    if (raise_in_memory(largest, maxima) < gridDim.x - 1) return false;
    take_from_memory(largest, maxima);
    return true;
}

/* `octave_sums` and the other bounds of both operands. */
typedef double Numbers[5 + SUMS];
__device__ void find_bounds(const Maxima &maxima, i64 length, double enough, Numbers &numbers) {
    __shared__ i64 count[2][OCTAVES];
    __shared__ double terms[10 * SUMS];
    for (int i = threadIdx.x; i < 2 * OCTAVES; i += blockDim.x)
        count[i / OCTAVES][i % OCTAVES] = length - maxima[i / OCTAVES][3 + i % OCTAVES];
    __syncthreads();
    const int share = threadIdx.x % 8; /* eight lanes to a term */
    for (int t = threadIdx.x / 8; t < 10 * SUMS; t += blockDim.x / 8) {
        i64 sum = 0;
#pragma unroll
        for (int d = share; d < OCTAVES; d += 8) {
            const int e = t - OFFSET(d);
            if (e < 0 || e > OCTAVES - 2) continue;
            sum += max(0ll, count[0][d] + count[1][e] - length);
            if (e == OCTAVES - 2) sum += max(0ll, count[0][d] + count[1][e + 1] - length);
        }
        for (int i = 4; i; i >>= 1) sum += __shfl_xor_sync(0xffu << (threadIdx.x & 24), sum, i);
        if (share == 0) terms[t] = (double)sum * __longlong_as_double((u64)(1023 - t) << 52);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < SUMS; i += blockDim.x) {
        double sum = 0;
        for (int j = 0; j < 10; j++) sum += terms[10 * i + j];
        numbers[5 + i] = sum;
    }
    if (threadIdx.x < 2) {
        numbers[1 + threadIdx.x] = __longlong_as_double(maxima[threadIdx.x][1]);
        numbers[3 + threadIdx.x] = __longlong_as_double(maxima[threadIdx.x][2]);
    }
    __syncthreads();
    if (threadIdx.x == 0) { /* `_states` */
        double sum = 0;
        for (int i = 0; i < SUMS; i++) sum += numbers[5 + i];
        const double a = numbers[1], b = numbers[2], truncation = 0.5 * (a + b) + 0.25 * length;
        const bool certified = a == 0 || b == 0 || truncation <= sum * enough;
        numbers[0] = maxima[0][0] || maxima[1][0] ? NOT_FINITE : certified ? CERTIFIED : OPEN;
    }
    __syncthreads();
}

/* Write them to the host's memory at once. */
__device__ void write_bounds(const Maxima &maxima, i64 length, double enough, double *bounds) {
    __shared__ Numbers numbers;
    find_bounds(maxima, length, enough, numbers);
    for (int i = threadIdx.x; i < 5 + SUMS; i += blockDim.x) bounds[i] = numbers[i];
}
