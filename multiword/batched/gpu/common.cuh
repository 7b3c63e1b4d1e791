/* CUDA that the batched kernels share: formats, tensor-core fragments, copies, the last step.

   The tensor core multiplies 16×16 by 16×8 (m16n8k16). Everything here is arranged so that a
   thread's share of an operand lies together in shared memory, whatever the operand's size: the
   rows, columns and inner indices of the instruction may be permuted freely as long as both
   operands and the result agree. With g = lane / 4 and t = lane % 4, thread (g, t) holds

   - of A, rows 2g and 2g + 1, inner indices 4t … 4t + 3 (two registers of two halves for each row);
   - of Bᵀ the same, where row 2g belongs to a first instruction and row 2g + 1 to a second;
   - of C, rows 2g and 2g + 1, columns 4t … 4t + 3 of the 16×16 that the two instructions make.

   Inner dimensions up to 8 (half-complex: 4) take m16n8k8, where a thread has two inner indices.
   Operands with odd rows are read entry by entry, and there inner indices t, t + 4, t + 8, t + 12
   (and columns likewise) meet fewer bank conflicts.

   Half-complex operands are real ones of twice the inner size: A's pairs are inner indices
   as they lie, and an entry of B is expanded in registers into its 2×2 block, (re, −im) for the
   even column and (im, re) for the odd one, which is one exclusive-or and one rotation. */
#include "multiword/runtime/exact.cuh"
typedef unsigned short u16;
typedef unsigned int u32;
typedef long long i64;

#if COMPLEX
typedef u32 Entry;                       // (re, im)
#else
typedef u16 Entry;
#endif
constexpr int SIZE = sizeof(Entry);
constexpr int STEP = (COMPLEX ? 8 : 16) / (SHORT ? 2 : 1);  // inner indices in one instruction
constexpr int SLOTS = SHORT ? 2 : 4;     // halves that a thread holds of each row of an operand
constexpr int WIDE = COMPLEX ? 8 : 16;   // columns of C in two instructions
constexpr int OWN = COMPLEX ? 2 : 4;     // entries that one thread holds side by side
#define SIGN 0x80000000u                 // of the imaginary part

__device__ __forceinline__ float widen(u16 x) {
#if BF16
    return __uint_as_float((u32)x << 16);
#else
    float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x)); return y;
#endif
}

__device__ __forceinline__ u32 narrow(float low, float high) {
    u32 y;
#if BF16
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
#else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
#endif
    return y;
}

__device__ __forceinline__ u16 fma16(u16 x, u16 y, u16 z) {
    u16 r; asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(r) : "h"(x), "h"(y), "h"(z)); return r;
}

// ---- the accumulator of one instruction: rows g and g + 8, two columns each

#if BF16
#define WORDS "bf16.bf16"
#else
#define WORDS "f16.f16"
#endif

