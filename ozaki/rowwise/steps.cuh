#include "ozaki/elementary/integers.cuh"
#include "ozaki/rowwise/exact.cuh"

// The steps of softmax and its logarithms of a row x: m, its largest number; the exact sum of the powers e**(x - m);
// the results. A team of threads takes a step for a row, or for a part of one: all the sums are exact, so the parts
// do not show.
//
// Printed before this file: the constants T, float or double; TEAM; KIND, one of those below; OF_NOTHING, softmax of rows
// of -Inf alone; and texts of exp_minus, `quick_exp` and `longer_exp`, and of log1p, `quick_log` and `longer_log`.

#define SOFTMAX 0
#define LOG_SOFTMAX 1
#define LOGSUMEXP 2

const int WORDS = 3, UNIT = 158, MOST_THREADS = 256;

#define LOG2_E 1.4426950408889634

// The two largest numbers, which may be equal, and whether there is a NaN.
struct Largest {
  double top, second;
  bool nan;

  __device__ void add(double x) {
    if (x > top) second = top, top = x;
    else if (x > second) second = x;
    nan |= x != x;
  }
  __device__ void add(const Largest& other) {
    add(other.second), add(other.top);
    nan |= other.nan;
  }
};

// A sum of numbers up to 2**-below counts multiples of 2**(-UNIT - below); what is smaller is known to be lost.
struct Sum {
  u64 word[WORDS];
  u64 lost;  // how many numbers have lost some bits

  __device__ void add(const Sum& other) {
    add_words<WORDS>(word, other.word);
    lost += other.lost;
  }
};

typedef Exact<18, -1086> ExactSum;  // of up to 2**63 powers

__device__ Largest exchanged(const Largest& mine, int other) {
  return {exchanged(mine.top, other), exchanged(mine.second, other), exchanged((int)mine.nan, other) != 0};
}
__device__ Sum exchanged(const Sum& mine, int other) {
  Sum result = {{0, 0, 0}, exchanged(mine.lost, other)};
  for (int i = 0; i < WORDS; i++) result.word[i] = exchanged(mine.word[i], other);
  return result;
}

#define NOTHING_LARGE {-INFINITE, -INFINITE, false}
#define NOTHING_SUMMED {{0, 0, 0}, 0}

// A number from 0 to 2**-below.
__device__ Sum summand(double e, int below) {
  u64 bits = __double_as_longlong(e), m = bits & ((1ull << 52) - 1), lost = 0;
  int exponent = (int)(bits >> 52);
  if (exponent) m |= 1ull << 52;
  int place = (exponent ? exponent : 1) - 1075 + UNIT + below;  // of its last bit; at most 106
  if (place < 0) {
    u64 kept = place > -64 ? m >> -place : 0;
    lost = place <= -64 ? m != 0 : (kept << -place) != m;
    m = kept, place = 0;
  }
  int shift = place & 63;
  u64 low = m << shift, high = shift ? m >> (64 - shift) : 0;
  if (place >= 64) return {{0, low, high}, lost};
  return {{low, high, 0}, lost};
}

__device__ double nearest(Sum sum, int below) { return round_limbs<WORDS>(sum.word, -UNIT - below, 53, -1074); }

// Write the sum, rounded; return whether what is lost may change that.
__device__ bool rounded_sum(Sum sum, int below, double& value) {
  value = nearest(sum, below);
  if (!sum.lost) return false;
  sum.add({{sum.lost, 0, 0}, 0});
  return nearest(sum, below) != value;
}

__device__ double exponential(double x, double largest) {
  double e;
  return quick_exp(x, largest, e) && longer_exp(x, largest, e) ? exp_minus_by_integers(x, largest) : e;
}

#if KIND != SOFTMAX
__device__ double logarithm(double sum) {
  double l;
  return quick_log(sum, l) && longer_log(sum, l) ? log1p_by_integers(sum, l) : l;
}
#endif

// What all threads that have numbers of a row know of it.
struct Row {
  double largest;
  double rest;  // the sum of powers, or the logarithm of one
  bool finite;
  bool alone;  // the largest number is, and is left out of the sum, not taken off
  int below;   // every power in the sum is at most 2**-below

  // n : of its numbers. A sum of 2**32 and more has a coarser unit, and is below 2**190.
  __device__ Row(const Largest& most, long long n) : below(-max(0, 32 - __clzll(n))) {
    largest = most.nan ? NOT_A_NUMBER : most.top;
    finite = fabs(largest) < INFINITE;
    alone = KIND != SOFTMAX && most.second < most.top;
    // e**d <= 2**k where k >= d / log 2, and so is e**d rounded, as 2**k is a number; 1e-9 is for the product's errors.
    if (finite && alone) below -= (int)ceil(max(most.second - most.top, -700.0) * LOG2_E + 1e-9);
  }

  // Whether a number counts in the sum.
  __device__ bool counts(double x) const { return !(alone && x == largest); }

  // The sum of the powers of the row's n numbers x is known, by all threads of its team.
  __device__ void close(Sum sum, const T* x, long long n, int lane) {
#if KIND != SOFTMAX
    if (!alone) add_shifted<WORDS>(sum.word, -1, UNIT + below);
#endif
    if (rounded_sum(sum, below, rest) && finite) rest = exact_sum(x, n, lane);
#if KIND != SOFTMAX
    rest = logarithm(rest);
#endif
  }

  __device__ __noinline__ double exact_sum(const T* x, long long n, int lane) const {
    ExactSum sum = {};
    for (long long i = lane; i < n; i += TEAM)
      if (counts(widened(x[i]))) sum.add(exponential(widened(x[i]), largest));
    sum = together(sum);
    if (KIND != SOFTMAX && !alone) sum.add(-1.0);
    return sum.mean(1, 53, -1074);
  }
};

// Of n numbers of a row those that fall to one thread: their largest, their powers' sum, their results.
__device__ Largest largest_of(const T* x, long long n, int lane) {
  Largest most = NOTHING_LARGE;
  for (long long i = lane; i < n; i += TEAM) most.add(widened(x[i]));
  return most;
}

// kept : room for the powers, or null.
__device__ Sum sum_of(const T* x, long long n, int lane, const Row& row, double* kept) {
  Sum sum = NOTHING_SUMMED;
  for (long long i = lane; row.finite && i < n; i += TEAM) {
    double v = widened(x[i]);
    if (!row.counts(v)) continue;
    double e = exponential(v, row.largest);
    sum.add(summand(e, row.below));
    if (kept) kept[i] = e;
  }
  return sum;
}

__device__ void results(const T* x, T* out, long long n, int lane, const Row& row, const double* kept) {
  for (long long i = lane; i < n; i += TEAM) {
    double value = KIND == SOFTMAX && row.largest == -INFINITE ? OF_NOTHING : NOT_A_NUMBER;
    if (row.finite && KIND == SOFTMAX) value = (kept ? kept[i] : exponential(widened(x[i]), row.largest)) / row.rest;
    if (row.finite && KIND == LOG_SOFTMAX) value = widened(x[i]) - row.largest - row.rest;
    out[i] = canonical<T>(value);
  }
}

// The one result of a row, for logsumexp.
__device__ T result(const Row& row) { return canonical<T>(row.finite ? row.largest + row.rest : row.largest); }
