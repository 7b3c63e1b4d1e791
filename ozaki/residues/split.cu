#include "ozaki/residues/split.cuh"
#if TRUNCATED
#include "ozaki/rounding/truncation.cuh"
#endif

/* TRUNCATED: the numbers' magnitudes, too, so many to a row. */
extern "C" __global__ void __launch_bounds__(THREADS)
split_residues(StridedParts x, SplitTables tables, WORD *out, int padded_rows, int padded_columns,
               const int *truncation_scales, WORD *magnitudes, int row_length) {
    const Tile at(padded_rows, padded_columns);
    __shared__ Staged staged;
    staged.fill(at, x);
    const StagedRun run(at);
    const int row = run.row, column = run.column;
    if (row >= padded_rows || column >= padded_columns) return;
    const bool exists = row < x.rows;
#if TRUNCATED
    write_magnitudes(staged, run, exists ? truncation_scales[row] : NONFINITE_ROW, magnitudes, padded_columns, row_length);
    asm volatile("" ::: "memory"); // numbers are read again: there are no registers for them
#endif
    const int scale = exists ? tables.scales[row] : NONFINITE_ROW;
    write_residues(staged, run, scale, TABLES_OF(tables), out, padded_rows, padded_columns);
}
