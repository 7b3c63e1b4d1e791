"""The CUDA form of splitting: one reading of an operand writes all its words and its statistics.

The NumPy form, formula by formula the same, is `multiword._operand`.
"""

from __future__ import annotations

from multiword._kernels import Kernel

RECORD_BYTES = 40
"""sizeof(Record) below."""

CHUNK = 512
"""Inner indices that one block of the strided kernel reads."""

_COMMON = r"""
typedef unsigned int u32;
typedef unsigned short u16;
struct Record { double total; float norm1, norm2; int big, small, bad, emax, emin, pad; };

__device__ __forceinline__ float power2(int e) { return __uint_as_float((u32)(e + 127) << 23); }
__device__ __forceinline__ bool is_finite(float x) {
    return (__float_as_uint(x) & 0x7F800000u) != 0x7F800000u;
}
"""

_ROUND = r"""
#if WORD == 16
typedef u16 word_t;
#elif WORD == 8
typedef u16 word_t;
#else
typedef float word_t;
#endif

// Round y to a word; the word's value comes back in `value`.
__device__ __forceinline__ word_t to_word(float y, float* value) {
#if WORD == 16
    u16 h;
#if ROUNDING == 0
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(y));
#elif ROUNDING == 1
    asm("cvt.rz.f16.f32 %0, %1;" : "=h"(h) : "f"(y));
#else
    float r;
    if (fabsf(y) >= 6.103515625e-05f) {             // a normal number of fp16: 13 bits fall off
        r = __uint_as_float((__float_as_uint(y) + 0x1000u) & 0xFFFFE000u);
    } else {                                        // a subnormal one: quantum 2^-24, ties away
        int twice = (int)(fabsf(y) * 33554432.0f);
        r = copysignf((float)((twice + 1) >> 1) * 5.9604644775390625e-08f, y);
    }
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(r));
#endif
    float v;
    asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(h));
    *value = v;
    return h;
#else
    const u32 low = WORD == 8 ? 16u : 13u;          // bits of fp32 that fall off
    u32 bits = __float_as_uint(y);
#if ROUNDING == 0
    bits += ((1u << (low - 1)) - 1u) + ((bits >> low) & 1u);
#elif ROUNDING == 2
    bits += 1u << (low - 1);
#endif
    bits &= ~((1u << low) - 1u);
    *value = __uint_as_float(bits);
#if WORD == 8
    return (u16)(bits >> 16);
#else
    return __uint_as_float(bits);
#endif
#endif
}

// All the words of y: A_1 = fl(y), A_i = fl((what is left)*step), eq. (2.2) of Fasi et al.
__device__ __forceinline__ void split(float y, float weight, float step, word_t* words) {
    float rest = y;
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
        float value;
        words[i] = to_word(rest, &value);
        rest = rest - value;
        if (i == 0) rest = rest + y * weight;
        rest = rest * step;
    }
}

struct Line { float shift1, shift2, centre, unit; };

__device__ __forceinline__ Line line_of(int line, const int* shift, const float* centre,
                                        const int* uncentred, int target) {
    Line l;
    int s = shift ? shift[line] : 0, half = s >> 1;
    l.shift1 = power2(half);
    l.shift2 = power2(s - half);
    bool active = centre && uncentred[0] == 0 && uncentred[1] == 0;
    l.centre = active ? centre[line] : 0.0f;
    l.unit = power2(-target);
    return l;
}

// The centred, scaled element, and its contribution to the line's record.
__device__ __forceinline__ float measured(float x, Line l, float big, float small, Record* r) {
    if (!is_finite(x)) { r->bad++; x = 0.0f; }
    float y = ((x - l.centre) * l.shift1) * l.shift2, magnitude = fabsf(y), in_units = y * l.unit;
    r->total += (double)x;
    r->norm1 += fabsf(x);
    r->norm2 += in_units * in_units;
    r->big += magnitude >= big;
    r->small += magnitude < small && magnitude > 0.0f;
    int e = (int)(__float_as_uint(magnitude) >> 23) - 126;
    if (magnitude > 0.0f) { r->emax = max(r->emax, e); r->emin = min(r->emin, e); }
    return y;
}

__device__ __forceinline__ void add(Record* r, const Record& other) {
    r->total += other.total; r->norm1 += other.norm1; r->norm2 += other.norm2;
    r->big += other.big; r->small += other.small; r->bad += other.bad;
    r->emax = max(r->emax, other.emax); r->emin = min(r->emin, other.emin);
}

__device__ __forceinline__ Record empty_record() {
    Record r = {0.0, 0.0f, 0.0f, 0, 0, 0, -999, 999, 0};
    return r;
}
"""

