#include "ozaki/sparse/sizes.cuh"
#include "ozaki/sums/exact/fixed_point.cuh"

#define SPARE 3
#define CHUNK (1ll << 24) /* entries of a row between two carries: no digit, of 64 bits, overflows */

__device__ __forceinline__ int lane_of_warp() { return threadIdx.x % 32; }

/* A product whose elements a warp adds up exactly. */
struct Product {
    const INDEX *pointers, *indices;
    const VALUE *values;
    const X *x;
    const ADDEND *initial;
    const SparseSizes &sizes;

    /* Add an entry of a row to the digits of an element; return its flags, or INVALID. */
    __device__ unsigned add(i64 p, i64 column, i64 *digits) const {
        const i64 j = indices[p];
        if (j < 0 || j >= sizes.width) return INVALID;
        unsigned flags = 0;
        for (int part = 0; part < PARTS; part++) {
            const double sign = part == 0 ? 1.0 : column & 1 ? sizes.imaginary : -sizes.imaginary;
            const double value = sign * widened(values[PARTS * p + part]);
            flags |= add_product(digits, 1, value, widened(x[j * sizes.columns + (column ^ part)]));
        }
        return flags;
    }

    __device__ static void carry(i64 *digits) { /* the last one keeps its sign */
        for (int i = 0; i + 1 < DIGITS; i++) {
            digits[i + 1] += digits[i] >> 32;
            digits[i] &= MASK32;
        }
    }

    /* Add a row's entries to the digits of an element, all lanes of a warp; return the flags of this one's. */
    __device__ unsigned add_row(i64 element, i64 *digits) const {
        const i64 row = element / sizes.columns, column = element % sizes.columns;
        const i64 begin = pointers[row], end = pointers[row + 1];
        if (begin < 0 || (row == 0 && begin != 0) || end > sizes.stored) return INVALID;
        unsigned flags = initial && lane_of_warp() == 0 ? add_number(digits, 1, widened(initial[element])) : 0;
        for (i64 start = begin; start < end; start += CHUNK) {
            for (i64 p = start + lane_of_warp(); p < min(start + CHUNK, end); p += 32) flags |= add(p, column, digits);
            __syncwarp();
            if (lane_of_warp() == 0) carry(digits);
            __syncwarp();
        }
        return flags;
    }

    /* Write the elements of a warp that are open, a bit of its first lane for each, rounded once, from its exact sum; one
       that has an index out of range is left. first : the warp's first element. digits : the block's, in shared memory,
       and `taken` becomes 1 while a warp has them. */
    __device__ __noinline__ void write_exactly(unsigned open, i64 first, RESULT *out, i64 *digits, int *taken) const {
        if (lane_of_warp() == 0)
            while (atomicCAS(taken, 0, 1)) __nanosleep(200);
        __syncwarp();
        __threadfence_block();
        for (; open; open &= open - 1) {
            const i64 element = first + (__ffs(open) - 1) / LANES;
            for (int d = lane_of_warp(); d < DIGITS + SPARE; d += 32) digits[d] = 0;
            __syncwarp();
            const unsigned flags = __reduce_or_sync(~0u, add_row(element, digits));
            if (lane_of_warp() == 0 && !(flags & INVALID)) {
                const double value = round_sum({digits, 1}, 0, DIGITS, LOWEST, 1, 0, RESULT_PRECISION, RESULT_SMALLEST);
                out[element] = canonical<RESULT>(with_flags(value, flags) + 0.0);
            }
            __syncwarp();
        }
        __threadfence_block();
        if (lane_of_warp() == 0) atomicExch(taken, 0);
    }
};
