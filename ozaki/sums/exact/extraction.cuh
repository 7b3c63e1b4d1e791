#include "ozaki/sums/exact/fixed_point.cuh"

// The CUDA form of extraction.py: what one thread adds up, and where from.
//
// A thread keeps the levels of `extract` in registers: two of them, or three for the products of float64,
// whose errors (by fma) start at the second. A batch of terms whose exponents all lie well inside takes few
// operations: its last level is exact, so nothing is left over and nothing need be checked. Any other batch
// takes the general way, in a loop that is not unrolled lest it take registers from the short one; what the
// levels do not hold goes, digit by digit, to a superaccumulator, as do the levels when they have to move.

/* Whether a block is the last of so many that come here: it sees what the others have written to memory. */
__device__ bool comes_last(unsigned *ticket, int blocks) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(ticket, 1u) == blocks - 1;
    __syncthreads();
    if (last) __threadfence();
    return last;
}

/* Bits of a term, which is a float where it is one that was read, and its exponent's place. */
#if PRODUCT
#define TERM_BITS (SOURCE == 0 ? 106 : SOURCE == 1 ? 48 : SOURCE == 2 ? 22 : 16)
#else
#define TERM_BITS (SOURCE == 0 ? 53 : SOURCE == 1 ? 24 : SOURCE == 2 ? 11 : 8)
#endif
#define LEVELS (TERM_BITS > 53 ? 3 : 2)
#define SHORT (TERM_BITS <= 24)
/* Terms and remainders are at most 2^(LEVEL_BITS - 1) units of a level: levels.py. The squares of numbers that
   differ in size differ twice as much, hence the longer levels, of fewer terms. */
#define LEVEL_BITS (LEVELS == 3 ? THREE_LEVELS_BITS : TWO_LEVELS_BITS)
#define MOST_TERMS (1 << (WORD_BITS - LEVEL_BITS + 1 - (ALIKE ? 5 : 0)))
#if SOURCE == 0
typedef double Value;
#else
typedef float Value;
#endif
#define SIZE (SOURCE == 0 ? 8 : SOURCE == 1 ? 4 : 2)
/* PAIRS of numbers are read, to be multiplied. */
#define PAIRS (PRODUCT && !SQUARE)

/* The exponent and leading bits of a number; of a pair's product, or of what is read. Keys are ordered
   as the magnitudes are, and 0 is that of zero alone. */
#if PAIRS || SOURCE == 0
typedef double Keyed;
#define KEY_SHIFT 20
#define KEY_BIAS 1023
#else
typedef float Keyed;
#define KEY_SHIFT 23
#define KEY_BIAS 127
#endif
__device__ unsigned key_of(double x) {
    return (__double2hiint(x) & 0x7fffffff) | min((unsigned)__double2loint(x), 1u);
}
__device__ unsigned key_of(float x) { return __float_as_uint(x) & 0x7fffffff; }
__device__ unsigned key_at(int exponent) {
    return (unsigned)max(1, min(exponent + KEY_BIAS, 2 * KEY_BIAS + 1)) << KEY_SHIFT;
}

/* 1.5·2^k */
__device__ double sigma_of(int k) { return __longlong_as_double((i64)(k + 1023) << 52 | 1ll << 51); }

#if SOURCE == 0
__device__ __forceinline__ Value value_of(u64 bits) { return __longlong_as_double(bits); }
__device__ __forceinline__ Value load(const char *p) { return *(const double *)p; }
#elif SOURCE == 1
__device__ __forceinline__ Value value_of(unsigned bits) { return __uint_as_float(bits); }
__device__ __forceinline__ Value load(const char *p) { return *(const float *)p; }
#else
__device__ __forceinline__ Value value_of(unsigned short bits) {
#if SOURCE == 2
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(bits));
    return f;
#else
    return __uint_as_float((unsigned)bits << 16);
