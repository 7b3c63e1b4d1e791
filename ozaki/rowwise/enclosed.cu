#include "ozaki/rowwise/team.cuh"

// Softmax and its logarithms of float32 rows in plain float64, with a bound of the error: where all that a result may be
// is rounded to the same float32 number, that is it. Rows with other results, one in 2**23 or so, are in doubt, and
// `rows.cu` computes them.
//
// Printed before this file: TEAM, a power of two, the threads that have a row; NUMBERS, of each of them, or 0 where a row
// is read again for every step; KIND, one of these; OF_NOTHING, softmax of rows of -Inf alone.

#define SOFTMAX 0
#define LOG_SOFTMAX 1
#define LOGSUMEXP 2

// How far a result may be from the definition's, relatively, in units of u = 2**-53. S is the sum of the powers, for
// logarithms but for one of the largest, and l = log1p(S).
//   power    5: see `power`; where a difference d may have been rounded, 64 more for what of softmax is not 0, else 256
//   S        that, ADDED for its additions, of positive numbers, 2 as the definition rounds powers and S, 1 for what
//            `power` puts instead of e**-350 and less, < 2**-504 each, of up to 2**18 numbers: S >= 1 for softmax, and
//            for logarithms at least FINEST
//   power/S  both, 1 as the definition rounds the power, 1 each for 1/S, its product with the power, and the definition's
//            quotient: 17 + ADDED
//   d - l    as S, as log1p(S·(1 + e)) <= log1p(S)·(1 + e), 8 for CUDA's log1p, which says 2, 1 as the definition rounds
//            it, 2 for the two differences: 19 + ADDED
// x - m is the definition's own: no error.
#define MARGIN (20 + ADDED) // products of errors included
#define OF_ROUNDED 256
#define FINEST 0x1p-432
#define SUMS (NUMBERS ? 4 : 16) // of a thread
#define MOST_OF_A_SUM (NUMBERS ? (NUMBERS + SUMS - 1) / SUMS : 23)
#define ADDED (MOST_OF_A_SUM - 1 + (NUMBERS ? 2 : 4) + 5 + (TEAM > 32 ? TEAM / 32 - 1 : 0) + 1)

// Whether a number may differ from another, less than 350 larger, by more than 53 bits: 0 < |x| < 2**-21.
__device__ bool tiny(float x) { return (__float_as_uint(x) << 1) - 1 < 0x69FFFFFFu; }

// e**d for d <= 0, by 2**k·e**r with r = d - k·log 2, |r| < 0.34658; for d < -350 some number below 2**-504.
// Errors in u: 2.2 for r**13/13! and so on, which the polynomial leaves out, and for its coefficients; 1 and 0.5 for its
// last two additions, each of the others less than half of the next; 0.5 for r.
#define LOG_2 0.6931471805599453
#define LOG_2_REST 2.3190468138462996e-17
#define LOG2_E 1.4426950408889634
#define INTEGER 6755399441055744.0 // 1.5·2**52: sums with it are integers, which their last bits are

