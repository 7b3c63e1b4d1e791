#include "ozaki/product/limbs/limbs.cuh"

#define THREADS 256
/* SLICES: threads that share a row. */
#define ROWS (THREADS / SLICES)
/* Numbers that a thread has on their way, and those of a row that all of them have. */
#define AT_ONCE 8
#define DEPTH (SLICES * AT_ONCE)
/* The limbs of all columns for a number of k lie side by side; those of neighbours, in different banks. */
#define OF_NUMBER (COLUMNS * COUNT)
#define PITCH (OF_NUMBER + (OF_NUMBER % 8 == 0 ? 4 : 0))
#define OF_THREAD ((DEPTH * COLUMNS + THREADS - 1) / THREADS)
/* Blocks of a multiprocessor, for whose sums its registers have room. */
#define BLOCKS (PARTS * COLUMNS * SUMS > 24 ? 1 : 2)
/* Columns whose sums are brought together at a time. */
#define TOGETHER (COLUMNS < 4 ? COLUMNS : 4)

struct alignas(OF_NUMBER % 4 == 0 ? 16 : OF_NUMBER % 2 == 0 ? 8 : 4) Limbs { int limb[COLUMNS][COUNT]; };

union Shared {
    int right[2][PARTS][DEPTH * PITCH];
    u64 product[TOGETHER][SLICES][ROWS][COUNT];
};

/* A thread's numbers of B's share of k, neighbours in memory, on their way into shared memory. */
struct Right {
    int place[OF_THREAD], scale[OF_THREAD];
    i64 first[OF_THREAD];
    REAL number[PARTS][OF_THREAD];
    __device__ __forceinline__ Right(const StridedParts &x, const LimbProduct &to, i64 begin) {
        const bool along = llabs(x.column_stride) <= llabs(x.row_stride);
#pragma unroll
        for (int i = 0; i < OF_THREAD; i++) {
            const int index = threadIdx.x + i * THREADS, column = along ? index / DEPTH : index % COLUMNS;
            const int h = along ? index % DEPTH : index / COLUMNS;
            const bool mine = index < DEPTH * COLUMNS;
            place[i] = mine ? h * PITCH + column * COUNT : -1;
            scale[i] = mine && column < to.n ? to.column_scale[column] : NONFINITE_ROW;
            first[i] = column * x.row_stride + (begin + h) * x.column_stride;
        }
    }
    /* DEPTH numbers of each column from h on, zeros beyond the share. */
    __device__ __forceinline__ void load(const StridedParts &x, int h, int length) {
#pragma unroll
        for (int part = 0; part < PARTS; part++)
#pragma unroll
            for (int i = 0; i < OF_THREAD; i++) {
                const bool there = scale[i] != NONFINITE_ROW && h + place[i] / PITCH < length;
                number[part][i] = there ? x.part(part)[first[i] + h * x.column_stride] : (REAL)0;
            }
    }
    __device__ __forceinline__ void put(int (&to)[PARTS][DEPTH * PITCH]) const {
#pragma unroll
        for (int part = 0; part < PARTS; part++)
#pragma unroll
            for (int i = 0; i < OF_THREAD; i++) {
                int y[COUNT];
                cut(widened(number[part][i]), scale[i], y);
                if (DEPTH * COLUMNS % THREADS && place[i] < 0) continue;
#pragma unroll
                for (int j = 0; j < COUNT; j++) to[part][place[i] + j] = y[j];
            }
    }
};

typedef i64 AllSums[PARTS][COLUMNS][SUMS];

