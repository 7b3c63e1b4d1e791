/* The pairwise bound of products of magnitudes whose int32 sums never leave the registers. */
#include "multiword/engines/fused_tile.cuh"
#include "ozaki/certificate/pairwise.cuh"
typedef PanelPairs Output;
#define START 0
#define INFINITE __int_as_float(0x7f800000)

/* Where a tile begins. */
struct Target {
    int row, column;
    __device__ Target(const Place &place, const Output &, const ProductShape &) : row(place.row), column(place.column) {}
};

/* A row's share of T, and what makes of magnitudes numbers of a', in single precision: a pair's T is surely below
   error·|A||B| where the shares' sum is below limit(error)·scale·scale·product. Powers of two are taken smaller
   where that keeps the product finite. */
struct Rough { float share, scale; };
__device__ __forceinline__ Rough rough(RowBounds x, i64 length) {
    if (x.total <= 0) return {-INFINITE, 0};
    return {(float)(x.total / 2 + (double)length / 8),
            x.offset < -126 ? 0 : __int_as_float((min(x.offset, 60) + 127) << 23)};
}
/* The same in all of a warp; ten roundings are less than 2^-18. */
__device__ __forceinline__ float limit(double error) {
    const float most = error < INFINITE ? (float)(1 << 30) : INFINITE;
    const float own = fminf((float)error * (1 - 1.0f / (1 << 18)), most);
    return __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(own)));
}

/* Raise what has been found to what the pairs of a tile show: in doubles, as `pairwise_bound` does, only those that
   may be larger. */
__device__ __forceinline__ void finish(const Sums &sum, unsigned char *staged, const Target &at, const Output &pairs) {
    const int team = threadIdx.x / TEAM, row = at.row + team * TEAM_ROWS + first_row(), column = first_column();
    Rough *const columns = (Rough *)staged;
    meet(team); // what lay there has been read
    for (int j = threadIdx.x % TEAM; j < BN; j += TEAM)
        columns[j] = rough(column_of_b(pairs, at.column + j), pairs.length);
    meet(team);
    double error = __longlong_as_double(__ldcg(pairs.found));
    float least = limit(error);
#pragma unroll
    for (int i = 0; i < FRAGMENTS_M; i++) {
        const RowBounds a[] = {row_of_a(pairs, row + i * 16), row_of_a(pairs, row + i * 16 + 8)};
        const Rough above = rough(a[0], pairs.length), below = rough(a[1], pairs.length);
#pragma unroll
        for (int j = 0; j < FRAGMENTS_N; j++) {
            const Rough left = columns[column + j * 8], right = columns[column + j * 8 + 1];
            const int(&product)[4] = sum[i][j];
            const auto close = [&](Rough x, Rough y, int z) {
                return x.share + y.share >= least * x.scale * (float)z * y.scale;
            };
            const bool any = close(above, left, product[0]) | close(above, right, product[1]) |
                             close(below, left, product[2]) | close(below, right, product[3]);
            if (!__any_sync(~0u, any)) continue;
#pragma unroll 1
            for (int e = 0; e < 4; e++) {
                const int z = e < 2 ? e ? product[1] : product[0] : e < 3 ? product[2] : product[3];
                const RowBounds b = column_of_b(pairs, at.column + column + j * 8 + e % 2);
                error = larger(error, z, e < 2 ? a[0] : a[1], b, pairs.length);
            }
            least = limit(error);
        }
    }
    raise(pairs.found, error);
}

__device__ void finish_all(const Output &pairs) { tell(pairs); }

#include "multiword/engines/fused.cuh"
