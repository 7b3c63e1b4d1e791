#include "multiword/runtime/exact.cuh"

/* The real parts of an operand where they lie: `StridedParts`. */
struct StridedParts {
    const REAL *part0, *part1;
    long long matrix_stride, row_stride, column_stride;
    int rows_each, rows, columns;
    /* Where a row begins: of a stack, all rows are counted. */
    __device__ long long start(int row) const {
        return row < rows_each ? row * row_stride : row / rows_each * matrix_stride + row % rows_each * row_stride;
    }
    __device__ const REAL *part(int i) const { return i ? part1 : part0; }
};
