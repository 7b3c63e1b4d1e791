#include "multiword/runtime/exact.cuh"
#include "multiword/runtime/parts.cuh"

typedef unsigned long long u64;
typedef long long i64;
#ifndef THREADS
#define THREADS 256
#endif
#define WARPS (THREADS / 32)
/* A tile is read along the operand's contiguous axis: with ALONG_K every warp runs along a row, of its own
   unless there are fewer ALONG_ROWS, otherwise LANES lanes lie side by side in as many rows. RUN numbers of
   each part fall to a thread. A kernel that reads in both ways has tiles of ROWS. */
#ifndef ALONG_ROWS
#define ALONG_ROWS WARPS
#endif
#ifndef ROWS
#define ROWS (ALONG_K ? ALONG_ROWS : LANES)
#endif
#define DEPTH (THREADS * RUN / ROWS)

/* A tile, and this thread's numbers in it: one row, every STRIDE-th column. */
#define STRIDE (THREADS / ROWS)
template <bool ALONG> struct TileOf {
    int first_row, first_column, local_row, local_column;
    /* The tile of a block, in one dimension, for it alone may be long: neighbours among the blocks
       read what is near in memory. */
    __device__ TileOf(int rows, int columns, int block = blockIdx.x)
        : local_row(ALONG ? threadIdx.x / STRIDE : threadIdx.x % ROWS),
          local_column(ALONG ? threadIdx.x % STRIDE : threadIdx.x / ROWS) {
        const int along = ALONG ? (columns + DEPTH - 1) / DEPTH : (rows + ROWS - 1) / ROWS;
        const int near = block % along, far = block / along;
        first_row = (ALONG ? far : near) * ROWS;
        first_column = (ALONG ? near : far) * DEPTH;
    }
    __device__ int row() const { return first_row + local_row; }
    /* Calls use(part, j, x) for every number, zeros beyond the operand's edges. */
    template <class Use> __device__ void read(const StridedParts &x, Use use) const {
        const int column = first_column + local_column;
        const i64 start = x.start(row()) + column * x.column_stride;
        const i64 step = ALONG && UNIT ? STRIDE : STRIDE * x.column_stride;
        const bool inside = first_row + ROWS <= x.rows && first_column + DEPTH <= x.columns;
        REAL y[PARTS][RUN];
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            const REAL *from = x.part(part) + start;
            if (inside) {
#pragma unroll
                for (int j = 0; j < RUN; j++) y[part][j] = from[j * step];
            } else {
#pragma unroll
                for (int j = 0; j < RUN; j++)
                    y[part][j] = row() < x.rows && column + j * STRIDE < x.columns ? from[j * step] : (REAL)0;
            }
        }
#pragma unroll
        for (int part = 0; part < PARTS; part++)
#pragma unroll
            for (int j = 0; j < RUN; j++) use(part, j, y[part][j]);
    }
};
#ifdef ALONG_K
using Tile = TileOf<ALONG_K>;
#endif

/* A tile in shared memory, from which its numbers reach a thread in runs of RUN along k. They lie there
   in pairs of 16 bytes, in an order that lets the lanes of a warp read from different banks. */
struct alignas(16) Staged {
    double number[PARTS][ROWS][DEPTH + 2];
    static __device__ int swizzled(int column) {
        return (column / 2 ^ (column / 16 & (RUN / 2 - 1))) * 2 + column % 2;
    }
    /* A thread's number, as it is read. */
    template <bool ALONG> __device__ void put(const TileOf<ALONG> &at, int part, int j, REAL y) {
        number[part][at.local_row][swizzled(at.local_column + j * STRIDE)] = widened(y);
    }
    template <bool ALONG> __device__ void fill(const TileOf<ALONG> &at, const StridedParts &x) {
        at.read(x, [&](int part, int j, REAL y) { put(at, part, j, y); });
        __syncthreads();
    }
    __device__ double2 pair(int part, int row, int column) const {
        return *(const double2 *)&number[part][row][swizzled(column)];
    }
};

/* This thread's run of RUN neighbours along k in a staged tile: its row and first column, in the tile and in the
   operand. */
struct StagedRun {
    int local_row, local_column, row, column;
    template <bool ALONG>
    __device__ StagedRun(const TileOf<ALONG> &at)
        : local_row(threadIdx.x * RUN / DEPTH), local_column(threadIdx.x * RUN % DEPTH),
          row(at.first_row + local_row), column(at.first_column + local_column) {}
};
