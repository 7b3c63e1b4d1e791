"""The kernel for larger matrices: tiles of C, the inner dimension in stages."""

from multiword._kernels import Kernel
from multiword.batched._cuda import COMMON
from multiword.batched._plans import Blocking, plan_tiled, sample_case
from multiword.batched._storage import Layout

_SOURCE = r"""
constexpr int THREADS = 32 * WARPS_M * WARPS_N;
constexpr int BM = 16 * TM * WARPS_M, BN = WIDE * TN * WARPS_N, BK = STEP * STEPS;
constexpr int PAD = 16 / SIZE;           // against bank conflicts
constexpr int A_LD = (A_KMAJOR ? BK : BM) + PAD, B_LD = (B_KMAJOR ? BK : BN) + PAD;
constexpr int A_ROOM = (A_KMAJOR ? BM : BK) * A_LD, B_ROOM = (B_KMAJOR ? BN : BK) * B_LD;
using Left = Operand<A_KMAJOR, A_LD, BM, BK, 16, CONJ_A, false>;
using Right = Operand<B_KMAJOR, B_LD, BN, BK, 16, CONJ_B, false>;

// Rows `row` … and entries `column` … of a matrix of rows × columns, zeros beyond its ends
template <int ROWS, int LENGTH, int LD, int VEC>
__device__ __forceinline__ void fetch(
        Entry* s, const Entry* g, int ld, int row, int column, int rows, int columns) {
    constexpr int EACH = VEC / SIZE, PIECES = LENGTH / EACH;
#pragma unroll 4
    for (int i0 = 0; i0 < ROWS * PIECES; i0 += THREADS) {
        const int i = i0 + threadIdx.x;
        if (ROWS * PIECES % THREADS == 0 || i < ROWS * PIECES) {
            const int r = i / PIECES, e = i % PIECES * EACH;
            const int valid = row + r < rows ? max(0, min(EACH, columns - column - e)) : 0;
            const Entry* from = valid ? g + (i64)(row + r) * ld + column + e : g;
            if constexpr (VEC == 2) s[r * LD + e] = valid ? *from : (Entry)0;
            else copy_async<VEC>(s + r * LD + e, from, valid * SIZE);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) batched_tiled(
        const void* a, i64 a_stride, int a_ld, const void* b, i64 b_stride, int b_ld,
        const Entry* c, i64 c_stride, int c_ld, Entry* out, i64 out_stride, int out_ld,
        int m, int n, int k, float are, float aim, float bre, float bim) {
    extern __shared__ __align__(16) char memory[];
    Entry *sa = (Entry*)memory, *sb = sa + STAGES * A_ROOM;
    const int across = (n + BN - 1) / BN, tiles = across * ((m + BM - 1) / BM);
    const int index = blockIdx.x / tiles, tile = blockIdx.x % tiles;
    const int row0 = tile / across * BM, column0 = tile % across * BN;
    const Entry* ga = matrix_at<A_LISTED>(a, a_stride, index);
    const Entry* gb = matrix_at<B_LISTED>(b, b_stride, index);
    const int blocks = (k + BK - 1) / BK;

    auto load = [&](int block) {
        Entry *ta = sa + block % STAGES * A_ROOM, *tb = sb + block % STAGES * B_ROOM;
        const int h = block * BK;
        if constexpr (A_KMAJOR) fetch<BM, BK, A_LD, A_VEC>(ta, ga, a_ld, row0, h, m, k);
        else fetch<BK, BM, A_LD, A_VEC>(ta, ga, a_ld, h, row0, k, m);
        if constexpr (B_KMAJOR) fetch<BN, BK, B_LD, B_VEC>(tb, gb, b_ld, column0, h, n, k);
        else fetch<BK, BN, B_LD, B_VEC>(tb, gb, b_ld, h, column0, k, n);
    };

    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    const int m0 = warp / WARPS_N * TM, n0 = warp % WARPS_N * TN;
    Sum sum[TM][TN][2];
#pragma unroll
    for (int p = 0; p < TM; ++p)
#pragma unroll
        for (int q = 0; q < TN; ++q) { sum[p][q][0].clear(); sum[p][q][1].clear(); }

#pragma unroll
    for (int block = 0; block < STAGES - 1; ++block) {
        if (block < blocks) load(block);
        commit();
    }
    for (int block = 0; block < blocks; ++block) {
        arrive<STAGES - 2>();
        __syncthreads();  // this block's operands are there, and those of the last are done with
        if (block + STAGES - 1 < blocks) load(block + STAGES - 1);
        commit();
        const Entry *ta = sa + block % STAGES * A_ROOM, *tb = sb + block % STAGES * B_ROOM;
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            u32 left[TM][4], right[TN][2][2];
#pragma unroll
            for (int p = 0; p < TM; ++p) Left::left(left[p], ta, m0 + p, step, g, t);
#pragma unroll
            for (int q = 0; q < TN; ++q) Right::right(right[q][0], right[q][1], tb, n0 + q, step, g, t);
#pragma unroll
            for (int p = 0; p < TM; ++p)
#pragma unroll
                for (int q = 0; q < TN; ++q) {
                    sum[p][q][0].add(left[p], right[q][0]);
                    sum[p][q][1].add(left[p], right[q][1]);
                }
        }
    }

    const Scalars scalars = {are, aim, bre, bim};
    out += index * out_stride;
    c += index * c_stride;
#pragma unroll
    for (int p = 0; p < TM; ++p)
#pragma unroll
        for (int q = 0; q < TN; ++q)
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                const int row = row0 + 16 * (m0 + p) + 2 * g + r;
                const int column = column0 + WIDE * (n0 + q) + OWN * t;
                if (row < m && column < n) {
                    float v[4];
                    share(v, sum[p][q][0], sum[p][q][1], r);
                    emit<C_ALIGN>(out + (i64)row * out_ld + column, c + (i64)row * c_ld + column,
                                  v, n - column, scalars);
                }
            }
}
"""

_PAIRS = {"complex": True, "conj_a": True, "conj_b": True}
_CASES = (
    (Blocking("tiled"), sample_case(64, 64, 64)),
    (Blocking("tiled"), sample_case(65, 67, 63, alpha=1, beta=1, c=Layout(4355, 67, True, False, 2))),
    (
        Blocking("tiled", tile_m=4, tile_n=4, stages=2),
        sample_case(
            100,
            100,
            100,
            acc16=True,
            a=Layout(10000, 100, False, True, 8),
            b=Layout(10000, 100, False, True, 8),
        ),
    ),
    (Blocking("tiled"), sample_case(64, 62, 66, bf16=True)),
    (Blocking("tiled"), sample_case(64, 64, 64, **_PAIRS, alpha=2, beta=2, c=Layout(0, 64, True, False, 16))),
    (
        Blocking("tiled"),
        sample_case(
            65, 65, 65, **_PAIRS, a=Layout(4225, 65, False, False, 4), b=Layout(4225, 65, False, False, 4)
        ),
    ),
)

TILED = Kernel(
    "batched_tiled",
    COMMON + _SOURCE,
    instances=tuple(dict(plan.constants) for x, y in _CASES if (plan := plan_tiled(y, x))),
)
"""One tile of C for each block: WARPS_M × WARPS_N warps of TM × TN tensor-core tiles.

The inner dimension passes through shared memory in STAGES buffers of STEPS instructions each.
Sizes, leading dimensions and strides are free; X_VEC is the widest aligned piece in bytes.
NumPy form: `multiword.batched._host.multiply`, within the bound stated there.
"""
