#include "ozaki/elementary/integers.cuh"
#include "ozaki/rowwise/channels.cuh"

// Channels of float32 arrays, standardized.
//
// Printed before this file: TEAM, a power of two, the threads of a block; WEIGHT and BIAS, whether there are some; and
// texts of rsqrt, `quick_rsqrt` and `longer_rsqrt`.

extern "C" __global__ void __launch_bounds__(TEAM) sums_of_channels(const float* x, Sum* sums, ChannelShape s) {
  EACH_PART(p) {
    const Part part(s, p);
    Sum sum = NOTHING;
    part.each([&](long long i) { sum.add(widened(x[i])); });
    sum = together(sum);
    if (threadIdx.x == 0) sums[p] = sum;
  }
}

// What calls a function of each number of the channel that falls to a thread.
__device__ auto numbers_of(const Part& part, const float* x) {
  return [=](auto f) { part.each_of_channel([&](long long i) { f(x[i]); }); };
}

template <bool SQUARES> __device__ double mean_of(const Part& part, const Sum& sum, const float* x, double centre) {
  double mean;
  bool doubt = rounded_mean(sum.high, sum.low, sum.lost * 1.01, part.n, 1.0 / part.n, mean);
  if (sum.low == 0 && sum.high == 0 && sum.lost == 0) mean = sum.high; // -0, too
  const bool finite = fabs(sum.high) < INFINITE;
  if (somewhere(doubt && finite)) mean = exact_mean<SQUARES>(numbers_of(part, x), centre, part.n, 53);
  return finite ? mean : sum.high;
}

extern "C" __global__ void __launch_bounds__(TEAM) squares_of_channels(
    const float* x, const Sum* sums, double* means, Sum* squares, ChannelShape s) {
  EACH_PART(p) {
    const Part part(s, p);
    const double mean = mean_of<false>(part, part.all(sums), x, 0);
    Sum sum = NOTHING;
    part.each([&](long long i) { sum.add_square(widened(x[i]) - mean); });
    sum = together(sum);
    if (threadIdx.x == 0) squares[p] = sum;
    if (part.is_first()) means[part.c] = mean;
  }
}

// (n·Σ x² - (Σ x)²) / (n·(n - 1)).
__device__ __noinline__ double exact_variance(const Part& part, const float* x) {
  Exact<5, -149> sum = {};
  ExactProducts squares = {};
  part.each_of_channel([&](long long i) { sum.add(widened(x[i])), squares.add_square(widened(x[i])); });
  sum = together(sum), squares = together(squares);
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
// Σ (x - μ)² by at most 3u of itself and n·(u·mean)², and its two words are added.
__device__ float variance_of(const Part& part, const Sum& squares, const float* x, double mean) {
  if (part.n == 1 || !(squares.high < INFINITE)) return canonical<float>(NOT_A_NUMBER);
  const double sum = squares.high + squares.low, shift = mean * 0x1p-53;
  const double margin = sum * 0x1p-50 + squares.lost * 1.01 + 1.01 * part.n * shift * shift;
  double variance = sum / (part.n - 1);
  const bool doubt = !one_number((sum - margin) / (part.n - 1), (sum + margin) / (part.n - 1));
  if (somewhere(doubt && sum + margin != 0)) variance = exact_variance(part, x);
  return canonical<float>(variance);
}

// A moving average that takes a share of what it has now; `kept` is what stays of it.
__device__ void move(float* averages, long long c, float now, double kept, double share) {
  const float moved = add32(mul32(averages[c], narrowed(kept)), mul32(now, narrowed(share)));
  averages[c] = canonical<float>(widened(moved));
}

extern "C" __global__ void __launch_bounds__(TEAM) results_of_channels(
    const float* x, const double* means, const Sum* squares, const float* weight, const float* bias, float* y,
    float* moments, float* moving_means, float* moving_variances, double eps, double kept, double share, ChannelShape s) {
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
      const float of_mean = narrowed_mean(numbers_of(part, x), mean, part.n), of_squares = variance_of(part, sum, x, mean);
      if (threadIdx.x > 0) continue;
      moments[part.c] = of_mean, moments[s.channels + part.c] = canonical<float>(scale);
      moments[2 * s.channels + part.c] = of_squares;
      if (moving_means) move(moving_means, part.c, of_mean, kept, share);
      if (moving_variances) move(moving_variances, part.c, of_squares, kept, share);
    }
  }
}
