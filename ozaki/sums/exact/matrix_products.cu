#include "multiword/runtime/exact.cuh"

typedef long long i64;
typedef unsigned long long u64;

/* A matrix of NUMBERs: element (i, j) lies at x[i·row_step + j·column_step]. */
struct Element {
    i64 i, j;

    /* The n-th of rows of so many columns. A division of 64 bits takes several times as long. */
    __device__ Element(i64 n, i64 columns) {
        i = n >> 32 ? n / columns : (unsigned)n / (unsigned)columns;
        j = n - i * columns;
    }
};

/* found, of zeros, becomes: the bits of the largest magnitude; 2048 − e, if all numbers are multiples of 2**e and not of
   more; 1 if one is not finite. Those that are not do not count, and neither does 0. */
extern "C" __global__ void places_of_matrix(const NUMBER *x, i64 rows, i64 columns, i64 row_step, i64 column_step, u64 *found)
{
    u64 seen[3] = {};
    for (i64 n = blockIdx.x * (i64)blockDim.x + threadIdx.x; n < rows * columns; n += gridDim.x * (i64)blockDim.x) {
        const Element at(n, columns);
        const u64 bits = __double_as_longlong(widened(x[at.i * row_step + at.j * column_step]));
        const u64 magnitude = bits & 0x7fffffffffffffffull, odd = magnitude & 0xfffffffffffffull;
        const int field = (int)(magnitude >> 52), normal = field > 0;
        if (field == 2047) seen[2] = 1;
        if (field == 2047 || !magnitude) continue;
        const u64 last = 2048 + 1075 - max(field, 1) - (__ffsll(odd | (u64)normal << 52) - 1);
        seen[0] = max(seen[0], magnitude);
        seen[1] = max(seen[1], last);
    }
    for (int i = 0; i < 3; i++)
        if (seen[i] > *(volatile u64 *)(found + i)) atomicMax(found + i, seen[i]); /* most have nothing to tell by then */
}

/* parts[s·out_part + i·out_row + j·out_column], s < count: the places of each number from exponent + bits·s on, `bits` of
   them, as an integer; 0 of what is not finite. */
extern "C" __global__ void cut_matrix(const NUMBER *x, i64 rows, i64 columns, i64 row_step, i64 column_step, int exponent,
                                      int bits, int count, double *parts, i64 out_part, i64 out_row, i64 out_column)
{
    for (i64 n = blockIdx.x * (i64)blockDim.x + threadIdx.x; n < rows * columns; n += gridDim.x * (i64)blockDim.x) {
        const Element at(n, columns);
        double rest = widened(x[at.i * row_step + at.j * column_step]);
        if (!(rest - rest == 0)) rest = 0;
        for (int s = count - 1; s >= 0; s--) {
            const int e = exponent + bits * s;
            const double part = trunc(ldexp(rest, -e));
            rest -= ldexp(part, e); /* exact: the leading places of a number are a number */
            parts[s * out_part + at.i * out_row + at.j * out_column] = part;
        }
    }
}
