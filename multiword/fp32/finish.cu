#include "multiword/fp32/fp32.cuh"

// out = alpha·P + beta·C for the (m, n) sums P. A, B and k: for vectors with infinities or NaNs.
struct Finish {
    SUM *p; float *out; const float *c, *a, *b; int *flags, *report;
    i64 ldp, ldo, c_row, c_column, a_row, a_step, b_column, b_step;
    double alpha, beta;
    int m, n, k, may_centre, exact_bits; float limit, amplification;
};

// A vector in its own scale: its centre, its sum, and at least Σ|x|.
struct Scaled {
    double centre, total;
    float norm1;
    __device__ __forceinline__ Scaled(const Vector& v, int k) {
        double up = power_of_two(v.shift);
        centre = widened(v.centre) * up;
        total = v.total * up;
        norm1 = (float)(v.norm1 + (double)k * fabs(centre));
    }
};
// A bound of the terms of the rank-two part and of what is left, |A'||B'|, by the norms.
__device__ __forceinline__ float terms(float a, float norm1_a, float b, float norm1_b, int k) {
    return a * norm1_b + norm1_a * b + (float)k * a * b;
}
// Tell the host what failed: 1, sums of one sign; 2, centring. Once, for its memory is far away.
__device__ __forceinline__ void announce(int* flags, int* report, int failed) {
    int fresh = failed & ~atomicOr(flags + FAILED, failed);
    if (fresh & 1) report[FAILED] = 1;
    if (fresh & 2) report[FAILED + 1] = 2;
}