#endif
}
__device__ __forceinline__ Value load(const char *p) { return value_of(*(const unsigned short *)p); }
#endif

/* Where an output's first term lies, in bytes: `Rows` in summands_cuda.py. */
__device__ __forceinline__ i64 place_of(i64 output, int pair, i64 outer, i64 inner) {
    return SIZE * ((output >> pair) * outer + (output & pair) * inner);
}

/* -ftz=true, which CuPy adds to the options, flushes a subnormal float where it is negated, too. */
__device__ __forceinline__ double negated(double x) { return -x; }
__device__ __forceinline__ float negated(float x) { return __uint_as_float(__float_as_uint(x) ^ 0x80000000u); }

/* Some terms: numbers, or pairs to be multiplied. */
struct Batch {
    Value a[BATCH];
#if PAIRS
    Value b[BATCH];
    __device__ __forceinline__ double right(int j) const { return widened(b[j]); }
#else
    __device__ __forceinline__ double right(int j) const { return widened(a[j]); }
#endif
    __device__ __forceinline__ double left(int j) const { return widened(a[j]); }
    __device__ __forceinline__ double term(int j) const { return PRODUCT ? left(j) * right(j) : left(j); }
#if PAIRS
    __device__ __forceinline__ unsigned key(int j) const { return key_of(term(j)); }
#else
    __device__ __forceinline__ unsigned key(int j) const { return key_of(a[j]); }
#endif
};

/* Add the terms whose bits are set, and return flags of those that are not finite. */
__device__ __noinline__ unsigned add_terms(i64 *digits, i64 stride, const Batch &terms, unsigned which) {
    unsigned seen = 0;
    for (; which; which &= which - 1) {
        const int j = __ffs(which) - 1;
#if PRODUCT
        seen |= add_product(digits, stride, terms.left(j), terms.right(j));
#else
        seen |= add_number(digits, stride, terms.term(j));
#endif
    }
    return seen;
}

/* Take zeros, and what is not finite, out of the terms whose bits are set: they need no digits. Return flags of the
   latter. */
__device__ __noinline__ unsigned take_special(const Batch &terms, unsigned *which) {
    unsigned seen = 0;
    for (unsigned left = *which; left; left &= left - 1) {
        const int j = __ffs(left) - 1;
        const double x = terms.left(j), y = PRODUCT ? terms.right(j) : 1, p = x * y;
        if (finite(x) && finite(y)) {
            if (x != 0 && y != 0) continue;
        } else {
            seen |= p > 0 ? PLUS_INFINITY : p < 0 ? MINUS_INFINITY : NOT_A_NUMBER;
        }
        *which &= ~(1u << j);
    }
    return seen;
}

__device__ __noinline__ void clear(i64 *digits, i64 stride) {
    for (int i = -BELOW; i < DIGITS + ABOVE; i++) digits[i * stride] = 0;
}

/* A superaccumulator's digits, which are made zero when they are needed first unless they are `open`,
   and flags of what has been added. */
struct Register {
    i64 *digits, stride;
    bool open;
    unsigned seen;

    __device__ __forceinline__ void prepare() {
        if (!open) clear(digits, stride);
        open = true;
    }
};

/* Sums in units of two or three levels. Where ALIKE, the lanes of a warp have the same levels but for
   the sums, and `lanes` is the number of them that have different outputs, if a power of two. */
struct Extraction {
    double sigma[LEVELS];
    i64 sum[LEVELS];
    unsigned least, limit; /* the keys between which a term takes the short way */
    int k, count;

    __device__ __forceinline__ Extraction() {
#pragma unroll
        for (int i = 0; i < LEVELS; i++) { sigma[i] = 0; sum[i] = 0; }
        least = 0xffffffffu; limit = 0; k = -2000; count = 0;
    }

    /* The exponent of a level's unit. */
    __device__ __forceinline__ int place(int level) const { return k - 52 - level * LEVEL_BITS; }

