#include "multiword/runtime/exact.cuh"

#if TARGET == 32
typedef unsigned Bits;
#define QUIET_NAN 0x7fc00000u
#else
typedef unsigned short Bits;
#define QUIET_NAN (TARGET == 11 ? 0x7e00u : 0x7fc0u)
#endif

/* out[i] = x[i], which is a number of the target format or exceeds its range. TARGET is 32 for float32, 11 for
   float16 and 8 for bfloat16. */
extern "C" __global__ void narrow(const double *x, long long count, Bits *out) {
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count;
         i += (long long)gridDim.x * blockDim.x) {
        const float value = narrowed(x[i]);
        const unsigned bits = __float_as_uint(value);
#if TARGET == 11
        unsigned short half;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
#else
        const Bits half = bits >> (32 - 8 * sizeof(Bits));
#endif
        out[i] = (bits & 0x7fffffff) > 0x7f800000 ? QUIET_NAN : half;
    }
}
