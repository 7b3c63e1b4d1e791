#include "ozaki/rowwise_means.cuh"

// Channels of (samples, channels, length) float32 arrays, standardized, and the derivatives of that. A channel is
// divided among blocks, a kernel a step: what a step finds in a part is put together by every block that takes the next
// one. Sums are of two words, with a bound of what these lose, and exact where that leaves a rounding open.
//
// Printed before this file: TEAM, a power of two, the threads of a block; WEIGHT and BIAS, whether there are some; and
// texts of rsqrt, `quick_rsqrt` and `longer_rsqrt`.

struct ChannelShape {
  long long samples, channels, length, parts, size; // `size` numbers of a channel are a part, but for the last one
};

// Numbers, less than 2**32 of them, and their means are multiples of 2**-233: a mean that is not 0 is at least 2**-181.
typedef Exact<13, -480> ExactSum;

#define NOTHING {-0.0, 0, 0} // a sum is -0 where all terms are

// Part p of all. `each` calls a function of the places of its numbers, or those of all the channel.
struct Part {
  const ChannelShape& s;
  long long c, first, last, n;

  __device__ Part(const ChannelShape& shape, long long p) : s(shape), c(p / s.parts), n(s.samples * s.length) {
    first = p % s.parts * s.size, last = min(first + s.size, n);
  }
  template <class F> __device__ void each(long long from, long long to, F f) const {
    for (unsigned i = from + threadIdx.x; i < to; i += TEAM) {
      const unsigned sample = i / (unsigned)s.length;
      f((sample * s.channels + c) * s.length + (i - sample * (unsigned)s.length));
    }
  }
  template <class F> __device__ void each(F f) const { each(first, last, f); }
  template <class F> __device__ void each_of_channel(F f) const { each(0, n, f); }
  // The sum of what has been found in all parts of the channel.
  __device__ Sum all(const Sum* found) const {
    Sum sum = NOTHING;
    for (long long i = threadIdx.x; i < s.parts; i += TEAM) sum.add(found[c * s.parts + i]);
    return sum_of_team(sum);
  }
  __device__ bool is_first() const { return first == 0 && threadIdx.x == 0; }
};

#define EACH_PART(p) for (long long p = blockIdx.x; p < s.channels * s.parts; p += gridDim.x)

extern "C" __global__ void __launch_bounds__(TEAM) sums_of_channels(const float* x, Sum* sums, ChannelShape s) {
  EACH_PART(p) {
    const Part part(s, p);
    Sum sum = NOTHING;
    part.each([&](long long i) { sum.add(widened(x[i])); });
    sum = sum_of_team(sum);
    if (threadIdx.x == 0) sums[p] = sum;
  }
}

// The mean of a channel's numbers less `centre`, or of their squares, by an exact sum, in a precision.
template <bool SQUARES>
__device__ __noinline__ double exact_mean(const Part& part, const float* x, double centre, int precision) {
  ExactSum sum = {};
  part.each_of_channel([&](long long i) {
    const double number = widened(x[i]) - centre;
    SQUARES ? sum.add_square(number) : sum.add(number);
  });
  return sum_of_team(sum).mean(part.n, precision, precision == 24 ? -149 : -1074);
}

template <bool SQUARES> __device__ double mean_of(const Part& part, const Sum& sum, const float* x, double centre) {
  double mean;
  bool doubt = rounded_mean(sum.high, sum.low, sum.lost * 1.01, part.n, 1.0 / part.n, mean);
  if (sum.low == 0 && sum.high == 0 && sum.lost == 0) mean = sum.high; // -0, too
  const bool finite = fabs(sum.high) < INFINITE;
  if (somewhere(doubt && finite)) mean = exact_mean<SQUARES>(part, x, centre, 53);
  return finite ? mean : sum.high;
}

extern "C" __global__ void __launch_bounds__(TEAM) squares_of_channels(
    const float* x, const Sum* sums, double* means, Sum* squares, ChannelShape s) {
  EACH_PART(p) {
    const Part part(s, p);
    const double mean = mean_of<false>(part, part.all(sums), x, 0);
    Sum sum = NOTHING;
    part.each([&](long long i) { sum.add_square(widened(x[i]) - mean); });
    sum = sum_of_team(sum);
    if (threadIdx.x == 0) squares[p] = sum;
    if (part.is_first()) means[part.c] = mean;
  }
}

