"""The CUDA form of splitting: one reading of an operand writes all its words and its statistics.

The NumPy form, formula by formula the same, is `multiword._operand`.

CuPy compiles with -ftz=true, which would take fp32's subnormal numbers away. Arithmetic that
must keep them is therefore written in PTX (`FP32`), where no .ftz stands, and comparisons are
made between bit patterns.
"""

from __future__ import annotations

from multiword._kernels import Kernel

RECORD_BYTES = 40
"""sizeof(Record) below."""

CHUNK_ROWS, CHUNK_COLUMNS = 4096, 512
"""Inner indices that one block of the kernel for rows, or for columns, reads."""

FP32 = r"""
typedef unsigned int u32;
typedef unsigned short u16;
typedef long long i64;
struct Line { double total; float norm1, norm2, centre; int shift, bad, unused; };

__device__ __forceinline__ float add32(float a, float b) {
    float r; asm("add.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r;
}
__device__ __forceinline__ float sub32(float a, float b) {
    float r; asm("sub.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r;
}
__device__ __forceinline__ float mul32(float a, float b) {
    float r; asm("mul.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r;
}
__device__ __forceinline__ double widen(float a) {
    double r; asm("cvt.f64.f32 %0, %1;" : "=d"(r) : "f"(a)); return r;
}
__device__ __forceinline__ float narrow(double a) {
    float r; asm("cvt.rn.f32.f64 %0, %1;" : "=f"(r) : "d"(a)); return r;
}
__device__ __forceinline__ u32 magnitude(float a) { return __float_as_uint(a) & 0x7FFFFFFFu; }
"""

_RECORD = r"""
struct Record { double total; float norm1, norm2; int big, small, bad; u32 top, low; int unused; };

// top: bits of the largest |y|; low: those of the smallest nonzero one, less 1.
__device__ __forceinline__ Record empty_record() {
    Record r = {0.0, 0.0f, 0.0f, 0, 0, 0, 0u, 0xFFFFFFFFu, 0};
    return r;
}
__device__ __forceinline__ void add(Record* r, const Record& other) {
    r->total += other.total; r->norm1 += other.norm1; r->norm2 += other.norm2;
    r->big += other.big; r->small += other.small; r->bad += other.bad;
    r->top = max(r->top, other.top); r->low = min(r->low, other.low);
}
"""

_SPLIT = (
    FP32
    + _RECORD
    + r"""
#if WORD == 19
typedef float word_t;
#else
typedef u16 word_t;
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
    if (magnitude(y) >= 0x7F800000u) {
        r = y;
    } else if (magnitude(y) >= 0x38800000u) {       // a normal number of fp16: 13 bits fall off
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
    if (magnitude(y) < 0x7F800000u) {
#if ROUNDING == 0
        bits += ((1u << (low - 1)) - 1u) + ((bits >> low) & 1u);
#elif ROUNDING == 2
        bits += 1u << (low - 1);
#endif
    }
    bits &= ~((1u << low) - 1u);
    if (magnitude(y) > 0x7F800000u) bits |= 1u << low;  // a NaN stays one
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
        if (i + 1 == WORDS) break;
        rest = sub32(rest, value);
        if (i == 0) rest = add32(rest, mul32(y, weight));
        rest = mul32(rest, step);
    }
}

struct Frame { float scale1, scale2, centre; u32 big, small; };

__device__ __forceinline__ float power2(int e) { return __uint_as_float((u32)(e + 127) << 23); }

__device__ __forceinline__ Frame frame_of(const Line* lines, int line, const int* flags,
                                          int exact_bits, float big, float small) {
    Frame f = {1.0f, 1.0f, 0.0f, magnitude(big), magnitude(small) - 1u};
    if (lines) {
        int s = lines[line].shift, half = s >> 1;
        f.scale1 = power2(half);
        f.scale2 = power2(s - half);
        if (flags && flags[0] == 0 && flags[1] == 0 && flags[16] + flags[17] > exact_bits)
            f.centre = lines[line].centre;
    }
    return f;
}

// The centred, scaled element, and its contribution to the line's record.
__device__ __forceinline__ float measured(float x, const Frame& f, Record* r) {
    if (magnitude(x) >= 0x7F800000u) { r->bad++; x = 0.0f; }
    float y = mul32(mul32(sub32(x, f.centre), f.scale1), f.scale2);
    u32 bits = magnitude(y), below = bits - 1u;     // a zero wraps around to the largest
    r->total += widen(x);
    r->norm1 += fabsf(y);
    r->norm2 = __fmaf_rn(y, y, r->norm2);
    r->big += bits >= f.big;
    r->small += below < f.small;
    r->top = max(r->top, bits);
    r->low = min(r->low, below);
    return y;
}

struct __align__(8) Halves { u16 x, y, z, w; };
"""
)

