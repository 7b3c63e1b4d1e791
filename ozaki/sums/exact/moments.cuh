#include "ozaki/sums/exact/fixed_point.cuh"

// Exact sums of numbers and of their powers up to ORDER, in integers relative to the smallest number's exponent.
//
// With unit = 2^(lowest - 1075), lowest the smallest exponent field of a set of finite numbers other than 0, each
// is an integer m·2^shift in units, |m| < 2^53. Where shifts are at most REACH, and the numbers fewer than 2^26,
// the sum is below 2^127, and those of squares, cubes and fourth powers below 2^228, 2^329 and 2^430.
#define REACH 48
#ifndef ORDER
#define ORDER 2
#endif

/* A number, in parts, and its weight, of WEIGHTED outputs. */
struct Term {
    double x[PARTS];
#if WEIGHTED
    double w;
#endif
};

/* The exponent fields of finite numbers other than 0: between 2048 - below and above, which are 0 for none. */
struct Range {
    int below, above;

    __device__ void note(double x) {
        const int field = max(__double2hiint(x) >> 20 & 2047, 1);
        add({2048 - field, field});
    }
    __device__ void add(const Range &other) {
        below = max(below, other.below);
        above = max(above, other.above);
    }
    __device__ int lowest() const { return below ? 2048 - below : 1; }
    __device__ bool far() const { return above - lowest() > REACH; }
};

/* What is known of an output's terms: the ranges of its numbers and weights, flags, and how many count. In memory
   each member has an array for all outputs, of KNOWN in all, which are 0 at first. */
struct Known {
    Range x;
    int flags, count;
#if WEIGHTED
    Range w;
#define KNOWN 6
#else
#define KNOWN 4
#endif

    __device__ void note(const Term &term);
    __device__ void add(const Known &other) {
        x.add(other.x);
        flags |= other.flags;
        count += other.count;
#if WEIGHTED
        w.add(other.w);
#endif
    }
    __device__ void add_to(int *known, i64 outputs) const {
        atomicMax(known, x.below);
        atomicMax(known + outputs, x.above);
        atomicOr(known + 2 * outputs, flags);
        atomicAdd(known + 3 * outputs, count);
#if WEIGHTED
        atomicMax(known + 4 * outputs, w.below);
        atomicMax(known + 5 * outputs, w.above);
#endif
    }
    __device__ static Known of(const int *known, i64 outputs) {
        int member[KNOWN];
        for (int i = 0; i < KNOWN; i++) member[i] = known[i * outputs];
#if WEIGHTED
        return {{member[0], member[1]}, member[2], member[3], {member[4], member[5]}};
#else
        return {{member[0], member[1]}, member[2], member[3]};
#endif
    }
    __device__ bool all_finite() const { return !(flags & (PLUS_INFINITY | MINUS_INFINITY | NOT_A_NUMBER)); }
    __device__ bool far() const {
#if WEIGHTED
        if (w.far()) return true;
#endif
        return x.far();
    }
};

/* What the LANES threads of an output have, `stride` apart, added up; each has it then. */
template <class T>
__device__ T together(T *shared, const T &mine, int lane, int stride) {
    __syncthreads();
    shared[threadIdx.x] = mine;
    for (int half = LANES / 2; half > 0; half /= 2) {
        __syncthreads();
        if (lane < half) shared[threadIdx.x].add(shared[threadIdx.x + half * stride]);
    }
    __syncthreads();
    return shared[threadIdx.x - lane * stride];
}

/* A number of which the exponent field is at least `lowest`, as an integer of two words; its magnitude's shift. */
__device__ int in_words(double x, int lowest, u64 *wide, u64 *magnitude) {
    int exponent;
    const i64 m = significand(x, &exponent);
    const int shift = exponent + 1075 - lowest;
    *magnitude = m < 0 ? -m : m;
    wide[0] = *magnitude << shift;
    wide[1] = shift ? *magnitude >> (64 - shift) : 0;
    if (m < 0) { wide[0] = -wide[0]; wide[1] = ~wide[1] + (wide[0] == 0); }
    return shift;
}

/* y = x·2^shift of FROM words in TO words, which hold it; shift < 256. */
template <int FROM, int TO>
__device__ void shifted(const u64 *x, int shift, u64 *y) {
#pragma unroll
    for (int i = 0; i < TO; i++) y[i] = i < FROM ? x[i] : 0;
#pragma unroll
    for (int words = 2; words > 0; words--)
        if (shift & words * 64) {
#pragma unroll
            for (int i = TO - 1; i >= 0; i--) y[i] = i < words ? 0 : y[i - words];
        }
    const int bits = shift & 63;
    if (bits == 0) return;
#pragma unroll
    for (int i = TO - 1; i > 0; i--) y[i] = y[i] << bits | y[i - 1] >> (64 - bits);
    y[0] <<= bits;
}

/* x becomes -x, of WORDS words, if `negative`. */
template <int WORDS>
__device__ void negate(bool negative, u64 *x) {
    u64 carry = negative;
#pragma unroll
    for (int i = 0; negative && i < WORDS; i++) { x[i] = ~x[i] + carry; carry = carry && x[i] == 0; }
}

/* The product of a number of two words, low and high, and one of one, in three. */
__device__ void triple(u64 low, u64 high, u64 m, u64 *product) {
    const u64 above = __umul64hi(low, m);
    product[0] = low * m;
    product[1] = high * m + above;
    product[2] = __umul64hi(high, m) + (product[1] < above);
}

#if !WEIGHTED
__device__ void Known::note(const Term &term) {
    for (int part = 0; part < PARTS; part++) {
        const double v = term.x[part];
        if (v != 0 || __double2hiint(v) >= 0) flags |= ORDINARY;
        if (!finite(v)) flags |= NOT_A_NUMBER;
        else if (v != 0) x.note(v);
    }
}

