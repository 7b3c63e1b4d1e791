#include "ozaki/rounding/conversion.cuh"
#include "ozaki/rounding/digits.cuh"
#include "ozaki/sums/exact/flags.cuh"

// Digits, and the last step before rounding: for kernels compiled with DIGITS and LOWEST, a superaccumulator's
// `DigitRange`, with BELOW and ABOVE, the digits beside these, and with the flags of `fixed_point.py`.
typedef long long i64;
#define MASK32 0xffffffffll

/* Add v·2^(position + LOWEST): what `scatter` in fixed_point.py does. A digit lies `stride` after the last. */
__device__ __noinline__ void add_integer(i64 *digits, i64 stride, i64 v, int position) {
    if (position < 0) { v >>= min(-position, 63); position = 0; }
    if (v == 0) return;
    const int shift = position & 31;
    u64 *d = (u64 *)digits + (position >> 5) * stride;
    const i64 low = (v & MASK32) << shift, high = (v >> 32) * (1ll << shift);
    atomicAdd(d, (u64)(low & MASK32));
    atomicAdd(d + stride, (u64)((low >> 32) + (high & MASK32)));
    atomicAdd(d + 2 * stride, (u64)(high >> 32));
}

/* The significand with its sign, and the exponent of its unit; x is finite. */
__device__ i64 significand(double x, int *exponent) {
    const i64 bits = __double_as_longlong(x);
    const int field = (int)(bits >> 52) & 2047;
    i64 m = bits & ((1ll << 52) - 1);
    if (field) m |= 1ll << 52;
    *exponent = (field ? field : 1) - 1075;
    return bits < 0 ? -m : m;
}

__device__ bool finite(double x) { return fabs(x) < __longlong_as_double(0x7ff0000000000000ll); }

/* Add a number, or return the flag of one that is not finite. */
__device__ __noinline__ unsigned add_number(i64 *digits, i64 stride, double x) {
    if (!finite(x)) return x > 0 ? PLUS_INFINITY : x < 0 ? MINUS_INFINITY : NOT_A_NUMBER;
    int exponent;
    const i64 m = significand(x, &exponent);
    add_integer(digits, stride, m, exponent - LOWEST);
    return 0;
}

/* x·y where a float64 and its error do not hold it: 106 bits in two pieces. */
__device__ __noinline__ unsigned add_product(i64 *digits, i64 stride, double x, double y) {
    if (!finite(x) || !finite(y)) return add_number(digits, stride, x * y);
    int i, j;
    const i64 a = significand(x, &i), b = significand(y, &j);
    if (a == 0 || b == 0) return 0;
    const u64 c = a < 0 ? -a : a, d = b < 0 ? -b : b;
    const u64 low = c * d, high = __umul64hi(c, d);
    const i64 sign = (a < 0) == (b < 0) ? 1 : -1;
    add_integer(digits, stride, sign * (i64)(low & ((1ull << 62) - 1)), i + j - LOWEST);
    add_integer(digits, stride, sign * (i64)(high << 2 | low >> 62), i + j + 62 - LOWEST);
    return ORDINARY;
}

/* Digits in shared or global memory; other blocks may have added to them. */
struct Digits {
    volatile i64 *digits;
    i64 stride;
    __device__ volatile i64 &operator[](int i) const { return digits[i * stride]; }
};

/* Make the digits in [first, last + 2), outside of which all are zero, those of the magnitude. */
__device__ bool make_magnitude(Digits digits, int first, int last) {
    i64 carry = 0;
    for (int i = first; i < last; i++) {
        const i64 v = digits[i] + carry;
        digits[i] = v & MASK32;
        carry = v >> 32;
    }
    const bool negative = carry < 0;
    if (negative) {
        i64 borrow = 0;
        for (int i = first; i < last; i++) {
            const i64 v = borrow - digits[i];
            digits[i] = v & MASK32;
            borrow = v >> 32;
        }
        carry = borrow - carry;
    }
    digits[last] = carry & MASK32;
    digits[last + 1] = carry >> 32;
    return negative;
}

/* Rounding.ratio's quotient: BELOW more digits, and whether anything remains in the last bit. */
__device__ void divide(Digits digits, int first, int top, u64 divisor) {
    u64 remainder = 0;
    for (int i = top; i >= first - BELOW; i--) {
        const u64 v = remainder << 32 | (u64)(i < first ? 0 : digits[i]);
        digits[i] = v / divisor;
        remainder = v % divisor;
    }
    if (remainder) digits[first - BELOW] = digits[first - BELOW] | 1;
}

/* Rounding.ratio's root: the integer root of 128 bits, bit by bit, doubled, with what is left in
   the last bit. */
__device__ void square_root(u64 high, u64 low, u64 sticky, u64 *limb) {
    u64 root = 0, rest_high = 0, rest = 0;
    for (int i = 0; i < 64; i++) {
        rest_high = rest_high << 2 | rest >> 62;
        rest = rest << 2 | high >> 62;
        high = high << 2 | low >> 62;
        low <<= 2;
        const u64 trial_high = root >> 62, trial = root << 2 | 1;
        root <<= 1;
        if (rest_high > trial_high || (rest_high == trial_high && rest >= trial)) {
            rest_high -= trial_high + (rest < trial);
            rest -= trial;
            root |= 1;
        }
    }
    limb[0] = root << 1 | (rest || rest_high || sticky);
    limb[1] = root >> 63;
}