_ARGUMENTS = r"""
    const float* __restrict__ x, i64 stride, int lines, int k, int padded,
    const Line* __restrict__ line_data, const int* __restrict__ flags, int exact_bits,
    const float* __restrict__ weights, float step, float big, float small, int reversed,
    word_t* __restrict__ out, Record* __restrict__ records"""

_INSTANCES = ((16, 2, 0), (16, 3, 2), (8, 3, 1), (19, 2, 2))

SPLIT_ROWS = Kernel(
    "multiword_split_rows",
    _SPLIT
    + r"""
__device__ __forceinline__ void load(const float* row, int h, int k, bool aligned, float* v) {
    if (aligned && h + 3 < k) {
        float4 f = *(const float4*)(row + h);
        v[0] = f.x; v[1] = f.y; v[2] = f.z; v[3] = f.w;
    } else {
#pragma unroll
        for (int q = 0; q < 4; q++) v[q] = h + q < k ? row[h + q] : 0.0f;
    }
}
__device__ __forceinline__ void write(float* v, const float* weights, int h, int k, int padded,
        float step, int reversed, const Frame& f, Record* r, word_t* to) {
    word_t words[4][WORDS];
    float w[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (weights) load(weights, h, k, true, w);
#pragma unroll
    for (int q = 0; q < 4; q++) {
        float y = h + q < k ? measured(v[q], f, r) : 0.0f;
        split(y, w[q], step, words[q]);
    }
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
        word_t* slot = to + (i64)(reversed ? WORDS - 1 - i : i) * padded + h;
#if WORD == 19
        *(float4*)slot = make_float4(words[0][i], words[1][i], words[2][i], words[3][i]);
#else
        Halves four = {words[0][i], words[1][i], words[2][i], words[3][i]};
        *(Halves*)slot = four;
#endif
    }
}
// Lines whose inner index is contiguous: a warp for each line and chunk of it, two readings
// under way at a time.
extern "C" __global__ void __launch_bounds__(256) multiword_split_rows("""
    + _ARGUMENTS
    + r""") {
    int line = 8 * blockIdx.x + threadIdx.y, lane = threadIdx.x;
    if (line >= lines) return;
    Frame f = frame_of(line_data, line, flags, exact_bits, big, small);
    if (line_data && flags[16] + flags[17] <= exact_bits) weights = 0;
    const float* row = x + line * stride;
    word_t* to = out + (i64)line * WORDS * padded;
    bool aligned = ((unsigned long long)row & 15) == 0;
    int stop = min((int)(blockIdx.y + 1) * CHUNK, padded);
    Record r = empty_record();
    int h = blockIdx.y * CHUNK + 4 * lane;
    for (; h + 128 < stop; h += 256) {
        float v[4], next[4];
        load(row, h, k, aligned, v);
        load(row, h + 128, k, aligned, next);
        write(v, weights, h, k, padded, step, reversed, f, &r, to);
        write(next, weights, h + 128, k, padded, step, reversed, f, &r, to);
    }
    if (h < stop) {
        float v[4];
        load(row, h, k, aligned, v);
        write(v, weights, h, k, padded, step, reversed, f, &r, to);
    }
    for (int half = 16; half > 0; half /= 2) {
        Record other;
        other.total = __shfl_down_sync(~0u, r.total, half);
        other.norm1 = __shfl_down_sync(~0u, r.norm1, half);
        other.norm2 = __shfl_down_sync(~0u, r.norm2, half);
        other.big = __shfl_down_sync(~0u, r.big, half);
        other.small = __shfl_down_sync(~0u, r.small, half);
        other.bad = __shfl_down_sync(~0u, r.bad, half);
        other.top = __shfl_down_sync(~0u, r.top, half);
        other.low = __shfl_down_sync(~0u, r.low, half);
        add(&r, other);
    }
    if (lane == 0) records[(i64)blockIdx.y * lines + line] = r;
}
""",
    tuple({"WORD": w, "WORDS": p, "ROUNDING": r, "CHUNK": CHUNK_ROWS} for w, p, r in _INSTANCES),
)

