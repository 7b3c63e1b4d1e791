#include "ozaki/residues/digits.cuh"

/* What becomes of the integers: residues modulo `modulus` if the kernel is MODULAR, else numbers of so many bits,
   with a sign or without. Of those that need more bits, `misfit` becomes 2^63 - 1 less the least index, which is
   `first` at the first element, and `stride` more in the next row. */
struct Range { int bits, is_unsigned, rows, columns; long long modulus, first, stride; u64 *misfit; };

__device__ bool fits(const u64 (&limb)[LIMBS], const Range &range) {
    const int spare = 64 - range.bits;
    const long long low = limb[0], sign = range.is_unsigned ? 0 : low >> 63;
    const long long kept = range.is_unsigned ? (long long)(limb[0] << spare >> spare) : (low << spare) >> spare;
    bool same = kept == low;
#pragma unroll
    for (int i = 1; i < LIMBS; i++) same &= (long long)limb[i] == sign;
    return same && !(range.is_unsigned && (long long)limb[LIMBS - 1] < 0);
}

/* The limbs' value modulo p by halves of limbs, of which the highest has a sign: `_modulo` of integers.py, with
   d = 32. */
__device__ u64 modulo(const u64 (&limb)[LIMBS], long long p) {
    const double step = 0x1p32 / (double)p, one = 1 / (double)p;
    u64 value = 0;
#pragma unroll
    for (int i = 2 * LIMBS - 1; i >= 0; i--) {
        const unsigned half = (unsigned)(limb[i / 2] >> 32 * (i % 2));
        const long long digit = i == 2 * LIMBS - 1 ? (int)half : (long long)half;
        const double quotient = rint((double)(long long)value * step + (double)digit * one);
        value = (value << 32) + (u64)digit - (u64)(long long)quotient * (u64)p;
    }
    return (long long)value < 0 ? value + (u64)p : value;
}

extern "C" __global__ void __launch_bounds__(256)
reconstruct_integers(ResidueProducts y, Range range, long long *out) {
    const int column = first_column();
    if (column >= range.columns) return;
    long long misfit = -1;
    for (int row = first_row(); row < range.rows; row += rows_at_once()) {
        const PRODUCT *const at = y.products + row * y.row_stride + column;
        double digit[VECTOR][DIGITS] = {};
        digits_of_integers<0>(at, y.modulus_stride * MODULI, y.modulus_stride, y.table, digit);
#pragma unroll
        for (int i = 0; i < VECTOR; i++) {
            u64 limb[LIMBS] = {};
            put_limbs(digit[i], limb);
            if (column + i < range.columns) {
                if (!MODULAR && misfit < 0 && !fits(limb, range))
                    misfit = range.first + row * range.stride + column + i;
                out[(long long)row * range.columns + column + i] = MODULAR ? modulo(limb, range.modulus) : limb[0];
            }
        }
    }
    const u64 noted = 0x7fffffffffffffffull - misfit;  // by few threads, not all of which the first would keep
    if (misfit >= 0 && noted > *(volatile u64 *)range.misfit) atomicMax(range.misfit, noted);
}
