#include "ozaki/sums/exact/flags.cuh"

extern "C" __global__ void flagged(const double *x, const unsigned char *flags, long long n, double *out) {
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x)
        out[i] = with_flags(x[i], flags[i]);
}