SPLIT_COLUMNS = Kernel(
    "multiword_split_columns",
    _SPLIT
    + r"""
// Lines that are columns of x: tiles of 64 inner indices and 32 lines turn over in shared memory.
extern "C" __global__ void __launch_bounds__(256) multiword_split_columns("""
    + _ARGUMENTS
    + r""") {
    __shared__ __align__(16) float tile[2][64][33];
    int tx = threadIdx.x, ty = threadIdx.y, first = 32 * blockIdx.x, line = first + tx;
    Frame f = frame_of(line_data, min(line, lines - 1), flags, exact_bits, big, small);
    if (line_data && flags[16] + flags[17] <= exact_bits) weights = 0;
    int start = CHUNK * blockIdx.y, stop = min(start + CHUNK, padded);
    Record r = empty_record();
    int turn = 0;
    for (int k0 = start; k0 < stop; k0 += 64, turn ^= 1) {
        float v[8];
        bool whole = k0 + 64 <= k && line < lines;
        const float* from = x + (i64)(k0 + ty) * stride + line;
        if (whole) {
#pragma unroll
            for (int q = 0; q < 8; q++) v[q] = from[8 * q * stride];
#pragma unroll
            for (int q = 0; q < 8; q++) tile[turn][ty + 8 * q][tx] = measured(v[q], f, &r);
        } else {
            for (int q = 0; q < 8; q++) {
                bool inside = k0 + ty + 8 * q < k && line < lines;
                tile[turn][ty + 8 * q][tx] = inside ? measured(from[8 * q * stride], f, &r) : 0.0f;
            }
        }
        __syncthreads();    // one is enough: the next tile is the other one
        int h = k0 + 2 * tx;
        float w0 = 0.0f, w1 = 0.0f;
        if (weights) { w0 = h < k ? weights[h] : 0.0f; w1 = h + 1 < k ? weights[h + 1] : 0.0f; }
        if (h < stop)
#pragma unroll
            for (int q = 0; q < 4; q++) {
                int row = ty + 8 * q;
                if (first + row >= lines) continue;
                word_t even[WORDS], odd[WORDS];
                split(tile[turn][2 * tx][row], w0, step, even);
                split(tile[turn][2 * tx + 1][row], w1, step, odd);
                word_t* to = out + (i64)(first + row) * WORDS * padded + h;
#pragma unroll
                for (int i = 0; i < WORDS; i++) {
                    word_t* slot = to + (i64)(reversed ? WORDS - 1 - i : i) * padded;
#if WORD == 19
                    *(float2*)slot = make_float2(even[i], odd[i]);
#else
                    *(u32*)slot = (u32)even[i] | ((u32)odd[i] << 16);
#endif
                }
            }
    }
    __syncthreads();
    Record* shared = (Record*)tile;
    shared[32 * ty + tx] = r;
    __syncthreads();
    if (ty == 0 && line < lines) {
        for (int i = 1; i < 8; i++) add(&r, shared[32 * i + tx]);
        records[(i64)blockIdx.y * lines + line] = r;
    }
}
""",
    tuple({"WORD": w, "WORDS": p, "ROUNDING": r, "CHUNK": CHUNK_COLUMNS} for w, p, r in _INSTANCES),
)

COLLECT = Kernel(
    "multiword_collect",
    FP32
    + _RECORD
    + r"""
__device__ __forceinline__ int exponent(u32 bits) { return (int)(bits >> 23) - 126; }

// Add up each line's records in the order of the chunks, and take the extremes over all lines:
// of A in the first blocks, of B in the others.
extern "C" __global__ void multiword_collect(const Record* records_a, int chunks_a, int lines_a,
        const Record* records_b, int chunks_b, int lines_b, int k, int scaled,
        Line* line_data_a, Line* line_data_b, int* summaries) {
    __shared__ int extreme[6];
    int blocks_a = (lines_a + blockDim.x - 1) / blockDim.x;
    bool second = blockIdx.x >= blocks_a;
    const Record* records = second ? records_b : records_a;
    int chunks = second ? chunks_b : chunks_a, lines = second ? lines_b : lines_a;
    Line* data = second ? line_data_b : line_data_a;
    int line = (blockIdx.x - (second ? blocks_a : 0)) * blockDim.x + threadIdx.x;
    if (threadIdx.x < 6) extreme[threadIdx.x] = 0;
    __syncthreads();
    if (line < lines) {
        Record r = records[line];
        for (int i = 1; i < chunks; i++) add(&r, records[(i64)i * lines + line]);
        Line* l = data + line;
        l->total = r.total; l->norm1 = r.norm1; l->norm2 = sqrtf(r.norm2); l->bad = r.bad;
        if (!scaled) { l->shift = 0; l->centre = 0.0f; }
        atomicMax(&extreme[0], r.bad);
        atomicMax(&extreme[1], r.small);
        atomicMax(&extreme[2], k - r.big);
        if (r.top) {
            atomicMax(&extreme[3], 300 + exponent(r.top));
            atomicMax(&extreme[4], 300 - exponent(r.low + 1u));
            float spread = r.norm1 / l->norm2;
            atomicMax(&extreme[5], 1000 - (int)fminf(1000.0f * spread * spread / (float)k, 1000.0f));
        }
    }
    __syncthreads();
    if (threadIdx.x < 6) atomicMax(&summaries[6 * second + threadIdx.x], extreme[threadIdx.x]);
}
""",
)

