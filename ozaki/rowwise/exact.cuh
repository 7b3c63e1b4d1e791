#include "ozaki/rounding/words.cuh"
#include "ozaki/rowwise/team.cuh"

// A sum of float64 numbers, or of their squares, with nothing lost: what decides where quicker sums do not. It counts
// multiples of 2**UNIT, which divides them all.
template <int WORDS, int UNIT> struct Exact {
  u64 word[WORDS];

  __device__ void add(double x) { subtract<WORDS>(word, -x, UNIT); }
  __device__ void add_square(double x) {
    const u64 bits = __double_as_longlong(x), field = bits >> 52 & 2047;
    u64 m = (bits & (1ull << 52) - 1) | (field ? 1ull << 52 : 0);
    if (m == 0) return;
    const int zeros = 63 - __clzll(m & -m); // at its end: UNIT divides the square of what is left
    const int place = 2 * ((int)max(field, 1ull) - 1075 + zeros) - UNIT;
    m >>= zeros;
    const u64 low = m * m, high = __umul64hi(m, m);
    if (place >= 64 * WORDS) return; // what is not finite is another's business
    add_shifted<WORDS>(word, low & (1ull << 62) - 1, place);
    add_shifted<WORDS>(word, high << 2 | low >> 62, place + 62);
  }
  __device__ void add(const Exact& other) { add_words<WORDS>(word, other.word); }

  // The sum, of n numbers, divided by that and another integer, rounded to a precision.
  __device__ double mean(unsigned n, int precision, int smallest, unsigned other = 1) const {
    u64 ratio[WORDS + 2] = {};
    const bool negative = (long long)word[WORDS - 1] < 0;
    for (int i = 0; i < WORDS; i++) ratio[i + 2] = word[i];
    if (negative) negate_words<WORDS + 2>(ratio);
    const unsigned left = divide_words<WORDS + 2>(ratio, n), more = divide_words<WORDS + 2>(ratio, other);
    if (left || more) ratio[0] |= 1; // below all that is rounded
    const double value = round_limbs<WORDS + 2>(ratio, UNIT - 128, precision, smallest);
    return negative ? -value : value;
  }
};

template <int WORDS, int UNIT> __device__ Exact<WORDS, UNIT> exchanged(const Exact<WORDS, UNIT>& mine, int other) {
  Exact<WORDS, UNIT> result;
  for (int i = 0; i < WORDS; i++) result.word[i] = exchanged(mine.word[i], other);
  return result;
}
