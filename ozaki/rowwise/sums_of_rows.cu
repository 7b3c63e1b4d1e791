#include "ozaki/rowwise/means.cuh"

// The sums of float32 rows that have one index, each number rounded once: out[r, c] = Σ values[order[p], c] for p from
// starts[r] to starts[r + 1]. A thread has a column, in two words, and with nothing lost where that leaves a rounding open.
//
// Printed before this file: TEAM, the threads of a block.

struct RowsByIndex {
  long long rows, columns;
};

extern "C" __global__ void __launch_bounds__(TEAM) sums_of_rows(
    const float* values, const long long* order, const long long* starts, float* out, RowsByIndex s) {
  for (long long r = blockIdx.x; r < s.rows; r += gridDim.x) {
    const long long from = starts[r], to = starts[r + 1];
    for (long long c = threadIdx.x; c < s.columns; c += TEAM) {
      Sum sum = {0, 0, 0};
      for (long long p = from; p < to; p++) sum.add(widened(values[order[p] * s.columns + c]));
      double value;
      if (narrowed_sum(sum, value)) {
        ExactProducts exact = {};
        for (long long p = from; p < to; p++) exact.add(widened(values[order[p] * s.columns + c]));
        value = exact.mean(1, 24, -149);
      }
      out[r * s.columns + c] = canonical<float>(value);
    }
  }
}
