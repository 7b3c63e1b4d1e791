#include "ozaki/rowwise_team.cuh"

// Softmax and its logarithms of float32 rows in plain float64, with a bound of the error: where both ends of what a
// result may be are rounded to the same float32 number, that is it. Rows with other results are in doubt, and
// `rowwise.cu` computes them. Of a result in 2**19 or so the ends differ.
//
// Printed before this file: TEAM, a power of two, the threads that have a row; NUMBERS, of each of them, or 0 where a row
// is read again for every step; KIND, one of these; OF_NOTHING, softmax of rows of -Inf alone.

#define SOFTMAX 0
#define LOG_SOFTMAX 1
#define LOGSUMEXP 2

// How far a result's ends are from it, relatively, and what that covers, in units of u = 2**-53. S is the sum of the
// powers, for logarithms but for one of the largest, and l = log1p(S).
//   power    180 where it counts for softmax, else 444: see `power`
//   S        that, 48 for its additions, of positive numbers, 2 as the definition rounds powers and S, 1 for what
//            `power` puts instead of e**-350 and less, < 2**-504 each: S >= 1 for softmax, and for
//            logarithms at least FINEST; else l is between 0 and 2·FINEST
//   power/S  181 and 231, 1 each for 1/S, its product with 1 - ERROR, that with the power, the definition's quotient: 416
//   l        495, as log1p(S·(1 + e)) <= log1p(S)·(1 + e), 8 for CUDA's log1p, which says 2, 1 as the definition rounds
//            it, 1 for its product with 1 - ERROR: 505
// x - m and the last operation of logarithms are the definition's own, and increase with their operands: no error.
#define ERROR (1.0 / (1ll << 44)) // 512 u, products of errors included
#define MOST_ADDED 48
#define FINEST 0x1p-438
static_assert(NUMBERS + (TEAM > 32 ? TEAM / 32 : 0) + 5 <= MOST_ADDED, "rounded additions");
#define SUMS 16 // of a thread that reads a row, and numbers of each at most
#define MOST_OF_A_SUM 23
static_assert(NUMBERS || MOST_OF_A_SUM + 4 + 5 + TEAM / 32 <= MOST_ADDED, "rounded additions");

// e**d for d <= 0, by 2**k·e**r with r = d - k·log 2, |r| < 0.34658; for d < -350 some number below 2**-504.
// Errors in u: 80 for r**12/12! and so on, which the polynomial leaves out; 1 for r; 2 for its last addition, the others,
// each less than half of the next, and its coefficients; for d, if it is rounded, 64 down to -110, with what of
// softmax is not 0, and 256 down to -350; for k·(log 2 - LOG_2) 34 and 106.
#define LOG_2 0.6931471805599453
#define LOG2_E 1.4426950408889634
#define INTEGER 6755399441055744.0 // 1.5·2**52: sums with it are integers, which their last bits are

__device__ double power(double d) {
  const unsigned least = 0xC075E000; // the upper half of -350, above which are those of smaller numbers
  d = __hiloint2double(min((unsigned)__double2hiint(d), least), __double2loint(d));
  double shifted = __fma_rn(d, LOG2_E, INTEGER), r = __fma_rn(shifted - INTEGER, -LOG_2, d);
  double p = 1.0 / 39916800;
  p = __fma_rn(r, p, 1.0 / 3628800);
  p = __fma_rn(r, p, 1.0 / 362880);
  p = __fma_rn(r, p, 1.0 / 40320);
  p = __fma_rn(r, p, 1.0 / 5040);
  p = __fma_rn(r, p, 1.0 / 720);
  p = __fma_rn(r, p, 1.0 / 120);
  p = __fma_rn(r, p, 1.0 / 24);
  p = __fma_rn(r, p, 1.0 / 6);
  p = __fma_rn(r, p, 0.5);
  p = __fma_rn(r, p, 1.0);
  p = __fma_rn(r, p, 1.0);
  return __hiloint2double(__double2hiint(p) + __double2loint(shifted) * (1 << 20), __double2loint(p));
}

// The larger number, or NaN.
__device__ float larger(float a, float b) {
  float c;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
}

// A result that is at least `low` and at most `high`; whether it is in doubt.
__device__ bool settled(double low, double high, float* out) {
  unsigned bits = __float_as_uint(narrowed(low));
  *out = __uint_as_float(bits);
  return bits == __float_as_uint(narrowed(high));
}

// What has been found of a row: its largest number, and the sum of its powers, for logarithms but for the largest ones, and
// how many these are, less one.
struct Powers {
  double largest, sum, equal;

  __device__ void add(double x) {
    const double d = x - largest;
    const bool same = KIND != SOFTMAX && __double2hiint(d) == 0;
    sum += same ? 0 : power(d), equal += same;
  }
};

// The results of a row of which all is known, between two ends: bounds of 1/S, or of log1p(S).
struct Ends {
  double largest, least, greatest;
  bool finite;

