#include "ozaki/rounding/conversion.cuh"
#include "ozaki/sparse/enclosure.cuh"

/* out[i, c] = RN(initial[i, c] + Σ values[p]·x[indices[p], c]), p from pointers[i] to pointers[i + 1], of (·, k)
   arrays; NaN where the bounds do not decide, as in `loops_numba`: it is added up quickly, and carefully where that
   does not tell.

   LANES threads share an element. Numbers of the matrix have PARTS parts: with 2, columns c and c ^ 1 are the parts
   of a complex column, and `imaginary` is the sign of the matrix's imaginary parts. flags[0] becomes 1 where an
   element is undecided, flags[1] where an index is out of range, or pointers are not from 0 to `stored` in order. */

#define AHEAD 4

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
        for (long long first = begin + lane; first < end; first += AHEAD * LANES) {
            long long p[AHEAD], j[AHEAD]; /* read together, without branches; behind the end 0 times the first one */
#pragma unroll
            for (int i = 0; i < AHEAD; i++) {
                p[i] = first + i * LANES < end ? first + i * LANES : first;
                j[i] = indices[p[i]];
                const bool inside = 0 <= j[i] && j[i] < width;
                invalid |= !inside;
                j[i] = inside ? j[i] : 0;
            }
#pragma unroll
            for (int i = 0; i < AHEAD; i++) {
                const bool counts = i == 0 || p[i] != first;
                const double value = widened(values[PARTS * p[i]]), other = widened(values[PARTS * p[i] + PARTS - 1]);
                sum.add_product(counts ? value : 0, widened(x[j[i] * k + column]));
                if (PARTS == 2) {
                    const double turned = (column & 1 ? imaginary : -imaginary) * other;
                    sum.add_product(counts ? turned : 0, widened(x[j[i] * k + (column ^ 1)]));
                }
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
