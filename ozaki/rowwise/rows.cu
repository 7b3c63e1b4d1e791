#include "ozaki/rowwise/steps.cuh"

// Rows that a team has each: all of them, or those that are listed, if there is a list and it has them all: listed[0]
// counts them. keeps : whether there is room for the powers of a row.
extern "C" __global__ void __launch_bounds__(MOST_THREADS) rows(
    const T* x, T* out, const u64* listed, long long count, long long n,
    long long keeps) {
  extern __shared__ double powers[];
  const u64 found = listed ? listed[0] : count;
  const bool all = !listed || found > LISTED;
  int team = threadIdx.x / TEAM, lane = threadIdx.x % TEAM, teams = blockDim.x / TEAM;
  double* kept = keeps ? powers + team * n : nullptr;
  for (long long s = (long long)blockIdx.x * teams + team; s < (all ? count : found); s += (long long)gridDim.x * teams) {
    const long long r = all ? s : listed[1 + s];
    const T* numbers = x + r * n;
    Row row(together(largest_of(numbers, n, lane)), n);
    Sum sum = together(sum_of(numbers, n, lane, row, kept));
    row.close(sum, numbers, n, lane);
    if (KIND != LOGSUMEXP) results(numbers, out + r * n, n, lane, row, kept);
    else if (lane == 0) out[r] = result(row);
  }
}
