#include "multiword/fp32/fp32.cuh"

extern "C" __global__ void multiword_widen(const float* x, double* out, i64 size) {
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) out[i] = widen(x[i]);
}
