#include "ozaki/sparse/sizes.cuh"
#include "ozaki/sums/exact/fixed_point.cuh"

/* The elements that `add_sparse_rows` leaves undecided, NaN in `out`, from exact sums; few programs have any. A block
   looks for them, and adds up one after the other. One with an index out of range stays NaN. */

#define SPARE 3
#define EACH 8 /* elements that a thread looks at before the block asks whether one is NaN */
#define CHUNK (1ll << 24) /* entries of a row between two carries: no digit, of 64 bits, overflows */

struct Element {
    const INDEX *indices;
    const VALUE *values;
    const X *x;
    i64 width, k, column;
    double imaginary;

    /* Add an entry to digits; return its flags, or INVALID. */
    __device__ unsigned add(i64 p, i64 *digits) const {
        const i64 j = indices[p];
        if (j < 0 || j >= width) return INVALID;
        unsigned flags = 0;
        for (int part = 0; part < PARTS; part++) {
            const double sign = part == 0 ? 1.0 : column & 1 ? imaginary : -imaginary;
            flags |= add_product(digits, 1, sign * widened(values[PARTS * p + part]), widened(x[j * k + (column ^ part)]));
        }
        return flags;
    }
};

__device__ void carry(i64 *digits) { /* the last one keeps its sign */
    for (int i = 0; i + 1 < DIGITS; i++) {
        digits[i + 1] += digits[i] >> 32;
        digits[i] &= MASK32;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
add_sparse_rows_exactly(const INDEX *__restrict__ pointers, const INDEX *__restrict__ indices,
                        const VALUE *__restrict__ values, const X *__restrict__ x,
                        const ADDEND *__restrict__ initial, RESULT *out, SparseSizes sizes)
{
    const i64 rows = sizes.rows, k = sizes.columns;
    __shared__ i64 digits[DIGITS + SPARE];
    __shared__ unsigned flags;
    __shared__ bool open[EACH * THREADS];
    const i64 together = EACH * THREADS;
    for (i64 first = blockIdx.x * together; first < rows * k; first += gridDim.x * together) {
        bool some = false;
#pragma unroll
        for (int i = threadIdx.x; i < together; i += THREADS)
            some |= open[i] = first + i < rows * k && out[first + i] != out[first + i];
        if (!__syncthreads_or(some)) continue;
        for (int i = 0; i < together; i++) {
            if (!open[i]) continue;
            const i64 row = (first + i) / k, column = (first + i) % k, begin = pointers[row], end = pointers[row + 1];
            if (begin < 0 || (row == 0 && begin != 0) || end > sizes.stored) continue;
            for (int d = threadIdx.x; d < DIGITS + SPARE; d += THREADS) digits[d] = 0;
            if (threadIdx.x == 0) flags = 0;
            __syncthreads();
            const Element element{indices, values, x, sizes.width, k, column, sizes.imaginary};
            unsigned seen = initial && threadIdx.x == 0 ? add_number(digits, 1, widened(initial[first + i])) : 0;
            for (i64 start = begin; start < end; start += CHUNK) {
                for (i64 p = start + threadIdx.x; p < min(start + CHUNK, end); p += THREADS) seen |= element.add(p, digits);
                __syncthreads();
                if (threadIdx.x == 0) carry(digits);
                __syncthreads();
            }
            atomicOr(&flags, seen);
            __syncthreads();
            if (threadIdx.x == 0 && !(flags & INVALID)) {
                const double value = round_sum({digits, 1}, 0, DIGITS, LOWEST, 1, 0, RESULT_PRECISION, RESULT_SMALLEST);
                out[first + i] = canonical<RESULT>(with_flags(value, flags) + 0.0);
            }
            __syncthreads();
        }
        __syncthreads(); /* `open` is read until here */
    }
}