    __device__ __forceinline__ i64 value(int level) const {
        return sum[level] - (i64)count * __double_as_longlong(sigma[level]);
    }

    /* Add the sums to the superaccumulator and begin anew. */
    __device__ __forceinline__ void flush(Register &to, int lanes) {
        const bool nothing = count == 0 || k < -1100; /* no levels yet, and zeros alone */
        if (nothing) { count = 0; return; }
        to.prepare();
#pragma unroll
        for (int level = 0; level < LEVELS; level++) {
            i64 v = value(level);
#if ALIKE
            for (int step = 16; step >= lanes; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
            if (threadIdx.x % 32 < lanes)
#endif
            add_integer(to.digits, to.stride, v, place(level) - LOWEST);
            sum[level] = 0;
        }
        count = 0;
    }

    /* Make room for terms up to the largest of these that is finite, if it can be. */
    __device__ __forceinline__ void raise(const Batch &terms, unsigned largest, Register &to, int lanes) {
        if (largest >> KEY_SHIFT > 2 * KEY_BIAS) {
            const Batch copy = terms;
            largest = 0;
#pragma unroll 1
            for (int j = 0; j < BATCH; j++)
                if (copy.key(j) >> KEY_SHIFT <= 2 * KEY_BIAS) largest = max(largest, copy.key(j));
        }
#if ALIKE
        largest = __reduce_max_sync(0xffffffffu, largest);
#endif
        const int exponent = (int)(largest >> KEY_SHIFT) - KEY_BIAS + 1;
        const int wanted = exponent * (SQUARE ? 2 : 1) + 54 - LEVEL_BITS + HEADROOM;
        const int next = min(max(wanted, LEVEL_BITS * (LEVELS - 1) - 1022) | SQUARE, 1023);
        if ((largest && next > k) || count >= MOST_TERMS) flush(to, lanes);
        if (!largest || next <= k) return;
        k = next;
#pragma unroll
        for (int i = 0; i < LEVELS; i++) sigma[i] = sigma_of(k - i * LEVEL_BITS);
        /* From `least` on the last bit of a term is one of the last level, or, if SHORT, of the first;
           and the error of a product does not underflow. The number squared has half the exponent. */
        const int unit = place(SHORT ? 0 : LEVELS - 1);
#if SQUARE
        limit = key_at((k - 53 + LEVEL_BITS) >> 1);
        least = key_at(max((unit + TERM_BITS - 1) >> 1, -450));
#else
        limit = key_at(k - 53 + LEVEL_BITS);
        least = key_at(LEVELS == 3 ? max(unit + TERM_BITS - 1, -900) : unit + TERM_BITS - 1);
#endif
    }

    /* Add t, a sum of sigma and a multiple of the unit, to a level. */
    __device__ __forceinline__ void deposit(int level, double t) { sum[level] += __double_as_longlong(t); }

    /* Add terms that are all inside, or zero. */
    __device__ __forceinline__ void add_inner(const Batch &terms) {
#pragma unroll
        for (int j = 0; j < BATCH; j++) {
            const double p = terms.term(j), t = p + sigma[0];
            deposit(0, t);
#if !SHORT
            const double s = (p - (t - sigma[0])) + sigma[1];
#if LEVELS == 3
            const double e = __fma_rn(terms.left(j), terms.right(j), -p), u = s + e;
            deposit(1, u);
            deposit(2, (e - (u - s)) + sigma[2]);
#else
            deposit(1, s);
#endif
#endif
        }
#if SHORT
        sum[1] += BATCH * __double_as_longlong(sigma[1]);
#endif
    }

    __device__ __forceinline__ void add_zeros(const Batch &terms, Register &to) {
#pragma unroll
        for (int j = 0; j < BATCH; j++)
            if (__double2hiint(terms.term(j)) >= 0) to.seen |= ORDINARY;
#pragma unroll
        for (int i = 0; i < LEVELS; i++) sum[i] += BATCH * __double_as_longlong(sigma[i]);
    }

    /* Add any terms. Those that the levels do not hold go to the superaccumulator, as a whole. */
    __device__ __forceinline__ void add_general(const Batch &given, Register &to) {
        const Batch terms = given;
        unsigned beyond = 0;
#pragma unroll 1
        for (int j = 0; j < BATCH; j++) {
            const double p = terms.term(j);
            if (__double2loint(p) | (__double2hiint(p) ^ 0x80000000)) to.seen |= ORDINARY;
            bool held = terms.key(j) < limit;
            double t = p + sigma[0], rest = p - (t - sigma[0]);
            double u = rest + sigma[1];
            rest -= u - sigma[1];
#if LEVELS == 3
            const double x = terms.left(j), y = terms.right(j), e = __fma_rn(x, y, -p), s = u;
            held &= !(fabs(p) < 0x1p-900 && x != 0 && y != 0); /* the error might underflow */
            u = s + e;
            const double v = rest + sigma[2], w = v + (e - (u - s));
            held &= rest == v - sigma[2] && e - (u - s) == w - v;
            deposit(2, held ? w : sigma[2]);
#else
            held &= rest == 0;
#endif
            deposit(0, held ? t : sigma[0]);
            deposit(1, held ? u : sigma[1]);
            if (!held) beyond |= 1u << j;
        }
        if (beyond) to.seen |= take_special(terms, &beyond);
        if (beyond) {
            to.prepare();
            to.seen |= add_terms(to.digits, to.stride, terms, beyond);
        }
    }

    /* Make room for terms before any others are added. */
    __device__ __forceinline__ void fit(const Batch &terms, Register &to) {
        unsigned largest = 0;
#pragma unroll
        for (int j = 0; j < BATCH; j++) largest = max(largest, terms.key(j));
        if (largest >= limit) raise(terms, largest, to, 1);
    }

    __device__ __forceinline__ void add(const Batch &terms, Register &to, int lanes) {
        unsigned largest = 0, smallest = 0xffffffffu; /* the smallest but zeros, less one */
#pragma unroll
        for (int j = 0; j < BATCH; j++) {
            largest = max(largest, terms.key(j));
            smallest = min(smallest, terms.key(j) - (PAIRS && LEVELS == 3 ? 0 : 1));
        }
        const bool full = count >= MOST_TERMS;
#if ALIKE
        if (__any_sync(0xffffffffu, largest >= limit || full)) raise(terms, largest, to, lanes);
#else
        if (largest >= limit || full) raise(terms, largest, to, lanes);
#endif
        /* A pair's product may underflow to zero, so there zero takes the general way. */
        const bool inner = largest < limit && smallest >= least - (PAIRS && LEVELS == 3 ? 0 : 1);
        if (inner && largest > 0) {
            add_inner(terms);
            to.seen |= ORDINARY;
        } else if (largest == 0 && !(PAIRS && LEVELS == 3)) {
            add_zeros(terms, to);
        } else {
            add_general(terms, to);
        }
        count += BATCH;
    }
};

/* Read every `apart`th term of those that begin at p, `step` bytes from one to the next, as far as
   there are any: `left` of them. */
__device__ __forceinline__ void read(Value (&v)[BATCH], const char *p, i64 step, i64 apart, i64 left,
                                     Value beyond, bool negate) {
    step *= apart;
    if ((BATCH - 1) * apart < left) {
#pragma unroll
        for (int j = 0; j < BATCH; j++, p += step) v[j] = load(p);
    } else {
#pragma unroll
        for (int j = 0; j < BATCH; j++, p += step) v[j] = j * apart < left ? load(p) : beyond;
    }
    if (PAIRS && negate) {
#pragma unroll
        for (int j = 0; j < BATCH; j++) if (j * apart < left) v[j] = negated(v[j]);
    }
}
