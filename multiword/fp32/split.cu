#include "multiword/fp32/fp32.cuh"

struct Record { float sum, norm1, norm2; u32 top, low; int big, small, unused; };

__device__ __forceinline__ void add(Record* r, const Record& other) {
    r->sum += other.sum; r->norm1 += other.norm1; r->norm2 += other.norm2;
    r->top = max(r->top, other.top); r->low = min(r->low, other.low);
    r->big += other.big; r->small += other.small;
}

#if WORD == 19
typedef float word_t;
typedef float2 pair_t;
#else
typedef u16 word_t;
typedef u32 pair_t;
#endif

// Round y to a word, its bits; the word's value comes back in `value`.
__device__ __forceinline__ u32 to_word(float y, float* value) {
    u32 bits = __float_as_uint(y);
#if WORD == 16                                      // RNA only: the others are done in pairs
    float r = y;
    if (magnitude(y) < 0x38800000u) {               // a subnormal number of fp16: quantum 2^-24
        int twice = (int)(fabsf(y) * 33554432.0f);
        r = copysignf((float)((twice + 1) >> 1) * 5.9604644775390625e-08f, y);
    } else if (magnitude(y) < 0x7F800000u)
        r = __uint_as_float((bits + 0x1000u) & 0xFFFFE000u);
    u16 h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(r));
    asm("cvt.f32.f16 %0, %1;" : "=f"(*value) : "h"(h));
    return h;
#else
    const u32 fall = WORD == 8 ? 16u : 13u;         // bits of fp32 that fall off
    if (magnitude(y) < 0x7F800000u) {
        if (ROUNDING == 0) bits += ((1u << (fall - 1)) - 1u) + ((bits >> fall) & 1u);
        if (ROUNDING == 2) bits += 1u << (fall - 1);
    }
    bits &= ~((1u << fall) - 1u);
    if (magnitude(y) > 0x7F800000u) bits |= 1u << fall;     // a NaN stays one
    *value = __uint_as_float(bits);
    return WORD == 8 ? bits >> 16 : bits;
#endif
}
__device__ __forceinline__ pair_t to_words(float y0, float y1, float* v0, float* v1) {
#if WORD == 16 && ROUNDING < 2
    u32 both;
#if ROUNDING == 0
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(y1), "f"(y0));
#else
    asm("cvt.rz.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(y1), "f"(y0));
#endif
    asm("{.reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high;}"
        : "=f"(*v0), "=f"(*v1) : "r"(both));
    return both;
#else
    u32 first = to_word(y0, v0), second = to_word(y1, v1);
#if WORD == 19
    return make_float2(__uint_as_float(first), __uint_as_float(second));
#else
    return first | second << 16;
#endif
#endif
}

struct Frame { float scale1, scale2, shifted; u32 big; };

// Eight neighbours of a vector, of which `count` exist unless it is WHOLE: centre, scale and measure
// them, and write all their words: A_1 = fl(y), A_i = fl((what is left)*step), eq. (2.2) of Fasi et al.
template <bool WHOLE> __device__ __forceinline__ void split(const float* x, int count, const Frame& f,
        float weight0, float weight4, float step, Record* r, word_t* to, int pitch) {
    float rest[8];
#pragma unroll
    for (int q = 0; q < 8; q++) rest[q] = WHOLE || q < count ? fma32(x[q], f.scale1, -f.shifted) : 0.0f;
    if (f.scale2 != 1.0f)
#pragma unroll
        for (int q = 0; q < 8; q++) rest[q] = mul32(rest[q], f.scale2);
#pragma unroll
    for (int q = 0; q < 8; q++) {
        float y = rest[q];
        u32 bits = magnitude(y);
        r->sum += y;
        r->norm1 += fabsf(y);
        r->norm2 = __fmaf_rn(y, y, r->norm2);
        r->top = max(r->top, bits);
#if WORD == 16
        r->big += bits >= f.big;
        r->small += bits - 1u < 0x397FFFFFu;        // below 2^-12; a zero wraps around to the largest
#else
        r->low = min(r->low, bits - 1u);
#endif
    }
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
        pair_t words[4];
#pragma unroll
        for (int q = 0; q < 8; q += 2) {
            float value[2], y[2] = {rest[q], rest[q + 1]}, weight = q < 4 ? weight0 : weight4;
            words[q / 2] = to_words(y[0], y[1], &value[0], &value[1]);
#pragma unroll
            for (int z = 0; z < 2; z++) {
                float left = sub32(y[z], value[z]);
                if (i == 0) left = add32(left, mul32(y[z], weight));
                rest[q + z] = mul32(left, step);
            }
        }
        word_t* slot = to + (i64)i * pitch;
#if WORD == 19
        *(float4*)slot = make_float4(words[0].x, words[0].y, words[1].x, words[1].y);
        *(float4*)(slot + 4) = make_float4(words[2].x, words[2].y, words[3].x, words[3].y);
#else
        *(uint4*)slot = make_uint4(words[0], words[1], words[2], words[3]);
#endif
    }
}

