/* Philox 4x32-10: `philox.rounds`, a counter with each thread. */

typedef unsigned long long u64;

extern "C" __global__ void random_words(u64 seed, u64 call, u64 begin, u64 n, uint4 *result)
{
    const u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned x = begin + i, y = (begin + i) >> 32, z = call, w = call >> 32, k = seed, m = seed >> 32;
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
    result[i] = make_uint4(x, y, z, w);
}
