/* Sums by group: two levels of each number, as `groups` defines them, are added to two words of its group. */

typedef long long i64;
typedef unsigned long long u64;
#define MAGNITUDE 0x7fffffffffffffffull

__device__ u64 bits_of(double x) { return __double_as_longlong(x); }

/* A number, or the product of two and its error. */
struct Term {
    double value, error;
    bool safe;
};
__device__ Term term(const double *x, const double *y, i64 i) {
#if PRODUCT
    const double a = x[i], b = y[i], p = a * b, size = fabs(p);
    return {p, __fma_rn(a, b, -p), size <= LARGEST_SAFE && (size >= SMALLEST_SAFE || a == 0 || b == 0)};
#else
    return {x[i], 0, true};
#endif
}

/* The bit pattern of the largest magnitude that some window holds. */
extern "C" __global__ void largest_of_groups(const double *x, const double *y, i64 n, u64 beyond, u64 *largest) {
    u64 mine = 0;
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        const u64 magnitude = bits_of(term(x, y, i).value) & MAGNITUDE;
        if (magnitude < beyond && magnitude > mine) mine = magnitude;
    }
    for (int step = 16; step; step /= 2) {
        const u64 other = __shfl_xor_sync(~0u, mine, step);
        if (other > mine) mine = other;
    }
    if (threadIdx.x % 32 == 0 && mine) atomicMax(largest, mine);
}

/* The multiples of both units in a number; false if something is left. */
__device__ bool extract(double v, double sigma, double tau, i64 &low, i64 &high) {
    double shifted = v + sigma;
    high = bits_of(shifted) - bits_of(sigma);
    v -= shifted - sigma;
    shifted = v + tau;
    low = bits_of(shifted) - bits_of(tau);
    return v == shifted - tau;
}

/* words[label << lane_bits | lane] += the levels of a term, low and high; those of a product's error after them.
   The indices of terms that the window does not hold go to `rest`: nothing of these is added. */
extern "C" __global__ void grouped_terms(const double *x, const double *y, const i64 *labels, i64 n, u64 limit,
                                         double sigma, double tau, double of_errors, double tau_of_errors,
                                         int lane_bits, u64 *words, i64 *rest, u64 *left) {
    const int kinds = 2 + 2 * PRODUCT;
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        const Term t = term(x, y, i);
        i64 levels[4] = {0, 0, 0, 0};
        bool held = t.safe && (bits_of(t.value) & MAGNITUDE) < limit;
        if (held) held = extract(t.value, sigma, tau, levels[0], levels[1]);
        if (PRODUCT && held) held = extract(t.error, of_errors, tau_of_errors, levels[2], levels[3]);
        if (!held) {
            rest[atomicAdd(left, 1)] = i;
            continue;
        }
        const i64 lane = (labels[i] << lane_bits) | (i & ((1 << lane_bits) - 1));
        for (int j = 0; j < kinds; j++)
            if (levels[j]) atomicAdd(words + lane * kinds + j, (u64)levels[j]);
    }
}
