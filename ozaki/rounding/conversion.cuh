#include "multiword/runtime/exact.cuh"

/* A number of the type's format, or beyond its range, in the type: subnormals are kept, and NaN is the canonical one. */
template <class T> __device__ __forceinline__ T canonical(double x);
template <> __device__ __forceinline__ double canonical(double x) {
    return x != x ? __longlong_as_double(0x7ff8000000000000ll) : x;
}
template <> __device__ __forceinline__ float canonical(double x) {
    return x != x ? __int_as_float(0x7fc00000) : narrowed(x);
}
template <> __device__ __forceinline__ Float16 canonical(double x) {
    Float16 y = rounded_to<Float16>(x);
    if (x != x) y.bits = 0x7e00;
    return y;
}
template <> __device__ __forceinline__ BFloat16 canonical(double x) {
    BFloat16 y = rounded_to<BFloat16>(x);
    if (x != x) y.bits = 0x7fc0;
    return y;
}

/* result[i] = value, a number of the format with this precision, or beyond its range, in that format's dtype:
   subnormals are kept, and NaN is the canonical one. */
__device__ __forceinline__ void store(void *result, long long i, double value, int precision) {
    if (precision == 53) {
        ((double *)result)[i] = value;
        return;
    }
    if (precision == 24) ((float *)result)[i] = canonical<float>(value);
    else if (precision == 11) ((Float16 *)result)[i] = canonical<Float16>(value);
    else ((BFloat16 *)result)[i] = canonical<BFloat16>(value);
}
