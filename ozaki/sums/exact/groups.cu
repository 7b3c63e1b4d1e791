/* The loops of sums by group for all threads at once: `groups_numba` has each of them for one.
   NUMBER: the type of the terms, double or float, whose subnormal numbers conversions of CUDA's would lose. */

#include "multiword/runtime/exact.cuh"
#include "ozaki/rounding/digits.cuh"
#include "ozaki/sums/exact/flags.cuh"

typedef long long i64;
#define MAGNITUDE 0x7fffffffffffffffll
#define EACH(i, n) \
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < (n); i += (i64)gridDim.x * blockDim.x)

__device__ i64 bits_of(double x) { return __double_as_longlong(x); }
__device__ double sigma_of(int k) { return __longlong_as_double(((i64)(1023 + k) << 52) | (1ll << 51)); }

__device__ void to_largest(i64 *largest, i64 mine) {
    for (int step = 16; step; step /= 2) mine = max(mine, __shfl_xor_sync(~0u, mine, step));
    if (threadIdx.x % 32 == 0) atomicMax(largest, mine);
}

/* Bytes have no atomic operations: the four that share a word do; memory is allocated by more than that. */
__device__ void add_flag(unsigned char *flags, i64 group, unsigned flag) {
    unsigned char *byte = flags + group;
    if (*(volatile unsigned char *)byte & flag) return;
    const u64 place = (u64)byte & 3;
    atomicOr((unsigned *)(byte - place), flag << 8 * place);
}

/* largest = 1 more than the bit pattern of the largest magnitude that some window holds, if it is larger. */
extern "C" __global__ void largest_number(const NUMBER *x, i64 n, i64 beyond, i64 *largest) {
    i64 mine = 0;
    EACH(i, n) {
        const i64 magnitude = bits_of(widened(x[i])) & MAGNITUDE;
        if (magnitude < beyond) mine = max(mine, magnitude + 1);
    }
    to_largest(largest, mine);
}

/* `_Window._fitting` of groups.py, of what largest_number has noted. */
__device__ int window_of(i64 largest) {
    return largest ? min(max((int)(largest - 1 >> 52) + SLACK - LIMIT + 1, LOWEST), HIGHEST) : LOWEST;
}

/* The multiples of a level's unit in a number, which keeps what is left. */
__device__ u64 extracted(double &v, double sigma) {
    const double shifted = v + sigma;
    v -= shifted - sigma;
    return bits_of(shifted) - bits_of(sigma);
}

/* words[label << lane_bits | lane] += the lower and the upper level of a number, lowest[label] += the lowest.
   Inf and NaN go to flags; the indices of numbers that the window does not hold, whole, to `rest`. noted, zeros
   before: how many those are, whether there is a -0, and whether a label is none of the groups'. The window is k's;
   without `rest`, the one for the largest number noted. */
extern "C" __global__ void grouped(const NUMBER *x, const i64 *labels, i64 n, i64 groups, int k, const i64 *largest,
                                   int lane_bits, u64 *words, u64 *lowest, unsigned char *flags, unsigned *rest,
                                   u64 *noted) {
    if (!rest) k = window_of(*largest);
    const double sigmas[] = {sigma_of(k), sigma_of(k - GAP), sigma_of(k - 2 * GAP)};
    const i64 limit = (i64)(k + LIMIT) << 52, infinity = 2047ll << 52;
    bool minus_zero = false, outside = false;
    EACH(i, n) {
        double v = widened(x[i]);
        const i64 label = labels[i], magnitude = bits_of(v) & MAGNITUDE;
        if ((u64)label >= (u64)groups) {
            outside = true;
            continue;
        }
        minus_zero |= bits_of(v) == ~MAGNITUDE;
        if (magnitude >= infinity) {
            add_flag(flags, label, v != v ? NOT_A_NUMBER : v > 0 ? PLUS_INFINITY : MINUS_INFINITY);
            continue;
        }
        u64 levels[3] = {};
        if (magnitude < limit)
            for (int j = 0; j < 3; j++) levels[j] = extracted(v, sigmas[j]);
        if (v != 0) {
            if (rest) rest[atomicAdd(noted, 1)] = i;
            else *noted = 1;
            continue;
        }
        u64 *own = words + 2 * ((label << lane_bits) | (i & ((1 << lane_bits) - 1)));
        if (levels[0]) atomicAdd(own + 1, levels[0]);
        if (levels[1]) atomicAdd(own, levels[1]);
        if (levels[2]) atomicAdd(lowest + label, levels[2]);
    }
    if (minus_zero) noted[1] = 1;
    if (outside) noted[2] = 1;
}

