#include "ozaki/residues/digits.cuh"

struct alignas(VECTOR * PARTS * sizeof(REAL) < 16 ? VECTOR * PARTS * sizeof(REAL) : 16) Reals {
    REAL number[VECTOR * PARTS];
};

/* Limbs to the number nearest to their integer; they are destroyed. */
__device__ void round_limbs(u64 (&limb)[LIMBS], int exponent, int precision, int smallest, double (&word)[1]) {
    word[0] = round_limbs<LIMBS>(limb, exponent, precision, smallest);
}

/* And to that nearest to what it leaves; to 0 where it is infinite: what `Residues.round_words` computes. */
__device__ void round_limbs(u64 (&limb)[LIMBS], int exponent, int precision, int smallest, double (&word)[2]) {
    u64 rest[LIMBS];
#pragma unroll(LIMBS <= 8 ? LIMBS : 1)
    for (int i = 0; i < LIMBS; i++) rest[i] = limb[i];
    word[0] = round_limbs<LIMBS>(limb, exponent, precision, smallest);
    subtract<LIMBS>(rest, word[0], exponent);
    word[1] = isfinite(widened(rounded_to<REAL>(word[0]))) ? round_limbs<LIMBS>(rest, exponent, precision, smallest) : 0;
}

/* The digits of an integer to its rounded words. */
template <int WORDS>
__device__ void round_digits(const double (&digit)[DIGITS], int exponent, int precision, int smallest,
                             double (&word)[WORDS]) {
#if DIGITS >= 3 && DIGITS <= MOST_ROUNDED
    double term[DIGITS], weight = 1;
#pragma unroll
    for (int d = 0; d < DIGITS; d++, weight *= (double)(1ull << BASE_BITS))
        term[DIGITS - 1 - d] = weight * digit[d];
    if (precision == 53 && round_sum(term, exponent, word)) return;
#endif
    u64 limb[LIMBS] = {};
    put_limbs(digit, limb);
    round_limbs(limb, exponent, precision, smallest, word);
}

/* Images of one part of some numbers to their rounded words: what _reconstruct_host computes. */
template <int PART, int WORDS>
__device__ void reconstructed(const PRODUCT *image, long long component, long long stride,
                              const double *__restrict__ table, const int (&exponent)[VECTOR], int precision,
                              int smallest, double (&word)[VECTOR][WORDS]) {
    double digit[VECTOR][DIGITS] = {};
    digits_of_integers<PART>(image, component, stride, table, digit);
#pragma unroll
    for (int i = 0; i < VECTOR; i++) round_digits(digit[i], exponent[i], precision, smallest, word[i]);
}

/* What the integers are scaled by, and the format that they are rounded to. */
struct Rounding {
    const int *row_scale, *column_scale;
    int rows_each, rows, columns, precision, smallest, symmetric;
};

/* Blocks of a multiprocessor: three or four have registers enough for few sums. */
#define BLOCKS (PARTS > 1 || VECTOR * DIGITS > 24 ? 1 : VECTOR * DIGITS > 12 ? 3 : 4)

/* Rows of integers to their words, each written to an array of its own. */
template <int WORDS>
__device__ void reconstruct_rows(const ResidueProducts &y, const Rounding &to, REAL *const (&out)[WORDS]) {
    const int m = to.rows, n = to.columns;
    const int column = first_column();
    if (column >= n) return;
    const long long component = y.modulus_stride * MODULI;
    size_t at_once = 0;
#pragma unroll
    for (int w = 0; w < WORDS; w++) at_once |= (size_t)out[w];
    const bool full = column + VECTOR <= n && (at_once | n * PARTS * sizeof(REAL)) % sizeof(Reals) == 0;
    for (int row = first_row(); row < m; row += rows_at_once()) {
        if (to.symmetric && column > row) continue; // what is above the diagonal is not there
        const PRODUCT *const at = y.products + row * y.row_stride + column;
        const int *const scale = to.column_scale + (long long)(row / to.rows_each) * n + column;
        int exponent[VECTOR];
#pragma unroll
        for (int i = 0; i < VECTOR; i++) exponent[i] = column + i < n ? -(to.row_scale[row] + scale[i]) : 0;
        double word[PARTS][VECTOR][WORDS];
        reconstructed<0>(at, component, y.modulus_stride, y.table, exponent, to.precision, to.smallest, word[0]);
        if (PARTS == 2)
            reconstructed<1>(at, component, y.modulus_stride, y.table, exponent, to.precision, to.smallest,
                             word[PARTS - 1]);
#pragma unroll
        for (int w = 0; w < WORDS; w++) {
            Reals reals;
#pragma unroll
            for (int i = 0; i < VECTOR * PARTS; i++)
                reals.number[i] = rounded_to<REAL>(word[i % PARTS][i / PARTS][w]);
            REAL *const target = out[w] + ((long long)row * n + column) * PARTS;
            if (full) *(Reals *)target = reals;
            else for (int i = 0; i < VECTOR * PARTS && column + i / PARTS < n; i++) target[i] = reals.number[i];
        }
    }
}
