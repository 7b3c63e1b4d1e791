#include "ozaki/rounding/truncation.cuh"

/* `_split_host` */
extern "C" __global__ void __launch_bounds__(THREADS)
magnitudes(StridedParts x, const int *scales, WORD *out, int padded_rows, int padded_columns, int row_length) {
    const Tile at(padded_rows, padded_columns);
    __shared__ Staged staged;
    staged.fill(at, x);
    const StagedRun run(at);
    if (run.row >= padded_rows || run.column >= padded_columns) return;
    write_magnitudes(staged, run, run.row < x.rows ? scales[run.row] : NONFINITE_ROW, out, padded_columns, row_length);
}