__device__ i64 magnitude(i64 x) { return x < 0 ? -x : x; }

/* Brings the lower words into [0, 2^GAP). largest = the largest magnitude of others, if it is larger. */
extern "C" __global__ void carried(i64 *words, i64 lanes, const i64 *lowest, i64 groups, i64 *largest) {
    i64 mine = 0;
    EACH(i, lanes) {
        words[2 * i + 1] += words[2 * i] >> GAP;
        words[2 * i] &= (1ll << GAP) - 1;
        mine = max(mine, magnitude(words[2 * i + 1]));
    }
    EACH(i, groups) mine = max(mine, magnitude(lowest[i]));
    to_largest(largest, mine);
}

/* The sums of a group's words of both units, by `width` threads of a warp. */
__device__ void sum_lanes(const i64 *words, i64 lanes, i64 group, i64 groups, int width, i64 &low, i64 &high) {
    low = high = 0;
    if (group < groups)
        for (i64 i = group * lanes + threadIdx.x % width; i < (group + 1) * lanes; i += width) {
            low += words[2 * i];
            high += words[2 * i + 1];
        }
    for (int step = width / 2; step; step /= 2) {
        low += __shfl_xor_sync(~0u, low, step);
        high += __shfl_xor_sync(~0u, high, step);
    }
}

/* Writes the sums of each group's words to its three levels, lowest first, and notes which have a sum. undecided = 1 where nothing is known of a group yet but, perhaps, that it has -0. */
extern "C" __global__ void levels_of_groups(const i64 *words, i64 lanes, const i64 *lowest, i64 groups, int width,
                                            unsigned char *flags, i64 *levels, i64 *undecided) {
    EACH(t, (groups * width + 31) / 32 * 32) {  // whole warps
        const i64 g = t / width;
        i64 low, high;
        sum_lanes(words, lanes, g, groups, width, low, high);
        if (g >= groups || t % width) continue;
        levels[g] = lowest[g];
        levels[groups + g] = low;
        levels[2 * groups + g] = high;
        if (lowest[g] | low | high) flags[g] |= ORDINARY;
        if ((flags[g] | MINUS_ZERO) == MINUS_ZERO) *undecided = 1;
    }
}

/* The sums of each group's words in the window for the largest number noted, rounded. */
extern "C" __global__ void rounded_groups(const i64 *words, i64 lanes, const i64 *lowest, i64 groups, int width,
                                          const unsigned char *flags, const i64 *largest, int precision, int smallest,
                                          double *out) {
    const int exponent = window_of(*largest) - 2 * GAP - 52;
    EACH(t, (groups * width + 31) / 32 * 32) {  // whole warps
        const i64 g = t / width;
        i64 low, high;
        sum_lanes(words, lanes, g, groups, width, low, high);
        if (g >= groups || t % width) continue;
        const int limbs = (2 * GAP + 127) / 64;
        u64 limb[limbs] = {};
        add_shifted<limbs>(limb, lowest[g], 0);
        add_shifted<limbs>(limb, low, GAP);
        add_shifted<limbs>(limb, high, 2 * GAP);
        out[g] = with_flags(round_limbs<limbs>(limb, exponent, precision, smallest), flags[g]);
    }
}

/* Notes for each group whether it has -0, and whether it has anything else. */
extern "C" __global__ void flagged_groups(const NUMBER *x, const i64 *labels, i64 n, unsigned char *flags) {
    EACH(i, n) add_flag(flags, labels[i], bits_of(widened(x[i])) == ~MAGNITUDE ? MINUS_ZERO : ORDINARY);
}

/* TwoProduct, x·y = p + e. unsafe = 1 where a product or an error is no finite double. */
extern "C" __global__ void two_products(const NUMBER *x, const NUMBER *y, i64 n, double *p, double *e, i64 *unsafe) {
    bool found = false;
    EACH(i, n) {
        const double a = widened(x[i]), b = widened(y[i]), size = fabs(a * b);
        p[i] = a * b;
        e[i] = __fma_rn(a, b, -p[i]);
        found |= !(size <= LARGEST_SAFE) | (size < SMALLEST_SAFE && a != 0 && b != 0);
    }
    if (found) *unsafe = 1;
}
