/* A tile of products of int8 matrices: BM by BN elements of one product to a block, BK numbers of k at a time,
   STAGES of which are on their way into shared memory; a warp computes WM by WN of them.

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
#define STAGE_BYTES ((BM + BN) * BK)
/* Shared memory in which sums are finished, for each row of a tile; rows of a byte a column do not lie in the
   same banks. */
#define PAD 16
#define STAGED_BYTES (BN + PAD)
#define FRAGMENTS_M (WGMMA ? 1 : WM / 16)
#define FRAGMENTS_N (WN / 8)

/* Matrices of words, (images, stack, rows, k): where they lie; strides in bytes. */
struct WordMatrices { const signed char *words; long long row_stride, matrix_stride, image_stride; };

struct ProductShape { int m, n, k, stack, tiles; };

/* Which tile: its image and matrix, first row and column; the tiles of a cluster's blocks lie one below the
   other. Those of GROUP rows of them go together, for they share what they read in the second-level cache. */
struct Place {
    int image, matrix, row, column;
    __device__ Place(const ProductShape &shape, int index, int block = 0) {
        const int height_of_all = CLUSTER * BM, columns = (shape.n + BN - 1) / BN;
        const int rows = (shape.m + height_of_all - 1) / height_of_all;
        const int product = index / (rows * columns), tile = index % (rows * columns);
        const int group = tile / (GROUP * columns) * GROUP, height = min(rows - group, GROUP);
        image = product / shape.stack, matrix = product % shape.stack;
        row = (group + (tile - group * columns) % height) * height_of_all + block * BM;
        column = (tile - group * columns) / height * BN;
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
