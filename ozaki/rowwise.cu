#include "ozaki/rounding/conversion.cuh"
#include "ozaki/rounding/digits.cuh"

// Rows of e**(x - m), m the largest x, and their exact sums: a team of threads has a row.
//
// `quick` and `longer`, printed before this file, are texts of the function exp_minus; T is float or double.
// A sum of numbers up to 2**-below counts multiples of 2**(-UNIT - below); what is smaller is known to be lost.

const int WORDS = 3, UNIT = 158, MOST_THREADS = 256;

#define INFINITE __longlong_as_double(0x7FF0000000000000LL)
#define NOT_A_NUMBER __longlong_as_double(0x7FF8000000000000LL)

struct Sum {
  u64 word[WORDS];
  u64 lost;  // how many numbers have lost some bits

  __device__ void add(const Sum& other) {
    add_words<WORDS>(word, other.word);
    lost += other.lost;
  }
};

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

__device__ bool exponential(double x, double largest, double& e) {
  return quick(x, largest, e) && longer(x, largest, e);
}

// A team of one thread does not meet: its neighbours may have no row left.
__device__ void meet() {
  if (TEAM == 1) return;
  if (TEAM <= 32) __syncwarp();
  else __syncthreads();
}

// What the threads of a team have, put together in the first element of the team's part of `room`.
template <class V, class F> __device__ V together(V mine, V* room, int lane, F combine) {
  room[lane] = mine;
  for (int half = TEAM / 2; half; half /= 2) {
    meet();
    if (lane < half) combine(room[lane], room[lane + half]);
  }
  meet();
  V result = room[0];
  meet();
  return result;
}

// The two largest numbers, which may be equal, and whether there is a NaN.
struct Largest {
  double top, second;
  bool nan;
};

__device__ void see(Largest& seen, double x) {
  if (x > seen.top) seen.second = seen.top, seen.top = x;
  else if (x > seen.second) seen.second = x;
  seen.nan |= x != x;
}

// Softmax of rows if SOFTMAX, else their largest numbers m and the sums without one of these. state[0] is not 0
// if a sum is in doubt; bits from state[1] on tell of which rows.
extern "C" __global__ void __launch_bounds__(MOST_THREADS) rows(
    const T* x, T* out, double* largest, double* sums, unsigned* state, long long count, long long n) {
  extern __shared__ double kept[];
  __shared__ Largest maxima[MOST_THREADS];
  __shared__ Sum parts[MOST_THREADS];
  __shared__ double totals[MOST_THREADS];
  int team = threadIdx.x / TEAM, lane = threadIdx.x % TEAM, teams = blockDim.x / TEAM;
  double *total = totals + team, *powers = kept + team * n;
  for (long long row = (long long)blockIdx.x * teams + team; row < count; row += (long long)gridDim.x * teams) {
    const T* of_row = x + row * n;
    Largest most = {-INFINITE, -INFINITE, false};
    for (long long i = lane; i < n; i += TEAM) see(most, widened(of_row[i]));
    most = together(most, maxima + team * TEAM, lane, [](Largest& a, const Largest& b) {
      see(a, b.second), see(a, b.top), a.nan |= b.nan;
    });
    bool finite = !most.nan && most.top < INFINITE && most.top > -INFINITE, doubt = false;
    bool alone = !SOFTMAX && most.second < most.top;  // the largest number is left out, not taken off
    int below = 0;
    if (finite && alone) {
      double e;
      doubt = exponential(most.second, most.top, e);
      int exponent = (int)(__double_as_longlong(e) >> 52);
      below = 1022 - exponent;
    }
    Sum mine = {{0, 0, 0}, 0};
    for (long long i = lane; finite && i < n; i += TEAM) {
      double v = widened(of_row[i]), e;
      if (alone && v == most.top) continue;
      doubt |= exponential(v, most.top, e);
      mine.add(summand(e, below));
      if (SOFTMAX) powers[i] = e;
    }
    Sum sum = together(mine, parts + team * TEAM, lane, [](Sum& a, const Sum& b) { a.add(b); });
    if (!SOFTMAX && !alone) sum.word[UNIT >> 6] -= 1ull << (UNIT & 63);
    if (lane == 0) doubt |= rounded_sum(sum, below, *total);
    meet();
    if (doubt && finite) {
      atomicAdd(state, 1);
      atomicOr(state + 1 + (row >> 5), 1u << (row & 31));
    }
    if (SOFTMAX) {
      for (long long i = lane; i < n; i += TEAM)
        out[row * n + i] = canonical<T>(finite ? powers[i] / *total : NOT_A_NUMBER);
    } else if (lane == 0) {
      largest[row] = most.nan ? NOT_A_NUMBER : most.top;
      sums[row] = finite ? *total : NOT_A_NUMBER;
    }
    meet();
  }
}

// (x - m) - l of rows, each difference rounded.
extern "C" __global__ void differences(
    const T* x, const double* largest, const double* logarithms, T* out, long long count, long long n) {
  long long step = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count * n; i += step) {
    out[i] = canonical<T>(widened(x[i]) - largest[i / n] - logarithms[i / n]);
  }
}