struct Sum {
#if ACC16
    u32 x[2];
    __device__ __forceinline__ float at(int i) const { return widen((u16)(x[i / 2] >> (i % 2 * 16))); }
    __device__ __forceinline__ void add(const u32 (&a)[4], const u32 (&b)[2]) {
#if SHORT
        asm("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0,%1},{%2,%3},{%4},{%0,%1};"
            : "+r"(x[0]), "+r"(x[1]) : "r"(a[0]), "r"(a[1]), "r"(b[0]));
#else
        asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1},{%2,%3,%4,%5},{%6,%7},{%0,%1};"
            : "+r"(x[0]), "+r"(x[1]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
    }
#else
    float x[4];
    __device__ __forceinline__ float at(int i) const { return x[i]; }
    __device__ __forceinline__ void add(const u32 (&a)[4], const u32 (&b)[2]) {
#if SHORT
        asm("mma.sync.aligned.m16n8k8.row.col.f32." WORDS ".f32 {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};"
            : "+f"(x[0]), "+f"(x[1]), "+f"(x[2]), "+f"(x[3]) : "r"(a[0]), "r"(a[1]), "r"(b[0]));
#else
        asm("mma.sync.aligned.m16n8k16.row.col.f32." WORDS ".f32 "
            "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
            : "+f"(x[0]), "+f"(x[1]), "+f"(x[2]), "+f"(x[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
    }
#endif
    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i < sizeof(x) / 4; ++i) x[i] = 0;
    }
};

// ---- shared memory to registers

// The inner index that slot j of thread t stands for, and the column of C for slot g. Where
// entries must be read one by one, four threads side by side read four neighbours, so that
// fewer of a warp's rows meet in one bank; where they are read in vectors, each thread's four lie together.
template <bool SINGLY>
__device__ __forceinline__ int inner(int step, int t, int j) {
    constexpr int EACH = STEP / 4;
    return STEP * step + (SINGLY ? t + 4 * j : EACH * t + j);
}

template <bool SINGLY>
__device__ __forceinline__ int column_of(int g, int odd) {
    if (COMPLEX) return SINGLY ? (g >> 1) + 4 * (g & 1) : g;
    return SINGLY ? (g >> 1) + 4 * (g & 1) + 8 * odd : 2 * g + odd;
}

// An operand seen as OUTER rows of DEPTH inner indices. DEPTH_CONTIGUOUS says which of the two
// is contiguous; ALIGN is the alignment of its first entry, in entries. Inner indices beyond
// the end give zeros; rows beyond it are clamped if there can be any (CLAMPED). SINGLY and
// COLUMNS_SINGLY are the orders of inner indices and columns.
template <bool DEPTH_CONTIGUOUS, int LD, int OUTER, int DEPTH, int ALIGN, bool CONJUGATE, bool CLAMPED,
          bool SINGLY = false, bool COLUMNS_SINGLY = false>
struct Operand {
    static constexpr bool WHOLE = DEPTH % STEP == 0;
    static constexpr bool PAIRS = LD % 2 == 0 && ALIGN % 2 == 0 && !SINGLY;

    __device__ __forceinline__ static int outer(int o) { return CLAMPED ? min(o, OUTER - 1) : o; }
    __device__ __forceinline__ static int depth(int h, int last) { return WHOLE ? h : min(h, last); }
    __device__ __forceinline__ static bool inside(int h) { return WHOLE || h < DEPTH; }

    // The entry at row o and inner index h, or zero
    __device__ __forceinline__ static u32 entry(const Entry* s, int o, int h) {
        const int d = depth(h, DEPTH - 1);
        const u32 x = DEPTH_CONTIGUOUS ? s[outer(o) * LD + d] : s[d * LD + outer(o)];
        return inside(h) ? x : 0;
    }

#if COMPLEX
    // r[j]: slot j of row o
    __device__ __forceinline__ static void row(u32 (&r)[2], const u32* s, int o, int step, int t) {
        const int h = inner<SINGLY>(step, t, 0);
        if constexpr (DEPTH_CONTIGUOUS && PAIRS && DEPTH % 2 == 0 && !SHORT) {
            const uint2 x = *(const uint2*)(s + outer(o) * LD + depth(h, DEPTH - 2));
            r[0] = inside(h) ? x.x : 0; r[1] = inside(h) ? x.y : 0;
        } else {
#pragma unroll
            for (int j = 0; j < 2; ++j) r[j] = j && SHORT ? 0 : entry(s, o, inner<SINGLY>(step, t, j));
        }
        if (CONJUGATE) { r[0] ^= SIGN; r[1] ^= SIGN; }
    }
#else
    // r[q]: slots 2q and 2q + 1 of row o
    __device__ __forceinline__ static void row(u32 (&r)[2], const u16* s, int o, int step, int t) {
        const int h = inner<SINGLY>(step, t, 0);
        if constexpr (DEPTH_CONTIGUOUS && PAIRS && DEPTH % 2 == 0) {
            const u16* q = s + outer(o) * LD;
            if constexpr (LD % 4 == 0 && DEPTH % 4 == 0 && ALIGN % 4 == 0 && !SHORT) {
                const uint2 x = *(const uint2*)(q + depth(h, DEPTH - 4));
                r[0] = inside(h) ? x.x : 0; r[1] = inside(h) ? x.y : 0;
            } else {
#pragma unroll
                for (int j = 0; j < SLOTS / 2; ++j) {
                    const u32 x = *(const u32*)(q + depth(h + 2 * j, DEPTH - 2));
                    r[j] = inside(h + 2 * j) ? x : 0;
                }
            }
        } else {
#pragma unroll
            for (int q = 0; q < SLOTS / 2; ++q)
                r[q] = __byte_perm(entry(s, o, inner<SINGLY>(step, t, 2 * q)),
                                   entry(s, o, inner<SINGLY>(step, t, 2 * q + 1)), 0x5410);
        }
    }
#endif

