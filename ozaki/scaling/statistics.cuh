typedef unsigned long long u64;
typedef long long i64;

/* The statistics of an operand's rows: `RowStatistics`. */
struct Rows {
    int *exponent;
    i64 *total, *square;
    int *counts; /* (COUNTS, rows) */
    int rows;
};

/* Octaves below a row's largest number to the level whose counts include them. */
__device__ int level_of(int octave) {
    return min(octave < FINE ? octave : FINE - 1 + (octave - (FINE - 1)) / STEP, COUNTS - 1);
}

/* Where norm scales go, unless it is null, and the limit that they fill. */
struct NormScales {
    int *scale;
    int limit_bits, significand;
};

/* `_norm_scales_host`: the largest s with square·4^s below significand/32·2^limit_bits. */
__device__ int norm_scale(const NormScales &limit, int exponent, i64 square) {
    if (exponent == NONFINITE || exponent == ZERO) return exponent == ZERO ? 0 : NONFINITE_ROW;
    const int bits = 63 - __clzll(square);
    const i64 threshold = (1ll << bits) + ((i64)(limit.significand - 32) << max(bits - 5, 0));
    return ((limit.limit_bits - bits - (square > threshold)) >> 1) + BITS - exponent;
}
