typedef unsigned int u32;
typedef unsigned short u16;
typedef long long i64;
struct Line { double total; float norm1, norm2, centre; int shift, bad, unused; };
enum { UNCENTRED, BITS, HIGHEST, LOWEST, BAD, SMALL, DEFICIT, TOP, LOW, SPREAD };
enum { SIDE = 16, FAILED = 32, GROUPS = 34, COUNTERS };

__device__ __forceinline__ float add32(float a, float b) {
    float r; asm("add.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r;
}
__device__ __forceinline__ float sub32(float a, float b) {
    float r; asm("sub.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r;
}
__device__ __forceinline__ float mul32(float a, float b) {
    float r; asm("mul.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r;
}
__device__ __forceinline__ float fma32(float a, float b, float c) {
    float r; asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(r) : "f"(a), "f"(b), "f"(c)); return r;
}
__device__ __forceinline__ double widen(float a) {
    double r; asm("cvt.f64.f32 %0, %1;" : "=d"(r) : "f"(a)); return r;
}
__device__ __forceinline__ float narrow(double a) {
    float r; asm("cvt.rn.f32.f64 %0, %1;" : "=f"(r) : "d"(a)); return r;
}
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
// Tell the host what failed: 1, sums of one sign; 2, centring. Once, for its memory is far away.
__device__ __forceinline__ void announce(int* flags, int* report, int failed) {
    int fresh = failed & ~atomicOr(flags + FAILED, failed);
    if (fresh & 1) report[FAILED] = 1;
    if (fresh & 2) report[FAILED + 1] = 2;
}
// `common_shift`, or else the line's own.
__device__ __forceinline__ int shift_of(const Line* l, const int* side, int target) {
    int range = side[HIGHEST] + side[LOWEST];
    return range > 0 && range <= 602 ? target - (side[HIGHEST] - 300) : l->shift;
}