_ARGUMENTS = r"""
    const float* x, long long stride, int lines, int k, int padded, const int* shift,
    const float* centre, const int* uncentred, const float* weights, float step, int target,
    float big, float small, int reversed, word_t* out, Record* records"""

SPLIT_ROWS = Kernel(
    "multiword_split_rows",
    _COMMON
    + _ROUND
    + r"""
// Lines whose inner index is contiguous: one block for each line.
extern "C" __global__ void multiword_split_rows("""
    + _ARGUMENTS
    + r""") {
    __shared__ Record shared[256];
    int line = blockIdx.x;
    Line l = line_of(line, shift, centre, uncentred, target);
    const float* row = x + (long long)line * stride;
    word_t* to = out + (long long)line * WORDS * padded;
    bool aligned = ((unsigned long long)row & 15) == 0;
    Record r = empty_record();
    for (int h = 4 * threadIdx.x; h < padded; h += 4 * blockDim.x) {
        float v[4];
        if (aligned && h + 3 < k) {
            float4 f = *(const float4*)(row + h);
            v[0] = f.x; v[1] = f.y; v[2] = f.z; v[3] = f.w;
        } else {
#pragma unroll
            for (int q = 0; q < 4; q++) v[q] = h + q < k ? row[h + q] : 0.0f;
        }
        word_t words[4][WORDS];
#pragma unroll
        for (int q = 0; q < 4; q++) {
            bool inside = h + q < k;
            float y = inside ? measured(v[q], l, big, small, &r) : 0.0f;
            split(y, weights && inside ? weights[h + q] : 0.0f, step, words[q]);
        }
#pragma unroll
        for (int i = 0; i < WORDS; i++) {
            word_t* slot = to + (long long)(reversed ? WORDS - 1 - i : i) * padded + h;
#if WORD == 19
            *(float4*)slot = make_float4(words[0][i], words[1][i], words[2][i], words[3][i]);
#else
            *(ushort4*)slot = make_ushort4(words[0][i], words[1][i], words[2][i], words[3][i]);
#endif
        }
    }
    shared[threadIdx.x] = r;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            add(&r, shared[threadIdx.x + half]);
            shared[threadIdx.x] = r;
        }
    }
    if (threadIdx.x == 0) records[line] = r;
}
""",
    tuple(
        {"WORD": w, "WORDS": p, "ROUNDING": r} for w, p, r in ((16, 2, 0), (16, 3, 2), (8, 3, 1), (19, 2, 2))
    ),
)

SPLIT_COLUMNS = Kernel(
    "multiword_split_columns",
    _COMMON
    + _ROUND
    + r"""
// Lines that are columns of x: tiles of 64 inner indices and 32 lines turn over in shared memory.
extern "C" __global__ void multiword_split_columns("""
    + _ARGUMENTS
    + r""") {
    __shared__ float tile[64][33];
    __shared__ Record shared[8][32];
    int tx = threadIdx.x, ty = threadIdx.y, first = 32 * blockIdx.x, line = first + tx;
    Line l = line_of(min(line, lines - 1), shift, centre, uncentred, target);
    int start = CHUNK * blockIdx.y, stop = min(start + CHUNK, padded);
    Record r = empty_record();
    for (int k0 = start; k0 < stop; k0 += 64) {
        float v[8];
#pragma unroll
        for (int q = 0; q < 8; q++) {
            int h = k0 + ty + 8 * q;
            v[q] = h < k && line < lines ? x[(long long)h * stride + line] : 0.0f;
        }
#pragma unroll
        for (int q = 0; q < 8; q++) {
            bool inside = k0 + ty + 8 * q < k && line < lines;
            tile[ty + 8 * q][tx] = inside ? measured(v[q], l, big, small, &r) : 0.0f;
        }
        __syncthreads();
        int h = k0 + 2 * tx;
        float w0 = weights && h < k ? weights[h] : 0.0f, w1 = weights && h + 1 < k ? weights[h + 1] : 0.0f;
#pragma unroll
        for (int q = 0; q < 4; q++) {
            int row = ty + 8 * q;
            word_t even[WORDS], odd[WORDS];
            split(tile[2 * tx][row], w0, step, even);
            split(tile[2 * tx + 1][row], w1, step, odd);
            if (first + row < lines && h < stop) {
#pragma unroll
                for (int i = 0; i < WORDS; i++) {
                    int place = reversed ? WORDS - 1 - i : i;
                    word_t* slot = out + ((long long)(first + row) * WORDS + place) * padded + h;
#if WORD == 19
                    *(float2*)slot = make_float2(even[i], odd[i]);
#else
                    *(u32*)slot = (u32)even[i] | ((u32)odd[i] << 16);
#endif
                }
            }
        }
        __syncthreads();
    }
    shared[ty][tx] = r;
    __syncthreads();
    if (ty == 0 && line < lines) {
        for (int i = 1; i < 8; i++) add(&r, shared[i][tx]);
        records[(long long)blockIdx.y * lines + line] = r;
    }
}
""",
    tuple(
        {"WORD": w, "WORDS": p, "ROUNDING": r, "CHUNK": CHUNK}
        for w, p, r in ((16, 2, 0), (16, 3, 2), (8, 3, 1), (19, 2, 2))
    ),
)

