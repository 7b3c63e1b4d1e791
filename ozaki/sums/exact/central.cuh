#include "ozaki/sums/exact/enclosure.cuh"
#include "ozaki/sums/exact/moments.cuh"

// Central moments, and the ratios of them that are skewness and kurtosis, of exact sums of powers: central.py's formulas.

/* An integer of WIDE words in two's complement, least significant first: those here are below 2^566. */
#define WIDE 9
struct Wide {
    u64 word[WIDE];

    template <int WORDS>
    __device__ static Wide of(const u64 (&x)[WORDS]) {
        Wide y;
        for (int i = 0; i < WIDE; i++) y.word[i] = i < WORDS ? x[i] : (u64)((i64)x[WORDS - 1] >> 63);
        return y;
    }
    __device__ bool negative() const { return (i64)word[WIDE - 1] < 0; }
    __device__ bool zero() const {
        u64 any = 0;
        for (int i = 0; i < WIDE; i++) any |= word[i];
        return any == 0;
    }
    __device__ Wide times(u64 m) const {
        Wide y;
        u64 carry = 0;
        for (int i = 0; i < WIDE; i++) {
            const u64 low = word[i] * m;
            y.word[i] = low + carry;
            carry = __umul64hi(word[i], m) + (y.word[i] < low);
        }
        return y;
    }
    __device__ Wide less(const Wide &other) const {
        Wide y;
        u64 borrow = 0;
        for (int i = 0; i < WIDE; i++) {
            const u64 x = word[i] - other.word[i];
            y.word[i] = x - borrow;
            borrow = (word[i] < other.word[i]) | (x < borrow);
        }
        return y;
    }
    __device__ Wide magnitude() const { return negative() ? Wide{}.less(*this) : *this; }

    /* A magnitude, of which 106 bits are kept; 0 of 0. */
    __device__ Enclosed leading() const {
        int top = WIDE - 1;
        while (top > 0 && word[top] == 0) top--;
        u64 first = word[top], second = top > 0 ? word[top - 1] : 0, rest = top > 1 ? word[top - 2] : 0;
        const int zeros = first ? __clzll(first) : 63;
        if (zeros) {
            first = first << zeros | second >> (64 - zeros);
            second = second << zeros | rest >> (64 - zeros);
            rest <<= zeros;
        }
        for (int i = 0; i < top - 2; i++) rest |= word[i];
        double high = (double)(first >> 11) * 0x1p-53;
        double low = (double)((first & 2047) << 42 | second >> 22) * 0x1p-106;
        low = two_sum(&high, low);
        return {high, low, (second & ((1 << 22) - 1)) | rest ? 0x1p-106 : 0, 64 * (top + 1) - zeros};
    }
};

/* x·y modulo 2^(64·WIDE). */
__device__ __noinline__ Wide product(const Wide &x, const Wide &y) {
    Wide z = {};
#pragma unroll 1
    for (int i = 0; i < WIDE; i++) {
        u64 carry = 0;
        for (int j = 0; i + j < WIDE; j++) {
            const u64 low = x.word[i] * y.word[j], sum = z.word[i + j] + low, total = sum + carry;
            carry = __umul64hi(x.word[i], y.word[j]) + (sum < low) + (total < sum);
            z.word[i + j] = total;
        }
    }
    return z;
}

#if ORDER > 2
/* n^ORDER times the central moment of that order, and n² times the second. Below X = 2^101 in magnitude, as numbers
   are in units of 2^(lowest - 1075), they are below 14·(n·X)^4 < 2^512, and 2^254. */
__device__ void polynomials(const Sums &sums, i64 n, Wide *last, Wide *second) {
    const Wide first = Wide::of(sums.sum[0]), squares = Wide::of(sums.squares), cubes = Wide::of(sums.cubes);
    const Wide square = product(first, first);
    *second = squares.times(n).less(square);
#if ORDER == 3
    const Wide before = squares.times(3 * n).less(square.times(2));
    *last = cubes.times(n).times(n).less(product(first, before));
#else
    const Wide before = squares.times(6 * n).less(square.times(3));
    const Wide after = cubes.times(4 * n).times(n).less(product(first, before));
    *last = Wide::of(sums.fourths).times(n).times(n).times(n).less(product(first, after));
#endif
}

/* What is asked of the polynomials P, of the last order, and Q, of the second, rounded: the moment P/n^ORDER if `over`
   is 0, else the skewness P/Q^(3/2)·√(scale/over), or the kurtosis (scale·P - less·Q²)/(over·Q²). NaN where the numbers
   are equal. False if that is undecided. */
__device__ bool central(const Sums &sums, i64 n, int lowest, i64 scale, i64 less, i64 over, int precision,
                        int smallest, double *result) {
    Wide last, second;
    polynomials(sums, n, &last, &second);
    *result = 0;
    if (over && second.zero()) { *result = __longlong_as_double(0x7ff8000000000000ll); return true; }
    if (ORDER == 4 && over) last = last.times(scale).less(product(second, second).times(less));
    if (last.zero()) return true;
    const Enclosed above = last.magnitude().leading(), q = second.leading();
    Enclosed value;
    if (over == 0) {
        Wide power = {1};
        for (int i = 0; i < ORDER; i++) power = power.times(n);
        value = above.over(power.leading());
        value.exponent += ORDER * (lowest - 1075);
    } else if (ORDER == 3) {
        value = above.times(above).times(enclosed(scale)).over(q.times(q).times(q).times(enclosed(over))).root();
    } else {
        value = above.over(product(second, second).times(over).leading());
    }
    const bool certain = value.round(precision, smallest, result);
    if (last.negative()) *result = -*result;
    return certain;
}
#endif