// Where this thread reads: in each tile four neighbours twice; eight of one vector where rows are
// vectors, else four vectors at each of two inner indices, 32 apart. `whole`: without checking.
template <bool ROWS> struct Source {
    const float* from;
    i64 stride;
    int vector, at;
    bool whole;
    __device__ __forceinline__ Source(const float* x, i64 stride, int vectors, int first, int h)
        : stride(stride) {
        int outer = threadIdx.x / 8, inner = threadIdx.x % 8;
        vector = first + (ROWS ? outer : 4 * inner);
        at = h + (ROWS ? 8 * inner : outer);
        from = x + (ROWS ? vector * stride + at : at * stride + vector);
        whole = (((unsigned long long)x | (4 * stride)) & 15) == 0 && (ROWS ? vector : vector + 3) < vectors;
    }
    __device__ __forceinline__ void load(bool inside, int vectors, int k, float* v) {
        i64 half = ROWS ? 4 : 32 * stride;
        if (inside && whole) {
            *(float4*)v = *(const float4*)from;
            *(float4*)(v + 4) = *(const float4*)(from + half);
        } else {
#pragma unroll
            for (int q = 0; q < 8; q++) {
                int z = vector + (ROWS ? 0 : q % 4), h = at + (ROWS ? q : 32 * (q / 4));
                v[q] = z < vectors && h < k ? from[q / 4 * half + q % 4] : 0.0f;
            }
        }
        from += ROWS ? 64 : 64 * stride;
        at += 64;
    }
};

// Where four neighbours of a vector lie in the tile: even groups of four first, then odd ones, turned
// by the vector, so that neither writing columns nor reading vectors meets a bank twice.
__device__ __forceinline__ int slot(int vector, int group) {
    return 64 * vector + 4 * ((group / 2 + 8 * (group % 2)) ^ (vector / 4 % 8));
}

// The inner indices from start to stop of 32 vectors, 64 at a time.
template <bool ROWS> __device__ __forceinline__ void walk(const float* x, i64 stride, int vectors, int first,
        int start, int stop, int k, const Frame& f, const float* weights, float step, Record* r,
        word_t* to, int pitch) {
    __shared__ __align__(16) float tile[2][ROWS ? 4 : 32 * 64];
    __align__(16) float next[8], v[8];
    int outer = threadIdx.x / 8, inner = threadIdx.x % 8, h = start + 8 * inner;
    Source<ROWS> source(x, stride, vectors, first, start);
    source.load(start + 64 <= k, vectors, k, next);
    for (; start < stop; start += 64, h += 64) {
        if (ROWS) {
#pragma unroll
            for (int q = 0; q < 8; q++) v[q] = next[q];
        } else {
            float* turn = tile[start / 64 % 2];     // one barrier is enough: the next tile is the other one
#pragma unroll
            for (int q = 0; q < 8; q++) {
                int at = outer + 32 * (q / 4);
                turn[slot(4 * inner + q % 4, at / 4) + at % 4] = next[q];
            }
            __syncthreads();
            *(float4*)v = *(const float4*)(turn + slot(outer, 2 * inner));
            *(float4*)(v + 4) = *(const float4*)(turn + slot(outer, 2 * inner + 1));
        }
        if (start + 64 < stop) source.load(start + 128 <= k, vectors, k, next);
        if (first + outer >= vectors || h >= stop) continue;
        float w0 = 0.0f, w4 = 0.0f;
        if (weights && h < k) { w0 = weights[h]; w4 = weights[min(h + 4, k - 1)]; }
        if (h + 8 <= k) split<true>(v, 8, f, w0, w4, step, r, to + h, pitch);
        else split<false>(v, k - h, f, w0, w4, step, r, to + h, pitch);
    }
}

__device__ __forceinline__ void maximum(int* extreme, int value) {
    value = __reduce_max_sync(~0u, value);
    if (threadIdx.x == 0 && value) atomicMax(extreme, value);
}
// Add up each vector's records in the order of the chunks, settle its shift and whether it is
// centred, and take the extremes over the vectors of a warp.
__device__ __forceinline__ void settle(const Record* records, int chunks, int vectors, Vector* v, int k,
        bool scaled, int target, int exact_bits, const int* flags, int* side) {
    Record r = {0.0f, 0.0f, 0.0f, 0u, ~0u, k, 0, 0};
    float spread = 1.0f;
    if (v) {
        r.big = 0;
        for (int i = 0; i < chunks; i++) {
            union { float4 half[2]; Record whole; } other;
            other.half[0] = __ldcg((const float4*)(records + (i64)i * vectors));
            other.half[1] = __ldcg((const float4*)(records + (i64)i * vectors) + 1);
            add(&r, other.whole);
        }
        v->norm1 = r.norm1; v->norm2 = sqrtf(r.norm2); v->bad = r.top >= 0x7F800000u;
        v->shift = scaled ? shift_of(v, side, target) : 0;
        if (!scaled || !centring(flags, exact_bits)) v->centre = 0.0f;
        v->total = (double)k * widened(v->centre) + ldexp((double)r.sum, -v->shift);
        if (r.top) spread = fminf(1000.0f * (r.norm1 / v->norm2) * (r.norm1 / v->norm2) / (float)k, 1000.0f);
    }
    maximum(side + BAD, r.top >= 0x7F800000u);
    maximum(side + TOP, r.top ? 300 + (int)(r.top >> 23) - 126 : 0);
    maximum(side + SPREAD, r.top ? 1000 - (int)spread : 0);
#if WORD == 16
    maximum(side + SMALL, r.small);
    maximum(side + DEFICIT, k - r.big);
#else
    maximum(side + LOW, r.top ? 300 - ((int)((r.low + 1u) >> 23) - 126) : 0);
#endif
}

