/* octaves[0] = the largest of 2048 less an exponent field, and octaves[1] the largest such field, of the finite numbers
   of a vector that are not 0; zeros of none. A subnormal number has the field 1. */
extern "C" __global__ void octaves(const double *x, long long n, int *octaves)
{
    __shared__ int below, above;
    if (threadIdx.x == 0) below = above = 0;
    __syncthreads();
    int mine_below = 0, mine_above = 0;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (long long)blockDim.x) {
        const int field = max(__double2hiint(x[i]) >> 20 & 2047, 1);
        if (field == 2047 || x[i] == 0) continue;
        mine_below = max(mine_below, 2048 - field);
        mine_above = max(mine_above, field);
    }
    atomicMax(&below, mine_below);
    atomicMax(&above, mine_above);
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicMax(octaves, below);
        atomicMax(octaves + 1, above);
    }
}
