#include "multiword/batched/gpu/common.cuh"

constexpr int THREADS = 32 * WARPS_M * WARPS_N;
constexpr int BM = 16 * TM * WARPS_M, BN = WIDE * TN * WARPS_N, BK = STEP * STEPS;
// The rows that an instruction reads begin in different banks: see `_tile_entries` in plans.py
__device__ constexpr int padding(bool kmajor, int length) {
    return COMPLEX && !kmajor ? (length % 16 ? 0 : 8) : 16 / SIZE;
}
constexpr int A_LD = (A_KMAJOR ? BK : BM) + padding(A_KMAJOR, BM);
constexpr int B_LD = (B_KMAJOR ? BK : BN) + padding(B_KMAJOR, BN);
constexpr int A_ROOM = (A_KMAJOR ? BM : BK) * A_LD, B_ROOM = (B_KMAJOR ? BN : BK) * B_LD;

// Four 8×8 matrices of halves from shared memory; each lane has the address of one of their rows
template <bool TRANSPOSED>
__device__ __forceinline__ void load_matrices(u32 (&f)[4], const Entry* row) {
    const u32 at = (u32)__cvta_generic_to_shared(row);
    if constexpr (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3]) : "r"(at) : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3]) : "r"(at) : "memory");
}

// A: 16 rows from `row`, for one instruction: rows g and g + 8 of the thread, in the standard order
__device__ __forceinline__ void load_left(u32 (&f)[4], const Entry* s, int row, int step, int lane) {
    if constexpr (A_KMAJOR)
        load_matrices<false>(f, s + (row + (lane & 15)) * A_LD + STEP * step + (lane >> 4) * (STEP / 2));
    else if constexpr (!COMPLEX)
        load_matrices<true>(f, s + (STEP * step + (lane >> 4) * 8 + (lane & 7)) * A_LD + row + (lane & 8));
    else {
        const Entry* q = s + (STEP * step + (lane & 3)) * A_LD + row + (lane >> 2);
        f[0] = q[0]; f[1] = q[8]; f[2] = q[4 * A_LD]; f[3] = q[4 * A_LD + 8];
    }
    if (CONJ_A)
#pragma unroll
        for (int i = 0; i < 4; ++i) f[i] ^= SIGN;
}

// B: WIDE columns from `column`, for two instructions
__device__ __forceinline__ void load_right(
        u32 (&even)[2], u32 (&odd)[2], const Entry* s, int column, int step, int lane) {
#if COMPLEX
    const Entry* q = B_KMAJOR ? s + (column + (lane >> 2)) * B_LD + STEP * step + (lane & 3)
                              : s + (STEP * step + (lane & 3)) * B_LD + column + (lane >> 2);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
        const u32 x = q[4 * j * (B_KMAJOR ? 1 : B_LD)] ^ (CONJ_B ? SIGN : 0);
        even[j] = x ^ SIGN;
        odd[j] = __byte_perm(x, x, 0x1032);
    }
#else
    u32 f[4];
    const int high = lane >> 4 << 3, low = lane & 8, r = lane & 7;
    if constexpr (B_KMAJOR) load_matrices<false>(f, s + (column + high + r) * B_LD + STEP * step + low);
    else load_matrices<true>(f, s + (STEP * step + low + r) * B_LD + column + high);
    even[0] = f[0]; even[1] = f[1]; odd[0] = f[2]; odd[1] = f[3];
#endif
}

// The thread's OWN entries of row g + 8p of a tile, side by side, and the column of the first of them
__device__ __forceinline__ void own(float (&v)[4], const Sum& even, const Sum& odd, int p, int t) {
#if COMPLEX
    share(v, even, odd, p);  // real parts, imaginary parts
#else
    // Two columns of either instruction; of neighbours, one takes the even ones of both, one the odd ones
    float mine[2], other[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const float x = even.at(2 * p + i), y = odd.at(2 * p + i);
        mine[i] = t & 1 ? y : x;
        other[i] = __shfl_xor_sync(0xffffffffu, t & 1 ? x : y, 1);
    }
    v[0] = t & 1 ? other[0] : mine[0]; v[1] = t & 1 ? other[1] : mine[1];
    v[2] = t & 1 ? mine[0] : other[0]; v[3] = t & 1 ? mine[1] : other[1];
#endif
}

// `addend`, from global memory and without branches: behind one, a load would be waited for at once.
// An entry is read and written by one thread, so no other order of loads and stores matters.
__device__ __forceinline__ u32 load_if(bool wanted, const u32* p) {
    u32 x;
    asm volatile("{.reg .pred q; setp.ne.u32 q, %2, 0; mov.u32 %0, 0; @q ld.global.u32 %0, [%1];}"
                 : "=r"(x) : "l"(p), "r"((u32)wanted));
    return x;
}

