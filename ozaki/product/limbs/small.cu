#include "ozaki/product/limbs/limbs.cuh"

#define SIDE 16
#define DEPTH 32
#define ROW (DEPTH + 4) /* four neighbours of several rows are then read from different banks */

/* Rows of integers in limbs. */
struct LimbRows {
    int limb[PARTS][COUNT][SIDE][ROW];

    /* Numbers first_column, …, first_column + depth - 1 of the rows from first_row on, zeros beyond the last. */
    __device__ void fill(const StridedParts &x, const int *scale, int first_row, int last_row, int first_column,
                         int depth) {
        const bool along = llabs(x.column_stride) <= llabs(x.row_stride);
        for (int t = threadIdx.y * SIDE + threadIdx.x; t < SIDE * DEPTH; t += SIDE * SIDE) {
            const int row = along ? t / DEPTH : t % SIDE, column = along ? t % DEPTH : t / SIDE;
            if (column >= depth) continue;
            const int r = first_row + row, c = first_column + column;
            const int s = r < last_row && c < x.columns ? scale[r] : NONFINITE_ROW;
#pragma unroll
            for (int part = 0; part < PARTS; part++) {
                int y[COUNT];
                cut(s == NONFINITE_ROW ? 0 : widened(x.part(part)[x.start(r) + c * x.column_stride]), s, y);
#pragma unroll
                for (int i = 0; i < COUNT; i++) limb[part][i][row][column] = y[i];
            }
        }
    }
    __device__ int4 four(int part, int i, int row, int column) const {
        return *(const int4 *)&limb[part][i][row][column];
    }
};

__device__ i64 dot(const int4 &x, const int4 &y) {
    return (i64)x.x * y.x + (i64)x.y * y.y + (i64)x.z * y.z + (i64)x.w * y.w;
}

/* C' = A'B' of the integers A' = RN(A·2^s) and B' = RN(B·2^t), and RN(C'·2^(-s-t)), a tile of one product of a
   stack. Sums of products of limbs i and j with i + j alike stay below 2^63: `limbs_of`. */
extern "C" __global__ void __launch_bounds__(SIDE * SIDE)
limb_product(StridedParts a, StridedParts b, LimbProduct to) {
    __shared__ alignas(16) LimbRows left, right;
    const int first_row = blockIdx.z * to.m + blockIdx.y * SIDE, last_row = (blockIdx.z + 1) * to.m;
    const int first_column = blockIdx.z * to.n + blockIdx.x * SIDE, last_column = (blockIdx.z + 1) * to.n;
    i64 sum[PARTS][SUMS] = {};
    for (int h = 0; h < to.k; h += DEPTH) {
        const int depth = min(DEPTH, (to.k - h + 3) & ~3);
        if (h) __syncthreads();
        left.fill(a, to.row_scale, first_row, last_row, h, depth);
        right.fill(b, to.column_scale, first_column, last_column, h, depth);
        __syncthreads();
        for (int c = 0; c < depth; c += 4) {
            int4 x[PARTS][COUNT], y[PARTS][COUNT];
#pragma unroll
            for (int i = 0; i < PARTS * COUNT; i++) {
                x[i / COUNT][i % COUNT] = left.four(i / COUNT, i % COUNT, threadIdx.y, c);
                y[i / COUNT][i % COUNT] = right.four(i / COUNT, i % COUNT, threadIdx.x, c);
            }
#pragma unroll
            for (int p = 0; p < PARTS; p++)
#pragma unroll
                for (int q = 0; q < PARTS; q++)
#pragma unroll
                    for (int i = 0; i < COUNT * COUNT; i++) {
                        const i64 more = dot(x[p][i / COUNT], y[q][i % COUNT]);
                        sum[p ^ q][i / COUNT + i % COUNT] += p & q ? -more : more; // i·i = -1
                    }
        }
    }
    const int row = first_row + threadIdx.y, column = first_column + threadIdx.x;
    if (row >= last_row || column >= last_column) return;
#pragma unroll
    for (int part = 0; part < PARTS; part++) {
        u64 product[COUNT];
        put_together(sum[part], product);
        to.round(product, row, column, column - blockIdx.z * to.n, part);
    }
}
