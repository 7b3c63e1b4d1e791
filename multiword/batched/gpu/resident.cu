#include "multiword/batched/gpu/common.cuh"

constexpr int WARPS = THREADS / 32;
constexpr int TILES_M = (M + 15) / 16, TILES_N = (N + WIDE - 1) / WIDE, STEPS = (K + STEP - 1) / STEP;
constexpr int SHARES_M = (TILES_M + TM - 1) / TM, SHARES_N = (TILES_N + TN - 1) / TN;
constexpr int A_ROWS = A_KMAJOR ? M : K, A_LENGTH = A_KMAJOR ? K : M;
constexpr int B_ROWS = B_KMAJOR ? N : K, B_LENGTH = B_KMAJOR ? K : N;
// Entries are read singly where neither operand lends itself to vectors
constexpr bool ODD_A = A_LD % 2 || A_ALIGN % 2, ODD_B = B_LD % 2 || B_ALIGN % 2;
constexpr bool SINGLY = ODD_A && ODD_B, COLUMNS_SINGLY = N % 2 && (ODD_B || B_KMAJOR);
constexpr int C_RUN = C_WHOLE ? 16 / SIZE : 1;  // alignment of what is moved at once
constexpr int GAP = COLUMNS_SINGLY ? 4 : 1, FIRST = COLUMNS_SINGLY ? 1 : OWN;
constexpr bool M_ENDS = M % (16 * TM), N_ENDS = N % (WIDE * TN);  // within a warp's share
using Left = Operand<A_KMAJOR, A_LD, M, K, A_ALIGN, CONJ_A, M_ENDS, SINGLY>;
using Right = Operand<B_KMAJOR, B_LD, N, K, B_ALIGN, CONJ_B, N_ENDS, SINGLY, COLUMNS_SINGLY>;

// Bytes moved in aligned vectors of 16, by all threads. They keep their 16-byte
// phase in shared memory; returns that phase. ALIGNED: it begins and ends with a piece.
template <bool STORE, bool ALIGNED>
__device__ __forceinline__ int move_run(char* s, char* g, int bytes) {
    const int phase = ALIGNED ? 0 : (int)((unsigned long long)g & 15);
    const int head = ALIGNED ? 0 : min((16 - phase) & 15, bytes), body = (bytes - head) >> 4;
    const int rest = bytes - 16 * body;
    s += phase;
    for (int i = threadIdx.x; i < body; i += THREADS) {
        if constexpr (STORE) *(uint4*)(g + head + 16 * i) = *(const uint4*)(s + head + 16 * i);
        else copy_async<16>(s + head + 16 * i, g + head + 16 * i);
    }
    if (!ALIGNED && 2 * threadIdx.x < rest) {
        const int at = 2 * threadIdx.x < head ? 2 * threadIdx.x : 2 * threadIdx.x + 16 * body;
        if constexpr (STORE) *(u16*)(g + at) = *(const u16*)(s + at);
        else *(u16*)(s + at) = *(const u16*)(g + at);
    }
    return phase;
}

// `matrices` of ROWS rows of LENGTH entries, in vectors of VEC bytes
template <bool STORE, bool LISTED, int ROWS, int LENGTH, int LD, int STRIDE, int VEC>
__device__ __forceinline__ void move_rows(
        char* s, const void* base, i64 stride, int ld, int first, int matrices) {
    constexpr int PIECES = LENGTH * SIZE / VEC;
    for (int i = threadIdx.x; i < matrices * ROWS * PIECES; i += THREADS) {
        const int piece = i % PIECES, row = i / PIECES % ROWS, matrix = i / (PIECES * ROWS);
        char* g = (char*)(matrix_at<LISTED>(base, stride, first + matrix) + (i64)row * ld) + piece * VEC;
        char* to = s + (matrix * STRIDE + row * LD) * SIZE + piece * VEC;
        if constexpr (STORE) {
            if constexpr (VEC == 16) *(uint4*)g = *(const uint4*)to;
            else if constexpr (VEC == 8) *(uint2*)g = *(const uint2*)to;
            else if constexpr (VEC == 4) *(u32*)g = *(const u32*)to;
            else *(u16*)g = *(const u16*)to;
        } else if constexpr (VEC == 2) *(u16*)to = *(const u16*)g;
        else copy_async<VEC>(to, g);
    }
}

