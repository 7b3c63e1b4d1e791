#include "ozaki/rowwise.cuh"

// Rows that a team has each: all of them, or those with a bit in `marked`, if that is not null, of which a team takes the
// 32 of a word; marked[0] tells whether there are any. keeps : whether there is room for the powers of a row.
extern "C" __global__ void __launch_bounds__(MOST_THREADS) rows(
    const T* x, T* out, const unsigned* marked, long long count, long long n,
    long long keeps) {
  extern __shared__ double powers[];
  if (marked && !marked[0]) return;
  int team = threadIdx.x / TEAM, lane = threadIdx.x % TEAM, teams = blockDim.x / TEAM;
  double* kept = keeps ? powers + team * n : nullptr;
  const long long shares = marked ? (count + 31) / 32 : count;
  for (long long s = (long long)blockIdx.x * teams + team; s < shares; s += (long long)gridDim.x * teams) {
    for (unsigned left = marked ? marked[1 + s] : 1; left; left &= left - 1) {
      const long long r = marked ? 32 * s + __ffs(left) - 1 : s;
      const T* numbers = x + r * n;
      Row row(together(largest_of(numbers, n, lane)), n);
      Sum sum = together(sum_of(numbers, n, lane, row, kept));
      row.close(sum, numbers, n, lane);
      if (KIND != LOGSUMEXP) results(numbers, out + r * n, n, lane, row, kept);
      else if (lane == 0) out[r] = result(row);
    }
  }
}
