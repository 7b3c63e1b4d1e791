#include "ozaki/rowwise/means.cuh"

// Channels of (samples, channels, length) arrays. A channel is divided among blocks, a kernel a step: what a step finds in
// a part is put together by every block that takes the next one. Sums are of two words, with a bound of what these lose,
// and exact where that leaves a rounding open.

struct ChannelShape {
  long long samples, channels, length, parts, size; // `size` numbers of a channel are a part, but for the last one
};

#define NOTHING {-0.0, 0, 0} // a sum is -0 where all terms are

// Part p of all. `each` calls a function of the places of its numbers, or those of all the channel.
struct Part {
  const ChannelShape& s;
  long long c, first, last, n;

  __device__ Part(const ChannelShape& shape, long long p) : s(shape), c(p / s.parts), n(s.samples * s.length) {
    first = p % s.parts * s.size, last = min(first + s.size, n);
  }
  template <class F> __device__ void each(long long from, long long to, F f) const {
    for (unsigned i = from + threadIdx.x; i < to; i += TEAM) {
      const unsigned sample = i / (unsigned)s.length;
      f((sample * s.channels + c) * s.length + (i - sample * (unsigned)s.length));
    }
  }
  template <class F> __device__ void each(F f) const { each(first, last, f); }
  template <class F> __device__ void each_of_channel(F f) const { each(0, n, f); }
  // The sum of what has been found in all parts of the channel.
  __device__ Sum all(const Sum* found) const {
    Sum sum = NOTHING;
    for (long long i = threadIdx.x; i < s.parts; i += TEAM) sum.add(found[c * s.parts + i]);
    return together(sum);
  }
  __device__ bool is_first() const { return first == 0 && threadIdx.x == 0; }
};

#define EACH_PART(p) for (long long p = blockIdx.x; p < s.channels * s.parts; p += gridDim.x)
