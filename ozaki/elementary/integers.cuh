#include "ozaki/rounding/words.cuh"

// What decides the roundings that two texts leave in doubt, by integers of some thousand bits; few programs ever have
// one. A power e**t is irrational unless t is 0 (Lambert), so it is never half way between two numbers: that so many bits
// tell on which side it is, is as good as certain.
//
// Printed before this file: LOG_2_WORDS, the fraction of log 2, its lowest word first.

const int FRACTION = 1024, WIDE = FRACTION / 64 + 1; // bits of a fraction, and words of that, with an integer and a sign

__device__ const u64 LOG_2_FRACTION[WIDE - 1] = {LOG_2_WORDS};

// e**(d + rest), as 2**k·fixed with 1 <= fixed < 2.01; returns k. The sum is exact, |rest| <= |d| < 800.
__device__ int power_of_e(double d, double rest, u64* fixed) {
  const int k = (int)floor(d * 1.4426950408889634 - 1e-9);
  u64 t[WIDE] = {}, octaves[WIDE + 1], term[WIDE] = {}, product[2 * WIDE];
  subtract<WIDE>(t, -d, -FRACTION), subtract<WIDE>(t, -rest, -FRACTION);
  const u64 magnitude = abs(k);
  u64 log_2[WIDE] = {};
  for (int i = 0; i < WIDE - 1; i++) log_2[i] = LOG_2_FRACTION[i];
  multiply_words<WIDE, 1>(octaves, log_2, &magnitude);
  if (k > 0) negate_words<WIDE>(octaves);
  add_words<WIDE>(t, octaves); // from 0 to 0.7
  for (int i = 0; i < WIDE; i++) fixed[i] = 0;
  fixed[WIDE - 1] = term[WIDE - 1] = 1;
  for (unsigned j = 1, some = 1; some; j++) { // Σ t**j/j!
    multiply_words<WIDE, WIDE>(product, term, t);
    for (int i = 0; i < WIDE; i++) term[i] = product[i + FRACTION / 64];
    divide_words<WIDE>(term, j);
    add_words<WIDE>(fixed, term);
    some = 0;
    for (int i = 0; i < WIDE; i++) some |= term[i] != 0;
  }
  return k;
}

// RN(e**(x - y)), where that is at most 1.
__device__ __noinline__ double exp_minus_by_integers(double x, double y) {
  double d = x;
  const double rest = two_sum(&d, -y);
  if (d < -750) return 0;
  u64 fixed[WIDE];
  const int k = power_of_e(d, rest, fixed);
  return round_limbs<WIDE>(fixed, k - FRACTION, 53, -1074);
}

// RN of a positive value that is less than a unit in the last place from y. `more` compares it with y + h, where h is half
// the way to a neighbour of y.
template <class More> __device__ double nearest_to(double y, More more) {
  const long long bits = __double_as_longlong(y);
  const double above = __longlong_as_double(bits + 1), below = __longlong_as_double(bits - 1);
  if (more(0.5 * (above - y))) return above;
  return more(0.5 * (below - y)) ? y : below;
}

// RN(log(1 + s)) for s >= 0, which y is near: log(1 + s) > y + h where e**(y + h) < 1 + s.
__device__ __noinline__ double log1p_by_integers(double s, double y) {
  if (s < 0x1p-60) return s; // s - s²/2, which is nearer to s than a quarter of a unit in its last place
  return nearest_to(y, [=](double h) {
    u64 fixed[WIDE];
    const int k = power_of_e(y, h, fixed);
    subtract<WIDE>(fixed, power_of_two(-k), -FRACTION), subtract<WIDE>(fixed, s * power_of_two(-k), -FRACTION);
    return (long long)fixed[WIDE - 1] < 0;
  });
}

// RN(1/sqrt(w)) for a normal w, which y is near: 1/sqrt(w) > y + h where (y + h)²·w < 1, both in units of 2**-unit. That
// is never 1, as y + h is an odd number of units of more than 53 bits.
__device__ __noinline__ double rsqrt_by_integers(double w, double y) {
  return nearest_to(y, [=](double h) {
    const int of_h = (int)(__double_as_longlong(fabs(h)) >> 52) - 1023, of_w = (int)(__double_as_longlong(w) >> 52) - 1075;
    const u64 m = (u64)(y / fabs(h)) + (h > 0 ? 1 : -1), c = (__double_as_longlong(w) & (1ll << 52) - 1) | 1ll << 52;
    u64 square[2], product[3];
    multiply_words<1, 1>(square, &m, &m), multiply_words<2, 1>(product, square, &c);
    const int unit = -2 * of_h - of_w; // between 157 and 163
    return product[2] >> (unit - 128) == 0;
  });
}
