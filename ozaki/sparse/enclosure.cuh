#include "multiword/runtime/exact.cuh"
#include "ozaki/rounding/error_free.cuh"

/* A sum as high + low, with a bound of what is missing: the CUDA form of `enclosure_numba`, which says why. */
struct Enclosure { double high, low, error; };

__device__ __forceinline__ double not_a_number() { return __longlong_as_double(0x7ff8000000000000LL); }

__device__ __forceinline__ void add(Enclosure *s, double x) {
    const double rest = two_sum(&s->high, x), lost = two_sum(&s->low, rest);
    s->error += fabs(lost);
}

__device__ __forceinline__ void add_product(Enclosure *s, double x, double y) {
    const double p = x * y;
    add(s, p);
    const double lost = two_sum(&s->low, __fma_rn(x, y, -p));
    const bool tiny = fabs(p) < TINY && x != 0 && y != 0;
    s->error += tiny ? not_a_number() : fabs(lost);
}

__device__ __forceinline__ void merge(Enclosure *s, const Enclosure &other) {
    const double rest = two_sum(&s->high, other.high);
    const double lost = two_sum(&s->low, other.low), more = two_sum(&s->low, rest);
    s->error += other.error + (fabs(lost) + fabs(more));
}

/* The first of so many lanes gets the sum of all. Every thread of the warp takes part. */
template <int lanes> __device__ __forceinline__ void add_lanes(Enclosure *s) {
#pragma unroll
    for (int o = lanes / 2; o; o /= 2) {
        const double high = __shfl_down_sync(0xffffffffu, s->high, o, lanes);
        const double low = __shfl_down_sync(0xffffffffu, s->low, o, lanes);
        const double error = __shfl_down_sync(0xffffffffu, s->error, o, lanes);
        merge(s, {high, low, error});
    }
}

__device__ __forceinline__ Enclosure root_of(const Enclosure &s) {
    const double root = sqrt(s.high);
    double rest = __fma_rn(-root, root, s.high);
    const double error = s.error + fabs(two_sum(&rest, s.low));
    if (rest == 0 && error == 0) return {root, 0, 0};
    const double correction = rest / (2 * root);
    return {root, correction, (error + fabs(rest) * 0x1p-50) / root + 2 * correction * correction / root + TINY};
}

/* The float64 or float32 number that both ends round to, or NaN. */
__device__ __forceinline__ double rounded(const Enclosure &s, bool single) {
    double margin = s.error == 0 ? 0.0 : 2 * s.error + fabs(s.low) * 0x1p-50;
    if (single && (s.low != 0 || s.error != 0)) margin += fabs(s.high) * 0x1p-50;
    double below = s.high + (s.low - margin);
    double above = s.high + (s.low + margin);
    if (single) below = widened(narrowed(below)), above = widened(narrowed(above));
    if (s.low == 0 && margin == 0) return s.high;
    return below == above && below != 0 ? below : not_a_number();
}
