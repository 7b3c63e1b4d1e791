/* The real parts of an operand where they lie: `StridedParts`. */
struct StridedParts {
    const REAL *part0, *part1;
    long long row_stride, column_stride;
    int rows, columns;
    __device__ const REAL *part(int i) const { return i ? part1 : part0; }
};