__device__ __forceinline__ u32 load_if(bool wanted, const u16* p) {
    u16 x;
    asm volatile("{.reg .pred q; setp.ne.u32 q, %2, 0; mov.u16 %0, 0; @q ld.global.u16 %0, [%1];}"
                 : "=h"(x) : "l"(p), "r"((u32)wanted));
    return x;
}

template <int ALIGN>
__device__ __forceinline__ Old addend_if(bool wanted, const Entry* c, int count) {
    constexpr bool VECTOR = ALIGN % OWN == 0;
    Old old = {};
    if (VECTOR)
        asm volatile("{.reg .pred q; setp.ne.u32 q, %3, 0; mov.u32 %0, 0; mov.u32 %1, 0;"
                     " @q ld.global.v2.u32 {%0, %1}, [%2];}"
                     : "=r"(old.x), "=r"(old.y) : "l"(c), "r"((u32)(wanted && count >= OWN)));
#pragma unroll
    for (int i = 0; i < (VECTOR ? OWN - 1 : OWN); ++i) {
        const u32 entry = load_if(wanted && i < count && (!VECTOR || count < OWN), c + i);
        (i < OWN / 2 ? old.x : old.y) |= entry << (COMPLEX ? 0 : i % 2 * 16);
    }
    return old;
}

__device__ __forceinline__ int mine(int t) { return COMPLEX ? OWN * t : 8 * (t & 1) + 4 * (t >> 1); }

// Loads one operand into shared memory: blocks of ROWS rows of LENGTH entries, in vectors of VEC bytes,
// zeros beyond the ends of its matrix.
template <int ROWS, int LENGTH, int LD, int VEC>
struct Feed {
    static constexpr int EACH = VEC / SIZE, PIECES = LENGTH / EACH;
    // Then a thread has the same piece of every HOP-th row
    static constexpr bool STEADY = THREADS % PIECES == 0;
    static constexpr int HOP = STEADY ? THREADS / PIECES : 1;
    const Entry* from;  // the next block, or the thread's first piece of it
    int below, beyond;  // rows and entries that the matrix has from there on

    __device__ __forceinline__ static int row() { return STEADY ? threadIdx.x / PIECES : 0; }
    __device__ __forceinline__ static int entry() { return STEADY ? threadIdx.x % PIECES * EACH : 0; }

    __device__ __forceinline__ void begin(
            const Entry* g, int ld, int row0, int entry0, int rows, int entries) {
        from = g + (i64)(row0 + row()) * ld + entry0 + entry();
        below = rows - row0 - row();
        beyond = entries - entry0 - entry();
    }

    __device__ __forceinline__ static void piece(Entry* to, const Entry* g, int valid) {
        if constexpr (VEC == 2) *to = valid > 0 ? *g : (Entry)0;
        else copy_async<VEC>(to, g, valid * SIZE);  // with nothing valid, nothing is read
    }

    __device__ __forceinline__ void load(Entry* s, int ld) const {
        if constexpr (STEADY) {
            const int width = max(0, min(EACH, beyond));
            const Entry* g = from;
            s += row() * LD + entry();
#pragma unroll (VEC < 16 ? 4 : 64)
            for (int i = 0; i < ROWS; i += HOP, g += (i64)HOP * ld)
                if (ROWS % HOP == 0 || row() + i < ROWS) piece(s + i * LD, g, i < below ? width : 0);
        } else {
#pragma unroll (VEC < 16 ? 4 : 64)
            for (int i0 = 0; i0 < ROWS * PIECES; i0 += THREADS) {
                const int i = i0 + threadIdx.x, r = i / PIECES, e = i % PIECES * EACH;
                if (i0 + THREADS <= ROWS * PIECES || i < ROWS * PIECES)
                    piece(s + r * LD + e, from + (i64)r * ld + e,
                          r < below ? max(0, min(EACH, beyond - e)) : 0);
            }
        }
    }

    __device__ __forceinline__ void skip_rows(int count, int ld) { from += (i64)count * ld; below -= count; }
    __device__ __forceinline__ void skip_entries(int count) { from += count; beyond -= count; }
};

// A tile of a product; `tile` is `total` or more beyond the last
struct Tile {
    int tile, index, row, column;
    __device__ __forceinline__ void find(int at, int across, int tiles) {
        tile = at; index = at / tiles;
        row = at % tiles / across * BM; column = at % tiles % across * BN;
    }
    __device__ __forceinline__ void go_on(int across, int tiles, int total) {
        if (PERSISTENT) find(tile + gridDim.x, across, tiles);
        else tile = total;
    }
};

