#include "ozaki/residues/split.cuh"

/* Adds the integers of a thread's run, once its tile is staged. */
__device__ void add_integers(const Staged &staged, const StagedRun &run, int scale, Integer (&sum)[PARTS][RUN]) {
    if (scale == NONFINITE_ROW) return;
#pragma unroll
    for (int part = 0; part < PARTS; part++)
#pragma unroll
        for (int j = 0; j < RUN; j += 2) {
            const double2 pair = staged.pair(part, run.local_row, run.local_column + j);
            sum[part][j] += Integer(pair.x, scale);
            sum[part][j + 1] += Integer(pair.y, scale);
        }
}

/* The residues of numbers of two words: of the sums of the words' integers, which stay in registers. A tile of both
   words at once would be twice as large. */
extern "C" __global__ void __launch_bounds__(THREADS)
split_sums(StridedParts high, StridedParts low, SplitTables tables, WORD *out, int padded_rows, int padded_columns) {
    const Tile at(padded_rows, padded_columns);
    const StagedRun run(at);
    const int scale = run.row < high.rows ? tables.scales[run.row] : NONFINITE_ROW;
    Integer sum[PARTS][RUN];
    __shared__ Staged staged;
    staged.fill(at, high);
    add_integers(staged, run, scale, sum);
    __syncthreads();
    staged.fill(at, low);
    add_integers(staged, run, scale, sum);
    if (run.row < padded_rows && run.column < padded_columns)
        write_residues(sum, run, TABLES_OF(tables), out, padded_rows, padded_columns);
}
