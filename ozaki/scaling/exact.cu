#include "multiword/runtime/tiles.cuh"
#include "ozaki/scaling/exact.cuh"

/* `_lowest_host` */
extern "C" __global__ void __launch_bounds__(THREADS)
last_places(StridedParts x, int *lowest) {
    const Tile at(x.rows, x.columns);
    __shared__ int least[ROWS];
    if (threadIdx.x < ROWS) least[threadIdx.x] = NOTHING;
    __syncthreads();
    int lowest_of_thread = NOTHING;
    at.read(x, [&](int, int, REAL y) { lowest_of_thread = min(lowest_of_thread, last_place(widened(y))); });
    atomicMin(&least[at.local_row], lowest_of_thread);
    __syncthreads();
    const int row = at.first_row + threadIdx.x;
    if (threadIdx.x < ROWS && row < x.rows) atomicMin(&lowest[row], least[threadIdx.x]);
}