/* Bring a block's sums together: rounded, or where k is shared, into memory. */
__device__ __forceinline__ void write(const AllSums &sum, Shared &shared, int local, int slice, const LimbProduct &to,
                                      u64 *sums) {
#pragma unroll
    for (int part = 0; part < PARTS; part++)
#pragma unroll
        for (int first = 0; first < COLUMNS; first += TOGETHER) {
#pragma unroll
            for (int j = 0; j < TOGETHER; j++) {
                u64 product[COUNT];
                put_together(sum[part][first + j], product);
#pragma unroll
                for (int i = 0; i < COUNT; i++) shared.product[j][slice][local][i] = product[i];
            }
            __syncthreads();
#pragma unroll 1
            for (int at = threadIdx.x; at < TOGETHER * ROWS; at += THREADS) {
                const int j = at / ROWS, column = first + j, row = blockIdx.x * ROWS + at % ROWS;
                if (column >= to.n || row >= to.m) continue;
                u64 total[COUNT] = {};
                for (int i = 0; i < SLICES; i++) add(total, shared.product[j][i][at % ROWS]);
                to.put(total, row, column, part, sums);
            }
            __syncthreads();
        }
}

/* C' = A'B' of the integers A' = RN(A·2^s) and B' = RN(B·2^t), where B has few columns: a block has ROWS rows and a
   share of k, whose next DEPTH numbers it reads while it multiplies the last ones. */
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
thin_product(StridedParts many, StridedParts few, LimbProduct to, int share, u64 *sums) {
    __shared__ alignas(16) Shared shared;
    const int local = ALONG_K ? threadIdx.x / SLICES : threadIdx.x % ROWS;
    const int slice = ALONG_K ? threadIdx.x % SLICES : threadIdx.x / ROWS;
    const int row = blockIdx.x * ROWS + local, scale = row < to.m ? to.row_scale[row] : NONFINITE_ROW;
    const i64 begin = (i64)blockIdx.y * share, step = UNIT && ALONG_K ? 1 : many.column_stride;
    const i64 first = row * many.row_stride + (begin + slice) * step;
    const int length = min((i64)share, to.k - begin);
    REAL left[PARTS][AT_ONCE], next[PARTS][AT_ONCE];
    const auto load_left = [&](int h, REAL(&x)[PARTS][AT_ONCE]) {
#pragma unroll
        for (int part = 0; part < PARTS; part++)
#pragma unroll
            for (int u = 0; u < AT_ONCE; u++) {
                const bool there = scale != NONFINITE_ROW && h + slice + u * SLICES < length;
                x[part][u] = there ? many.part(part)[first + (h + u * SLICES) * step] : (REAL)0;
            }
    };
    Right right(few, to, begin);
    AllSums sum = {};
    load_left(0, left);
    right.load(few, 0, length);
    right.put(shared.right[0]);
    __syncthreads();
#pragma unroll 1
    for (int h = 0, buffer = 0; h < length; h += DEPTH, buffer ^= 1) {
        load_left(h + DEPTH, next);
        right.load(few, h + DEPTH, length);
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) {
            int x[PARTS][COUNT];
#pragma unroll
            for (int p = 0; p < PARTS; p++) cut(widened(left[p][u]), scale, x[p]);
#pragma unroll
            for (int q = 0; q < PARTS; q++) {
                const Limbs y = *(const Limbs *)&shared.right[buffer][q][(slice + u * SLICES) * PITCH];
#pragma unroll
                for (int p = 0; p < PARTS; p++)
#pragma unroll
                    for (int j = 0; j < COLUMNS; j++)
#pragma unroll
                        for (int i = 0; i < COUNT * COUNT; i++) {
                            const int l = x[p][i / COUNT], r = y.limb[j][i % COUNT];
                            sum[p ^ q][j][i / COUNT + i % COUNT] += (i64)(p & q ? -l : l) * r; // i·i = -1
                        }
            }
        }
        right.put(shared.right[buffer ^ 1]);
        __syncthreads();
#pragma unroll
        for (int u = 0; u < PARTS * AT_ONCE; u++) left[u / AT_ONCE][u % AT_ONCE] = next[u / AT_ONCE][u % AT_ONCE];
    }
    write(sum, shared, local, slice, to, sums);
}
