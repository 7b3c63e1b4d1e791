// Conversions that keep the subnormals of fp32, which CuPy's -ftz=true would flush to zero, and powers of two.

__device__ __forceinline__ double widened(float x) {
    double y;
    asm("cvt.f64.f32 %0, %1;" : "=d"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ float narrowed(double x) {
    float y;
    asm("cvt.rn.f32.f64 %0, %1;" : "=f"(y) : "d"(x));
    return y;
}

/* 2^exponent, a normal float64. */
__device__ __forceinline__ double power_of_two(int exponent) {
    return __longlong_as_double((long long)(exponent + 1023) << 52);
}
