#include "multiword/runtime/tiles.cuh"

/* _lowest_host. */
extern "C" __global__ void __launch_bounds__(THREADS)
last_places(const REAL *x0, const REAL *x1, i64 row_stride, i64 column_stride, int rows, int columns,
            int *lowest) {
    const Operand x(x0, x1, row_stride, column_stride, rows, columns);
    const Tile at(rows, columns);
    __shared__ int least[ROWS];
    if (threadIdx.x < ROWS) least[threadIdx.x] = NONFINITE;
    __syncthreads();
    int place = NONFINITE;
    at.read(x, [&](int, int j, REAL y) {
        const double z = exactly(y);
        const int high = __double2hiint(z) & 0x7fffffff, low = __double2loint(z), exponent = high >> 20;
        const int leading = (high & 0xfffff) | (exponent ? 1 << 20 : 0);
        const int zeros_below = low ? __ffs(low) - 1 : 31 + __ffs(leading);
        if (exponent == 0x7ff) place = BAD;
        else if (low | leading) place = min(place, max(exponent, 1) - 1075 + zeros_below);
    });
    atomicMin(&least[at.local_row], place);
    __syncthreads();
    const int row = at.first_row + threadIdx.x;
    if (threadIdx.x < ROWS && row < rows) atomicMin(&lowest[row], least[threadIdx.x]);
}
