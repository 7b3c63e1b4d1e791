#include "ozaki/rounding/conversion.cuh"
#include "ozaki/sparse/enclosure.cuh"
#include "ozaki/sparse/sizes.cuh"

/* out[i, c] = RN(initial[i, c] + Σ values[p]·x[indices[p], c]), p from pointers[i] to pointers[i + 1], of (·, k)
   arrays; NaN where the bounds do not decide. To add up quickly at first, as loops on a CPU do, takes longer: many sums
   of small integers times numbers are ties, and memory takes most of the time anyway.

   LANES threads share an element. Numbers of the matrix have PARTS parts: with 2, columns c and c ^ 1 are the parts of a
   complex column. OFFSET counts entries, and numbers of x; VECTOR says that k is 1. *invalid becomes 1 where an index is
   out of range, or pointers are not from 0 to `stored` in order: then the element is NaN. */

#define AHEAD 2 /* entries that a thread reads before it adds them */

extern "C" __global__ void add_sparse_rows(const INDEX *__restrict__ pointers, const INDEX *__restrict__ indices,
                                           const VALUE *__restrict__ values, const X *__restrict__ x,
                                           const ADDEND *__restrict__ initial, RESULT *__restrict__ out,
                                           SparseSizes sizes, unsigned *invalid)
{
    const long long rows = sizes.rows, width = sizes.width, columns = sizes.columns;
    const long long element = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / LANES;
    const int lane = threadIdx.x % LANES;
    const bool there = element < rows * columns;
    const OFFSET size = (OFFSET)width, k = (OFFSET)columns;
    long long row = there ? element : 0;
    OFFSET column = 0;
    if (!VECTOR) { /* a division takes longer than the sum of a short row */
        column = (OFFSET)(row % columns);
        row /= columns;
    }
    const INDEX from = there ? pointers[row] : 0, to = there ? pointers[row + 1] : 0;
    bool wrong = from < 0 || (row == 0 && from != 0) || to < from || to > sizes.stored || (to > from && !width);
    const OFFSET end = wrong ? 0 : (OFFSET)to;
    Enclosure sum{there && lane == 0 && initial ? widened(initial[element]) : 0.0, 0, 0};
    for (OFFSET first = (wrong ? 0 : (OFFSET)from) + lane; first < end; first += AHEAD * LANES) {
        OFFSET j[AHEAD];
        VALUE value[AHEAD][PARTS];
        X number[AHEAD][PARTS];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const OFFSET p = first + i * LANES;
            if (i && p >= end) break;
            const INDEX index = indices[p];
            const bool inside = index >= 0 && index < size;
            wrong |= !inside;
            j[i] = inside ? (OFFSET)index : 0;
#pragma unroll
            for (int part = 0; part < PARTS; part++) value[i][part] = values[PARTS * p + part];
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            if (i && first + i * LANES >= end) break;
#pragma unroll
            for (int part = 0; part < PARTS; part++)
                number[i][part] = VECTOR ? x[j[i]] : x[j[i] * k + (column ^ part)];
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            if (i && first + i * LANES >= end) break;
            sum.add_product(widened(value[i][0]), widened(number[i][0]));
            if (PARTS == 2) {
                const double turned = (column & 1 ? sizes.imaginary : -sizes.imaginary) * widened(value[i][PARTS - 1]);
                sum.add_product(turned, widened(number[i][PARTS - 1]));
            }
        }
    }
    if (wrong) {
        *invalid = 1;
        sum.error = not_a_number();
    }
    add_lanes<LANES>(&sum);
    if (there && lane == 0) out[element] = canonical<RESULT>(sum.rounded(sizeof(RESULT) == 4) + 0.0);
}