// Two blocks on a multiprocessor hide more than additional registers would, where the sums leave room.
constexpr int BLOCKS = 32768 / THREADS >= 8 * TM * TN + 32 ? 2 : 1;

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) batched_tiled(
        const void* a, const void* b, const Entry* c, Entry* out, const Parameters with) {
    extern __shared__ __align__(16) char memory[];
    Entry *sa = (Entry*)memory, *sb = sa + STAGES * A_ROOM;
    const int m = with.sizes[0], n = with.sizes[1], k = with.sizes[2], total = with.sizes[3];
    const int across = (n + BN - 1) / BN, tiles = across * ((m + BM - 1) / BM);
    const int blocks = (k + BK - 1) / BK;

    // What is loaded runs STAGES - 1 blocks ahead of what is multiplied, beyond the end of a tile too.
    Tile current, ahead;
    current.find(blockIdx.x, across, tiles);
    ahead = current;
    int next = 0;
    Feed<A_KMAJOR ? BM : BK, A_KMAJOR ? BK : BM, A_LD, A_VEC> feed_a;
    Feed<B_KMAJOR ? BN : BK, B_KMAJOR ? BK : BN, B_LD, B_VEC> feed_b;
    auto load = [&](int stage) {
        if (ahead.tile < total) {
            if (next == 0) {
                const Entry* ga = matrix_at<A_LISTED>(a, with.a_stride, ahead.index);
                const Entry* gb = matrix_at<B_LISTED>(b, with.b_stride, ahead.index);
                if constexpr (A_KMAJOR) feed_a.begin(ga, with.a_ld, ahead.row, 0, m, k);
                else feed_a.begin(ga, with.a_ld, 0, ahead.row, k, m);
                if constexpr (B_KMAJOR) feed_b.begin(gb, with.b_ld, ahead.column, 0, n, k);
                else feed_b.begin(gb, with.b_ld, 0, ahead.column, k, n);
            }
            feed_a.load(sa + stage * A_ROOM, with.a_ld);
            feed_b.load(sb + stage * B_ROOM, with.b_ld);
            if (++next == blocks) {
                next = 0;
                ahead.go_on(across, tiles, total);
            } else {
                if constexpr (A_KMAJOR) feed_a.skip_entries(BK); else feed_a.skip_rows(BK, with.a_ld);
                if constexpr (B_KMAJOR) feed_b.skip_entries(BK); else feed_b.skip_rows(BK, with.b_ld);
            }
        }
        commit();
    };
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) load(stage);

    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    const int m0 = warp / WARPS_N * TM, n0 = warp % WARPS_N * TN;
    int now = 0;
    for (; current.tile < total; current.go_on(across, tiles, total)) {
        Sum sum[TM][TN][2];
#pragma unroll
        for (int p = 0; p < TM; ++p)
#pragma unroll
            for (int q = 0; q < TN; ++q) { sum[p][q][0].clear(); sum[p][q][1].clear(); }

        for (int block = 0; block < blocks; ++block) {
            arrive<STAGES - 2>();
            __syncthreads();  // this block's operands are there, and those of the last are done with
            const int last = now ? now - 1 : STAGES - 1;
            const Entry *ta = sa + now * A_ROOM, *tb = sb + now * B_ROOM;
            now = now + 1 == STAGES ? 0 : now + 1;
#pragma unroll
            for (int step = 0; step < STEPS; ++step) {
                u32 left[TM][4], right[TN][2][2];
#pragma unroll
                for (int p = 0; p < TM; ++p) load_left(left[p], ta, 16 * (m0 + p), step, lane);
#pragma unroll
                for (int q = 0; q < TN; ++q)
                    load_right(right[q][0], right[q][1], tb, WIDE * (n0 + q), step, lane);
#pragma unroll
                for (int p = 0; p < TM; ++p)
#pragma unroll
                    for (int q = 0; q < TN; ++q) {
                        sum[p][q][0].add(left[p], right[q][0]);
                        sum[p][q][1].add(left[p], right[q][1]);
                    }
                if (step == 0) load(last);  // while the tensor cores are busy
            }
        }

        Entry* to = out + current.index * with.out_stride;
        const Entry* from = c + current.index * with.c_stride;
#pragma unroll
        for (int p = 0; p < TM; ++p) {
            const int row0 = current.row + 16 * (m0 + p) + g, column0 = current.column + WIDE * n0 + mine(t);
            Old old[TN][2];
#pragma unroll
            for (int q = 0; q < TN; ++q)
#pragma unroll
                for (int r = 0; r < 2; ++r) {
                    const int row = row0 + 8 * r, column = column0 + WIDE * q;
                    if (BETA)
                        old[q][r] = addend_if<C_ALIGN>(
                            row < m, from + (i64)row * with.c_ld + column, n - column);
                }
#pragma unroll
            for (int q = 0; q < TN; ++q)
#pragma unroll
                for (int r = 0; r < 2; ++r) {
                    float v[4];
                    own(v, sum[p][q][0], sum[p][q][1], r, t);
                    const int row = row0 + 8 * r, column = column0 + WIDE * q;
                    if (row < m && column < n)
                        emit<C_ALIGN>(to + (i64)row * with.out_ld + column, old[q][r], v, n - column,
                                      with.scalars);
                }
        }
    }
}
