#include "multiword/runtime/tiles.cuh"

/* Bytes of a run are stored at once. */
struct alignas(sizeof(WORD) == 1 ? RUN : sizeof(WORD)) Words { WORD word[RUN]; };

/* The magnitudes of a thread's run, by its row's truncation scale. The first part comes once more, after the others,
   where rows are longer than these. */
__device__ __forceinline__ void write_magnitudes(const Staged &staged, const StagedRun &run, int base, WORD *out,
                                                 int padded_columns, int row_length) {
    const int column = run.column, count = min(RUN, padded_columns - column);
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
            WORD *const to = out + (i64)run.row * row_length + start + column;
            if (sizeof(WORD) == 1 && ALIGNED) *(Words *)to = words;
            else for (int j = 0; j < RUN; j++) if (j < count) to[j] = words.word[j];
        }
    }
}
