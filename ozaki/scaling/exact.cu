#include "multiword/runtime/tiles.cuh"

/* `_lowest_host` */
extern "C" __global__ void __launch_bounds__(THREADS)
last_places(StridedParts x, int *lowest) {
    const Tile at(x.rows, x.columns);
    __shared__ int least[ROWS];
    if (threadIdx.x < ROWS) least[threadIdx.x] = NOTHING;
    __syncthreads();
    int last_place = NOTHING;
    at.read(x, [&](int, int j, REAL y) {
        const double z = widened(y);
        const int high = __double2hiint(z) & 0x7fffffff, low = __double2loint(z), exponent = high >> 20;
        const int leading = (high & 0xfffff) | (exponent ? 1 << 20 : 0);
        const int zeros_below = low ? __ffs(low) - 1 : 31 + __ffs(leading);
        if (exponent == 0x7ff) last_place = BAD;
        else if (low | leading) last_place = min(last_place, max(exponent, 1) - 1075 + zeros_below);
    });
    atomicMin(&least[at.local_row], last_place);
    __syncthreads();
    const int row = at.first_row + threadIdx.x;
    if (threadIdx.x < ROWS && row < x.rows) atomicMin(&lowest[row], least[threadIdx.x]);
}
