struct Expansion {
    const void* b;
    long long stride;
    int down, across;
    unsigned int* expanded;
    int first, count, k, n;
};

extern "C" __global__ void batched_expand(const Expansion with) {
    const int k = with.k, n = with.n, first = with.first;
    const long long i = blockIdx.x * 256ll + threadIdx.x;
    if (i >= (long long)with.count * k * n) return;
    const int column = i % n, row = i / n % k, matrix = i / n / k;
#if LISTED
    const unsigned int* from = ((const unsigned int* const*)with.b)[first + matrix];
#else
    const unsigned int* from = (const unsigned int*)with.b + (first + matrix) * with.stride;
#endif
    unsigned int x = from[(long long)row * with.down + (long long)column * with.across];
    if (CONJUGATE) x ^= 0x80000000u;
    unsigned int* to = with.expanded + ((long long)matrix * 2 * k + 2 * row) * n + column;
    to[0] = x;                                         // re, im
    to[n] = __byte_perm(x, x, 0x1032) ^ 0x8000u;       // -im, re
}
