#include "ozaki/rounding/conversion.cuh"

typedef long long i64;

/* alpha R + beta C of a stack of matrices, in place, if there is a C; strides in real numbers. */
struct Combination {
    REAL *result;
    const REAL *addend;
    i64 rows, columns, size, of_result[3], of_addend[3];
    double alpha[2], beta[2];
};

/* Rounded to REAL: sums and products of two fp32 numbers come out as if rounded once. */
template <class T> __device__ double rounded(double x);
template <> __device__ double rounded<double>(double x) { return x; }
template <> __device__ double rounded<float>(double x) { return widened(narrowed(x)); }

/* x *= factor, if that is not 1; no two operations are fused. */
__device__ void scale(double (&x)[PARTS], const double (&factor)[2]) {
    if (factor[0] == 1 && factor[1] == 0) return;
    if (PARTS == 1) {
        x[0] = rounded<REAL>(factor[0] * x[0]);
    } else {
        const double re = x[0], im = x[PARTS - 1];
        x[0] = rounded<REAL>(rounded<REAL>(factor[0] * re) - rounded<REAL>(factor[1] * im));
        x[PARTS - 1] = rounded<REAL>(rounded<REAL>(factor[0] * im) + rounded<REAL>(factor[1] * re));
    }
}

/* A thread for each element. */
extern "C" __global__ void combine(Combination of) {
    const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= of.size) return;
    const i64 column = i % of.columns, row = i / of.columns % of.rows, matrix = i / of.columns / of.rows;
    REAL *result = of.result + matrix * of.of_result[0] + row * of.of_result[1] + column * of.of_result[2];
    double sum[PARTS], more[PARTS];
    for (int part = 0; part < PARTS; part++) sum[part] = widened(result[part]);
    scale(sum, of.alpha);
    if (of.addend) {
        const REAL *addend = of.addend + matrix * of.of_addend[0] + row * of.of_addend[1] + column * of.of_addend[2];
        for (int part = 0; part < PARTS; part++) more[part] = widened(addend[part]);
        scale(more, of.beta);
        for (int part = 0; part < PARTS; part++) sum[part] += more[part];
    }
    for (int part = 0; part < PARTS; part++) result[part] = canonical<REAL>(sum[part]);
}
