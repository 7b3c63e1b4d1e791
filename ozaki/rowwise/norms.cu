#include "ozaki/elementary/integers.cuh"
#include "ozaki/rowwise/means.cuh"

// Norms of layers of float32 rows by the definition's own operations. Its two means are of exact sums. Here sums are in
// two words, with a bound of what these lose; where that may change a mean's rounding, the sum is taken again with more
// care, and where that may still, with nothing lost.
//
// Printed before this file: TEAM, a power of two, the threads that have a row; NUMBERS, of each of them; KIND, one of
// these; WEIGHT and BIAS, whether there are some, and MOMENTS, whether means and scales are asked for; and texts of
// rsqrt, `quick_rsqrt` and `longer_rsqrt`.

#define LAYER_NORM 0
#define RMS_NORM 1
#define INVERSE_DEVIATION 2

// What calls a function of each number of a row that falls to a thread: of the first ones, `here`.
__device__ auto numbers_of(const float* numbers, int lane, int here) {
  return [=](auto f) {
    for (int i = lane; i < here; i += TEAM) f(numbers[i]);
  };
}

// The mean of a row's numbers less `centre`, x, or of their squares.
//
// As in ozaki/sums/exact/levels.py: sigma = 1.5·2**K, where the magnitudes of all terms add up to less than 2**(K - 1), so
// that sigma plus some of them, each rounded to a multiple of 2**(K - 52), is between 2**K and 2**(K + 1). Then additions
// to `high` are exact but for what they leave of a term, at most 2**(K - 53), and that is exact, too.
// `low` has these, and the errors of squares, less than 2**(K - 53). It is of up to 96 additions on the way to any result,
// two a number and one a step of the team, each with an error of u = 2**-53 times the magnitudes of all that is added.
#define OF_LOST (1.0 / (1ll << 46)) // 128 u
const int LOG_NUMBERS = TEAM * NUMBERS <= 16 ? 4 : TEAM * NUMBERS <= 128 ? 7 : TEAM * NUMBERS <= 1024 ? 10 : 13;
static_assert(2 * NUMBERS + 5 + (TEAM > 32 ? TEAM / 32 : 0) <= 96 && TEAM * NUMBERS <= 8192, "the bound of errors");

template <bool SQUARES>
__device__ double mean_of(const double (&x)[NUMBERS], const float* numbers, double centre, int n, int lane, int here,
                          double inverse) {
  const unsigned NOT_FINITE = 0x7FF00000;
  unsigned most = 0; // of the upper halves of magnitudes
#pragma unroll
  for (int j = 0; j < NUMBERS; j++) most = max(most, __double2hiint(x[j]) & 0x7FFFFFFFu);
  most = of_team(most, [](unsigned a, unsigned b) { return max(a, b); });
  // |x| < 2**E, or 2**-299, so that sigma is a normal number: others than 0 are larger
  const int E = max((int)(most >> 20) - 1022, -299), K = (SQUARES ? 2 * E : E) + LOG_NUMBERS + 2;
  const double sigma = 1.5 * power_of_two(K);
  double high = sigma, low = 0, lost = 0;
#pragma unroll
  for (int j = 0; j < NUMBERS; j++) {
    double term = SQUARES ? x[j] * x[j] : x[j], sum = high + term, left = term - (sum - high);
    high = sum;
    if (!SQUARES) lost += fabs(left);
    low += SQUARES && KIND != RMS_NORM ? left + __fma_rn(x[j], x[j], -term) : left;
  }
  high = sum_of_team(high - sigma), low = sum_of_team(low), lost = SQUARES ? 0 : sum_of_team(lost);
  const double error = SQUARES ? sigma * (OF_LOST / (1ll << 52 - LOG_NUMBERS)) : lost * OF_LOST;
  double mean;
  bool doubt = rounded_mean(high, low, error, n, inverse, mean);
  if (SQUARES && most >= NOT_FINITE) mean = most == NOT_FINITE ? INFINITE : NOT_A_NUMBER, doubt = false;
  if (!SQUARES && somewhere(most == 0 || most >= NOT_FINITE)) { // -0 if all numbers are, Inf or NaN
    double plain = -0.0;
    for (int j = 0; j < NUMBERS; j++) plain += x[j];
    plain = sum_of_team(plain);
    if (most == 0 || most >= NOT_FINITE) mean = plain, doubt = false;
  }
  if (!somewhere(doubt)) return mean;
  Sum careful = {0, 0, 0};
#pragma unroll 1
  for (int i = lane; i < here; i += TEAM) { // read again, as registers would not do
    double number = widened(numbers[i]) - centre;
    SQUARES ? careful.add_square(number) : careful.add(number);
  }
  careful = together(careful);
  double again;
  bool undecided = rounded_mean(careful.high, careful.low, careful.lost * 1.01, n, inverse, again);
  if (somewhere(doubt && undecided)) again = exact_mean<SQUARES>(numbers_of(numbers, lane, here), centre, n, 53);
  return doubt ? again : mean;
}

__device__ float affine(float y, const float* weight, const float* bias, long long i) {
  if (WEIGHT) y = mul32(y, weight[i]);
  if (BIAS) y = add32(y, bias[i]);
  return (__float_as_uint(y) & 0x7FFFFFFF) > 0x7F800000 ? __int_as_float(0x7FC00000) : y;
}

// Blocks to a multiprocessor that the compiler leaves registers for: more would spill a row's numbers.
#define LEAST_BLOCKS (TEAM > 32 ? 512 / TEAM : NUMBERS > 24 ? 3 : 4)

extern "C" __global__ void __launch_bounds__(TEAM > 128 ? TEAM : 128, LEAST_BLOCKS) norms(
    const float* x, const float* weight, const float* bias, float* out, float* means, float* scales, long long count,
    long long n, double eps) {
  const int lane = threadIdx.x % TEAM, teams = blockDim.x / TEAM;
  const double inverse = 1.0 / n;
  for (long long first = (long long)blockIdx.x * teams; first < count; first += (long long)gridDim.x * teams) {
    const long long r = first + threadIdx.x / TEAM;
    const int here = r < count ? n : 0;
    const float* numbers = x + r * n;
    double d[NUMBERS], mean = 0, scale;
#pragma unroll
    for (int j = 0; j < NUMBERS; j++) {
      int i = lane + j * TEAM;
      d[j] = i < here ? widened(numbers[i]) : -0.0;
    }
#if KIND != RMS_NORM
    mean = mean_of<false>(d, numbers, 0, n, lane, here, inverse);
#pragma unroll
    for (int j = 0; j < NUMBERS; j++) d[j] = lane + j * TEAM < here ? d[j] - mean : 0;
#endif
    const double square = mean_of<true>(d, numbers, mean, n, lane, here, inverse) + eps;
    if (quick_rsqrt(square, scale) && longer_rsqrt(square, scale)) scale = rsqrt_by_integers(square, scale);
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
#if MOMENTS
    const float of_row = narrowed_mean(numbers_of(numbers, lane, here), mean, n);
    if (here && lane == 0) means[r] = of_row, scales[r] = canonical<float>(scale);
#endif
  }
}