/* Σx of the real, and of the imaginary parts, in two's complement, and Σ|x|²; of real numbers also Σx³ and Σx⁴, if
   ORDER asks for them. Least significant words first. */
struct Sums {
    u64 sum[PARTS][2];
    u64 squares[4];
#if ORDER >= 3
    u64 cubes[6];
#endif
#if ORDER >= 4
    u64 fourths[7];
#endif

    __device__ void clear() {
        for (int i = 0; i < sizeof(Sums) / sizeof(u64); i++) ((u64 *)this)[i] = 0;
    }

    __device__ void add(const Sums &other) {
        for (int part = 0; part < PARTS; part++) add_words<2>(sum[part], other.sum[part]);
        add_words<4>(squares, other.squares);
#if ORDER >= 3
        add_words<6>(cubes, other.cubes);
#endif
#if ORDER >= 4
        add_words<7>(fourths, other.fourths);
#endif
    }

    /* Add the higher powers of a number, m·2^shift or its negative, of which low and high are the words of m². */
    __device__ void add_powers(bool negative, u64 m, u64 low, u64 high, int shift) {
#if ORDER >= 3
        u64 cube[3], wide[6];
        triple(low, high, m, cube);
        shifted<3, 6>(cube, 3 * shift, wide);
        negate<6>(negative, wide);
        add_words<6>(cubes, wide);
#endif
#if ORDER >= 4
        const u64 both = low * high, upper = __umul64hi(low, high); /* m⁴ = low² + 2·low·high·2^64 + high²·2^128 */
        u64 fourth[4] = {low * low, __umul64hi(low, low), high * high, __umul64hi(high, high)};
        const u64 twice[3] = {both << 1, upper << 1 | both >> 63, upper >> 63};
        add_words<3>(fourth + 1, twice);
        u64 far[7];
        shifted<4, 7>(fourth, 4 * shift, far);
        add_words<7>(fourths, far);
#endif
    }

    __device__ void add_term(const Term &term, const Known &known) {
        for (int part = 0; part < PARTS; part++)
            if (term.x[part] != 0) add_number(part, term.x[part], known.x.lowest());
    }

    /* Add a finite number of which the exponent field is at least `lowest`. */
    __device__ void add_number(int part, double x, int lowest) {
        u64 wide[2], magnitude;
        const int shift = in_words(x, lowest, wide, &magnitude);
        add_words<2>(sum[part], wide);
        const u64 low = magnitude * magnitude, high = __umul64hi(magnitude, magnitude);
        const int twice = 2 * shift & 63;
        const u64 a = low << twice, b = twice ? high << twice | low >> (64 - twice) : high;
        const u64 c = twice ? high >> (64 - twice) : 0;
        const bool far = shift >= 32;
        const u64 square[4] = {far ? 0 : a, far ? a : b, far ? b : c, far ? c : 0};
        add_words<4>(squares, square);
        add_powers(x < 0, magnitude, low, high, shift);
    }
};

/* S/n, rounded. */
__device__ double mean(const u64 *sum, i64 n, int lowest, int precision, int smallest)
{
    i64 room[BELOW + 4 + 2];
    for (int i = 0; i < BELOW; i++) room[i] = 0;
    for (int i = 0; i < 2; i++) {
        room[BELOW + 2 * i] = sum[i] & MASK32;
        room[BELOW + 2 * i + 1] = i ? (i64)sum[i] >> 32 : (i64)(sum[i] >> 32);
    }
    return round_digits({room + BELOW, 1}, 0, 4, lowest - 1075, n, 0, precision, smallest);
}

/* (n·Q − |S|²)/(n·(n − ddof)), or its root, rounded: variances.py's formula. Infinite, or NaN if `undefined` says so or
   all numbers are equal, where n <= ddof. */
__device__ double variance(const Sums &sums, i64 n, i64 ddof, int lowest, bool root, bool undefined, int precision,
                           int smallest)
{
    /* n·Q − |S|² is below 2^254. Three digits below it leave a quotient so long that the root of what is left of it
       rounds correctly, however small the difference is. */
    const int spare = 3, digits = 9;
    i64 room[2 * BELOW + spare + digits + 2];
    for (int i = 0; i < 2 * BELOW + spare + digits + 2; i++) room[i] = 0;
    i64 *difference = room + 2 * BELOW + spare;
    for (int i = 0; i < 8; i++) difference[i] = n * (i64)(sums.squares[i / 2] >> 32 * (i % 2) & MASK32);
    for (int part = 0; part < PARTS; part++) {
        u64 low = sums.sum[part][0], high = sums.sum[part][1];
        if ((i64)high < 0) { low = -low; high = ~high + (low == 0); }
        const u64 s[4] = {low & MASK32, low >> 32, high & MASK32, high >> 32};
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) {
                const u64 product = s[i] * s[j];
                difference[i + j] -= (i64)(product & MASK32);
                difference[i + j + 1] -= (i64)(product >> 32);
            }
    }
    const Digits all = {room + 2 * BELOW, 1};
    const int last = spare + digits;
    make_magnitude(all, spare, last);
    bool equal = true;
    for (int i = spare; i < last; i++) equal = equal && !all[i];
    const i64 divisor = n - ddof;
    const double nan = __longlong_as_double(0x7ff8000000000000ll);
    if (divisor <= 0) return equal || undefined ? nan : __longlong_as_double(0x7ff0000000000000ll);
    if (equal) return 0;
    /* What the first quotient leaves makes its last bit odd, so that the second one lies on the right side of every
       midpoint. */
    divide(all, 0, last, n);
    return round_digits(all, -BELOW, last, 2 * (lowest - 1075) - 32 * spare, divisor, root, precision, smallest);
}
#endif
