/* *told = 1 if one of n bytes is not 0. A block writes to the host's memory once, if at all. */
extern "C" __global__ void anywhere(const unsigned char *x, long long n, int *told)
{
    bool some = false;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (long long)blockDim.x)
        some |= x[i] != 0;
    if (__syncthreads_or(some) && threadIdx.x == 0) *told = 1;
}
