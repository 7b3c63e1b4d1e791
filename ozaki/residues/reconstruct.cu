#include "ozaki/residues/digits.cuh"

struct alignas(VECTOR * PARTS * sizeof(REAL) < 16 ? VECTOR * PARTS * sizeof(REAL) : 16) Reals {
    REAL number[VECTOR * PARTS];
};

/* The digits of an integer to its rounded value. */
__device__ double rounded(const double (&digit)[DIGITS], int exponent, int precision, int smallest) {
#if DIGITS >= 3 && DIGITS <= MOST_ROUNDED
    double term[DIGITS], weight = 1, result;
#pragma unroll
    for (int d = 0; d < DIGITS; d++, weight *= (double)(1ull << BASE_BITS))
        term[DIGITS - 1 - d] = weight * digit[d];
    if (precision == 53 && round_sum(term, exponent, &result)) return result;
#endif
    u64 limb[LIMBS] = {};
    put_limbs(digit, limb);
    return round_limbs<LIMBS>(limb, exponent, precision, smallest);
}

/* Images of one part of some numbers to their rounded values: what _reconstruct_host computes. */
template <int PART>
__device__ void reconstructed(const PRODUCT *image, long long component, long long stride,
                              const double *__restrict__ table, const int (&exponent)[VECTOR], int precision,
                              int smallest, double (&result)[VECTOR]) {
    double digit[VECTOR][DIGITS] = {};
    digits_of_integers<PART>(image, component, stride, table, digit);
#pragma unroll
    for (int i = 0; i < VECTOR; i++) result[i] = rounded(digit[i], exponent[i], precision, smallest);
}

/* What the integers are scaled by, and the format that they are rounded to. */
struct Rounding {
    const int *row_scale, *column_scale;
    int rows_each, rows, columns, precision, smallest, symmetric;
};

/* Blocks of a multiprocessor: three or four have registers enough for few sums. */
#define BLOCKS (PARTS > 1 || VECTOR * DIGITS > 24 ? 1 : VECTOR * DIGITS > 12 ? 3 : 4)

extern "C" __global__ void __launch_bounds__(256, BLOCKS)
reconstruct(ResidueProducts y, Rounding to, REAL *out) {
    const int m = to.rows, n = to.columns;
    const int column = first_column();
    if (column >= n) return;
    const long long component = y.modulus_stride * MODULI;
    const bool full = column + VECTOR <= n && ((size_t)out | n * PARTS * sizeof(REAL)) % sizeof(Reals) == 0;
    for (int row = first_row(); row < m; row += rows_at_once()) {
        if (to.symmetric && column > row) continue; // what is above the diagonal is not there
        const PRODUCT *const at = y.products + row * y.row_stride + column;
        const int *const scale = to.column_scale + (long long)(row / to.rows_each) * n + column;
        int exponent[VECTOR];
#pragma unroll
        for (int i = 0; i < VECTOR; i++) exponent[i] = column + i < n ? -(to.row_scale[row] + scale[i]) : 0;
        double value[PARTS][VECTOR];
        reconstructed<0>(at, component, y.modulus_stride, y.table, exponent, to.precision, to.smallest, value[0]);
        if (PARTS == 2)
            reconstructed<1>(at, component, y.modulus_stride, y.table, exponent, to.precision, to.smallest,
                             value[PARTS - 1]);
        Reals reals;
#pragma unroll
        for (int i = 0; i < VECTOR * PARTS; i++)
            reals.number[i] = rounded_to<REAL>(value[i % PARTS][i / PARTS]);
        REAL *const target = out + ((long long)row * n + column) * PARTS;
        if (full) *(Reals *)target = reals;
        else for (int i = 0; i < VECTOR * PARTS && column + i / PARTS < n; i++) target[i] = reals.number[i];
    }
}
