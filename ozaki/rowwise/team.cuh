#include "ozaki/rounding/conversion.cuh"

// What the kernels of rows share: a row is in registers of TEAM threads, and may be in doubt.

#define LISTED (1 << 16) // rows in doubt that are listed, at most

typedef unsigned long long u64;

#define INFINITE __longlong_as_double(0x7FF0000000000000LL)
#define NOT_A_NUMBER __longlong_as_double(0x7FF8000000000000LL)

template <class V> __device__ V exchanged(V mine, int other) { return __shfl_xor_sync(~0u, mine, other); }

// What the threads of a team have, joined, for all of them. Every thread of the block calls it.
template <class V, class Join> __device__ V of_team(V mine, Join join) {
#pragma unroll
  for (int other = min(TEAM, 32) / 2; other; other /= 2) mine = join(mine, exchanged(mine, other));
#if TEAM > 32
  __shared__ V of_warp[TEAM / 32];
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine; // others may have words that differ
  __syncthreads();
  mine = of_warp[0];
  for (int i = 1; i < TEAM / 32; i++) mine = join(mine, of_warp[i]);
  __syncthreads();
#endif
  return mine;
}

__device__ double sum_of_team(double x) {
  return of_team(x, [](double a, double b) { return a + b; });
}

// The same of what has a function to add another.
template <class V> __device__ V together(const V& mine) {
  return of_team(mine, [](V a, const V& b) { return a.add(b), a; });
}

// Whether something holds for a thread of the warp, or of the block if that is the team.
__device__ bool somewhere(bool here) { return TEAM > 32 ? __syncthreads_or(here) : __any_sync(~0u, here); }
