#include "ozaki/rowwise/channels.cuh"

// The derivatives of channels standardized, times a weight, plus a bias.
//
// Printed before this file: TEAM, a power of two, the threads of a block; WEIGHT, whether there is one.

// Of y = (x - m)·r, or x itself without means, and h, a gradient times a weight.
struct Terms {
  float h, y, gradient;

  __device__ Terms(float g, float x, const float* mean, float scale, const float* weight, long long c)
      : h(WEIGHT ? mul32(g, weight[c]) : g), y(mean ? mul32(sub32(x, mean[c]), scale) : x), gradient(g) {}
  __device__ double term(int k) const {
    const double factor = widened(k < 2 ? h : gradient);
    return k % 2 ? factor : factor * widened(y);
  }
};

#define SUMS 4 // Σ h·y, Σ h, Σ g·y, Σ g: `term` has their terms

extern "C" __global__ void __launch_bounds__(TEAM) sums_of_slopes(
    const float* g, const float* x, const float* weight, const float* mean, const float* scale, Sum* sums, ChannelShape s) {
  EACH_PART(p) {
    const Part part(s, p);
    const float r = scale[part.c];
    Sum sum[SUMS] = {NOTHING, NOTHING, NOTHING, NOTHING};
    part.each([&](long long i) {
      const Terms terms(g[i], x[i], mean, r, weight, part.c);
#pragma unroll
      for (int k = 0; k < SUMS; k++) sum[k].add(terms.term(k));
    });
#pragma unroll
    for (int k = 0; k < SUMS; k++) {
      sum[k] = together(sum[k]);
      if (threadIdx.x == 0) sums[k * s.channels * s.parts + p] = sum[k];
    }
  }
}

extern "C" __global__ void __launch_bounds__(TEAM) slopes_of_channels(
    const float* g, const float* x, const float* weight, const float* mean, const float* scale, const Sum* sums,
    float* of_x, float* of_weight, float* of_bias, ChannelShape s) {
  EACH_PART(p) {
    const Part part(s, p);
    const float r = scale[part.c];
    float total[SUMS];
    for (int k = 0; k < SUMS; k++) {
      const Sum sum = part.all(sums + k * s.channels * s.parts);
      double value;
      if (somewhere(narrowed_sum(sum, value))) {
        ExactProducts again = {};
        part.each_of_channel([&](long long i) { again.add(Terms(g[i], x[i], mean, r, weight, part.c).term(k)); });
        value = together(again).mean(1, 24, -149);
      }
      total[k] = canonical<float>(value);
    }
    const float of_product = div32(total[0], (float)part.n), of_total = div32(total[1], (float)part.n);
    part.each([&](long long i) {
      const Terms terms(g[i], x[i], mean, r, weight, part.c);
      of_x[i] = mul32(sub32(sub32(terms.h, of_total), mul32(terms.y, of_product)), r);
    });
    if (part.is_first()) of_weight[part.c] = total[2], of_bias[part.c] = total[3];
  }
}
