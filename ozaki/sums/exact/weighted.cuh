#include "ozaki/sums/exact/central.cuh"

// Weighted outputs: Σw·x, Σw·x/Σw, and weighted variances, of exact sums; table.py and weighted.py have the formulas.
// And covariances, of two variables x and w, by the formula of variance.py.
//
// Numbers and weights are integers in units of their own, below 2^101 in magnitude (moments.cuh). So the sums of fewer
// than 2^26 of w, w·x, w² and w·|x|² are below 2^127, 2^228, 2^228 and 2^330.

#if WEIGHTED
#define SPREAD (!MEAN && !TOTAL && !COVARIANCE) /* of variances */
#define NO_WEIGHT 32 /* beside the flags of sums: of a weight that is not finite */
#if COVARIANCE
/* A product is not all that a pair adds to: both count, whatever the other is. */
__device__ void Known::note(const Term &term) {
    flags |= finite(term.x[0]) && finite(term.w) ? ORDINARY : NOT_A_NUMBER;
    if (term.x[0] != 0 && finite(term.x[0])) x.note(term.x[0]);
    if (term.w != 0 && finite(term.w)) w.note(term.w);
}
#else
/* Of a weight that is not finite no mean is a number, whatever it is a weight of. */
__device__ void Known::note(const Term &term) {
    const bool weight = finite(term.w);
    if (!weight && !TOTAL) flags |= NOT_A_NUMBER | NO_WEIGHT;
    for (int part = 0; part < PARTS; part++) {
        const double v = term.x[part], product = v * term.w;
        const bool minus = (__double2hiint(v) ^ __double2hiint(term.w)) < 0, zero = v == 0 || term.w == 0;
        if (!weight || !finite(v))
            flags |= product != product ? NOT_A_NUMBER : minus ? MINUS_INFINITY : PLUS_INFINITY;
        else if (!zero)
            x.note(v);
        flags |= zero && minus ? MINUS_ZERO : ORDINARY;
    }
    if (weight && term.w != 0) w.note(term.w);
}
#endif

/* Sums in two's complement, least significant words first; of variances, whose weights are not negative, also
   Σw·|x|² and Σw², of covariances Σx. */
struct Sums {
    u64 weights[2];
    u64 sum[PARTS][4];
#if COVARIANCE
    u64 alone[2];
#endif
#if SPREAD
    u64 squares[6];
    u64 of_weights[4];
#endif

    __device__ void clear() {
        for (int i = 0; i < sizeof(Sums) / sizeof(u64); i++) ((u64 *)this)[i] = 0;
    }

    __device__ void add(const Sums &other) {
        add_words<2>(weights, other.weights);
        for (int part = 0; part < PARTS; part++) add_words<4>(sum[part], other.sum[part]);
#if COVARIANCE
        add_words<2>(alone, other.alone);
#endif
#if SPREAD
        add_words<6>(squares, other.squares);
        add_words<4>(of_weights, other.of_weights);
#endif
    }

    __device__ void add_term(const Term &term, const Known &known) {
        u64 wide[2], weight;
#if COVARIANCE
        if (term.x[0] != 0 && finite(term.x[0])) {
            in_words(term.x[0], known.x.lowest(), wide, &weight);
            add_words<2>(alone, wide);
        }
#endif
        if (term.w == 0 || !finite(term.w)) return;
        const int shift = in_words(term.w, known.w.lowest(), wide, &weight);
        add_words<2>(weights, wide);
#if SPREAD
        const u64 square[2] = {weight * weight, __umul64hi(weight, weight)};
        u64 shifted_square[4];
        shifted<2, 4>(square, 2 * shift, shifted_square);
        add_words<4>(of_weights, shifted_square);
#endif
        for (int part = 0; part < PARTS; part++) {
            const double v = term.x[part];
            if (v != 0 && finite(v)) add_number(part, v, known.x.lowest(), term.w < 0, weight, shift);
        }
    }

    /* Add a number times a weight ±weight·2^shift. */
    __device__ void add_number(int part, double x, int lowest, bool negative, u64 weight, int shift) {
        u64 wide[4], m;
        const int own = in_words(x, lowest, wide, &m);
        const u64 product[2] = {m * weight, __umul64hi(m, weight)};
        shifted<2, 4>(product, own + shift, wide);
        negate<4>(negative != (x < 0), wide);
        add_words<4>(sum[part], wide);
#if SPREAD
        u64 power[3], weighted[6];
        triple(m * m, __umul64hi(m, m), weight, power);
        shifted<3, 6>(power, 2 * own + shift, weighted);
        add_words<6>(squares, weighted);
#endif
    }
};

/* Σw·x, rounded. */
__device__ double total(Sums &sums, const Known &known, int precision, int smallest) {
    const int unit = known.x.lowest() + known.w.lowest() - 2 * 1075;
    return with_flags(round_limbs<4>(sums.sum[0], unit, precision, smallest), known.flags);
}

/* above/below·2^exponent, both above 0, rounded: long division to 300 bits and more, with what is left in the last.
   It decides ties, as of two numbers of equal weights, of which an enclosure does not keep all bits. */
