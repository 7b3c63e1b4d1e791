// Inverses of normal numbers. The processor's own are good to 19 bits or more; each step of Newton's doubles that.

// To 38 bits.
__device__ __forceinline__ double near_inverse(double x) {
  double y;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
  return __fma_rn(y, __fma_rn(-x, y, 1.0), y);
}

// To 48 bits, as two steps are at most as good as float64.
__device__ __forceinline__ double near_inverse_root(double x) {
  double y;
  asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
  y = __fma_rn(0.5 * y, __fma_rn(-(x * y), y, 1.0), y);
  return __fma_rn(0.5 * y, __fma_rn(-(x * y), y, 1.0), y);
}