    // r[p]: row p of two
    __device__ __forceinline__ static void rows(
            u32 (&r)[2][2], const Entry* s, int o0, int o1, int step, int t) {
        if constexpr (!COMPLEX && !DEPTH_CONTIGUOUS && PAIRS && !COLUMNS_SINGLY) {
            const int h = inner<SINGLY>(step, t, 0);
            u32 x[4];  // rows o0 and o1 = o0 + 1 of slot j
#pragma unroll
            for (int j = 0; j < SLOTS; ++j) {
                const Entry* q = s + depth(h + j, DEPTH - 1) * LD;
                x[j] = *(const u32*)(q + (CLAMPED ? min(o0, (OUTER - 1) & ~1) : o0));
                x[j] = inside(h + j) ? x[j] : 0;
            }
#pragma unroll
            for (int q = 0; q < SLOTS / 2; ++q) {
                r[0][q] = __byte_perm(x[2 * q], x[2 * q + 1], 0x5410);
                r[1][q] = __byte_perm(x[2 * q], x[2 * q + 1], 0x7632);
            }
        } else {
            row(r[0], s, o0, step, t);
            row(r[1], s, o1, step, t);
        }
    }

    // A: 16 rows from `tile`, for one instruction
    __device__ __forceinline__ static void left(
            u32 (&f)[4], const Entry* s, int tile, int step, int g, int t) {
        u32 r[2][2] = {};
        rows(r, s, 16 * tile + 2 * g, 16 * tile + 2 * g + 1, step, t);
        f[0] = r[0][0]; f[1] = r[1][0]; f[2] = r[0][1]; f[3] = r[1][1];
    }

    // B: WIDE columns from `tile`, for two instructions
    __device__ __forceinline__ static void right(
            u32 (&even)[2], u32 (&odd)[2], const Entry* s, int tile, int step, int g, int t) {
        const int first = WIDE * tile + column_of<COLUMNS_SINGLY>(g, 0);
#if COMPLEX
        u32 r[2];
        row(r, s, first, step, t);
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            even[j] = r[j] ^ SIGN;
            odd[j] = __byte_perm(r[j], r[j], 0x1032);
        }
#else
        u32 r[2][2] = {};
        rows(r, s, first, WIDE * tile + column_of<COLUMNS_SINGLY>(g, 1), step, t);
        even[0] = r[0][0]; even[1] = r[0][1]; odd[0] = r[1][0]; odd[1] = r[1][1];
#endif
    }
};

// ---- what is passed by value beside the addresses; `kernels.Parameters` on the host

struct Scalars { float are, aim, bre, bim; };

struct Parameters {
    i64 a_stride, b_stride, c_stride, out_stride;  // entries from one matrix to the next
    int a_ld, b_ld, c_ld, out_ld;                  // entries from one row to the next
    int sizes[4];                                  // the kernel's own
    Scalars scalars;
};

// ---- the last step: alpha·sum + beta·C in fp32, rounded once

__device__ __forceinline__ void times(float& re, float& im, float sre, float sim, bool full) {
    if (full) {
        const float x = sub32(mul32(sre, re), mul32(sim, im));
        im = add32(mul32(sre, im), mul32(sim, re)); re = x;
    } else { re = mul32(re, sre); im = mul32(im, sre); }
}

