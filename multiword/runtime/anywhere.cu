/* *told = 1 if SOUGHT holds for one of n words. A block writes to the host's memory once, if at all. */
extern "C" __global__ void anywhere(const WORD *x, long long n, int *told)
{
    bool some = false;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (long long)blockDim.x) {
        const WORD word = x[i];
        some |= SOUGHT;
    }
    if (__syncthreads_or(some) && threadIdx.x == 0) *told = 1;
}
