#include "multiword/runtime/parts.cuh"
#include "ozaki/rounding/conversion.cuh"

typedef long long i64;

/* Where the elements of a stack of products lie, for rows of A and of Bᵀ; strides in elements. */
struct Elements {
    REAL *part0, *part1;
    i64 product_stride, a_stride, b_stride;
    int rows_a, rows_b; /* of one product */
    __device__ REAL *part(int i) const { return i ? part1 : part0; }
};
__device__ Elements turned(const Elements &x) {
    return {x.part0, x.part1, x.product_stride, x.b_stride, x.a_stride, x.rows_b, x.rows_a};
}

/* Subnormal numbers count: float32 is widened before it is compared. */
__device__ double number(const StridedParts &x, int part, int row, int h) {
    return widened(x.part(part)[x.start(row) + h * x.column_stride]);
}
__device__ bool is_finite(double x) { return (__double2hiint(x) & 0x7ff00000) != 0x7ff00000; }
__device__ double sign_or_nonfinite(double x) { return is_finite(x) ? (x > 0) - (x < 0) : x; }

/* The real parts of one term of the product of two rows, by the signs of what is finite. */
__device__ void add_term(double (&sum)[PARTS], const StridedParts &x, int row, const StridedParts &y, int other,
                         int h) {
    double u[PARTS], v[PARTS];
    for (int part = 0; part < PARTS; part++) {
        u[part] = sign_or_nonfinite(number(x, part, row, h));
        v[part] = sign_or_nonfinite(number(y, part, other, h));
    }
    if (PARTS == 1) {
        sum[0] += u[0] * v[0];
    } else {
        sum[0] += u[0] * v[0] - u[PARTS - 1] * v[PARTS - 1];
        sum[PARTS - 1] += u[0] * v[PARTS - 1] + u[PARTS - 1] * v[0];
    }
}

/* One row of x: the terms with an Inf or NaN in x decide about an element; where the row crosses one of y that has
   some, those with one in either do, unless that one sees to `crossings`. */
__device__ void overwrite_row(const StridedParts &x, int row, const StridedParts &y, const int *scale_y,
                              const Elements &out, bool crossings) {
    const int product = row / out.rows_a, first_other = product * out.rows_b;
    const i64 start = product * out.product_stride + row % out.rows_a * out.a_stride;
    __shared__ bool listed[256];
    bool begun = false;
    for (int h = 0; h < x.columns; h += 256) {
        const int length = min(256, x.columns - h);
        bool found = false;
        if (threadIdx.x < length)
            for (int part = 0; part < PARTS; part++) found |= !is_finite(number(x, part, row, h + threadIdx.x));
        listed[threadIdx.x] = found;
        const bool any = __syncthreads_or(found);
        for (int j = threadIdx.x; j < out.rows_b; j += 256) {
            const int other = first_other + j;
            const bool crossed = scale_y[other] == NONFINITE_ROW;
            if (crossed ? !crossings : !any) continue;
            const bool known = crossed ? h > 0 : begun;
            double sum[PARTS];
            for (int part = 0; part < PARTS; part++)
                sum[part] = known ? widened(out.part(part)[start + j * out.b_stride]) : 0;
            for (int i = 0; i < length; i++) {
                bool counts = listed[i];
                for (int part = 0; crossed && part < PARTS; part++) counts |= !is_finite(number(y, part, other, h + i));
                if (counts) add_term(sum, x, row, y, other, h + i);
            }
            for (int part = 0; part < PARTS; part++)
                out.part(part)[start + j * out.b_stride] = canonical<REAL>(sum[part]);
        }
        begun |= any;
        __syncthreads();
    }
}

/* ROWS rows of x; those without an Inf or NaN are left alone. */
__device__ void overwrite_rows(int first, const StridedParts &x, const int *scale_x, const StridedParts &y,
                               const int *scale_y, const Elements &out, bool crossings) {
    const int lane = threadIdx.x % 32;
    const bool here = lane < ROWS && first + lane < x.rows && scale_x[first + lane] == NONFINITE_ROW;
    for (unsigned concerned = __ballot_sync(~0u, here); concerned; concerned &= concerned - 1)
        overwrite_row(x, first + __ffs(concerned) - 1, y, scale_y, out, crossings);
}

/* The first blocks see to rows of A, the others to columns of B. */
extern "C" __global__ void __launch_bounds__(256)
overwrite_nonfinite(StridedParts a, const int *scale_a, StridedParts b, const int *scale_b, Elements out) {
    const int block = blockIdx.x, of_a = (a.rows + ROWS - 1) / ROWS;
    if (block < of_a) overwrite_rows(block * ROWS, a, scale_a, b, scale_b, out, true);
    else overwrite_rows((block - of_a) * ROWS, b, scale_b, a, scale_a, turned(out), false);
}
