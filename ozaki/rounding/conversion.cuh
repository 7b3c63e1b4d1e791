#include "multiword/runtime/exact.cuh"

/* result[i] = value, a number of the format with this precision, or beyond its range, in that format's dtype:
   subnormals are kept, and NaN is the canonical one. */
__device__ __forceinline__ void store(void *result, long long i, double value, int precision) {
    if (precision == 53) {
        ((double *)result)[i] = value;
        return;
    }
    const float single = narrowed(value);
    const bool number = value == value;
    if (precision == 24) {
        ((unsigned *)result)[i] = number ? __float_as_uint(single) : 0x7fc00000u;
        return;
    }
    unsigned short half = __float_as_uint(single) >> 16;
    if (precision == 11) asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(single));
    ((unsigned short *)result)[i] = number ? half : precision == 11 ? 0x7e00 : 0x7fc0;
}
