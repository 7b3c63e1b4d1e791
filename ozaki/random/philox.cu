/* Philox 4x32-10: `philox.rounds`, a counter with each thread, and what is made of its four words. Defined before:
   NUMBERS, one of these. */

#define WORDS 0
#define FRACTIONS_32 1 /* float32 in [0, 1) */
#define FRACTIONS_64 2
#define BELOW 3 /* whether the latter are less than a bound */
#define CHOSEN 4 /* a float32 value for those, and 0 for the others */

typedef unsigned long long u64;

__device__ uint4 rounds(u64 seed, u64 call, u64 counter)
{
    unsigned x = counter, y = counter >> 32, z = call, w = call >> 32, k = seed, m = seed >> 32;
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const unsigned a = x, b = z;
        x = __umulhi(b, 0xCD9E8D57u) ^ y ^ k;
        y = b * 0xCD9E8D57u;
        z = __umulhi(a, 0xD2511F53u) ^ w ^ m;
        w = a * 0xD2511F53u;
        k += 0x9E3779B9u;
        m += 0xBB67AE85u;
    }
    return make_uint4(x, y, z, w);
}

__device__ float single(unsigned word) { return (float)(word >> 8) * 0x1p-24f; }
__device__ double fraction(unsigned low, unsigned high) { return (double)(((u64)high << 32 | low) >> 11) * 0x1p-53; }

#if NUMBERS == WORDS
typedef uint4 Result;
__device__ Result made(uint4 w, double bound, float value) { return w; }
#elif NUMBERS == FRACTIONS_32
typedef float4 Result;
__device__ Result made(uint4 w, double bound, float value) { return make_float4(single(w.x), single(w.y), single(w.z), single(w.w)); }
#elif NUMBERS == FRACTIONS_64
typedef double2 Result;
__device__ Result made(uint4 w, double bound, float value) { return make_double2(fraction(w.x, w.y), fraction(w.z, w.w)); }
#elif NUMBERS == CHOSEN
typedef float2 Result;
__device__ Result made(uint4 w, double bound, float value) {
    return make_float2(fraction(w.x, w.y) < bound ? value : 0, fraction(w.z, w.w) < bound ? value : 0);
}
#else
typedef uchar2 Result;
__device__ Result made(uint4 w, double bound, float value) {
    return make_uchar2(fraction(w.x, w.y) < bound, fraction(w.z, w.w) < bound);
}
#endif

extern "C" __global__ void random_numbers(u64 seed, u64 call, u64 begin, u64 n, double bound, float value,
                                         Result *result)
{
    const u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x;
    if (i < n) result[i] = made(rounds(seed, call, begin + i), bound, value);
}
