/* The pairwise bound from magnitudes, whose products never leave the registers. */
#include "multiword/engines/fused.cuh"
#include "ozaki/certificate/pairwise.cuh"

/* Pairs that a thread compares before it looks at those of its warp. */
#define AT_ONCE (FRAGMENTS_N < 4 ? 2 * FRAGMENTS_N : 8)

/* Products of magnitudes are compared, and nothing is left of them but the largest error, a warp's own so far. */
struct ComparedPairs {
    typedef int2 Target; /* its first row and column */
    static constexpr int START = 0;
    const PanelPairs &pairs;
    double error;
    __device__ Target target(const TileIndex &at, const ProductShape &) const { return make_int2(at.row, at.column); }
    __device__ __forceinline__ void finish(const Sums &sum, unsigned char *staged, const Target &target) {
        RowBounds *const columns = (RowBounds *)staged;
        const int team = threadIdx.x / TEAM, first = target.x + team * TEAM_ROWS + first_row(), across = first_column();
        const double quarter = (double)pairs.length / 4;
        meet(team); // of another tile, they have been read
        for (int j = threadIdx.x % TEAM; j < BN; j += TEAM)
            columns[j] = RowBounds(pairs.total_b, pairs.scale_offset_b, target.y + j, pairs.columns);
        meet(team);
        error = fmax(error, __longlong_as_double(__ldcg(pairs.largest)));
#pragma unroll
        for (int i = 0; i < 2 * FRAGMENTS_M; i++) {
            const RowBounds a(pairs.total_a, pairs.scale_offset_a, first + 8 * i, pairs.rows);
#pragma unroll
            for (int j = 0; j < 2 * FRAGMENTS_N; j += AT_ONCE) {
                const auto pair = [&](int next) {
                    const RowBounds &b = columns[across + next / 2 * 8 + next % 2];
                    return Pair(sum[i / 2][next / 2][i % 2 * 2 + next % 2], a, b, quarter);
                };
                bool more = false; // none of them waits for another
#pragma unroll
                for (int next = j; next < j + AT_ONCE; next++) more |= pair(next).may_exceed(error);
                if (!__any_sync(~0u, more)) continue;
                double found = error;
#pragma unroll
                for (int next = j; next < j + AT_ONCE; next++) found = pair(next).larger(found);
                error = largest_of_warp(found);
            }
        }
    }
};

#if WGMMA
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS + 32, BLOCKS)
bound_pairs_wgmma(const __grid_constant__ Operand a, const __grid_constant__ Operand b, PanelPairs pairs,
                  ProductShape shape) {
#else
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
bound_pairs(WordMatrices a, WordMatrices b, PanelPairs pairs, ProductShape shape) {
#endif
    ComparedPairs output{pairs, 0};
    multiply_tiles(a, b, shape, output);
    write_bound(pairs, output.error);
}
