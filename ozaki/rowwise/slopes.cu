#include "ozaki/rowwise/means.cuh"

// The derivative of softmax y of float32 rows for that of the result, g: y·(g - Σ g·y), the exact sum and both operations
// rounded to float32. A plain sum of the products, which are exact, mostly decides.
//
// Printed before this file: TEAM, a power of two, the threads that have a row; NUMBERS, of each of them.

#define OF_SUM (1.0 / (1ll << 47)) // 64 u of the magnitudes: at most 57 additions are rounded
static_assert(NUMBERS + 5 + (TEAM > 32 ? TEAM / 32 : 0) <= 57, "rounded additions");

extern "C" __global__ void __launch_bounds__(TEAM > 128 ? TEAM : 128) softmax_slopes(
    const float* y, const float* g, float* out, long long count, long long n) {
  const int lane = threadIdx.x % TEAM, teams = blockDim.x / TEAM;
  for (long long first = (long long)blockIdx.x * teams; first < count; first += (long long)gridDim.x * teams) {
    const long long r = first + threadIdx.x / TEAM;
    const int here = r < count ? n : 0;
    float of_y[NUMBERS], of_g[NUMBERS];
    double sum = -0.0, size = 0; // -0 if all products are
#pragma unroll
    for (int j = 0; j < NUMBERS; j++) {
      const int i = lane + j * TEAM;
      if (i >= here) continue;
      of_y[j] = y[r * n + i], of_g[j] = g[r * n + i];
      const double product = widened(of_y[j]) * widened(of_g[j]);
      sum += product, size += fabs(product);
    }
    sum = sum_of_team(sum), size = sum_of_team(size);
    const double error = size * OF_SUM;
    const bool doubt = size > 0 && size < INFINITE && !one_number(sum - error, sum + error);
    if (somewhere(doubt)) {
      ExactProducts exact = {};
#pragma unroll 1
      for (int i = lane; i < here; i += TEAM) exact.add(widened(y[r * n + i]) * widened(g[r * n + i]));
      const double again = together(exact).mean(1, 24, -149);
      if (doubt) sum = again;
    }
    const float total = canonical<float>(sum);
#pragma unroll
    for (int j = 0; j < NUMBERS; j++) {
      const int i = lane + j * TEAM;
      if (i < here) out[r * n + i] = mul32(of_y[j], sub32(of_g[j], total));
    }
  }
}
