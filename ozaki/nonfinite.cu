#include "multiword/runtime/parts.cuh"
#include "ozaki/rounding/conversion.cuh"

typedef long long i64;

/* Where the elements for a pair of rows lie, of a stack of products; strides in elements. */
struct Elements {
    REAL *part0, *part1;
    i64 product_stride, x_stride, y_stride;
    int rows_x, rows_y; /* of one product */
    __device__ REAL *part(int i) const { return i ? part1 : part0; }
};

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

/* One row of x. The terms with an Inf or NaN in x decide about an element; those with one in y alone have been
   added before (`after`), or will be. */
__device__ void overwrite_row(const StridedParts &x, int row, const StridedParts &y, const int *scale_y,
                              const Elements &out, int after) {
    const int product = row / out.rows_x, first_other = product * out.rows_y;
    const i64 start = product * out.product_stride + row % out.rows_x * out.x_stride;
    __shared__ bool listed[256];
    bool begun = false;
    for (int h = 0; h < x.columns; h += 256) {
        bool found = false;
        if (h + threadIdx.x < x.columns)
            for (int part = 0; part < PARTS; part++) found |= !is_finite(number(x, part, row, h + threadIdx.x));
        listed[threadIdx.x] = found;
        if (!__syncthreads_or(found)) continue;
        for (int j = threadIdx.x; j < out.rows_y; j += 256) {
            const bool known = begun || (after && scale_y[first_other + j] == NONFINITE_ROW);
            double sum[PARTS];
            for (int part = 0; part < PARTS; part++)
                sum[part] = known ? widened(out.part(part)[start + j * out.y_stride]) : 0;
            for (int i = 0; i < 256; i++)
                if (listed[i]) add_term(sum, x, row, y, first_other + j, h + i);
            for (int part = 0; part < PARTS; part++)
                out.part(part)[start + j * out.y_stride] = canonical<REAL>(sum[part]);
        }
        begun = true;
        __syncthreads();
    }
}

/* A block for every ROWS rows of x; those without an Inf or NaN are left alone. */
extern "C" __global__ void __launch_bounds__(256)
overwrite_nonfinite(StridedParts x, const int *scale_x, StridedParts y, const int *scale_y, Elements out,
                    int after) {
    const int lane = threadIdx.x % 32, first = blockIdx.x * ROWS;
    const bool here = lane < ROWS && first + lane < x.rows && scale_x[first + lane] == NONFINITE_ROW;
    for (unsigned concerned = __ballot_sync(~0u, here); concerned; concerned &= concerned - 1)
        overwrite_row(x, first + __ffs(concerned) - 1, y, scale_y, out, after);
}
