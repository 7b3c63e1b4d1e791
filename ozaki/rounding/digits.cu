#include "ozaki/rounding/digits.cuh"

extern "C" __global__ void round_digits(const long long *digits, long long count, int length, int base_bits,
                                        const int *exponents, int exponent, int precision, int smallest,
                                        double *out) {
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count;
         i += (long long)gridDim.x * blockDim.x) {
        u64 limb[LIMBS] = {};
        for (int l = 0; l < length; l++) add_shifted<LIMBS>(limb, digits[l * count + i], l * base_bits);
        out[i] = round_limbs<LIMBS>(limb, exponents ? exponents[i] : exponent, precision, smallest);
    }
}
