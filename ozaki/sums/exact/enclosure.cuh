#include "ozaki/sums/exact/fixed_point.cuh"

/* A value within `error` of high + low, in units of 2^exponent, high from 1/64 to 64: the CUDA form of enclosure.py,
   which says why. Errors are 0 where nothing is rounded, so that ties go as they should. */
struct Enclosed {
    double high, low, error;
    int exponent;

    static constexpr double ROUNDINGS = 0x1p-50, WIDER = 1 + 0x1p-20;

    __device__ Enclosed times(const Enclosed &other) const {
        double p = high * other.high;
        const double x = high * other.low, y = low * other.high;
        double rest = fma(high, other.high, -p) + (x + y);
        const bool exact = low == 0 && other.low == 0;
        double lost = exact ? 0 : (fabs(x) + fabs(y) + fabs(rest)) * ROUNDINGS + fabs(low * other.low);
        lost += (error * (fabs(other.high) + other.error) + other.error * fabs(high)) * WIDER;
        rest = two_sum(&p, rest);
        return {p, rest, lost * WIDER, exponent + other.exponent};
    }

    /* Quotients by values above 0. */
    __device__ Enclosed over(const Enclosed &other) const {
        double q = high / other.high, rest = fma(-q, other.high, high); /* exactly */
        const double x = q * other.low, y = low - x;
        double lost = error + fabs(q) * other.error * WIDER + fabs(two_sum(&rest, y));
        if (other.low != 0) lost += (fabs(x) + fabs(y)) * ROUNDINGS;
        double correction = rest / other.high;
        if (fma(-correction, other.high, rest) != 0) lost += fabs(rest) * ROUNDINGS;
        lost += fabs(correction) * (fabs(other.low) + other.error);
        lost = lost / (other.high - fabs(other.low) - other.error) * WIDER;
        correction = two_sum(&q, correction);
        return {q, correction, lost, exponent - other.exponent};
    }

    /* The square root of a value above 0. */
    __device__ Enclosed root() const {
        const double odd = 1 + (exponent & 1);
        double r = sqrt(high * odd), rest = fma(-r, r, high * odd); /* exactly */
        double lost = error * odd + fabs(two_sum(&rest, low * odd)), correction = rest / (2 * r);
        lost = (lost + fabs(rest) * ROUNDINGS + 2 * correction * correction) / (2 * r) * WIDER;
        correction = two_sum(&r, correction);
        return {r, correction, lost, (exponent - (exponent & 1)) / 2};
    }

    /* high + `rest`, an end of the enclosure, as `round_limbs` rounds it. */
    __device__ double end(double rest, int precision, int smallest) const {
        const i64 bits = __double_as_longlong(high), m = (bits & ((1ll << 52) - 1)) | 1ll << 52;
        const int unit = (int)(bits >> 52) - 1075; /* of m; high is a normal number above 0 */
        const double scaled = scalbn(rest, 62 - unit), whole = floor(scaled);
        const i64 below = (i64)whole; /* |rest| is half an ulp of high at most, and what the error may be */
        u64 limb[3] = {scaled != whole, (u64)m << 62, (u64)m >> 2};
        limb[1] += (u64)below;
        limb[2] += (u64)(below >> 63) + (limb[1] < (u64)below);
        return round_limbs<3>(limb, exponent + unit - 62 - 64, precision, smallest);
    }

    /* Round a value above 0; false where both ends do not round to the same number. */
    __device__ bool round(int precision, int smallest, double *result) const {
        const double margin = error == 0 ? 0 : 2 * error + fabs(low) * ROUNDINGS;
        if (!(margin < 0x1p-60)) return false;
        *result = end(low - margin, precision, smallest);
        return *result == end(low + margin, precision, smallest);
    }
};

/* An integer below 2^53. */
__device__ Enclosed enclosed(i64 x) {
    int exponent;
    const double high = frexp((double)x, &exponent);
    return {high, 0, 0, exponent};
}
