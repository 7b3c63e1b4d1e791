extern "C" __global__ void batched_expand(
        const void* b, long long stride, int down, int across, unsigned int* expanded, int first, int count,
        int k, int n) {
    const long long i = blockIdx.x * 256ll + threadIdx.x;
    if (i >= (long long)count * k * n) return;
    const int column = i % n, row = i / n % k, matrix = i / n / k;
#if LISTED
    const unsigned int* from = ((const unsigned int* const*)b)[first + matrix];
#else
    const unsigned int* from = (const unsigned int*)b + (first + matrix) * stride;
#endif
    unsigned int x = from[(long long)row * down + (long long)column * across];
    if (CONJUGATE) x ^= 0x80000000u;
    unsigned int* to = expanded + ((long long)matrix * 2 * k + 2 * row) * n + column;
    to[0] = x;                                         // re, im
    to[n] = __byte_perm(x, x, 0x1032) ^ 0x8000u;       // -im, re
}
