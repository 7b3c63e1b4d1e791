#include "multiword/runtime/exact.cuh"

typedef unsigned int u32;
typedef unsigned short u16;
typedef long long i64;
// The record of a vector, and the flags of an operand (measure.py says what they hold).
struct Vector { double total; float norm1, norm2, centre; int shift, bad, unused; };
enum { UNCENTRED, BITS, HIGHEST, LOWEST, BAD, SMALL, DEFICIT, TOP, LOW, SPREAD };
enum { SIDE = 16, FAILED = 32, GROUPS = 34, COUNTERS };

__device__ __forceinline__ float power32(int e) { return __uint_as_float((u32)(e + 127) << 23); }
__device__ __forceinline__ u32 magnitude(float a) { return __float_as_uint(a) & 0x7FFFFFFFu; }
__device__ __forceinline__ int exponent(u32 bits) {
    return bits >> 23 ? (int)(bits >> 23) - 126 : bits ? 32 - __clz(bits) - 149 : 0;
}
// Integers are neither centred nor compensated, so that their exact products stay exact.
__device__ __forceinline__ bool integers(const int* flags, int exact_bits) {
    return flags[BITS] + flags[SIDE + BITS] <= exact_bits;
}
__device__ __forceinline__ bool centring(const int* flags, int exact_bits) {
    return flags[UNCENTRED] == 0 && flags[SIDE + UNCENTRED] == 0 && !integers(flags, exact_bits);
}
// `common_shift`, or else the vector's own.
__device__ __forceinline__ int shift_of(const Vector* v, const int* side, int target) {
    int range = side[HIGHEST] + side[LOWEST];
    return range > 0 && range <= 602 ? target - (side[HIGHEST] - 300) : v->shift;
}