// A mean that is rounded again, to float32: one that is half way between two numbers may not be half way exactly.
__device__ float narrowed_mean(const Part& part, const float* x, double mean) {
  double value = mean;
  if (somewhere(fabs(mean) < INFINITE && !one_number(mean, mean))) value = exact_mean<false>(part, x, 0, 24);
  return canonical<float>(value);
}

// (n·Σ x² - (Σ x)²) / (n·(n - 1)).
__device__ __noinline__ double exact_variance(const Part& part, const float* x) {
  Exact<5, -149> sum = {};
  ExactProducts squares = {};
  part.each_of_channel([&](long long i) { sum.add(widened(x[i])), squares.add_square(widened(x[i])); });
  sum = sum_of_team(sum), squares = sum_of_team(squares);
  u64 times_n[11], square[10];
  const u64 n = part.n;
  if ((long long)sum.word[4] < 0) negate_words<5>(sum.word);
  multiply_words<10, 1>(times_n, squares.word, &n), multiply_words<5, 5>(square, sum.word, sum.word);
  negate_words<10>(square);
  add_words<10>(times_n, square);
  for (int i = 0; i < 10; i++) squares.word[i] = times_n[i];
  return squares.mean(n, 24, -149, n - 1);
}

// The variance of which Σ (x - mean)² is known, d = x - mean rounded, and the mean, too: with u = 2**-53 the sum misses
// Σ (x - μ)² by at most 3u of itself and n·(u·mean)².
__device__ float variance_of(const Part& part, const Sum& squares, const float* x, double mean) {
  if (part.n == 1 || !(squares.high < INFINITE)) return canonical<float>(NOT_A_NUMBER);
  const double shift = mean * 0x1p-53, margin = squares.high * 0x1p-50 + squares.lost + 1.01 * part.n * shift * shift;
  double variance = squares.high / (part.n - 1);
  const bool doubt = !one_number((squares.high - margin) / (part.n - 1), (squares.high + margin) / (part.n - 1));
  if (somewhere(doubt && squares.high + margin != 0)) variance = exact_variance(part, x);
  return canonical<float>(variance);
}

extern "C" __global__ void __launch_bounds__(TEAM) results_of_channels(
    const float* x, const double* means, const Sum* squares, const float* weight, const float* bias, float* y,
    float* moments, double eps, ChannelShape s) {
  EACH_PART(p) {
    const Part part(s, p);
    const double mean = means[part.c];
    const Sum sum = part.all(squares);
    const double square = (fabs(mean) < INFINITE ? mean_of<true>(part, sum, x, mean) : NOT_A_NUMBER) + eps;
    double scale;
    if (quick_rsqrt(square, scale) && longer_rsqrt(square, scale)) scale = rsqrt_by_integers(square, scale);
    part.each([&](long long i) {
      float result = narrowed((widened(x[i]) - mean) * scale);
      if (WEIGHT) result = mul32(result, weight[part.c]);
      if (BIAS) result = add32(result, bias[part.c]);
      y[i] = canonical<float>(widened(result));
    });
    if (part.first == 0) { // all threads, for sums that are taken again
      const float of_mean = narrowed_mean(part, x, mean), of_squares = variance_of(part, sum, x, mean);
      if (threadIdx.x > 0) continue;
      moments[part.c] = of_mean, moments[s.channels + part.c] = canonical<float>(scale);
      moments[2 * s.channels + part.c] = of_squares;
    }
  }
}

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
      sum[k] = sum_of_team(sum[k]);
      if (threadIdx.x == 0) sums[k * s.channels * s.parts + p] = sum[k];
    }
  }
}

extern "C" __global__ void __launch_bounds__(TEAM) slopes_of_channels(
    const float* g, const float* x, const float* weight, const float* mean, const float* scale, const Sum* sums,
    float* of_x, float* of_affine, ChannelShape s) {
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
        value = sum_of_team(again).mean(1, 24, -149);
      }
      total[k] = canonical<float>(value);
    }
    const float of_product = div32(total[0], (float)part.n), of_total = div32(total[1], (float)part.n);
    part.each([&](long long i) {
      const Terms terms(g[i], x[i], mean, r, weight, part.c);
      of_x[i] = mul32(sub32(sub32(terms.h, of_total), mul32(terms.y, of_product)), r);
    });
    if (part.is_first()) of_affine[part.c] = total[2], of_affine[s.channels + part.c] = total[3];
  }
}
