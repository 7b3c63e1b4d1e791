#include "ozaki/rounding/digits.cuh"

// Arithmetic of integers of several words, the lowest word first.

// word /= divisor, for a positive integer; returns the remainder.
template <int WORDS> __device__ unsigned divide_words(u64* word, unsigned divisor) {
  u64 rest = 0;
  for (int i = WORDS - 1; i >= 0; i--) {
    const u64 high = rest << 32 | word[i] >> 32, low = high % divisor << 32 | (unsigned)word[i];
    word[i] = high / divisor << 32 | low / divisor;
    rest = low % divisor;
  }
  return (unsigned)rest;
}

template <int WORDS> __device__ void negate_words(u64* word) {
  u64 carry = 1;
  for (int i = 0; i < WORDS; i++) word[i] = ~word[i] + carry, carry = carry && word[i] == 0;
}

// to = a·b, for positive integers.
template <int WORDS, int OTHERS> __device__ void multiply_words(u64* to, const u64* a, const u64* b) {
  for (int i = 0; i < WORDS + OTHERS; i++) to[i] = 0;
  for (int i = 0; i < WORDS; i++) {
    u64 carry = 0;
    for (int j = 0; j < OTHERS; j++) {
      const u64 low = a[i] * b[j], partial = low + carry, total = to[i + j] + partial;
      carry = __umul64hi(a[i], b[j]) + (partial < low) + (total < partial);
      to[i + j] = total;
    }
    to[i + OTHERS] = carry;
  }
}
