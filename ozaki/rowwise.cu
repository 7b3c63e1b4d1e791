#include "ozaki/rowwise.cuh"

// Rows that a team has each.
extern "C" __global__ void __launch_bounds__(MOST_THREADS) rows(
    const T* x, T* out, unsigned* state, long long count, long long n) {
  extern __shared__ double powers[];
  __shared__ Largest maxima[MOST_THREADS];
  __shared__ Sum sums[MOST_THREADS];
  __shared__ double rests[MOST_THREADS];
  int team = threadIdx.x / TEAM, lane = threadIdx.x % TEAM, teams = blockDim.x / TEAM;
  double* kept = powers + team * n;
  for (long long r = (long long)blockIdx.x * teams + team; r < count; r += (long long)gridDim.x * teams) {
    const T* numbers = x + r * n;
    Row row(together(largest_of(numbers, n, lane), maxima + team * TEAM, lane), n);
    Sum sum = together(sum_of<KIND == SOFTMAX>(numbers, n, lane, row, kept), sums + team * TEAM, lane);
    settle(row, sum, rests + team, lane);
    row.tell(state, r);
    if (KIND != LOGSUMEXP) results<true>(numbers, out + r * n, n, lane, row, kept);
    else if (lane == 0) out[r] = result(row);
  }
}
