#include "multiword/runtime/exact.cuh"

/* What is below the diagonal of an n by n matrix to above it, by squares, which both sides read and write in rows. */
extern "C" __global__ void __launch_bounds__(SIDE * 8) mirror(REAL *x, int n) {
    __shared__ REAL square[SIDE][SIDE + 1];
    if (blockIdx.x > blockIdx.y) return;
    const int row = blockIdx.y * SIDE, column = blockIdx.x * SIDE;
    for (int i = threadIdx.y; i < SIDE; i += 8)
        if (row + i < n && column + threadIdx.x < n)
            square[i][threadIdx.x] = x[(long long)(row + i) * n + column + threadIdx.x];
    __syncthreads();
    for (int i = threadIdx.y; i < SIDE; i += 8)
        if (column + i < n && row + threadIdx.x < n && column + i < row + threadIdx.x)
            x[(long long)(column + i) * n + row + threadIdx.x] = square[threadIdx.x][i];
}