/* Round the digits in units of 2^lowest, all zero outside [first, last), divided, and the square root
   of that, for which `lowest` is even. There is room for BELOW digits below the first and two above
   the last. */
__device__ __noinline__ double round_digits(Digits digits, int first, int last, int lowest,
                                            u64 divisor, bool root, int precision, int smallest)
{
    const bool negative = make_magnitude(digits, first, last);
    int top = last + 1;
    if (divisor > 1) { divide(digits, first, top, divisor); first -= BELOW; }
    while (top > first && digits[top] == 0) top--;
    const int bottom = top - 7;
    u64 sticky = 0;
    for (int i = first; i < bottom; i++) sticky |= digits[i];
    u64 limb[5] = {0, 0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int low = bottom + 2 * i;
        limb[i] = (low < first ? 0 : digits[low]) | (low + 1 < first ? 0 : (u64)digits[low + 1] << 32);
    }
    int exponent = lowest + 32 * bottom;
    if (root) {
        /* The upper 128 bits, moved up by an even number: `lowest` is even too. */
        const int shift = __clzll(limb[3]) & ~1;
        const u64 high = shift ? limb[3] << shift | limb[2] >> (64 - shift) : limb[3];
        const u64 low = shift ? limb[2] << shift | limb[1] >> (64 - shift) : limb[2];
        sticky |= (shift ? limb[1] << shift : limb[1]) | limb[0];
        square_root(high, low, sticky, limb);
        limb[2] = limb[3] = 0;
        exponent = (exponent + 128 - shift) / 2 - 1;
    } else {
        limb[0] |= sticky != 0;
    }
    const double value = round_limbs<5>(limb, exponent, precision, smallest);
    return negative ? -value : value;
}

/* The sum of float64 terms: s + rest, or if something was `lost` in between s + rest and at most 2^-48
   of `size`. */
struct Enclosure {
    double s, rest, size;
    bool lost;

    __device__ __forceinline__ void add(double x) {
        const double e = two_sum(&s, x);
        size += fabs(e);
        lost |= two_sum(&rest, e) != 0;
    }

    __device__ __forceinline__ void divide(double divisor) {
        const double q = s / divisor, left = fma(-q, divisor, s);
        lost |= two_sum(&rest, left) != 0;
        const double sum = rest;
        rest = sum / divisor;
        lost |= fma(rest, divisor, -sum) != 0;
        size = (fabs(left) + size) / divisor;
        s = q;
    }

    __device__ __forceinline__ void square_root() {
        const double r = sqrt(s), left = fma(-r, r, s), half = 0.5 / r;
        rest += left;
        lost |= rest != 0;
        rest *= half;
        size = (fabs(left) + size) * half;
        s = r;
    }

    /* Round, in units of 2^unit, divided, and the square root of that, to float64 or float32; false if it is not
       plain that this rounds correctly. */
    __device__ __forceinline__ bool round(int unit, i64 divisor, int root, int precision, double *result) {
        if (precision != 53 && precision != 24) return false;
        rest = two_sum(&s, rest);
        if (s == 0) { *result = 0; return !lost; }
        if (divisor > 1) { divide((double)divisor); rest = two_sum(&s, rest); }
        if (root) {
            if (unit & 1) { s *= 2; rest *= 2; size *= 2; unit--; }
            square_root();
            unit >>= 1;
        }
        rest = two_sum(&s, rest);
        const double margin = lost ? size * 0x1p-48 : 0, low = rest - margin, high = rest + margin;
        if (precision == 24) {
            /* To odd first: the rounding to fewer bits then goes as that of the sum (Boldo and Melquiond). */
            if (lost && !(low > 0) && !(high < 0)) return false;
            i64 bits = __double_as_longlong(s);
            if (rest != 0 && !(bits & 1)) bits += (rest > 0) == (s > 0) ? 1 : -1;
            s = __longlong_as_double(bits);
        } else if (s + low != s + high) {
            return false;
        } /* else s is the sum rounded */
        const int field = (__double2hiint(s) >> 20 & 2047) + unit;
        if (field < 1 || field > 2046) return false;
        s = __hiloint2double(__double2hiint(s) + unit * (1 << 20), __double2loint(s));
        *result = precision == 24 ? widened(narrowed(s)) : s;
        return true;
    }
};

/* Round the digits in [first, last), in units of 2^lowest, if they are few and the rounding plain. */
__device__ bool round_few(Digits digits, int first, int last, int lowest, i64 divisor, int root,
                          int precision, double *result)
{
    if (last - first > 12) return false;
    Enclosure sum = {0, 0, 0, false};
    double power = 1;
    for (int i = first + 1; i < last; i++) power *= 0x1p32;
    for (int i = last - 1; i >= first; i--, power *= 0x1p-32) {
        const i64 digit = digits[i];
        if (digit >= 1ll << 53 || digit <= -(1ll << 53)) return false;
        sum.add((double)digit * power);
    }
    return sum.round(lowest + 32 * first, divisor, root, precision, result);
}

/* As round_digits. */
__device__ __noinline__ double round_sum(Digits digits, int first, int last, int lowest, i64 divisor,
                                         int root, int precision, int smallest)
{
    double result;
    if (round_few(digits, first, last, lowest, divisor, root, precision, &result)) return result;
    return round_digits(digits, first, last, lowest, divisor, root, precision, smallest);
}
