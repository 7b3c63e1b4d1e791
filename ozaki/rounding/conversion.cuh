#include "multiword/runtime/exact.cuh"

/* The number in float or double: subnormals are kept, and NaN is the canonical one. */
template <class T> __device__ __forceinline__ T canonical(double x);
template <> __device__ __forceinline__ double canonical(double x) {
    return x != x ? __longlong_as_double(0x7ff8000000000000ll) : x;
}
template <> __device__ __forceinline__ float canonical(double x) {
    return x != x ? __int_as_float(0x7fc00000) : narrowed(x);
}

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
