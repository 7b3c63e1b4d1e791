#include "ozaki/rounding/conversion.cuh"
#include "ozaki/sparse/enclosure.cuh"

/* out[i, c] = RN(initial[i, c] + Σ values[p]·x[indices[p], c]), p from pointers[i] to pointers[i + 1], of (·, k)
   arrays; NaN where the bounds do not decide, as in `loops_numba`: it is added up quickly, and carefully where that
   does not tell.

   LANES threads share an element. Numbers of the matrix have PARTS parts: with 2, columns c and c ^ 1 are the parts
   of a complex column, and `imaginary` is the sign of the matrix's imaginary parts. flags[0] becomes 1 where an
   element is undecided, flags[1] where an index is out of range, or pointers are not from 0 to `stored` in order. */

extern "C" __global__ void add_sparse_rows(const INDEX *__restrict__ pointers, const INDEX *__restrict__ indices,
                                           const VALUE *__restrict__ values, const X *__restrict__ x,
                                           const ADDEND *__restrict__ initial, RESULT *__restrict__ out,
                                           long long rows, long long width, long long stored, long long k,
                                           double imaginary, unsigned *flags)
{
    const long long element = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / LANES;
    const int lane = threadIdx.x % LANES;
    const bool there = element < rows * k;
    long long row = there ? element : 0, column = 0;
    if (k > 1) { /* a division takes longer than the sum of a short row */
        column = row % k;
        row /= k;
    }
    const double start = there && lane == 0 && initial ? widened(initial[element]) : 0.0;
    long long begin = there ? (long long)pointers[row] : 0, end = there ? (long long)pointers[row + 1] : 0;
    bool invalid = begin < 0 || (row == 0 && begin != 0) || end < begin || end > stored || (end > begin && !width);
    if (invalid) end = begin;
    const auto add_up = [&](auto sum, long long end) {
#pragma unroll 4
        for (long long p = begin + lane; p < end; p += LANES) { /* nothing ends it early: entries are read ahead */
            long long j = indices[p];
            const bool inside = 0 <= j && j < width;
            invalid |= !inside;
            j = inside ? j : 0;
            sum.add_product(widened(values[PARTS * p]), widened(x[j * k + column]));
            if (PARTS == 2) {
                const double turn = column & 1 ? imaginary : -imaginary;
                sum.add_product(turn * widened(values[PARTS * p + PARTS - 1]), widened(x[j * k + (column ^ 1)]));
            }
        }
        add_lanes<LANES>(&sum);
        return sum;
    };
    const bool single = sizeof(RESULT) == 4;
    const long long count = PARTS * (end - begin) + (LANES > 1 ? QuickSum::MERGED : 0);
    double value = add_up(QuickSum{start, 0, fabs(start)}, end).rounded(count, single);
    const bool open = __shfl_sync(0xffffffffu, value != value, 0, LANES);
    if (__any_sync(0xffffffffu, open)) {
        const Enclosure sum = add_up(Enclosure{start, 0, 0}, open ? end : begin);
        if (open) value = sum.rounded(single);
    }
    if (invalid) flags[1] = 1;
    if (!there || lane) return;
    out[element] = canonical<RESULT>(value + 0.0);
    if (value != value) flags[0] = 1;
}