MEASURE = Kernel(
    "multiword_measure",
    FP32
    + r"""
// From runs of `run` neighbours, `step` apart, of each line of A and of B: the shift that brings
// the largest of them below 2^target, the mean where it stands out of the spread, and how many
// bits the elements have as integers.
extern "C" __global__ void multiword_measure(
        const float* xa, i64 line_stride_a, i64 inner_stride_a, int lines_a,
        const float* xb, i64 line_stride_b, i64 inner_stride_b, int lines_b,
        int samples, int run, int step, int target, float threshold, int centred,
        Line* line_data_a, Line* line_data_b, int* flags) {
    __shared__ u32 largest[8][33];
    __shared__ int lowest[8][33];
    __shared__ double sums[8][33], squares[8][33];
    int blocks_a = inner_stride_a == 1 ? (lines_a + 7) / 8 : (lines_a + 31) / 32;
    bool second = blockIdx.x >= blocks_a;
    const float* x = second ? xb : xa;
    i64 line_stride = second ? line_stride_b : line_stride_a;
    i64 inner_stride = second ? inner_stride_b : inner_stride_a;
    int lines = second ? lines_b : lines_a, block = blockIdx.x - (second ? blocks_a : 0);
    bool rows = inner_stride == 1;
    int tx = threadIdx.x, ty = threadIdx.y;
    int along = rows ? tx : ty, pace = rows ? 32 : 8, line = rows ? 8 * block + ty : 32 * block + tx;
    u32 top = 0u;
    int low = 999;                                  // exponent of the lowest bit that is set
    double sum = 0.0, square = 0.0;
    if (line < lines)
#pragma unroll 8
        for (int s = along; s < samples; s += pace) {
            i64 h = (i64)(s / run) * step + s % run;
            float v = x[line * line_stride + h * inner_stride];
            if (magnitude(v) >= 0x7F800000u) v = 0.0f;
            u32 bits = magnitude(v);
            top = max(top, bits);
            int place = max((int)(bits >> 23), 1);
            u32 digits = (bits & 0x7FFFFFu) | (bits >> 23 ? 0x800000u : 0u);
            if (bits) low = min(low, place - 151 + __ffs(digits));
            sum += widen(v);
            square += widen(v) * widen(v);
        }
    largest[ty][tx] = top; lowest[ty][tx] = low; sums[ty][tx] = sum; squares[ty][tx] = square;
    __syncthreads();
    if (along != 0 || line >= lines) return;
    for (int i = 1; i < pace; i++) {
        int row = rows ? ty : i, column = rows ? i : tx;
        top = max(top, largest[row][column]);
        low = min(low, lowest[row][column]);
        sum += sums[row][column];
        square += squares[row][column];
    }
    int e = top >> 23 ? (int)(top >> 23) - 126 : top ? 32 - __clz(top) - 149 : 0;
    Line* l = (second ? line_data_b : line_data_a) + line;
    double mean = sum / samples;
    l->shift = target - e;
    l->centre = centred ? __uint_as_float(__float_as_uint(narrow(mean)) & 0xFFFFE000u) : 0.0f;
    if (centred && fabs(mean) < widen(threshold) * sqrt(square / samples)) atomicAdd(&flags[second], 1);
    atomicMax(&flags[16 + second], top ? e - low : 0);
}
""",
)