  __device__ Ends(double largest, double sum) : largest(largest), finite(fabs(largest) < INFINITE) {
#if KIND == SOFTMAX
    const double inverse = 1 / sum;
    least = inverse * (1 - ERROR), greatest = inverse * (1 + ERROR);
#else
    const double logarithm = log1p(sum);
    const bool fine = sum < FINEST;
    least = fine ? 0 : logarithm * (1 - ERROR), greatest = fine ? 2 * FINEST : logarithm * (1 + ERROR);
#endif
  }
  // Write the result for a number, of which e is the power, if it is known; whether that is in doubt.
  __device__ bool write(double x, double e, float* out) const {
    float y;
#if KIND == SOFTMAX
    const bool doubt = !settled(e * least, e * greatest, &y);
    *out = finite ? y : canonical<float>(largest == -INFINITE ? OF_NOTHING : NOT_A_NUMBER);
#elif KIND == LOG_SOFTMAX
    const double d = x - largest;
    const bool doubt = !settled(d - greatest, d - least, &y);
    *out = finite ? y : canonical<float>(NOT_A_NUMBER);
#else
    const bool doubt = !settled(largest + least, largest + greatest, &y);
    *out = finite ? y : canonical<float>(largest);
#endif
    return doubt;
  }
  __device__ void mark(bool doubt, unsigned* marked, long long r) const {
    if (doubt && finite) marked[0] = 1, atomicOr(marked + 1 + (r >> 5), 1u << (r & 31));
  }
};

#if NUMBERS
extern "C" __global__ void __launch_bounds__(TEAM > 128 ? TEAM : 128) quick_rows(
    const float* x, float* out, unsigned* marked, long long count, long long n) {
  const float nothing = __int_as_float(0xFF800000);
  const int lane = threadIdx.x % TEAM, teams = blockDim.x / TEAM;
  for (long long first = (long long)blockIdx.x * teams; first < count; first += (long long)gridDim.x * teams) {
    const long long r = first + threadIdx.x / TEAM;
    const int here = r < count ? n : 0;
    const float* numbers = x + r * n;
    float v[NUMBERS], most = nothing;
#pragma unroll
    for (int j = 0; j < NUMBERS; j++) {
      int i = lane + j * TEAM;
      v[j] = i < here ? numbers[i] : nothing;
      most = larger(most, v[j]);
    }
    Powers row = {widened(of_team(most, larger)), 0, lane ? 0.0 : -1.0};
    double e[NUMBERS];
#pragma unroll
    for (int j = 0; j < NUMBERS; j++) {
#if KIND == SOFTMAX
      e[j] = power(widened(v[j]) - row.largest), row.sum += e[j];
#else
      row.add(widened(v[j]));
#endif
    }
    const double sum = sum_of_team(row.sum), equal = KIND == SOFTMAX ? 0 : sum_of_team(row.equal);
    const Ends ends(row.largest, sum + equal);
    bool doubt = false;
#if KIND == LOGSUMEXP
    if (here && lane == 0) doubt = ends.write(0, 0, out + r);
#else
#pragma unroll
    for (int j = 0; j < NUMBERS; j++) {
      int i = lane + j * TEAM;
      if (i < here) doubt |= ends.write(widened(v[j]), e[j], out + r * n + i);
    }
#endif
    ends.mark(doubt, marked, r);
  }
}
#else
extern "C" __global__ void __launch_bounds__(TEAM, 1024 / TEAM) quick_rows(
    const float* x, float* out, unsigned* marked, long long count, long long n) {
  const float nothing = __int_as_float(0xFF800000);
  const int lane = threadIdx.x;
  for (long long r = blockIdx.x; r < count; r += gridDim.x) {
    const float* numbers = x + r * n;
    float most = nothing;
#pragma unroll 8
    for (int i = lane; i < n; i += TEAM) most = larger(most, numbers[i]);
    const double largest = widened(of_team(most, larger));
    Powers rows[SUMS];
#pragma unroll
    for (int j = 0; j < SUMS; j++) rows[j] = {largest, 0, 0};
    for (int first = lane; first < n; first += SUMS * TEAM) {
#pragma unroll
      for (int j = 0; j < SUMS; j++) {
        int i = first + j * TEAM;
        rows[j].add(widened(i < n ? numbers[i] : nothing));
      }
    }
#pragma unroll
    for (int half = SUMS / 2; half; half /= 2)
#pragma unroll
      for (int j = 0; j < half; j++) rows[j].sum += rows[j + half].sum, rows[j].equal += rows[j + half].equal;
    const double equal = KIND == SOFTMAX ? 0 : sum_of_team(rows[0].equal) - 1;
    const Ends ends(largest, sum_of_team(rows[0].sum) + equal);
    bool doubt = false;
#if KIND == LOGSUMEXP
    if (lane == 0) doubt = ends.write(0, 0, out + r);
#else
#pragma unroll 8
    for (int i = lane; i < n; i += TEAM) {
      const double v = widened(numbers[i]);
      doubt |= ends.write(v, KIND == SOFTMAX ? power(v - largest) : 0, out + r * n + i);
    }
#endif
    ends.mark(doubt, marked, r);
  }
}
#endif