__device__ double power(double d) {
  const unsigned least = 0xC075E000; // the upper half of -350, above which are those of smaller numbers
  d = __hiloint2double(min((unsigned)__double2hiint(d), least), __double2loint(d));
  const double shifted = __fma_rn(d, LOG2_E, INTEGER), k = shifted - INTEGER;
  const double r = __fma_rn(k, -LOG_2_REST, __fma_rn(k, -LOG_2, d));
  double p = 1.0 / 479001600;
  p = __fma_rn(r, p, 1.0 / 39916800);
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

// The results of a row of which 1/S, or log1p(S), is known.
struct Results {
  double largest, of_sum;
  unsigned margin;
  bool finite, doubt;
  bool subnormal = false; // whether there are results of which no one has asked yet whether they are in doubt

  // rounded : whether a difference from the largest number may be.
  __device__ Results(double largest, double sum, bool rounded)
      : largest(largest), of_sum(KIND == SOFTMAX ? 1 / sum : log1p(sum)), margin(MARGIN + (rounded ? OF_ROUNDED : 0)),
        finite(fabs(largest) < INFINITE), doubt(KIND != SOFTMAX && sum < FINEST) {}

  // What is rounded for a number, of which e is the power, if it is known.
  __device__ double value(double x, double e) const { return KIND == SOFTMAX ? e * of_sum : x - largest - of_sum; }

  // Where a number is near to the middle between two float32 ones, its last 29 bits are near to 2**28.
  __device__ void write(double value, float* out) {
    const double otherwise = KIND == SOFTMAX && largest == -INFINITE ? OF_NOTHING : NOT_A_NUMBER;
    *out = finite ? narrowed(value) : canonical<float>(otherwise);
    doubt |= (__double2loint(value) - (1u << 28) + margin & (1u << 29) - 1) <= 2 * margin;
    subnormal |= is_subnormal(value);
  }
  // From 2**-151 to 2**-126: what is less is rounded to 0.
  __device__ static bool is_subnormal(double value) {
    return (__double2hiint(value) & 0x7FFFFFFFu) - 0x36800000u < 0x38100000u - 0x36800000u;
  }
  __device__ void ask(double value) {
    if (is_subnormal(value)) doubt |= differ(0, value, fabs(value) * (margin * 0x1p-52));
  }
  __device__ void write_sum(float* out) {
    *out = canonical<float>(finite ? largest + of_sum : largest);
    doubt |= differ(largest, of_sum, of_sum * (margin * 0x1p-52));
  }
  // Whether what is nearly a + b is not known to be rounded to one float32 number.
  __device__ static bool differ(double a, double b, double error) {
    return __float_as_uint(narrowed(a + (b - error))) != __float_as_uint(narrowed(a + (b + error)));
  }
};

// The team's thread 0 lists a row that is in doubt for a thread: listed[0] counts such rows, and the first ones follow.
__device__ void list(bool doubt, int lane, u64* listed, u64 r) {
  if (!of_team((int)doubt, [](int a, int b) { return a | b; }) || lane) return;
  const u64 before = atomicAdd(listed, (u64)1);
  if (before < LISTED) listed[1 + before] = r;
}

// What a thread has found of a row of which it knows the largest number: sums of powers, for logarithms but for the largest
// ones, and how many these are.
struct Powers {
  double largest, sums[SUMS], equal;

  __device__ Powers(double largest) : largest(largest), sums(), equal(0) {}

  // Add the power of a number, and return it, if it is not one of the largest.
  __device__ double add(double x, int j) {
    const double d = x - largest;
    const bool same = KIND != SOFTMAX && __double2hiint(d) == 0;
    const double e = same ? 0 : power(d);
    sums[j % SUMS] += e, equal += same;
    return e;
  }
  __device__ Results results(bool rounded) {
#pragma unroll
    for (int half = SUMS / 2; half; half /= 2)
#pragma unroll
      for (int j = 0; j < half; j++) sums[j] += sums[j + half];
    const double sum = sum_of_team(sums[0]);
    return Results(largest, KIND == SOFTMAX ? sum : sum + (sum_of_team(equal) - 1), rounded);
  }
};

#if NUMBERS
extern "C" __global__ void __launch_bounds__(TEAM > 128 ? TEAM : 128) quick_rows(
    const float* x, float* out, u64* listed, long long count, long long n) {
  const float nothing = __int_as_float(0xFF800000);
  const int lane = threadIdx.x % TEAM, teams = blockDim.x / TEAM;
  for (long long first = (long long)blockIdx.x * teams; first < count; first += (long long)gridDim.x * teams) {
    const long long r = first + threadIdx.x / TEAM;
    const int here = r < count ? n : 0;
    const float* numbers = x + r * n;
    float v[NUMBERS], most = nothing;
    bool rounded = false;
#pragma unroll
    for (int j = 0; j < NUMBERS; j++) {
      int i = lane + j * TEAM;
      v[j] = i < here ? numbers[i] : nothing;
      most = larger(most, v[j]), rounded |= tiny(v[j]);
    }
    Powers row(widened(of_team(most, larger)));
    double e[NUMBERS];
#pragma unroll
    for (int j = 0; j < NUMBERS; j++) e[j] = row.add(widened(v[j]), j);
    Results results = row.results(somewhere(rounded));
#if KIND == LOGSUMEXP
    if (here && lane == 0) results.write_sum(out + r);
#else
#pragma unroll
    for (int j = 0; j < NUMBERS; j++) {
      int i = lane + j * TEAM;
      if (i < here) results.write(results.value(widened(v[j]), e[j]), out + r * n + i);
    }
    if (results.subnormal) {
#pragma unroll
      for (int j = 0; j < NUMBERS; j++) results.ask(results.value(widened(v[j]), e[j]));
    }
#endif
    list(here && results.finite && results.doubt, lane, listed, r);
  }
}
#else
extern "C" __global__ void __launch_bounds__(TEAM, 1024 / TEAM) quick_rows(
    const float* x, float* out, u64* listed, long long count, long long n) {
  const float nothing = __int_as_float(0xFF800000);
  const int lane = threadIdx.x;
  for (long long r = blockIdx.x; r < count; r += gridDim.x) {
    const float* numbers = x + r * n;
    float most = nothing;
    bool rounded = false;
#pragma unroll 8
    for (int i = lane; i < n; i += TEAM) most = larger(most, numbers[i]), rounded |= tiny(numbers[i]);
    Powers row(widened(of_team(most, larger)));
    for (int first = lane; first < n; first += SUMS * TEAM) {
#pragma unroll
      for (int j = 0; j < SUMS; j++) {
        int i = first + j * TEAM;
        row.add(widened(i < n ? numbers[i] : nothing), j);
      }
    }
    Results results = row.results(somewhere(rounded));
#if KIND == LOGSUMEXP
    if (lane == 0) results.write_sum(out + r);
#else
    const auto value = [&](int i) {
      const double v = widened(numbers[i]);
      return results.value(v, KIND == SOFTMAX ? power(v - row.largest) : 0);
    };
#pragma unroll 8
    for (int i = lane; i < n; i += TEAM) results.write(value(i), out + r * n + i);
    for (int i = lane; results.subnormal && i < n; i += TEAM) results.ask(value(i));
#endif
    list(results.finite && results.doubt, lane, listed, r);
  }
}
#endif