// The matrices of a block's group, as they lie in shared and in global memory
template <int STRIDE>
struct Packed {
    const Entry* s;
    __device__ __forceinline__ const Entry* operator[](int i) const { return s + i * STRIDE; }
};

template <bool LISTED>
struct Stack {
    const void* base;
    i64 stride;
    int first;
    __device__ __forceinline__ const Entry* operator[](int i) const {
        return matrix_at<LISTED>(base, stride, first + i);
    }
};

template <bool STORE, bool FLAT, bool LISTED, int ROWS, int LENGTH, int LD, int STRIDE, int VEC, int ALIGN>
__device__ __forceinline__ Entry* move(
        char* s, const void* base, i64 stride, int ld, int first, int matrices) {
    if constexpr (FLAT)
        return (Entry*)(s + move_run<STORE, STRIDE * SIZE % 16 == 0 && ALIGN * SIZE == 16>(
            s, (char*)((Entry*)base + first * stride), matrices * ROWS * LENGTH * SIZE));
    move_rows<STORE, LISTED, ROWS, LENGTH, LD, STRIDE, VEC>(s, base, stride, ld, first, matrices);
    return (Entry*)s;
}

#if PLAIN
// The largest divisor of x among y, y / 2, …, where y is a power of two
__device__ constexpr int common(int x, int y) { return x % y == 0 ? y : common(x, y / 2); }

// One row of C for each thread, every sum in registers
template <int COUNT, int STRIDE, int ALIGN>
__device__ __forceinline__ void fetch(Entry (&x)[COUNT], const Entry* s) {
    constexpr int VECTOR = STRIDE == 1 ? common(16 / SIZE, ALIGN) : 1;
    constexpr int BODY = VECTOR == 1 ? 0 : COUNT / VECTOR * VECTOR;
#pragma unroll
    for (int i = 0; i < BODY; i += VECTOR) {
        __align__(16) u32 w[4];
        if constexpr (VECTOR * SIZE == 16) *(uint4*)w = *(const uint4*)(s + i);
        else if constexpr (VECTOR * SIZE == 8) *(uint2*)w = *(const uint2*)(s + i);
        else w[0] = *(const u32*)(s + i);
#pragma unroll
        for (int j = 0; j < VECTOR; ++j)
            x[i + j] = SIZE == 4 ? (Entry)w[j & 3] : (Entry)(w[(j / 2) & 3] >> (j % 2 * 16));
    }
#pragma unroll
    for (int i = BODY; i < COUNT; ++i) x[i] = s[i * STRIDE];
}

constexpr int A_BOTH = common(A_LD, A_ALIGN), B_BOTH = common(B_LD, B_ALIGN);

#if ACC16
typedef u16 Part;
__device__ __forceinline__ Part part(u16 x) { return x; }
__device__ __forceinline__ Part opposite(Part x) { return x ^ 0x8000; }
__device__ __forceinline__ Part add_product(Part x, Part y, Part z) { return fma16(x, y, z); }
__device__ __forceinline__ float value(Part x) { return widen(x); }
#else
typedef float Part;
__device__ __forceinline__ Part part(u16 x) { return widen(x); }
__device__ __forceinline__ Part opposite(Part x) { return -x; }
__device__ __forceinline__ Part add_product(Part x, Part y, Part z) { return fma32(x, y, z); }
__device__ __forceinline__ float value(Part x) { return x; }
#endif

