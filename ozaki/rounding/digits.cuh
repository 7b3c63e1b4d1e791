#include "multiword/runtime/exact.cuh"
#include "ozaki/rounding/error_free.cuh"

typedef unsigned long long u64;

/* The two's complement integer limb[0..WORDS-1], least significant first, times 2^exponent,
   rounded to nearest even at `precision` bits, or at the last place 2^smallest if that is
   coarser: what round_digits computes. Destroys limb. */
template <int WORDS>
__device__ double round_limbs(u64 *limb, int exponent, int precision, int smallest) {
    const bool negative = (long long)limb[WORDS - 1] < 0;
    if (negative) {
        u64 carry = 1;
#pragma unroll(WORDS <= 8 ? WORDS : 1)
        for (int i = 0; i < WORDS; i++) { limb[i] = ~limb[i] + carry; carry = carry && limb[i] == 0; }
    }
    int top = WORDS - 1;
#pragma unroll(WORDS <= 8 ? WORDS : 1)
    for (int i = WORDS - 1; i > 0; i--) if (top == i && limb[i] == 0) top = i - 1;
    u64 lead = 0, next = 0, sticky = 0;
#pragma unroll(WORDS <= 8 ? WORDS : 1)
    for (int i = 0; i < WORDS; i++) {
        if (i == top) lead = limb[i];
        else if (i == top - 1) next = limb[i];
        else if (i < top) sticky |= limb[i];
    }
    if (lead == 0) return 0.0;
    /* Normalise: 64 leading bits, everything below them in one sticky bit. */
    const int zeros = __clzll(lead);
    u64 window = zeros ? (lead << zeros) | (next >> (64 - zeros)) : lead;
    sticky |= zeros ? next << zeros : next;
    const int scale = exponent + 64 * top - zeros;
    int shift = max(64 - precision, smallest - scale);
    if (shift > 64) return negative ? -0.0 : 0.0;
    u64 kept = shift == 64 ? 0 : window >> shift;
    const u64 half = 1ull << (shift - 1);
    const u64 cut = shift == 64 ? window : window & ((half << 1) - 1);
    kept += cut > half || (cut == half && (sticky || (kept & 1)));
    /* kept is at most 2^53 and the exponent is that of a representable number or of overflow */
    const double value = scalbn((double)kept, max(-4096, min(4096, scale + shift)));
    return negative ? -value : value;
}

/* RN((a + b + c)·2^exponent) for exact a, b, c of decreasing weight, each an integer below 2^53
   times a power of two, where the result is a normal number; false, and no result, where it may
   not be. Two error-free sums leave s + t + f; t is rounded to odd, so that the one rounding that
   follows, s + t, goes as that of s + t + f does (Boldo and Melquiond). */
__device__ bool round_three(double a, double b, double c, int exponent, double *result) {
    double s = a;
    const double e = two_sum(&s, b);
    double t = e;
    const double f = two_sum(&t, c);
    long long bits = __double_as_longlong(t);
    /* If t is inexact and even, step to its neighbour on the side of f. */
    if (f != 0 && !(bits & 1)) bits += (f > 0) == (t > 0) ? 1 : -1;
    const double sum = s + __longlong_as_double(bits);
    const int scaled = ((int)(__double2hiint(sum) >> 20) & 0x7ff) + exponent;
    if (scaled < 1 || scaled > 2046 || sum == 0) return false;
    *result = __hiloint2double(__double2hiint(sum) + exponent * (1 << 20), __double2loint(sum));
    return true;
}

/* limb += value·2^bits, modulo 2^(64·WORDS). */
template <int WORDS>
__device__ void add_shifted(u64 *limb, long long value, int bits) {
    const int first = bits / 64, shift = bits % 64;
    const u64 sign = (u64)(value >> 63);
    const u64 low = (u64)value << shift;
    const u64 high = shift ? (u64)(value >> (64 - shift)) : sign;
    u64 carry = 0;
#pragma unroll(WORDS <= 8 ? WORDS : 1)
    for (int i = 0; i < WORDS; i++) {
        if (i < first) continue;
        const u64 term = i == first ? low : i == first + 1 ? high : sign;
        const u64 partial = limb[i] + term;
        limb[i] = partial + carry;
        carry = (partial < term) | (limb[i] < partial);
    }
}

/* A number of the format in its type. */
template <class T> __device__ T rounded_to(double x) { return x; }
template <> __device__ float rounded_to<float>(double x) { return narrowed(x); }
