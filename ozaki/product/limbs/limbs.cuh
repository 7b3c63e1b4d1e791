#include "multiword/runtime/exact.cuh"
#include "multiword/runtime/parts.cuh"
#include "ozaki/rounding/digits.cuh"

typedef long long i64;
/* Sums of products of limbs whose weights are alike. */
#define SUMS (2 * COUNT - 1)

/* RN(x·2^s) in limbs of BASE_BITS bits with signs, of which the last one has the rest: 1.5·2^52 limbs more, and the
   low bits are the limb. Of a row that is left out, zeros. */
__device__ __forceinline__ void cut(double x, int scale, int (&limb)[COUNT]) {
    const double magic = 6755399441055744.0;
    double y = scale == NONFINITE_ROW ? 0 : Scale(scale)(x);
#pragma unroll
    for (int i = COUNT - 1; i > 0; i--) {
        const double unit = 1ull << BASE_BITS * i, more = y + magic * unit;
        limb[i] = __double2loint(more);
        y -= more - magic * unit; // exact: at most half of the unit
    }
    limb[0] = __double2loint(y + magic);
}

/* sum += more, of integers of COUNT words of 64 bits. */
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

/* What the integers are scaled by, and where their rounded products go; strides in real numbers. */
struct LimbProduct {
    const int *row_scale, *column_scale;
    REAL *out;
    i64 row_stride, column_stride;
    int m, n, k, precision, smallest;

    /* Of a product, which is destroyed; columns of a stack are counted on, their place is within each. */
    __device__ void round(u64 *product, int row, int column, int place, int part) const {
        const int exponent = -(row_scale[row] + column_scale[column]);
        out[row * row_stride + place * column_stride + part] =
            rounded_to<REAL>(round_limbs<COUNT>(product, exponent, precision, smallest));
    }
    /* The same, or where blocks share k, a sum to be added, (shares, parts, columns, rows, COUNT). */
    __device__ void put(u64 (&product)[COUNT], int row, int column, int part, u64 *sums) const {
        if (gridDim.y == 1) return round(product, row, column, column, part);
        const i64 sum = (((i64)blockIdx.y * PARTS + part) * n + column) * m + row;
#pragma unroll
        for (int i = 0; i < COUNT; i++) sums[sum * COUNT + i] = product[i];
    }
};

/* Σ sum[d]·2^(d·BASE_BITS), in COUNT words of 64 bits. */
__device__ __forceinline__ void put_together(const i64 (&sum)[SUMS], u64 (&product)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) product[i] = 0;
#pragma unroll
    for (int d = 0; d < SUMS; d++) add_shifted<COUNT>(product, sum[d], d * BASE_BITS);
}
