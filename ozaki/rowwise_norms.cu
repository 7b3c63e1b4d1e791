#include "ozaki/rounding/error_free.cuh"
#include "ozaki/rowwise_team.cuh"

// Norms of layers of float32 rows by the definition's own operations. Its two means are of exact sums; here sums are in
// two floats, with a bound of what these lose. Where that may change a mean's rounding, the losses are added up, so that
// those of sums which are half way between two numbers come to nothing; where even they may change it, the row is in
// doubt.
//
// Printed before this file: TEAM, a power of two, the threads that have a row; NUMBERS, of each of them; KIND, one of
// these; and texts of rsqrt, `quick_rsqrt` and `longer_rsqrt`.

#define LAYER_NORM 0
#define RMS_NORM 1
#define INVERSE_DEVIATION 2

// high + low, and in `lost` the magnitudes of what is added to low, or, if CAREFUL, of the errors of that; of POSITIVE
// numbers these have a bound.
#define ANY 0
#define POSITIVE 1
#define CAREFUL 2

template <int HOW> struct Sum {
  double high, low, lost;

  __device__ void below(double x) {
    if (HOW == CAREFUL) x = two_sum(&low, x);
    else low += x;
    if (HOW != POSITIVE) lost += fabs(x);
  }
  __device__ void add(double x) { below(two_sum(&high, x)); }
  __device__ void add(const Sum& other) { lost += other.lost, add(other.high), below(other.low); }
  __device__ void add_square(double x) {
    double square = x * x;
    add(square);
    if (KIND != RMS_NORM) below(__fma_rn(x, x, -square)); // squares of float32 numbers are exact
  }
};

template <int HOW> __device__ Sum<HOW> exchanged(Sum<HOW> mine, int other) {
  return {exchanged(mine.high, other), exchanged(mine.low, other), HOW == POSITIVE ? 0 : exchanged(mine.lost, other)};
}

template <int HOW> __device__ Sum<HOW> of_all(Sum<HOW> mine) {
  return of_team(mine, [](Sum<HOW> a, const Sum<HOW>& b) { return a.add(b), a; });
}

// Errors, in units of u = 2**-53. A sum that is not CAREFUL has up to 96 additions to `low` on the way to any result, two a
// number and two a step of the team, and each has an error of at most u·lost: together 96·u·lost. In one of positive
// numbers lost <= 50·u·high: 48 additions to high with errors of at most u·high, and the squares' own.
#define OF_LOST (1.0 / (1ll << 46)) // 128 u
#define OF_POSITIVE (OF_LOST / (1ll << 47)) // 64 u times that
static_assert(NUMBERS + 5 + (TEAM > 32 ? TEAM / 32 : 0) <= 48, "additions to `high`");

// (high + low)/n, rounded, where the sum is known but for an error; whether that is in doubt.
__device__ bool rounded_mean(double high, double low, double error, double n, double inverse, double& mean) {
  mean = high;
  if (!(fabs(high) < INFINITE)) return false;
  const double sum = two_sum(&high, low);
  // q is within two units in the last place of high/n. high - q·n is a multiple of such a unit, and exact for n < 2**50.
  const double q = high * inverse;
  double left = __fma_rn(-q, n, high), error_of_left = two_sum(&left, sum), rest = left * inverse;
  const bool exact = error_of_left == 0 && __fma_rn(-rest, n, left) == 0;
  const double margin = error * inverse + (exact ? 0 : fabs(rest) * (1.0 / (1ll << 50)));
  const double least = q + (rest - margin), greatest = q + (rest + margin);
  if (least != 0 || margin != 0) mean = least; // else it is 0, or -0 as that of numbers that are
  return least != greatest;
}

// Whether a thread of the warp, or of the block if that is the team, is in doubt.
__device__ bool somewhere(bool doubt) { return TEAM > 32 ? __syncthreads_or(doubt) : __any_sync(~0u, doubt); }

// The mean of a row's numbers less `centre`, x, or of their squares; whether its rounding is in doubt. A careful sum reads
// the numbers again: it is rare, and would take registers.
template <bool SQUARES>
__device__ bool mean_of(const double (&x)[NUMBERS], const float* numbers, double centre, int n, int lane, int here,
                        double inverse, double& mean) {
  const double nothing = SQUARES ? 0 : -0.0; // the sum is -0 if all numbers are
  Sum<SQUARES ? POSITIVE : ANY> sum = {nothing, 0, 0};
#pragma unroll
  for (int j = 0; j < NUMBERS; j++) SQUARES ? sum.add_square(x[j]) : sum.add(x[j]);
  sum = of_all(sum);
  double error = SQUARES ? sum.high * OF_POSITIVE : sum.lost * OF_LOST;
  if (!somewhere(rounded_mean(sum.high, sum.low, error, n, inverse, mean))) return false;
  Sum<CAREFUL> careful = {nothing, 0, 0};
#pragma unroll 1
  for (int i = lane; i < here; i += TEAM) {
    double number = widened(numbers[i]) - centre;
    SQUARES ? careful.add_square(number) : careful.add(number);
  }
  careful = of_all(careful);
  return rounded_mean(careful.high, careful.low, careful.lost * 1.01, n, inverse, mean);
}

__device__ float affine(float y, const float* weight, const float* bias, long long i) {
  if (weight) y = mul32(y, weight[i]);
  if (bias) y = add32(y, bias[i]);
  return (__float_as_uint(y) & 0x7FFFFFFF) > 0x7F800000 ? __int_as_float(0x7FC00000) : y;
}

// Blocks to a multiprocessor that the compiler leaves registers for: more would spill a row's numbers.
#define LEAST_BLOCKS (TEAM > 32 ? 2 : NUMBERS > 24 ? 3 : 4)

// weight, bias : of n numbers, or null.
extern "C" __global__ void __launch_bounds__(TEAM > 128 ? TEAM : 128, LEAST_BLOCKS) norms(
    const float* x, const float* weight, const float* bias, float* out, unsigned* bits, unsigned* any, long long count,
    long long n, double eps) {
  const int lane = threadIdx.x % TEAM, teams = blockDim.x / TEAM;
  const double inverse = 1.0 / n;
  for (long long first = (long long)blockIdx.x * teams; first < count; first += (long long)gridDim.x * teams) {
    const long long r = first + threadIdx.x / TEAM;
    const int here = r < count ? n : 0;
    const float* numbers = x + r * n;
    bool doubt = false;
    double d[NUMBERS], mean = 0, variance, scale;
#pragma unroll
    for (int j = 0; j < NUMBERS; j++) {
      int i = lane + j * TEAM;
      d[j] = i < here ? widened(numbers[i]) : -0.0;
    }
#if KIND != RMS_NORM
    doubt |= mean_of<false>(d, numbers, 0, n, lane, here, inverse, mean);
#pragma unroll
    for (int j = 0; j < NUMBERS; j++) d[j] = lane + j * TEAM < here ? d[j] - mean : 0;
#endif
    doubt |= mean_of<true>(d, numbers, mean, n, lane, here, inverse, variance);
    doubt |= quick_rsqrt(variance + eps, scale) && longer_rsqrt(variance + eps, scale);
#if KIND == INVERSE_DEVIATION
    if (here && lane == 0) out[r] = canonical<float>(scale);
#else
    float* results = out + r * n;
#pragma unroll
    for (int j = 0; j < NUMBERS; j++) {
      int i = lane + j * TEAM;
      if (i < here) results[i] = affine(narrowed(d[j] * scale), weight, bias, i);
    }
#endif
    if (doubt && here && lane == 0) tell(bits, any, r);
  }
}
