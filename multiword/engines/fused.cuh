/* Products of int8 matrices, A·Bᵀ, tile by tile, whose int32 sums stay in registers; what becomes of them is
   for the file that includes this one to say.

   A tile is BM by BN elements of one product to a block, BK numbers of k at a time, STAGES of which are on their
   way into shared memory; a warp computes WM by WN of them.

   WGMMA: on sm_90a the tensor cores read both operands from shared memory, 64 rows to a warpgroup; elsewhere,
   through registers, by mma.sync. The sums lie alike in registers: of every 8 columns a thread has two
   neighbours in a row, and the two 8 rows below. */
#define WARPS_M (BM / WM)
#define WARPS_N (BN / WN)
#define THREADS (32 * WARPS_M * WARPS_N)
/* What finishes its rows together: a warpgroup, without a look at the other one; or the block. */
#define TEAM (WGMMA ? 128 : THREADS)
#define TEAM_ROWS (WGMMA ? 64 : BM)
#define CHUNKS (BK / 16)
/* Whether tiles, one below the other, make squares, as symmetric products ask for. */
#define SQUARES (BN % (CLUSTER * BM) == 0)
#define STAGE_BYTES ((BM + BN) * BK)
/* Shared memory in which sums are finished, for each row of a tile: an odd multiple of 16 bytes, so that 8 rows lie in
   different banks. */
#define STAGED_BYTES ((BN / 16 | 1) * 16)
#define FRAGMENTS_M (WGMMA ? 1 : WM / 16)
#define FRAGMENTS_N (WN / 8)

/* Matrices of words, (images, stack, rows, k): where they lie; strides in bytes. */
struct WordMatrices { const signed char *words; long long row_stride, matrix_stride, image_stride; };

/* Of a symmetric product, the tiles on and below the diagonal alone. */
struct ProductShape { int m, n, k, stack, tiles, symmetric; };

/* Which tile: its image and matrix, first row and column; the tiles of a cluster's blocks lie one below the
   other. Those of GROUP rows of them go together, for they share what they read in the second-level cache. */
struct TileIndex {
    int image, matrix, row, column;
    __device__ TileIndex(const ProductShape &shape, int index, int block = 0) {
        if (SQUARES && shape.symmetric) {
            put_below_diagonal(shape, index, block);
            return;
        }
        const int height_of_all = CLUSTER * BM, columns = (shape.n + BN - 1) / BN;
        const int rows = (shape.m + height_of_all - 1) / height_of_all;
        const int product = index / (rows * columns), tile = index % (rows * columns);
        const int group = tile / (GROUP * columns) * GROUP, height = min(rows - group, GROUP);
        image = product / shape.stack, matrix = product % shape.stack;
        row = (group + (tile - group * columns) % height) * height_of_all + block * BM;
        column = (tile - group * columns) / height * BN;
    }
    /* In squares of tiles, one below the other: GROUP rows of squares go together, first those of the columns
       that they all have, then their triangle. */
    __device__ void put_below_diagonal(const ProductShape &shape, int index, int block) {
        constexpr int HEIGHT = CLUSTER * BM, IN_SQUARE = SQUARES ? BN / HEIGHT : 1;
        const int rows = (shape.n + BN - 1) / BN, tiles = IN_SQUARE * (rows * (rows + 1) / 2);
        int square = index % tiles / IN_SQUARE, first = 0, height = min(rows, GROUP);
        while (square >= height * first + height * (height + 1) / 2) {
            square -= height * first + height * (height + 1) / 2;
            first += GROUP, height = min(rows - first, GROUP);
        }
        int along = square / height, down = square % height;
        if (along >= first) {
            square -= height * first;
            for (along = 0; square >= height - along; along++) square -= height - along;
            down = along + square, along += first;
        }
        image = index / tiles / shape.stack, matrix = index / tiles % shape.stack;
        row = (first + down) * BN + index % IN_SQUARE * HEIGHT + block * BM, column = along * BN;
    }
};

/* A thread's sums: of 16 rows and 8 columns each. */
typedef int Sums[FRAGMENTS_M][FRAGMENTS_N][4];

/* Where the first of a thread's sums lies, in the rows of its team and in the tile. */
__device__ __forceinline__ int first_row() { return threadIdx.x / 32 % WARPS_M * WM % TEAM_ROWS + threadIdx.x % 32 / 4; }
__device__ __forceinline__ int first_column() { return threadIdx.x / 32 / WARPS_M * WN + threadIdx.x % 4 * 2; }

/* Wait for the other threads of a team. */
__device__ __forceinline__ void meet(int team) {
    asm volatile("bar.sync %0, %1;" ::"r"(1 + team), "n"(TEAM) : "memory");
}

/* Chunks of 16 bytes of a row are permuted, so that 8 rows of a column lie in different banks. */
__device__ __forceinline__ int chunk_of(int row, int chunk) {
    return chunk ^ (CHUNKS == 8 ? row & 7 : row >> 1 & 3);
}

#if WGMMA
#include "multiword/engines/hopper.cuh"

