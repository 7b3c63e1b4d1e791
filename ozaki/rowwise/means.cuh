#include "ozaki/rounding/error_free.cuh"
#include "ozaki/rowwise/exact.cuh"

// Sums of a team in two words, and their means.

// A sum high + low, and the magnitudes of what that has lost.
struct Sum {
  double high, low, lost;

  __device__ void below(double x) { lost += fabs(two_sum(&low, x)); }
  __device__ void add(double x) { below(two_sum(&high, x)); }
  __device__ void add(const Sum& other) { lost += other.lost, add(other.high), below(other.low); }
  __device__ void add_square(double x) {
    double square = x * x;
    add(square), below(__fma_rn(x, x, -square));
  }
};

__device__ Sum exchanged(const Sum& mine, int other) {
  return {exchanged(mine.high, other), exchanged(mine.low, other), exchanged(mine.lost, other)};
}

// (high + low)/n, rounded, where the sum is known but for an error; whether that is in doubt.
__device__ bool rounded_mean(double high, double low, double error, double n, double inverse, double& mean) {
  const double sum = two_sum(&high, low);
  // q is within two units in the last place of high/n. high - q·n is a multiple of such a unit, and exact for n < 2**50.
  const double q = high * inverse;
  double left = __fma_rn(-q, n, high), error_of_left = two_sum(&left, sum), rest = left * inverse;
  const bool exact = error_of_left == 0 && __fma_rn(-rest, n, left) == 0;
  // Beside a `rest` that is half a unit of q the smallest error counts: the margin has to move it.
  const double margin = error * inverse + (exact && error == 0 ? 0 : fabs(rest) * (1.0 / (1ll << 50)));
  mean = q + (rest - margin);
  return mean != q + (rest + margin);
}

// Whether two ends of an interval are rounded to one float32 number, also if it is a little wider.
__device__ bool one_number(double low, double high) {
  if (low == 0 && high == 0) return true;
  return __float_as_uint(narrowed(low - fabs(low) * 0x1p-52)) == __float_as_uint(narrowed(high + fabs(high) * 0x1p-52));
}

// A sum rounded to float32; whether that is in doubt. What lies in its two words may cancel.
__device__ bool narrowed_sum(const Sum& sum, double& value) {
  value = sum.high;
  if (!(fabs(value) < INFINITE) || (sum.low == 0 && sum.lost == 0)) return false; // -0, too
  const double rest = two_sum(&value, sum.low), margin = sum.lost * 1.01 + fabs(rest) * (1.0 / (1ll << 50));
  return !one_number(value + (rest - margin), value + (rest + margin));
}

// A sum of products of float32 numbers.
typedef Exact<10, -298> ExactProducts;

// A sum of less than 2**31 float32 numbers, less their mean, or of squares: multiples of 2**-233, as such means are, of
// which one that is not 0 is at least 2**-181.
typedef Exact<13, -480> ExactSum;

// The mean of n numbers less `centre`, or of their squares, by an exact sum, in a precision. each : calls a function of
// those that fall to a thread.
template <bool SQUARES, class Each>
__device__ __noinline__ double exact_mean(Each each, double centre, unsigned n, int precision) {
  ExactSum sum = {};
  each([&](float x) {
    const double number = widened(x) - centre;
    SQUARES ? sum.add_square(number) : sum.add(number);
  });
  return together(sum).mean(n, precision, precision == 24 ? -149 : -1074);
}

// A mean that is rounded again, to float32: one that is half way between two numbers may not be half way exactly.
template <class Each> __device__ float narrowed_mean(Each each, double mean, unsigned n) {
  const bool middle = fabs(mean) < INFINITE && !one_number(mean, mean);
  if (!somewhere(middle)) return canonical<float>(mean);
  const double again = exact_mean<false>(each, 0, n, 24);
  return canonical<float>(middle ? again : mean);
}