// OWN entries of C, or zeros. They are loaded before any result is stored: C may be the result,
// so loads do not overtake stores.
struct Old {
    u32 x, y;
    __device__ __forceinline__ float at(int i) const { return widen((u16)((i & 2 ? y : x) >> (i % 2 * 16))); }
};

template <int ALIGN, int GAP = 1>
__device__ __forceinline__ Old addend(const Entry* c, int count) {
    Old old = {};
    if (!BETA) return old;
    if constexpr (ALIGN % OWN == 0 && GAP == 1)
        if (count >= OWN) {
            const uint2 both = *(const uint2*)c;
            old = {both.x, both.y};
            return old;
        }
#pragma unroll
    for (int i = 0; i < OWN; ++i)
        if (GAP * i < count) {
            const u32 entry = (u32)c[GAP * i] << (COMPLEX ? 0 : i % 2 * 16);
            if (i < OWN / 2) old.x |= entry;
            else old.y |= entry;
        }
    return old;
}

// OWN entries, v and what is to be added to them, to `out`, GAP apart, as far as `count` reaches;
// all at once where ALIGN allows
template <int ALIGN, int GAP = 1>
__device__ __forceinline__ void emit(Entry* out, const Old& old, float (&v)[4], int count, const Scalars& s) {
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        if (ALPHA) times(v[i], v[i + 1], s.are, s.aim, ALPHA == 2);
        if (BETA) {
            float re = old.at(i), im = old.at(i + 1);
            times(re, im, s.bre, s.bim, BETA == 2);
            v[i] = add32(v[i], re); v[i + 1] = add32(v[i + 1], im);
        }
    }
    const u32 x = narrow(v[0], v[1]), y = narrow(v[2], v[3]);
    if constexpr (ALIGN % OWN == 0 && GAP == 1) {
        // As one number: two neighbouring 32-bit stores are not always made into one.
        if (count >= OWN) { *(unsigned long long*)out = (unsigned long long)y << 32 | x; return; }
    }
#if COMPLEX
    if (count > 0) out[0] = x;
    if (count > GAP) out[GAP] = y;
#else
    if constexpr (ALIGN % 2 == 0 && GAP == 1) {
        if (count >= 2) *(u32*)out = x; else if (count == 1) out[0] = (u16)x;
        if (count >= 4) *(u32*)(out + 2) = y; else if (count == 3) out[2] = (u16)y;
    } else {
        if (count > 0) out[0] = (u16)x;
        if (count > GAP) out[GAP] = (u16)(x >> 16);
        if (count > 2 * GAP) out[2 * GAP] = (u16)y;
        if (count > 3 * GAP) out[3 * GAP] = (u16)(y >> 16);
    }
#endif
}

// Row p (0 or 1) of the thread's share of a 16×WIDE tile, in the order of its columns
template <bool SINGLY = false>
__device__ __forceinline__ void share(float (&v)[4], const Sum& even, const Sum& odd, int p) {
    v[0] = even.at(2 * p); v[3] = odd.at(2 * p + 1);
    v[1] = SINGLY && !COMPLEX ? even.at(2 * p + 1) : odd.at(2 * p);
    v[2] = SINGLY && !COMPLEX ? odd.at(2 * p) : even.at(2 * p + 1);
}

// ---- global to shared memory

// BYTES (4, 8 or 16) without passing through registers; the part beyond `valid` becomes zero
template <int BYTES>
__device__ __forceinline__ void copy_async(void* s, const void* g, int valid = BYTES) {
    const u32 to = (u32)__cvta_generic_to_shared(s);
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :: "r"(to), "l"(g), "r"(valid) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                     :: "r"(to), "l"(g), "n"(BYTES), "r"(valid) : "memory");
}

__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int PENDING>
__device__ __forceinline__ void arrive() {
    asm volatile("cp.async.wait_group %0;" :: "n"(PENDING) : "memory");
}

// Where the matrices of a stack begin: `stride` entries apart, or wherever a list says
template <bool LISTED>
__device__ __forceinline__ const Entry* matrix_at(const void* base, i64 stride, int index) {
    if constexpr (LISTED) return ((const Entry* const*)base)[index];
    else return (const Entry*)base + index * stride;
}
