#include "multiword/runtime/exact.cuh"
#include "ozaki/rounding/error_free.cuh"

__device__ __forceinline__ double not_a_number() { return __longlong_as_double(0x7ff8000000000000LL); }

/* A sum as high + low, with a bound of what is missing: the CUDA form of `enclosure_numba`, which says why. */
struct Enclosure {
    double high, low, error;

    __device__ __forceinline__ void add_product(double x, double y) {
        const double p = x * y, rest = two_sum(&high, p);
        error += fabs(two_sum(&low, rest));
        const double lost = two_sum(&low, __fma_rn(x, y, -p));
        const bool tiny = fabs(p) < TINY && x != 0 && y != 0;
        error += tiny ? not_a_number() : fabs(lost);
    }

    __device__ __forceinline__ void merge(const Enclosure &other) {
        const double rest = two_sum(&high, other.high), lost = two_sum(&low, other.low), more = two_sum(&low, rest);
        error += other.error + (fabs(lost) + fabs(more));
    }

    __device__ __forceinline__ Enclosure root() const {
        const double root = sqrt(high);
        double rest = __fma_rn(-root, root, high);
        const double lost = error + fabs(two_sum(&rest, low));
        if (rest == 0 && lost == 0) return {root, 0, 0};
        const double correction = rest / (2 * root);
        return {root, correction, (lost + fabs(rest) * 0x1p-50) / root + 2 * correction * correction / root + TINY};
    }

    /* The float64 or float32 number that both ends round to, or NaN. */
    __device__ __forceinline__ double rounded(bool single) const {
        double margin = error == 0 ? 0.0 : 2 * error + fabs(low) * 0x1p-50;
        if (single && (low != 0 || error != 0)) margin += (fabs(high) + fabs(low)) * 0x1p-50;
        double below = high + (low - margin), above = high + (low + margin);
        if (single) below = widened(narrowed(below)), above = widened(narrowed(above));
        if (low == 0 && margin == 0) return high;
        return below == above && below != 0 ? below : not_a_number();
    }
};

/* A sum that is added up quickly, as in `sums_numba`; `total` is that of the magnitudes, T.

   A merge rounds two sums of `low`, of at most (2n + 5)·uT for n terms. What five merges lose, (20n + 50)·u²T, is less
   than what MERGED terms more add to the bound there, 4(n + 1)²·u²T. */
struct QuickSum {
    double high, low, total;

    static const int MERGED = 8;

    __device__ __forceinline__ void add_product(double x, double y) {
        const double p = x * y, sum = high + p, z = sum - high;
        low += (high - (sum - z)) + __fma_rn(x, y, -z);
        high = sum;
        total += fabs(p);
    }

    __device__ __forceinline__ void merge(const QuickSum &other) {
        const double rest = two_sum(&high, other.high);
        low = (low + other.low) + rest;
        total += other.total;
    }

    /* What both ends of the sum of 1 + count terms round to, or NaN. */
    __device__ __forceinline__ double rounded(long long count, bool single) const {
        if (count > LONGEST) return not_a_number();
        const double terms = (double)(count + 1) * 0x1p-52;
        double bound = __fma_rn(total * terms, terms, UNDERFLOW);
        if (single) bound += fabs(high) * 0x1p-50;
        double above = high + (low + bound), below = high + (low - bound);
        if (single) above = widened(narrowed(above)), below = widened(narrowed(below));
        return above == below ? above : not_a_number();
    }
};

/* The first of so many lanes gets the sum of all. Every thread of the warp takes part. */
template <int lanes, class Sum> __device__ __forceinline__ void add_lanes(Sum *sum) {
#pragma unroll
    for (int o = lanes / 2; o; o /= 2) {
        auto [high, low, third] = *sum;
        high = __shfl_down_sync(0xffffffffu, high, o, lanes);
        low = __shfl_down_sync(0xffffffffu, low, o, lanes);
        third = __shfl_down_sync(0xffffffffu, third, o, lanes);
        sum->merge({high, low, third});
    }
}
