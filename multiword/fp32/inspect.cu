#include "multiword/fp32/fp32.cuh"

__device__ __forceinline__ double power2(int e) {
    return __longlong_as_double((i64)(e + 1023) << 52);
}
// In place, where all lines have one scale: check P = A_1·B_1, and put the rank-two part back,
// scaled as P is. A block takes ROWS rows and 1024 columns, a thread four columns.
extern "C" __global__ void __launch_bounds__(256) multiword_inspect(
        float* p, i64 ldp, int m, int n, int k, const Line* __restrict__ lines_a,
        const Line* __restrict__ lines_b, float limit, float amplification, int* flags, int* report) {
    int across = (n + 1023) / 1024, block = blockIdx.x / across;
    int j0 = 4 * (blockIdx.x % across * 256 + threadIdx.x), failed = 0;
    if (j0 >= n) return;
    float norm2_b[4];
#if CENTRED
    double t[4], bj[4];
    float norm1_b[4];
    double scale = power2(lines_a[0].shift + lines_b[0].shift), back_a = power2(-lines_a[0].shift);
#endif
#pragma unroll
    for (int x = 0; x < 4; x++) {
        Line l = lines_b[j0 + x];
        norm2_b[x] = limit * l.norm2;
#if CENTRED
        t[x] = (l.total - (double)k * widen(l.centre)) * scale;
        bj[x] = widen(l.centre) * scale;
        norm1_b[x] = (float)(l.norm1 * power2(lines_a[0].shift) + (double)k * fabs(bj[x]));
#endif
    }
    int stop = min(m, (block + 1) * ROWS);
    for (int i0 = block * ROWS; i0 < stop; i0 += BATCH) {
        float4 v[BATCH];
        Line l[BATCH];                              // of which only what is used is read
#pragma unroll
        for (int y = 0; y < BATCH; y++) {
            int i = min(i0 + y, m - 1);
            v[y] = *(const float4*)(p + i * ldp + j0);
            l[y] = lines_a[i];
        }
#pragma unroll
        for (int y = 0; y < BATCH; y++) {
            float value[4] = {v[y].x, v[y].y, v[y].z, v[y].w};
#pragma unroll
            for (int x = 0; x < 4; x++) failed |= fabsf(value[x]) > l[y].norm2 * norm2_b[x];
#if CENTRED
            double ai = widen(l[y].centre);
            float aj = (float)fabs(ai), norm1_a = (float)(l[y].norm1 * back_a + (double)k * fabs(ai));
#pragma unroll
            for (int x = 0; x < 4; x++) {
                double sum = (ai * t[x] + l[y].total * bj[x]) + widen(value[x]);
                float bx = (float)fabs(bj[x]);
                float terms = aj * norm1_b[x] + norm1_a * bx + (float)k * aj * bx;
                value[x] = narrow(sum);
                if (terms > amplification * fabsf(value[x])) failed |= 2;
            }
            if (i0 + y < stop)
                *(float4*)(p + (i0 + y) * ldp + j0) = make_float4(value[0], value[1], value[2], value[3]);
#endif
        }
    }
    if (failed && report) announce(flags, report, failed);
}
