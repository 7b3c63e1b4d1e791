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
        if (low == 0 && margin == 0) return single ? below : high; // which may be -0
        return below == above && below != 0 ? below : not_a_number();
    }
};

/* The first of so many lanes gets the sum of all. Every thread of the warp takes part. */
template <int lanes> __device__ __forceinline__ void add_lanes(Enclosure *sum) {
#pragma unroll
    for (int o = lanes / 2; o; o /= 2) {
        const double high = __shfl_down_sync(0xffffffffu, sum->high, o, lanes);
        const double low = __shfl_down_sync(0xffffffffu, sum->low, o, lanes);
        const double error = __shfl_down_sync(0xffffffffu, sum->error, o, lanes);
        sum->merge({high, low, error});
    }
}
