#include "multiword/runtime/tiles.cuh"

/* Bytes of a run are stored at once. */
struct alignas(sizeof(WORD) == 1 ? RUN : sizeof(WORD)) Words { WORD word[RUN]; };

/* `_split_host`. The first part comes once more, after the others, where rows are longer than these. */
extern "C" __global__ void __launch_bounds__(THREADS)
magnitudes(StridedParts x, const int *scales, WORD *out, int padded_rows, int padded_columns, int row_length) {
    const Tile at(padded_rows, padded_columns);
    __shared__ Staged staged;
    staged.fill(at, x);
    const StagedRun run(at);
    const int row = run.row, column = run.column;
    if (row >= padded_rows || column >= padded_columns) return;
    const int base = row < x.rows ? scales[row] : NONFINITE_ROW, count = min(RUN, padded_columns - column);
    const Scale scale(base == NONFINITE_ROW ? 0 : min(base, FURTHEST));
#pragma unroll
    for (int part = 0; part < PARTS; part++) {
        Words words;
#pragma unroll
        for (int j = 0; j < RUN; j += 2) {
            const double2 pair = staged.pair(part, run.local_row, run.local_column + j);
            words.word[j] = base == NONFINITE_ROW ? 0 : (WORD)(int)fmin(LARGEST, scale(fabs(pair.x)));
            words.word[j + 1] = base == NONFINITE_ROW ? 0 : (WORD)(int)fmin(LARGEST, scale(fabs(pair.y)));
        }
        for (int start = part * padded_columns; start < row_length; start += PARTS * padded_columns) {
            WORD *const to = out + (i64)row * row_length + start + column;
            if (sizeof(WORD) == 1 && ALIGNED) *(Words *)to = words;
            else for (int j = 0; j < RUN; j++) if (j < count) to[j] = words.word[j];
        }
    }
}
