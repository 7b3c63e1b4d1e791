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

__device__ __forceinline__ void add(u64 (&sum)[COUNT], const u64 *more) {
    u64 carry = 0;
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        const u64 partial = sum[i] + carry;
        carry = partial < carry;
        sum[i] = partial + more[i];
        carry += sum[i] < partial;
    }
}

/* C' = A'B' of the integers A' = RN(A·2^s) and B' = RN(B·2^t), where B has few columns: a block has ROWS rows and a
   share of k. Where that is all of k, RN(C'·2^(-s-t)) is written; otherwise the sums of the share,
   (shares, parts, columns, rows, COUNT). */
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
thin_product(StridedParts many, StridedParts few, LimbProduct to, int share, u64 *sums) {
    __shared__ alignas(16) Shared shared;
    const int local = ALONG_K ? threadIdx.x / SLICES : threadIdx.x % ROWS;
    const int slice = ALONG_K ? threadIdx.x % SLICES : threadIdx.x / ROWS;
    const int row = blockIdx.x * ROWS + local, scale = row < to.m ? to.row_scale[row] : NONFINITE_ROW;
    const int begin = blockIdx.y * share, end = min(begin + share, to.k);
    REAL left[PARTS][AT_ONCE], next[PARTS][AT_ONCE], other[PARTS][OF_THREAD];

    /* This thread's numbers of A: every SLICES-th of its row. */
    const i64 first_left = row * many.row_stride + (begin + slice) * many.column_stride;
    const i64 step = UNIT && ALONG_K ? 1 : many.column_stride;
    const auto load_left = [&](int k, REAL(&x)[PARTS][AT_ONCE]) {
        const i64 at = first_left + (k - begin) * step;
#pragma unroll
        for (int p = 0; p < PARTS; p++)
#pragma unroll
            for (int u = 0; u < AT_ONCE; u++) {
                const bool there = scale != NONFINITE_ROW && k + slice + u * SLICES < end;
                x[p][u] = there ? many.part(p)[at + u * SLICES * step] : (REAL)0;
            }
    };
    /* And those of B, neighbours in memory: their columns and places within DEPTH. */
    const bool along = llabs(few.column_stride) <= llabs(few.row_stride);
    int place[OF_THREAD], scale_of[OF_THREAD];
    i64 first_other[OF_THREAD];
#pragma unroll
    for (int i = 0; i < OF_THREAD; i++) {
        const int index = threadIdx.x + i * THREADS, column = along ? index / DEPTH : index % COLUMNS;
        const int number = along ? index % DEPTH : index / COLUMNS;
        const bool there = index < DEPTH * COLUMNS && column < to.n;
        place[i] = index < DEPTH * COLUMNS ? number * PITCH + column * COUNT : -1;
        scale_of[i] = there ? to.column_scale[column] : NONFINITE_ROW;
        first_other[i] = column * few.row_stride + (begin + number) * few.column_stride;
    }
    const auto load_right = [&](int k) {
#pragma unroll
        for (int p = 0; p < PARTS; p++)
#pragma unroll
            for (int i = 0; i < OF_THREAD; i++) {
                const bool there = scale_of[i] != NONFINITE_ROW && k + place[i] / PITCH < end;
                other[p][i] = there ? few.part(p)[first_other[i] + (k - begin) * few.column_stride] : (REAL)0;
            }
    };
    const auto put_right = [&](int buffer) {
#pragma unroll
        for (int p = 0; p < PARTS; p++)
#pragma unroll
            for (int i = 0; i < OF_THREAD; i++) {
                int y[COUNT];
                cut(widened(other[p][i]), scale_of[i], y);
                if (DEPTH * COLUMNS % THREADS && place[i] < 0) continue;
#pragma unroll
                for (int j = 0; j < COUNT; j++) shared.right[buffer][p][place[i] + j] = y[j];
            }
    };
    i64 sum[PARTS][COLUMNS][SUMS] = {};
    load_left(begin, left);
    load_right(begin);
    put_right(0);
    __syncthreads();
#pragma unroll 1
    for (int k = begin, buffer = 0; k < end; k += DEPTH, buffer ^= 1) {
        load_left(k + DEPTH, next);
        load_right(k + DEPTH);
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
        put_right(buffer ^ 1);
        __syncthreads();
#pragma unroll
        for (int u = 0; u < PARTS * AT_ONCE; u++) left[u / AT_ONCE][u % AT_ONCE] = next[u / AT_ONCE][u % AT_ONCE];
    }
    /* Each thread takes some of the rows and columns. */
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
                const int column = first + at / ROWS, of_row = at % ROWS, target = blockIdx.x * ROWS + of_row;
                if (column >= to.n || target >= to.m) continue;
                u64 total[COUNT] = {};
                for (int i = 0; i < SLICES; i++) add(total, shared.product[at / ROWS][i][of_row]);
                if (gridDim.y == 1) {
                    to.round(total, target, column, column, part);
                } else {
                    const i64 product = ((i64)blockIdx.y * PARTS + part) * to.n + column;
#pragma unroll
                    for (int i = 0; i < COUNT; i++) sums[(product * to.m + target) * COUNT + i] = total[i];
                }
            }
            __syncthreads();
        }
}

/* RN(C'·2^(-s-t)) from the sums of shares, a thread for each of its rows and columns. */
extern "C" __global__ void __launch_bounds__(THREADS) add_thin_products(const u64 *sums, LimbProduct to, int shares) {
    const i64 index = blockIdx.x * (i64)THREADS + threadIdx.x, each = (i64)to.m * to.n;
    if (index >= each) return;
    const int row = index % to.m, column = index / to.m;
    for (int part = 0; part < PARTS; part++) {
        u64 total[COUNT] = {};
        for (int share = 0; share < shares; share++)
            add(total, sums + (((i64)share * PARTS + part) * each + index) * COUNT);
        to.round(total, row, column, column, part);
    }
}