#ifdef CENTRED
// In place, where all vectors have one scale: check P = A_1·B_1, and put the rank-two part back,
// scaled as P is. A block takes ROWS rows and 1024 columns, a thread four columns.
extern "C" __global__ void __launch_bounds__(256) multiword_inspect(
        Finish f, const Vector* __restrict__ of_a, const Vector* __restrict__ of_b) {
    int across = (f.n + 1023) / 1024, block = blockIdx.x / across;
    int j0 = 4 * (blockIdx.x % across * 256 + threadIdx.x), failed = 0;
    if (j0 >= f.n) return;
    float norm2_b[4];
#if CENTRED
    double t[4], bj[4];
    float norm1_b[4];
#endif
#pragma unroll
    for (int x = 0; x < 4; x++) {
        Vector v = of_b[j0 + x];
        norm2_b[x] = f.limit * v.norm2;
#if CENTRED
        Scaled s(v, f.k);
        bj[x] = s.centre;
        t[x] = s.total - (double)f.k * s.centre;
        norm1_b[x] = s.norm1;
#endif
    }
    int stop = min(f.m, (block + 1) * ROWS);
    for (int i0 = block * ROWS; i0 < stop; i0 += BATCH) {
        float4 v[BATCH];
        Vector a[BATCH];                            // of which only what is used is read
#pragma unroll
        for (int y = 0; y < BATCH; y++) {
            int i = min(i0 + y, f.m - 1);
            v[y] = *(const float4*)(f.p + i * f.ldp + j0);
            a[y] = of_a[i];
        }
#pragma unroll
        for (int y = 0; y < BATCH; y++) {
            float value[4] = {v[y].x, v[y].y, v[y].z, v[y].w};
#pragma unroll
            for (int x = 0; x < 4; x++) failed |= fabsf(value[x]) > a[y].norm2 * norm2_b[x];
#if CENTRED
            Scaled s(a[y], f.k);
            float ai = (float)fabs(s.centre);
#pragma unroll
            for (int x = 0; x < 4; x++) {
                double sum = (s.centre * t[x] + s.total * bj[x]) + widened(value[x]);
                value[x] = narrowed(sum);
                if (terms(ai, s.norm1, (float)fabs(bj[x]), norm1_b[x], f.k) > f.amplification * fabsf(value[x]))
                    failed |= 2;
            }
            if (i0 + y < stop)
                *(float4*)(f.p + (i0 + y) * f.ldp + j0) = make_float4(value[0], value[1], value[2], value[3]);
#endif
        }
    }
    if (failed && f.report) announce(f.flags, f.report, failed);
}
#else
__device__ __noinline__ double plain_dot(const float* a, const float* b, int k, i64 a_step, i64 b_step) {
    double sum = 0.0;
    for (int h = 0; h < k; h++) sum += widened(a[h * a_step]) * widened(b[h * b_step]);
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
// four rows at a time so that their readings overlap. Without vectors: out = alpha·P + beta·C.
extern "C" __global__ void __launch_bounds__(128) multiword_finish(
        Finish f, const Vector* __restrict__ of_a, const Vector* __restrict__ of_b) {
    // In one dimension, for it alone may be long.
    int across = (f.n + 511) / 512, block = blockIdx.x / across;
    int j0 = 4 * (blockIdx.x % across * 128 + threadIdx.x), count = min(4, f.n - j0), failed = 0;
    if (j0 >= f.n) return;
    bool centred = f.flags && f.may_centre && centring(f.flags, f.exact_bits);
    bool vector = count == 4 && sizeof(SUM) == 4 && (((unsigned long long)f.p | (4 * f.ldp)) & 15) == 0;
    bool aligned = count == 4 && (((unsigned long long)f.out | (4 * f.ldo)) & 15) == 0;
    // Without more to do than to undo powers of two, one multiplication in fp32 rounds correctly.
    bool simple = sizeof(SUM) == 4 && !centred && f.alpha == 1.0 && !f.c && of_a;
    float factor_b[4];
    double t[4], bj[4], scale_b[4];
    float norm1_b[4], norm2_b[4];
    int bad_b = 0;
#pragma unroll
    for (int x = 0; x < 4; x++) {
        t[x] = bj[x] = 0.0; scale_b[x] = 1.0; norm1_b[x] = 0.0f; factor_b[x] = 1.0f;
        norm2_b[x] = __uint_as_float(0x7F800000u);  // beyond the last column nothing is checked
        if (!of_b || x >= count) continue;
        Vector v = of_b[j0 + x];
        if (centred) {
            Scaled s(v, f.k);
            bj[x] = s.centre;
            t[x] = s.total - (double)f.k * s.centre;
            norm1_b[x] = s.norm1;
        }
        scale_b[x] = power_of_two(-v.shift);
        norm2_b[x] = f.limit * v.norm2;
        bad_b |= v.bad;
        simple = simple && abs(v.shift) <= 62 && !v.bad;
        factor_b[x] = power32(simple ? -v.shift : 0);
    }
    int stop = min(f.m, (block + 1) * ROWS);
    for (int i0 = block * ROWS; i0 < stop; i0 += 4) {
        SUM v[4][4];
#pragma unroll
        for (int y = 0; y < 4; y++) {
            const SUM* from = f.p + min(i0 + y, f.m - 1) * f.ldp + j0;
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
            Vector a = {0.0, 0.0f, 0.0f, 0.0f, 0, 0, 0};
            if (of_a) a = of_a[i];
            float results[4];
            float* to = f.out + i * f.ldo + j0;
            if (simple && abs(a.shift) <= 62 && !a.bad) {
                float factor_a = power32(-a.shift);
#pragma unroll
                for (int x = 0; x < 4; x++) {
                    float value = (float)v[y][x];
                    if (fabsf(value) > a.norm2 * norm2_b[x]) failed |= 1;
                    results[x] = mul32(value, factor_a * factor_b[x]);
                }
                store(to, results, count, aligned);
                continue;
            }
            double scale_a = power_of_two(-a.shift);
            Scaled s(a, f.k);
            float ai = (float)fabs(s.centre);
#pragma unroll
            for (int x = 0; x < 4; x++) {
                double value = widened(v[y][x]);
                if (of_a && fabsf((float)v[y][x]) > a.norm2 * norm2_b[x]) failed |= 1;
                if (centred) {
                    value = (s.centre * t[x] + s.total * bj[x]) + value;
                    float bound = terms(ai, s.norm1, (float)fabs(bj[x]), norm1_b[x], f.k);
                    if (bound > f.amplification * (float)fabs(value) && x < count) failed |= 2;
                }
                value = (value * scale_a) * scale_b[x];
                if (a.bad | bad_b)
                    if (x < count && (a.bad || of_b[j0 + x].bad))
                        value = plain_dot(f.a + i * f.a_row, f.b + (j0 + x) * f.b_column, f.k, f.a_step, f.b_step);
                value = f.alpha * value;
                if (f.c && x < count) value = value + f.beta * widened(f.c[i * f.c_row + (j0 + x) * f.c_column]);
                results[x] = narrowed(value);
            }
            store(to, results, count, aligned);
        }
    }
    if (failed && f.report) announce(f.flags, f.report, failed);
}
#endif
