#include "ozaki/residues/split.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
split_residues(StridedParts x, SplitTables tables, WORD *out, int padded_rows, int padded_columns) {
    const Tile at(padded_rows, padded_columns);
    __shared__ Staged staged;
    staged.fill(at, x);
    const StagedRun run(at);
    const int row = run.row, column = run.column;
    if (row >= padded_rows || column >= padded_columns) return;
    const int scale = row < x.rows ? tables.scales[row] : NONFINITE_ROW;
    write_residues(staged, run, scale, TABLES_OF(tables), out, padded_rows, padded_columns);
}
