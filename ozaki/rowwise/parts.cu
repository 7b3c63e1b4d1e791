#include "ozaki/rowwise/steps.cuh"

// Rows that are divided among blocks, a kernel a step: what a step finds in a part is put together by every block
// that takes the next one.

// Part p of all: `size` numbers of a row of n, or as many as are left.
struct Part {
  long long row, first, n, at;  // `at` : where its numbers are in all rows

  __device__ Part(long long p, long long n_of_row, long long parts, long long size) : row(p / parts) {
    long long from = p % parts * size;
    first = row * parts, n = min(size, n_of_row - from), at = row * n_of_row + from;
  }
};

template <class V> __device__ V all_of(const V* found, long long parts, V all) {
  for (long long i = threadIdx.x; i < parts; i += TEAM) all.add(found[i]);
  return together(all);
}

extern "C" __global__ void __launch_bounds__(MOST_THREADS) largest_of_parts(
    const T* x, Largest* most, long long count, long long n, long long parts, long long size) {
  for (long long p = blockIdx.x; p < count * parts; p += gridDim.x) {
    Part part(p, n, parts, size);
    Largest found = together(largest_of(x + part.at, part.n, threadIdx.x));
    if (threadIdx.x == 0) most[p] = found;
  }
}

extern "C" __global__ void __launch_bounds__(MOST_THREADS) sums_of_parts(
    const T* x, const Largest* most, Sum* sum, long long count, long long n, long long parts, long long size) {
  for (long long p = blockIdx.x; p < count * parts; p += gridDim.x) {
    Part part(p, n, parts, size);
    Row row(all_of<Largest>(most + part.first, parts, NOTHING_LARGE), n);
    Sum found = together(sum_of(x + part.at, part.n, threadIdx.x, row, nullptr));
    if (threadIdx.x == 0) sum[p] = found;
  }
}

extern "C" __global__ void __launch_bounds__(MOST_THREADS) results_of_parts(
    const T* x, const Largest* most, const Sum* sum, T* out, long long count, long long n, long long parts,
    long long size) {
  for (long long p = blockIdx.x; p < count * parts; p += gridDim.x) {
    Part part(p, n, parts, size);
    if (KIND == LOGSUMEXP && p != part.first) continue;
    Row row(all_of<Largest>(most + part.first, parts, NOTHING_LARGE), n);
    row.close(all_of<Sum>(sum + part.first, parts, NOTHING_SUMMED), x + part.row * n, n, threadIdx.x);
    if (KIND != LOGSUMEXP) results(x + part.at, out + part.at, part.n, threadIdx.x, row, nullptr);
    else if (threadIdx.x == 0) out[part.row] = result(row);
  }
}

static_assert(sizeof(Largest) == 24 && sizeof(Sum) == 32, "what is allocated for a part");
