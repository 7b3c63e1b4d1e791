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

/* Terms of `round_sum`, at most: the slack covers the rounding of as many errors. */
#define MOST_ROUNDED 8

/* *result = x·2^exponent; false where that may not be a normal number. */
__device__ __forceinline__ bool scale_normal(double x, int exponent, double *result) {
    const int scaled = ((int)(__double2hiint(x) >> 20) & 0x7ff) + exponent;
    if (scaled < 1 || scaled > 2046 || x == 0) return false;
    *result = __hiloint2double(__double2hiint(x) + exponent * (1 << 20), __double2loint(x));
    return true;
}

/* RN(Σ term·2^exponent), by Ziv's rounding test; false, and no result, where the sum is too near to a tie, or the
   result may not be a normal number. The terms' sum in double precision and the sum of its errors miss the exact
   sum by at most TERMS·2^-53 times the errors' magnitudes: it lies between two numbers that must round alike. */
template <int TERMS>
__device__ bool round_sum(const double (&term)[TERMS], int exponent, double (&word)[1]) {
    double s = term[0], errors = 0, sizes = 0;
#pragma unroll
    for (int i = 1; i < TERMS; i++) {
        const double error = two_sum(&s, term[i]);
        errors += error;
        sizes += fabs(error);
    }
    const double rest = two_sum(&s, errors), slack = sizes * (1.0 / (1ll << 49));
    const double sum = s + (rest + slack);
    if (sum != s + (rest - slack)) return false;
    return scale_normal(sum, exponent, &word[0]);
}

/* RN(Σ term·2^exponent), and RN of what it leaves; false as above. The errors of the sum s are added up in t, and the
   errors of t in double precision (Ogita, Rump and Oishi 2005, SumK with K = 3): these alone are inexact, and the test
   is theirs. s is the first word unless what is left, with a little more for the test's own rounding, moves it. */
template <int TERMS>
__device__ bool round_sum(const double (&term)[TERMS], int exponent, double (&word)[2]) {
    double s = term[0], t = 0, errors = 0, sizes = 0;
#pragma unroll
    for (int i = 1; i < TERMS; i++) {
        const double error = two_sum(&t, two_sum(&s, term[i]));
        errors += error;
        sizes += fabs(error);
    }
    const double below = two_sum(&t, errors), slack = sizes * (1.0 / (1ll << 49));
    double low = two_sum(&s, t); // Σ term = s + low + below, but for the slack
    const double most = fabs(low) * (1 + 1.0 / (1ll << 40)) + 2 * (fabs(below) + slack);
    if (s + most != s || s - most != s) return false;
    const double rest = two_sum(&low, below), sum = low + (rest + slack);
    if (sum != low + (rest - slack)) return false;
    word[1] = 0;
    return scale_normal(s, exponent, &word[0]) && (sum == 0 || scale_normal(sum, exponent, &word[1]));
}

/* to += from, integers of so many words in two's complement. */
template <int WORDS>
__device__ void add_words(u64 *to, const u64 *from) {
    u64 carry = 0;
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
        const u64 partial = to[i] + from[i];
        const u64 total = partial + carry;
        carry = (partial < from[i]) | (total < partial);
        to[i] = total;
    }
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

/* limb -= x·2^-exponent, an integer. */
template <int WORDS>
__device__ void subtract(u64 *limb, double x, int exponent) {
    const u64 bits = __double_as_longlong(fabs(x));
    const int field = (int)(bits >> 52), place = max(field, 1) - 1075 - exponent;
    const long long significand = field ? (bits & 0xfffffffffffffull) | 1ull << 52 : bits;
    const long long value = significand >> min(63, max(0, -place)); // what is cut are zeros
    add_shifted<WORDS>(limb, x < 0 ? value : -value, max(0, place));
}

