#include "multiword/runtime/exact.cuh"
#include "ozaki/rounding/digits.cuh"

/* From residues of a product to the integers C', in digits and in limbs of 64 bits.

   Residues of GROUP moduli are put together; the last group may have fewer.

   Table: 1/p and -p for every modulus, then for every group the digits of P over its moduli, then those of -P,
   what makes of the leading digit C'/P, and with two images 1/j for every modulus. Up to a certain size it is
   compiled in, so that the multiplications take their factors for free. */
#define GROUPS ((MODULI + GROUP - 1) / GROUP)
#ifdef TABLE
__constant__ const double compiled_in[] = {TABLE};
#define FROM_TABLE(i) compiled_in[i]
#define UNROLL GROUPS
#else
#define FROM_TABLE(i) table[i]
#define UNROLL 1
#endif
#define DIGIT(group, d) FROM_TABLE(2 * MODULI + (group) * DIGITS + (d))
#define OF_LEADING FROM_TABLE(2 * MODULI + (GROUPS + 1) * DIGITS)
#define INVERSE_ROOT(t) FROM_TABLE(2 * MODULI + (GROUPS + 1) * DIGITS + 1 + (t))
#define MAGIC 6755399441055744.0
#define SMALL_UNROLL (DIGITS <= 16 ? DIGITS : 1)

__device__ double from_product(double x) { return x; }
/* x, from x + 2^31 modulo 2^32: exact, without the slow conversion, 2^52 + 2^31 + x, and back. */
#define BIAS 0x80000000
__device__ double from_biased(int biased) { return __hiloint2double(0x43300000, biased) - 4503601774854144.0; }
__device__ double from_product(int x) { return from_biased(x ^ BIAS); }

/* Sums of groups' residues times digits, Σ y·(P/p), to the digits of C': less q·P. */
__device__ void take_quotient_off(double (&sum)[DIGITS], const double *__restrict__ table) {
    /* q = RN(Σ y·(P/p) / P): QUOTIENT_DIGITS leading digits tell, for |C'| stays away from P/2. */
    double leading = sum[DIGITS - QUOTIENT_DIGITS];
#pragma unroll(SMALL_UNROLL)
    for (int d = DIGITS - QUOTIENT_DIGITS + 1; d < DIGITS; d++)
        leading = fma(leading, 1.0 / (1ull << BASE_BITS), sum[d]);
    const double quotient = fma(leading, OF_LEADING, MAGIC) - MAGIC;
#pragma unroll(SMALL_UNROLL)
    for (int d = 0; d < DIGITS; d++) sum[d] = fma(quotient, DIGIT(GROUPS, d), sum[d]);
}

/* Digits to an integer in two's complement; limbs are zeros before. */
__device__ void put_limbs(const double (&digit)[DIGITS], u64 (&limb)[LIMBS]) {
#pragma unroll(SMALL_UNROLL)
    for (int d = 0; d < DIGITS; d++) add_shifted<LIMBS>(limb, (long long)digit[d], d * BASE_BITS);
}

/* A few neighbours in a row, read and written at once. */
struct alignas(VECTOR * sizeof(PRODUCT)) Products { PRODUCT column[VECTOR]; };

__device__ double reduced(double y, double inverse, double negative) {
    return fma(fma(y, inverse, MAGIC) - MAGIC, negative, y);
}

/* The residue of a real part of a product, from its images: `_residues_of_parts`. */
template <int PART> __device__ double residue_of(const double (&y)[IMAGES], double inverse, double negative,
                                                 double inverse_root) {
    if (IMAGES == 1) return sizeof(PRODUCT) > 1 ? reduced(y[0], inverse, negative) : y[0]; // bytes are residues
    const double one = y[0], other = y[IMAGES > 1 ? 1 : 0];
    if (IMAGES == 3) return reduced(PART ? y[IMAGES - 1] - one - other : one - other, inverse, negative);
    if (PART == 0) return reduced(one + other, inverse, negative);
    const double difference = sizeof(PRODUCT) > 1 ? reduced(one - other, inverse, negative) : one - other;
    return reduced(difference * inverse_root, inverse, negative);
}