__device__ __noinline__ double divided(const Wide &above, const Wide &below, int exponent, int precision,
                                       int smallest) {
    int top = WIDE - 1;
    while (above.word[top] == 0) top--;
    const int bits = 64 * (top + 1) - __clzll(above.word[top]), more = 64 * WIDE - 1 - bits;
    Wide rest = {}, quotient = {};
    for (int place = bits - 1; place >= -more; place--) {
        rest = rest.times(2);
        if (place >= 0) rest.word[0] |= above.word[place / 64] >> place % 64 & 1;
        quotient = quotient.times(2);
        const Wide left = rest.less(below);
        if (left.negative()) continue;
        rest = left;
        quotient.word[0] |= 1;
    }
    quotient.word[0] |= !rest.zero();
    return round_limbs<WIDE>(quotient.word, exponent - more, precision, smallest);
}

/* Σw·x/Σw, rounded, with what IEEE 754 makes of zeros and Inf; NaN of nothing. False if that is undecided, and for
   weights that sum to zero, which are an error of the caller's. */
__device__ bool weighted_mean(const Sums &sums, const Known &known, int precision, int smallest, double *result) {
    const Wide above = Wide::of(sums.sum[0]), below = Wide::of(sums.weights);
    const int infinite = known.flags & (PLUS_INFINITY | MINUS_INFINITY);
    if (known.count == 0) return true;
    if (below.zero() && !(known.flags & NO_WEIGHT)) return false;
    if (known.flags & NOT_A_NUMBER || infinite == (PLUS_INFINITY | MINUS_INFINITY)) return true;
    const double sign = below.negative() ? -1 : 1;
    *result = with_flags(0, known.flags) / sign;
    if (above.zero() || !known.all_finite()) return true;
    const Wide n = above.magnitude(), d = below.magnitude();
    const int unit = known.x.lowest() - 1075;
    Enclosed quotient = n.leading().over(d.leading());
    quotient.exponent += unit;
    if (!quotient.round(precision, smallest, result)) *result = divided(n, d, unit, precision, smallest);
    if (above.negative()) *result = -*result;
    *result *= sign;
    return true;
}

#if COVARIANCE
/* (n·Σxw − Σx·Σw)/(n·(n − ddof)) of finite numbers, rounded. An Inf, or NaN of zero, where n <= ddof. */
__device__ double covariance(const Sums &sums, const Known &known, i64 ddof, int precision, int smallest) {
    const i64 n = known.count, divisor = n - ddof; /* n·divisor is below 2^53 */
    const Wide above = Wide::of(sums.sum[0]).times(n).less(product(Wide::of(sums.alone), Wide::of(sums.weights)));
    if (above.zero()) return divisor > 0 ? 0 : __longlong_as_double(0x7ff8000000000000ll);
    double result = __longlong_as_double(0x7ff0000000000000ll);
    if (divisor > 0) {
        const Wide magnitude = above.magnitude();
        const int unit = known.x.lowest() + known.w.lowest() - 2 * 1075;
        Enclosed quotient = magnitude.leading().over(enclosed(n * divisor));
        quotient.exponent += unit;
        if (!quotient.round(precision, smallest, &result))
            result = divided(magnitude, Wide{(u64)(n * divisor)}, unit, precision, smallest);
    }
    return above.negative() ? -result : result;
}
#endif

#if SPREAD
/* (Σw·Σw|x|² − |Σw·x|²)/((Σw)² − ddof·A), or its root, rounded, with A = Σw² if the weights are reliabilities, Σw if
   they are frequencies. NaN of what is not finite. False as `weighted_mean`. */
__device__ bool weighted_variance(const Sums &sums, const Known &known, i64 ddof, bool reliable, bool root,
                                  int precision, int smallest, double *result) {
    if (!known.all_finite()) return true;
    const Wide weights = Wide::of(sums.weights);
    if (weights.zero()) return false;
    Wide above = product(weights, Wide::of(sums.squares)), correction;
    for (int part = 0; part < PARTS; part++) {
        const Wide first = Wide::of(sums.sum[part]);
        above = above.less(product(first, first));
    }
    if (reliable) {
        correction = Wide::of(sums.of_weights);
    } else { /* in units of squares of weights; frequencies are integers */
        const int unit = 1075 - known.w.lowest();
        if (unit < 0) return false;
        shifted<2, WIDE>(sums.weights, unit, correction.word);
    }
    correction = correction.times(ddof < 0 ? -ddof : ddof);
    const Wide below = product(weights, weights).less(ddof < 0 ? Wide{}.less(correction) : correction);
    if (above.zero() || below.zero() || below.negative()) {
        const bool positive = !below.zero() && !below.negative();
        *result = positive ? 0 : __longlong_as_double(above.zero() ? 0x7ff8000000000000ll : 0x7ff0000000000000ll);
        return true;
    }
    const int unit = 2 * (known.x.lowest() - 1075);
    Enclosed quotient = above.leading().over(below.leading());
    quotient.exponent += unit;
    if (root) return quotient.root().round(precision, smallest, result);
    if (!quotient.round(precision, smallest, result)) *result = divided(above, below, unit, precision, smallest);
    return true;
}
#endif
#endif
