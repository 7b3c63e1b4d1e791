#include "ozaki/residues/split.cuh"

/* Calls use(sum, x) for the numbers of a thread's run, once their tile is staged. */
template <class Use>
__device__ void for_each(const Staged &staged, const StagedRun &run, Integer (&sum)[PARTS][RUN], Use use) {
#pragma unroll
    for (int part = 0; part < PARTS; part++)
#pragma unroll
        for (int j = 0; j < RUN; j += 2) {
            const double2 pair = staged.pair(part, run.local_row, run.local_column + j);
            use(sum[part][j], pair.x);
            use(sum[part][j + 1], pair.y);
        }
}

/* The residues of numbers of two words: of the sums of the words' integers, which stay in registers. A tile of both
   words at once would be twice as large. LOW_IN_64_BITS: so are the integers of the second words. */
extern "C" __global__ void __launch_bounds__(THREADS)
split_sums(StridedParts high, StridedParts low, SplitTables tables, WORD *out, int padded_rows, int padded_columns) {
    const Tile at(padded_rows, padded_columns);
    const StagedRun run(at);
    const int scale = run.row < high.rows ? tables.scales[run.row] : NONFINITE_ROW;
    Integer sum[PARTS][RUN];
    __shared__ Staged staged;
    staged.fill(at, high);
    if (scale != NONFINITE_ROW) for_each(staged, run, sum, [&](Integer &a, double x) { a = Integer(x, scale); });
    __syncthreads();
    staged.fill(at, low);
    if (scale != NONFINITE_ROW)
        for_each(staged, run, sum, [&](Integer &a, double x) {
            a += LOW_IN_64_BITS ? Integer(x, scale, 0) : Integer(x, scale);
        });
    if (run.row < padded_rows && run.column < padded_columns)
        write_residues(sum, run, TABLES_OF(tables), out, padded_rows, padded_columns);
}