__device__ double modulus(const double *__restrict__ table, int t) { return -FROM_TABLE(2 * t + 1); }

/* Residues that are bytes, modulo a pair of moduli, to x·q + y·p, by one instruction for each column. */
__device__ void put_together(const Products &x, const Products &y, int p, int q, double (&z)[VECTOR]) {
    unsigned left = 0, right = 0;
    memcpy(&left, &x, VECTOR);
    memcpy(&right, &y, VECTOR);
#pragma unroll
    for (int i = 0; i < VECTOR; i++) {
        int sum = BIAS;
        const unsigned pair = __byte_perm(left, right, 0x40 + 0x11 * i);
        asm("dp2a.lo.s32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(p << 16 | q), "r"(pair));
        z[i] = from_biased(sum);
    }
}

/* What stands for some numbers modulo the moduli of a group. */
template <int PART>
__device__ void of_group(int first, const PRODUCT *image, long long component, long long stride,
                         const double *__restrict__ table, double (&z)[VECTOR]) {
    Products images[GROUP][IMAGES] = {};
#pragma unroll
    for (int j = 0; j < GROUP; j++)
#pragma unroll
        for (int i = 0; i < IMAGES && first + j < MODULI; i++)
            images[j][i] = *(const Products *)(image + (first + j) * stride + i * component);
    const double p = modulus(table, first), q = first + GROUP > MODULI ? 1 : modulus(table, first + GROUP - 1);
    if (GROUP == 2 && IMAGES == 1 && sizeof(PRODUCT) == 1)
        return put_together(images[0][0], images[GROUP - 1][0], (int)p, (int)q, z);
#pragma unroll
    for (int i = 0; i < VECTOR; i++) {
        double y[GROUP] = {};
#pragma unroll
        for (int j = 0; j < GROUP; j++) {
            const int t = first + j;
            if (t >= MODULI) continue;
            double of_images[IMAGES];
#pragma unroll
            for (int k = 0; k < IMAGES; k++) of_images[k] = from_product(images[j][k].column[i]);
            const double inverse_root = IMAGES == 2 ? INVERSE_ROOT(t) : 0;
            y[j] = residue_of<PART>(of_images, FROM_TABLE(2 * t), FROM_TABLE(2 * t + 1), inverse_root);
        }
        z[i] = GROUP == 1 ? y[0] : fma(y[0], q, y[GROUP - 1] * p);
    }
}

/* Images of one part of some numbers to the digits of their integers. */
template <int PART>
__device__ void digits_of_integers(const PRODUCT *image, long long component, long long stride,
                                   const double *__restrict__ table, double (&sum)[VECTOR][DIGITS]) {
#pragma unroll(UNROLL)
    for (int g = 0; g < GROUPS; g++) {
        double z[VECTOR];
        of_group<PART>(g * GROUP, image, component, stride, table, z);
#pragma unroll
        for (int i = 0; i < VECTOR; i++)
#pragma unroll(SMALL_UNROLL)
            for (int d = 0; d < DIGITS; d++) sum[i][d] = fma(z[i], DIGIT(g, d), sum[i][d]);
    }
#pragma unroll
    for (int i = 0; i < VECTOR; i++) take_quotient_off(sum[i], table);
}

/* A thread has VECTOR columns of every so many rows: `launch_shape`. */
__device__ int first_column() { return (blockIdx.x * blockDim.x + threadIdx.x) * VECTOR; }
__device__ int first_row() { return blockIdx.y * blockDim.y + threadIdx.y; }
__device__ int rows_at_once() { return gridDim.y * blockDim.y; }

/* Products of residues, (IMAGES, MODULI, m, n), and the system's table; strides in elements. */
struct ResidueProducts {
    const PRODUCT *products;
    long long row_stride, modulus_stride;
    const double *table;
};