COLLECT = Kernel(
    "multiword_collect",
    _COMMON
    + r"""
// Add up each line's records in the order of the chunks, and take the extremes over all lines.
extern "C" __global__ void multiword_collect(const Record* records, int chunks, int lines, int k,
        double* total, float* norm1, float* norm2, int* bad, int* summary) {
    __shared__ int extreme[5];
    if (threadIdx.x < 5) extreme[threadIdx.x] = 0;
    __syncthreads();
    int line = blockIdx.x * blockDim.x + threadIdx.x;
    if (line < lines) {
        Record r = records[line];
        for (int i = 1; i < chunks; i++) {
            const Record& other = records[(long long)i * lines + line];
            r.total += other.total; r.norm1 += other.norm1; r.norm2 += other.norm2;
            r.big += other.big; r.small += other.small; r.bad += other.bad;
            r.emax = max(r.emax, other.emax); r.emin = min(r.emin, other.emin);
        }
        total[line] = r.total; norm1[line] = r.norm1; norm2[line] = r.norm2; bad[line] = r.bad;
        atomicMax(&extreme[0], r.bad);
        atomicMax(&extreme[1], r.small);
        atomicMax(&extreme[2], k - r.big);
        if (r.emax >= r.emin) {
            atomicMax(&extreme[3], 300 + r.emax);
            atomicMax(&extreme[4], 300 - r.emin);
        }
    }
    __syncthreads();
    if (threadIdx.x < 5) atomicMax(&summary[threadIdx.x], extreme[threadIdx.x]);
}
""",
)

MEASURE = Kernel(
    "multiword_measure",
    _COMMON
    + r"""
// From every step-th element of each line: the shift that brings the largest of them below
// 2^target, and the mean where it stands out of the spread.
extern "C" __global__ void multiword_measure(const float* x, long long line_stride,
        long long inner_stride, int lines, int k, int step, int target, float threshold,
        int* shift, float* centre, int* uncentred) {
    __shared__ float largest[8][33];
    __shared__ double sums[8][33], squares[8][33];
    int tx = threadIdx.x, ty = threadIdx.y;
    int along = CONTIGUOUS ? tx : ty, pace = CONTIGUOUS ? 32 : 8;
    int line = CONTIGUOUS ? 8 * blockIdx.x + ty : 32 * blockIdx.x + tx;
    float top = 0.0f;
    double sum = 0.0, square = 0.0;
    if (line < lines)
        for (long long h = (long long)along * step; h < k; h += (long long)pace * step) {
            float v = x[line * line_stride + h * inner_stride];
            if (!is_finite(v)) continue;
            top = fmaxf(top, fabsf(v));
            sum += (double)v;
            square += (double)v * (double)v;
        }
    largest[ty][tx] = top; sums[ty][tx] = sum; squares[ty][tx] = square;
    __syncthreads();
    if (along != 0 || line >= lines) return;
    for (int i = 1; i < pace; i++) {
        int row = CONTIGUOUS ? ty : i, column = CONTIGUOUS ? i : tx;
        top = fmaxf(top, largest[row][column]);
        sum += sums[row][column];
        square += squares[row][column];
    }
    int e = 0;
    if (top > 0.0f) frexpf(top, &e);
    shift[line] = target - e;
    if (centre) {
        double count = (double)((k + step - 1) / step), mean = sum / count;
        bool stands_out = fabs(mean) >= (double)threshold * sqrt(square / count);
        centre[line] = __uint_as_float(__float_as_uint((float)mean) & 0xFFFFE000u);
        if (!stands_out) atomicAdd(uncentred, 1);
    }
}
""",
    ({"CONTIGUOUS": 0}, {"CONTIGUOUS": 1}),
)
