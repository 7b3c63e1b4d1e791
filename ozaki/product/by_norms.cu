#define UNIT 0 /* as far as the compiler knows: one kernel reads both factors */
#define UNSPLIT 1
#include "ozaki/certificate/counting.cuh"
#include "ozaki/residues/split.cuh"
#include "ozaki/rounding/truncation.cuh"
#include "ozaki/scaling/sums.cuh"

/* What bounds take, as `counting_bound` does; `maxima` is null where there are to be none. The blocks that have raised
   them are counted behind them: the last one to do so learns the maxima of all, and waits for none. */
struct Bound {
    i64 length;
    int top, root;
    double enough;
    u64 *maxima;
    double *bounds;
    __device__ unsigned *raised() const { return (unsigned *)(maxima + 2 * MAXIMA); }
};

/* What a pairwise bound takes of a factor: its scales, wider by some bits, and `RowBounds`; its magnitudes, so many to a
   row. */
struct Paired {
    int *scale;
    double *total;
    int *truncation_scale, *scale_offset;
    WORD *magnitudes;
    int row_length, wider;
};

/* A tile of rows: their statistics and norm scales, what they raise the bounds to, and their residues; PAIRS: what a
   pairwise bound takes, too. Whichever block is the last to raise the bounds tells the host, before it splits its rows. */
template <bool ALONG>
__device__ __forceinline__ void split_rows(int block, bool second, const StridedParts &x, const Rows &out,
                                           const NormScales &scales, WORD *words, int padded_rows, int padded_columns,
                                           const Paired &paired, const Bound &bound) {
    extern __shared__ __align__(16) char memory[];
    Staged &staged = *(Staged *)memory;
    const TileOf<ALONG> at(padded_rows, padded_columns, block);
    unsigned highs[PARTS][RUN], high = 0, low = 0;
    at.read(x, [&](int part, int j, REAL y) {
        staged.put(at, part, j, y);
        highs[part][j] = __double2hiint(fabs(widened(y)));
        high = max(high, highs[part][j]);
        low = max(low, __double2loint(widened(y)));
    });
    const int e = tile_exponent(at, high, low);
    if (at.local_column == 0 && at.row() < x.rows) out.exponent[at.row()] = e;
    __shared__ RowsOfTile known;
    write_sums(at, x, highs, e, out, scales, &known);
    __syncthreads();
    __shared__ unsigned before;
    if (bound.maxima && threadIdx.x < 32) {
        Seen seen;
        const int rows = min(ROWS, x.rows - at.first_row), i = threadIdx.x;
        if (i < rows) seen.measure(known.exponent[i], known.total[i], known.square[i], known.scale[i]);
        __syncwarp();
        for (int i = 0; i < rows; i++)
            seen.count(known.exponent[i], known.scale[i], bound.length, bound.top, known.counts[i]);
        seen.raise(bound.maxima + second * MAXIMA);
        __threadfence();
        __syncwarp();
        if (threadIdx.x == 0) before = atomicAdd(bound.raised(), 1u);
    }
    if (bound.maxima) {
        __syncthreads();
        if (before == gridDim.x - 1) {
            __shared__ Maxima largest;
            take_from_memory(largest, bound.maxima);
            write_bounds(largest, bound.length, bound.enough, bound.bounds);
        }
    }
    const StagedRun run(at);
    const int row = run.local_row;
    const bool exists = run.row < x.rows;
    int scale = exists ? known.scale[row] : NONFINITE_ROW;
#if PAIRS
    static_assert(THREADS / ROWS % 32 == 0, "a warp has numbers of one row");
    const bool summed = exists && known.exponent[row] != ZERO && known.exponent[row] != NONFINITE;
    const int largest = summed ? known.exponent[row] + scale : 0;
    const int offset = summed ? scale_offset(known.counts[row], largest, bound.top, bound.root) : 0;
    const int truncation_scale = scale - offset;
    const double total = summed ? scalbn((double)known.total[row], largest - BITS) : 0;
    if (scale != NONFINITE_ROW) scale += paired.wider;
    if (exists && run.local_column == 0) {
        paired.scale[run.row] = scale, paired.total[run.row] = total;
        paired.truncation_scale[run.row] = truncation_scale, paired.scale_offset[run.row] = offset;
    }
#endif
    if (run.row >= padded_rows || run.column >= padded_columns) return;
#if PAIRS
    write_magnitudes(staged, run, exists ? truncation_scale : NONFINITE_ROW, paired.magnitudes, padded_columns,
                     paired.row_length);
    asm volatile("" ::: "memory"); // numbers are read again: there are no registers for them
#endif
    write_residues(staged, run, scale, moduli[second], words, padded_rows, padded_columns);
}

/* Blocks with rows of A come before those with rows of B. None waits for another: all end, however few run at a time. */
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
split_by_norms(StridedParts a, Rows rows_a, NormScales scales_a, WORD *words_a, int padded_a, Paired paired_a,
               StridedParts b, Rows rows_b, NormScales scales_b, WORD *words_b, int padded_b, Paired paired_b,
               int padded_columns, Bound bound) {
    const int of_a = (padded_a + ROWS - 1) / ROWS, block = blockIdx.x;
    if (block < of_a)
        split_rows<ALONG_A>(block, false, a, rows_a, scales_a, words_a, padded_a, padded_columns, paired_a, bound);
    else
        split_rows<ALONG_B>(block - of_a, true, b, rows_b, scales_b, words_b, padded_b, padded_columns, paired_b, bound);
}