template <class A, class B>
__device__ __forceinline__ void compute(
        const A& left, const B& right, Entry* to, i64 to_stride, int to_ld,
        const Entry* from, i64 from_stride, int from_ld, int here, const Scalars& scalars) {
    constexpr int PARTS = COMPLEX ? 2 * N : N;
    for (int i = threadIdx.x; i < here * M; i += THREADS) {
        const int matrix = i / M, row = i % M;
        Entry a[K];
        fetch<K, A_KMAJOR ? 1 : A_LD, A_BOTH>(a, left[matrix] + row * (A_KMAJOR ? A_LD : 1));
        Part sum[(PARTS + 3) / 4 * 4];
#pragma unroll
        for (int j = 0; j < (PARTS + 3) / 4 * 4; ++j) sum[j] = 0;
#pragma unroll
        for (int h = 0; h < K; ++h) {
            Entry b[N];
            fetch<N, B_KMAJOR ? B_LD : 1, B_BOTH>(b, right[matrix] + h * (B_KMAJOR ? 1 : B_LD));
#if COMPLEX
            const Part re = part((u16)a[h]), raw = part((u16)(a[h] >> 16)), im = CONJ_A ? opposite(raw) : raw;
#pragma unroll
            for (int j = 0; j < N; ++j) {
                const u32 x = CONJ_B ? b[j] ^ SIGN : b[j];
                const Part bre = part((u16)x), bim = part((u16)(x >> 16));
                sum[2 * j] = add_product(im, opposite(bim), add_product(re, bre, sum[2 * j]));
                sum[2 * j + 1] = add_product(im, bre, add_product(re, bim, sum[2 * j + 1]));
            }
#else
            const Part x = part(a[h]);
#pragma unroll
            for (int j = 0; j < N; ++j) sum[j] = add_product(x, part(b[j]), sum[j]);
#endif
        }
        Entry* to_row = to + matrix * to_stride + (i64)row * to_ld;
        const Entry* old_row = from + matrix * from_stride + (i64)row * from_ld;
        Old old[(N + OWN - 1) / OWN];
#pragma unroll
        for (int j = 0; j < N; j += OWN) old[j / OWN] = addend<C_ALIGN>(old_row + j, N - j);
#pragma unroll
        for (int j = 0; j < N; j += OWN) {
            float v[4];
#pragma unroll
            for (int q = 0; q < 4; ++q) v[q] = value(sum[4 * (j / OWN) + q]);
            emit<C_ALIGN>(to_row + j, old[j / OWN], v, N - j, scalars);
        }
    }
}
#elif M <= 8 && N * (1 + COMPLEX) <= 8
// Two products for each warp: the rows of both A fill a tile, and each B has an instruction of its own
template <class A, class B>
__device__ __forceinline__ void compute(
        const A& left, const B& right, Entry* to, i64 to_stride, int to_ld,
        const Entry* from, i64 from_stride, int from_ld, int here, const Scalars& scalars) {
    const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    const int column = COMPLEX ? t : 2 * t;
    for (int first = 2 * (threadIdx.x >> 5); first < here; first += 2 * WARPS) {
        const int both[2] = {first, min(first + 1, here - 1)};
        Sum sum[2];
        sum[0].clear(); sum[1].clear();
#pragma unroll (STEPS <= 4 ? STEPS : 2)
        for (int step = 0; step < STEPS; ++step) {
            u32 a[2][2] = {}, b[2][2] = {};
#pragma unroll
            for (int p = 0; p < 2; ++p) {
                Left::row(a[p], left[both[p]], g, step, t);
                Right::row(b[p], right[both[p]], COMPLEX ? g >> 1 : g, step, t);
#if COMPLEX
#pragma unroll
                for (int j = 0; j < 2; ++j)
                    b[p][j] = g & 1 ? __byte_perm(b[p][j], b[p][j], 0x1032) : b[p][j] ^ SIGN;
#endif
            }
            const u32 rows[4] = {a[0][0], a[1][0], a[0][1], a[1][1]};
            sum[0].add(rows, b[0]);
            sum[1].add(rows, b[1]);
        }
        Old old[2];
#pragma unroll
        for (int p = 0; p < 2; ++p)
            if (BETA && first + p < here && g < M && column < N)
                old[p] = addend<C_ALIGN>(from + (first + p) * from_stride + (i64)g * from_ld + column,
                                         min(OWN / 2, N - column));
#pragma unroll
        for (int p = 0; p < 2; ++p)
            if (first + p < here && g < M && column < N) {
                float v[4] = {sum[p].at(2 * p), sum[p].at(2 * p + 1), 0, 0};
                emit<C_ALIGN>(to + (first + p) * to_stride + (i64)g * to_ld + column, old[p], v,
                              min(OWN / 2, N - column), scalars);
            }
    }
}
#else
// TM×TN tiles of one matrix for each warp
template <class A, class B>
__device__ __forceinline__ void compute(
        const A& lefts, const B& rights, Entry* to, i64 to_stride, int to_ld,
        const Entry* from, i64 from_stride, int from_ld, int here, const Scalars& scalars) {
    const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    for (int i = threadIdx.x >> 5; i < here * SHARES_M * SHARES_N; i += WARPS) {
        const int matrix = i / (SHARES_M * SHARES_N);
        const int m0 = i / SHARES_N % SHARES_M * TM, n0 = i % SHARES_N * TN;
        const Entry *a = lefts[matrix], *b = rights[matrix];
        Sum sum[TM][TN][2];
#pragma unroll
        for (int p = 0; p < TM; ++p)
#pragma unroll
            for (int q = 0; q < TN; ++q) { sum[p][q][0].clear(); sum[p][q][1].clear(); }
#pragma unroll (STEPS <= 4 ? STEPS : 2)
        for (int step = 0; step < STEPS; ++step) {
            u32 left[TM][4], right[TN][2][2];
#pragma unroll
            for (int p = 0; p < TM; ++p) Left::left(left[p], a, m0 + p, step, g, t);
#pragma unroll
            for (int q = 0; q < TN; ++q) Right::right(right[q][0], right[q][1], b, n0 + q, step, g, t);
#pragma unroll
            for (int p = 0; p < TM; ++p)
#pragma unroll
                for (int q = 0; q < TN; ++q) {
                    sum[p][q][0].add(left[p], right[q][0]);
                    sum[p][q][1].add(left[p], right[q][1]);
                }
        }
#pragma unroll
        for (int p = 0; p < TM; ++p) {
            const int row0 = 16 * (m0 + p) + 2 * g, column0 = WIDE * n0 + FIRST * t;
            Old old[TN][2];
#pragma unroll
            for (int q = 0; q < TN; ++q)
#pragma unroll
                for (int r = 0; r < 2; ++r) {
                    const int row = row0 + r, column = column0 + WIDE * q;
                    if (BETA && row < M && column < N)
                        old[q][r] = addend<C_ALIGN, GAP>(
                            from + matrix * from_stride + (i64)row * from_ld + column, N - column);
                }
#pragma unroll
            for (int q = 0; q < TN; ++q)
#pragma unroll
                for (int r = 0; r < 2; ++r) {
                    const int row = row0 + r, column = column0 + WIDE * q;
                    if (row < M && column < N) {
                        float v[4];
                        share<COLUMNS_SINGLY>(v, sum[p][q][0], sum[p][q][1], r);
                        emit<C_ALIGN, GAP>(to + matrix * to_stride + (i64)row * to_ld + column,
                                           old[q][r], v, N - column, scalars);
                    }
                }
        }
    }
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS) batched_resident(
        const void* a, const void* b, const Entry* c, Entry* out, const Parameters with) {
    extern __shared__ __align__(16) char memory[];
    const int batch = with.sizes[0], group = with.sizes[1];
    const int first = blockIdx.x * group, here = min(group, batch - first);
    Entry* to = out + first * with.out_stride;
    const Entry* old = c + first * with.c_stride;
#if DIRECT
    compute(Stack<A_LISTED>{a, with.a_stride, first}, Stack<B_LISTED>{b, with.b_stride, first},
            to, with.out_stride, with.out_ld, old, with.c_stride, with.c_ld, here, with.scalars);
#else
    char *mb = memory + with.sizes[2], *mc = mb + with.sizes[3];
    const Packed<A_STRIDE> left = {
        move<false, A_FLAT, A_LISTED, A_ROWS, A_LENGTH, A_LD, A_STRIDE, A_VEC, A_ALIGN>(
            memory, a, with.a_stride, with.a_ld, A_SHARED ? 0 : first, A_SHARED ? 1 : here)};
    const Packed<B_STRIDE> right = {
        move<false, B_FLAT, B_LISTED, B_ROWS, B_LENGTH, B_LD, B_STRIDE, B_VEC, B_ALIGN>(
            mb, b, with.b_stride, with.b_ld, B_SHARED ? 0 : first, B_SHARED ? 1 : here)};
    if (STAGED && BETA)
        move<false, C_FLAT, false, M, N, N, C_STRIDE, C_VEC, C_RUN>(
            mc, c, with.c_stride, with.c_ld, first, here);
    commit();
    arrive<0>();
    __syncthreads();
    if constexpr (STAGED) {
        // The result replaces C in shared memory, with the phase that it will have in `out`.
        Entry* sc = (Entry*)(mc + (C_FLAT ? (unsigned long long)to & 15 : 0));
        compute(left, right, sc, C_STRIDE, N, sc, C_STRIDE, N, here, with.scalars);
        __syncthreads();
        move<true, C_FLAT, false, M, N, N, C_STRIDE, C_VEC, C_RUN>(
            mc, out, with.out_stride, with.out_ld, first, here);
    } else
        compute(left, right, to, with.out_stride, with.out_ld, old, with.c_stride, with.c_ld, here,
                with.scalars);
#endif
}
