#include "ozaki/scaling/fold.cuh"

extern "C" __global__ void __launch_bounds__(32 * WARPS)
fold_segments(const int *exponents, const int *totals, const i64 *squares, int segments, int rows,
              int fp64_bits, int fp64_thirtyseconds, int fp32_bits, int fp32_thirtyseconds,
              int *exponent, i64 *total, i64 *square, int *fp64_scale, int *fp32_scale) {
    const int row = blockIdx.x * 32 + threadIdx.x;
    const Row found = fold(exponents, totals, squares, segments, rows, blockIdx.x * 32 + threadIdx.x % 32);
    if (threadIdx.x >= 32 || row >= rows) return;
    exponent[row] = found.exponent;
    total[row] = found.total;
    square[row] = found.square;
    fp64_scale[row] = norm_scale(found, fp64_bits, fp64_thirtyseconds);
    fp32_scale[row] = norm_scale(found, fp32_bits, fp32_thirtyseconds);
}