// Of A and of B: vectors, records and strides.
struct Splitting {
    Vector *of_a, *of_b; Record *records_a, *records_b; int *flags, *report; i64 stride_a, stride_b;
    int vectors_a, vectors_b, rows_a, rows_b, k, padded_k, scaled, exact_bits, target; float step;
};

// A block takes 32 vectors of A or of B, and CHUNK inner indices; a thread eight of a vector at a time.
extern "C" __global__ void __launch_bounds__(256, 4) multiword_split(
        const float* __restrict__ xa, const float* __restrict__ xb, word_t* __restrict__ words_a,
        word_t* __restrict__ words_b, const float* __restrict__ weights, Splitting s) {
    int k = s.k, padded_k = s.padded_k, exact_bits = s.exact_bits, *flags = s.flags;
    // In one dimension, for it alone may be long: chunk by chunk.
    int groups_a = (s.vectors_a + 31) / 32, groups = groups_a + (s.vectors_b + 31) / 32, tid = threadIdx.x;
    int group = blockIdx.x % groups, chunk = blockIdx.x / groups, chunks = gridDim.x / groups;
    bool second = group >= groups_a, rows = second ? s.rows_b : s.rows_a;
    int vectors = second ? s.vectors_b : s.vectors_a, first = 32 * (group - (second ? groups_a : 0));
    int vector = first + tid / 8, start = CHUNK * chunk, stop = min(start + CHUNK, padded_k);
    Vector* of = second ? s.of_b : s.of_a;
    int* side = flags + (second ? SIDE : 0);
    Frame f = {1.0f, 1.0f, 0.0f, magnitude(ldexpf(1.0f, s.target - 7))};
    if (s.scaled) {
        const Vector* v = of + min(vector, vectors - 1);
        int shift = shift_of(v, side, s.target);
        int part = min(max(shift, -126), 127);      // two factors where one would leave fp32's range
        f.scale1 = power32(part);
        f.scale2 = power32(shift - part);
        if (centring(flags, exact_bits)) f.shifted = mul32(v->centre, f.scale1);
        if (integers(flags, exact_bits)) weights = 0;
    }
    if (second) weights = 0;
    // Words in reverse order on B's side: the last one comes first.
    int pitch = second ? -padded_k : padded_k;
    word_t* to = (second ? words_b + (WORDS - 1) * padded_k : words_a) + (i64)vector * WORDS * padded_k;
    const float* x = second ? xb : xa;
    i64 stride = second ? s.stride_b : s.stride_a;
    Record r = {0.0f, 0.0f, 0.0f, 0u, ~0u, 0, 0, 0};
    if (rows) walk<true>(x, stride, vectors, first, start, stop, k, f, weights, s.step, &r, to, pitch);
    else walk<false>(x, stride, vectors, first, start, stop, k, f, weights, s.step, &r, to, pitch);
    for (int half = 4; half > 0; half /= 2) {
        Record other;
        other.sum = __shfl_down_sync(~0u, r.sum, half);
        other.norm1 = __shfl_down_sync(~0u, r.norm1, half);
        other.norm2 = __shfl_down_sync(~0u, r.norm2, half);
        other.top = __shfl_down_sync(~0u, r.top, half);
        other.low = __shfl_down_sync(~0u, r.low, half);
        other.big = __shfl_down_sync(~0u, r.big, half);
        other.small = __shfl_down_sync(~0u, r.small, half);
        add(&r, other);
    }
    Record* records = (second ? s.records_b : s.records_a) + first;
    if (tid % 8 == 0 && vector < vectors) records[(i64)chunk * vectors + tid / 8] = r;
    // The block that is the last with these vectors knows all of them.
    __shared__ int earlier, settled;
    __threadfence();
    __syncthreads();
    if (tid == 0) earlier = atomicAdd(flags + COUNTERS + group, 1);
    __syncthreads();
    if (earlier + 1 < chunks) return;
    __threadfence();
    if (tid < 32) settle(records + tid, chunks, vectors, first + tid < vectors ? of + first + tid : 0, k,
                         s.scaled, s.target, exact_bits, flags, side);
    // And the last of those tells the host; the counters are set back for the next panel.
    if (tid == 0) {
        flags[COUNTERS + group] = 0;
        __threadfence();
        settled = atomicAdd(flags + GROUPS, 1);
    }
    __syncthreads();
    if (settled + 1 < groups) return;
    __threadfence();
    if (tid < FAILED && s.report) s.report[tid] = __ldcg(flags + tid);
    if (tid == 0) flags[GROUPS] = 0;
}
