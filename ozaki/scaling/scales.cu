#include "ozaki/scaling/statistics.cuh"

extern "C" __global__ void norm_scales(Rows x, NormScales out) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < x.rows) out.scale[row] = norm_scale(out, x.exponent[row], x.square[row]);
}