/* How matrices lie in memory, as the copy engine takes it: CUtensorMap. */
struct alignas(64) Operand { unsigned char map[128]; };

/* A tile of BK numbers, permuted as above, to this block or, at the same address, to all of the cluster; what is
   outside of the matrix is zero. */
template <bool TO_ALL>
__device__ __forceinline__ void copy_tile(unsigned to, const Operand &x, int k, int row, const TileIndex &at,
                                          unsigned barrier) {
    if constexpr (TO_ALL)
        asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                     ".multicast::cluster [%0], [%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(to),
                     "l"(&x), "r"(k), "r"(row), "r"(at.matrix), "r"(at.image), "r"(barrier),
                     "h"((unsigned short)((1 << CLUSTER) - 1))
                     : "memory");
    else
        asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                     " [%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(to),
                     "l"(&x), "r"(k), "r"(row), "r"(at.matrix), "r"(at.image), "r"(barrier)
                     : "memory");
}
/* Arrive at the barrier of a block of this cluster. */
__device__ __forceinline__ void arrive(unsigned barrier, int block) {
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;"
                 " mbarrier.arrive.shared::cluster.b64 _, [there]; }" ::"r"(barrier), "r"(block)
                 : "memory");
}
__device__ __forceinline__ int block_of_cluster() {
    int rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
__device__ __forceinline__ void meet_the_cluster() {
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
#define R4(d, i) "+r"(d[i][0]), "+r"(d[i][1]), "+r"(d[i][2]), "+r"(d[i][3])

/* sum += A·Bᵀ of a stage, of which so many numbers of k are left. */
__device__ __forceinline__ void accumulate(int (&sum)[FRAGMENTS_N][4], unsigned stage, int team, int left_of_k) {
    static_assert(BM == 128 && BK == 128 && WM == 16 && WN == BN, "two warpgroups");
    const unsigned left = stage + team * TEAM_ROWS * BK, right = stage + BM * BK;
    if (left_of_k >= BK) {
        WGMMA_FENCE;
#pragma unroll
        for (int h = 0; h < BK; h += 32) wgmma<BN>(&sum[0][0], descriptor<BK>(left + h), descriptor<BK>(right + h));
    } else {
#pragma unroll 1
        for (int h = 0; h < left_of_k; h += 32) {
            WGMMA_FENCE;
            wgmma<BN>(&sum[0][0], descriptor<BK>(left + h), descriptor<BK>(right + h));
        }
    }
    WGMMA_COMMIT;
}
#else
__device__ __forceinline__ void copy16(unsigned to, const void *from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0)
                 : "memory");
}
#define COPIES_DONE_BUT(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")

/* This thread's part of a tile of ROWS rows and BK numbers; what is outside of the matrix is zero. */
template <int ROWS> struct Tile {
    const signed char *from;
    long long step;
    int rows, k, to;
    __device__ Tile(const WordMatrices &x, int image, int matrix, int first, int all, int length) {
        const int row = threadIdx.x / CHUNKS, chunk = threadIdx.x % CHUNKS;
        from = x.words + image * x.image_stride + matrix * x.matrix_stride + (first + row) * x.row_stride +
               16 * chunk;
        step = THREADS / CHUNKS * x.row_stride;
        rows = all - first - row;
        k = length - 16 * chunk;
        to = row * BK + 16 * chunk_of(row, chunk);
    }
    __device__ __forceinline__ void load(unsigned tile, int h) const {
        static_assert(ROWS % (THREADS / CHUNKS) == 0 && THREADS / CHUNKS % 8 == 0, "rows of a tile");
#pragma unroll
        for (int i = 0; i < ROWS * CHUNKS / THREADS; i++)
            copy16(tile + to + i * THREADS * 16, from + i * step + h, h < k && i * (THREADS / CHUNKS) < rows);
    }
};

__device__ __forceinline__ void load_fragment(unsigned (&x)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(address));
}

/* sum += A·Bᵀ of a stage. */
__device__ __forceinline__ void accumulate(Sums &sum, unsigned stage, int warp_m, int warp_n) {
    const int lane = threadIdx.x % 32;
    const int row = lane & 15, column = (lane & 7) + (lane >> 4) * 8;
    const unsigned left = stage + (warp_m * WM + row) * BK, right = stage + (BM + warp_n * WN + column) * BK;
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; chunk += 2) {
        unsigned a[FRAGMENTS_M][4], b[FRAGMENTS_N / 2][4];
#pragma unroll
        for (int j = 0; j < FRAGMENTS_N / 2; j++)
            load_fragment(b[j], right + j * 16 * BK + 16 * chunk_of(column, chunk + (lane >> 3 & 1)));
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; i++)
            load_fragment(a[i], left + i * 16 * BK + 16 * chunk_of(row, chunk + (lane >> 4)));
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; i++)
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; j++)
                asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                             "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                             : "+r"(sum[i][j][0]), "+r"(sum[i][j][1]), "+r"(sum[i][j][2]), "+r"(sum[i][j][3])
                             : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]),
                               "r"(b[j / 2][j % 2 * 2]), "r"(b[j / 2][j % 2 * 2 + 1]));
    }
}
#endif
