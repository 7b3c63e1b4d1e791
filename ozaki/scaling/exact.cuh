#include "multiword/runtime/exact.cuh"

/* The exponent of a number's last place; NOTHING of zero, above all others, and BAD of an Inf or NaN, below them. */
__device__ __forceinline__ int last_place(double x) {
    const int high = __double2hiint(x) & 0x7fffffff, low = __double2loint(x), exponent = high >> 20;
    const int leading = (high & 0xfffff) | (exponent ? 1 << 20 : 0);
    const int zeros_below = low ? __ffs(low) - 1 : 31 + __ffs(leading);
    if (exponent == 0x7ff) return BAD;
    return low | leading ? max(exponent, 1) - 1075 + zeros_below : NOTHING;
}
