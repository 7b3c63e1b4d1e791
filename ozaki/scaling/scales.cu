#include "ozaki/scaling/statistics.cuh"

/* `_norm_scales_host`: the largest s with square·4^s below significand/32·2^limit_bits. */
extern "C" __global__ void norm_scales(Rows x, int limit_bits, int significand, int *scales) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= x.rows) return;
    const int e = x.exponent[row];
    const i64 square = x.square[row];
    const int bits = 63 - __clzll(square);
    const i64 threshold = (1ll << bits) + ((i64)(significand - 32) << max(bits - 5, 0));
    const int scale = ((limit_bits - bits - (square > threshold)) >> 1) + BITS - e;
    scales[row] = e == NONFINITE ? NONFINITE_ROW : e == ZERO ? 0 : scale;
}
