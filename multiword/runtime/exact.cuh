// Conversions between fp32 and fp64, fp32 arithmetic, and powers of two. CuPy compiles with -ftz=true, after all other
// options: plain fp32 arithmetic and conversions then take subnormal numbers as zero. What is written in
// PTX without .ftz, as here, keeps them.
__device__ __forceinline__ double widened(float x) {
    double y; asm("cvt.f64.f32 %0, %1;" : "=d"(y) : "f"(x)); return y;
}
__device__ __forceinline__ double widened(double x) { return x; }
__device__ __forceinline__ float narrowed(double x) {
    float y; asm("cvt.rn.f32.f64 %0, %1;" : "=f"(y) : "d"(x)); return y;
}
// Numbers of half precision, as they lie in memory: CUDA's own take headers that not every machine has. The
// precision tells them apart: 11 bits of fp16, 8 of bf16, which has the upper bits of fp32.
template <int PRECISION> struct HalfPrecision {
    unsigned short bits;
    HalfPrecision() = default;
    __device__ HalfPrecision(int) : bits(0) {}
};
typedef HalfPrecision<11> Float16;
typedef HalfPrecision<8> BFloat16;
__device__ __forceinline__ double widened(Float16 x) {
    double y; asm("cvt.f64.f16 %0, %1;" : "=d"(y) : "h"(x.bits)); return y;
}
__device__ __forceinline__ double widened(BFloat16 x) { return widened(__int_as_float((unsigned)x.bits << 16)); }
// A number of the type's format, or beyond its range, in the type.
template <class T> __device__ __forceinline__ T rounded_to(double x);
template <> __device__ __forceinline__ double rounded_to<double>(double x) { return x; }
template <> __device__ __forceinline__ float rounded_to<float>(double x) { return narrowed(x); }
template <> __device__ __forceinline__ Float16 rounded_to<Float16>(double x) {
    Float16 y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(narrowed(x)));
    return y;
}
template <> __device__ __forceinline__ BFloat16 rounded_to<BFloat16>(double x) {
    BFloat16 y;
    y.bits = __float_as_uint(narrowed(x)) >> 16;
    return y;
}
// 2^e, for the exponents of normal numbers.
__device__ __forceinline__ double power_of_two(int e) {
    return __longlong_as_double((long long)(e + 1023) << 52);
}
// Multiply by 2^shift exactly, in two factors: one alone could overflow for subnormal rows.
struct Scale {
    double first, second;
    __device__ Scale(int s) : first(power_of_two(s >> 1)), second(power_of_two(s - (s >> 1))) {}
    __device__ double operator()(double x) const { return x * first * second; }
};
__device__ __forceinline__ float add32(float a, float b) {
    float r; asm("add.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r;
}
__device__ __forceinline__ float sub32(float a, float b) {
    float r; asm("sub.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r;
}
__device__ __forceinline__ float mul32(float a, float b) {
    float r; asm("mul.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r;
}
__device__ __forceinline__ float div32(float a, float b) {
    float r; asm("div.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r;
}
__device__ __forceinline__ float fma32(float a, float b, float c) {
    float r; asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(r) : "f"(a), "f"(b), "f"(c)); return r;
}
