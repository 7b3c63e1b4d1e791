#include "multiword/fp32/fp32.cuh"

__device__ __forceinline__ double power2(int e) {
    return __longlong_as_double((i64)(e + 1023) << 52);
}
__device__ __forceinline__ double wide(float x) { return widen(x); }
__device__ __forceinline__ double wide(double x) { return x; }

__device__ __noinline__ double plain_dot(const float* a, const float* b, int k, i64 a_step, i64 b_step) {
    double sum = 0.0;
    for (int h = 0; h < k; h++) sum += widen(a[h * a_step]) * widen(b[h * b_step]);
    return sum;
}
__device__ __forceinline__ void store(float* to, const float* v, int count, bool aligned) {
    if (aligned) *(float4*)to = make_float4(v[0], v[1], v[2], v[3]);
    else {
#pragma unroll
        for (int x = 0; x < 4; x++) if (x < count) to[x] = v[x];
    }
}
// A block takes ROWS rows and 512 columns, a thread four neighbouring columns of each row, and
// four rows at a time so that their readings overlap. Without lines: out = alpha·P + beta·C.
extern "C" __global__ void __launch_bounds__(128) multiword_finish(
        const SUM* p, i64 ldp, float* out, i64 ldo,
        int m, int n, int k, double alpha, double beta, const float* c, i64 c_row, i64 c_column,
        const Line* __restrict__ lines_a, const Line* __restrict__ lines_b,
        int* flags, int* report, int may_centre, int exact_bits, float limit, float amplification,
        const float* a, i64 a_row, i64 a_step, const float* b, i64 b_row, i64 b_step) {
    // In one dimension, for it alone may be long.
    int across = (n + 511) / 512, block = blockIdx.x / across;
    int j0 = 4 * (blockIdx.x % across * 128 + threadIdx.x), count = min(4, n - j0), failed = 0;
    if (j0 >= n) return;
    bool centred = flags && may_centre && centring(flags, exact_bits);
    bool vector = count == 4 && sizeof(SUM) == 4 && (((unsigned long long)p | (4 * ldp)) & 15) == 0;
    bool aligned = count == 4 && (((unsigned long long)out | (4 * ldo)) & 15) == 0;
    // Without more to do than to undo powers of two, one multiplication in fp32 rounds correctly.
    bool simple = sizeof(SUM) == 4 && !centred && alpha == 1.0 && !c && lines_a;
    float factor_b[4];
    double t[4], bj[4], scale_b[4];
    float norm1_b[4], norm2_b[4];
    int bad_b = 0;
#pragma unroll
    for (int x = 0; x < 4; x++) {
        t[x] = bj[x] = 0.0; scale_b[x] = 1.0; norm1_b[x] = 0.0f; factor_b[x] = 1.0f;
        norm2_b[x] = __uint_as_float(0x7F800000u);  // beyond the last column nothing is checked
        if (!lines_b || x >= count) continue;
        Line l = lines_b[j0 + x];
        bj[x] = centred ? widen(l.centre) : 0.0;
        t[x] = l.total - (double)k * bj[x];
        scale_b[x] = power2(-l.shift);
        norm1_b[x] = (float)(l.norm1 * scale_b[x] + (double)k * fabs(bj[x]));
        norm2_b[x] = limit * l.norm2;
        bad_b |= l.bad;
        simple = simple && abs(l.shift) <= 62 && !l.bad;
        factor_b[x] = __uint_as_float((u32)(127 - (simple ? l.shift : 0)) << 23);
    }
    int stop = min(m, (block + 1) * ROWS);
    for (int i0 = block * ROWS; i0 < stop; i0 += 4) {
        SUM v[4][4];
#pragma unroll
        for (int y = 0; y < 4; y++) {
            const SUM* from = p + min(i0 + y, m - 1) * ldp + j0;
            if (vector) {
                float4 four = *(const float4*)from;
                v[y][0] = (SUM)four.x; v[y][1] = (SUM)four.y; v[y][2] = (SUM)four.z; v[y][3] = (SUM)four.w;
            } else {
#pragma unroll
                for (int x = 0; x < 4; x++) v[y][x] = from[min(x, count - 1)];
            }
        }
#pragma unroll
        for (int y = 0; y < 4; y++) {
            int i = i0 + y;
            if (i >= stop) break;
            Line l = {0.0, 0.0f, 0.0f, 0.0f, 0, 0, 0};
            if (lines_a) l = lines_a[i];
            float results[4];
            float* to = out + i * ldo + j0;
            if (simple && abs(l.shift) <= 62 && !l.bad) {
                float factor_a = __uint_as_float((u32)(127 - l.shift) << 23);
#pragma unroll
                for (int x = 0; x < 4; x++) {
                    float value = (float)v[y][x];
                    if (fabsf(value) > l.norm2 * norm2_b[x]) failed |= 1;
                    results[x] = mul32(value, factor_a * factor_b[x]);
                }
                store(to, results, count, aligned);
                continue;
            }
            double scale_a = power2(-l.shift), ai = widen(l.centre);
            float norm1_a = centred ? (float)(l.norm1 * scale_a + (double)k * fabs(ai)) : 0.0f;
#pragma unroll
            for (int x = 0; x < 4; x++) {
                double value = wide(v[y][x]);
                if (lines_a) {
                    if (fabsf((float)v[y][x]) > l.norm2 * norm2_b[x]) failed |= 1;
                    value = (value * scale_a) * scale_b[x];
                }
                if (centred) {
                    value = (ai * t[x] + l.total * bj[x]) + value;
                    float aj = (float)fabs(ai), bx = (float)fabs(bj[x]);
                    float terms = aj * norm1_b[x] + norm1_a * bx + (float)k * aj * bx;
                    if (terms > amplification * (float)fabs(value) && x < count) failed |= 2;
                }
                if (l.bad | bad_b)
                    if (x < count && (l.bad || lines_b[j0 + x].bad))
                        value = plain_dot(a + i * a_row, b + (j0 + x) * b_row, k, a_step, b_step);
                value = alpha * value;
                if (c && x < count) value = value + beta * widen(c[i * c_row + (j0 + x) * c_column]);
                results[x] = narrow(value);
            }
            store(to, results, count, aligned);
        }
    }
    if (failed && report) announce(flags, report, failed);
}
