#include "ozaki/scaling/sums.cuh"

/* `largest_exponents` on the host. Exponents begin with ZERO. */
extern "C" __global__ void __launch_bounds__(THREADS, 3) largest_exponents(StridedParts x, Rows out) {
    const Tile at(x.rows, x.columns);
    unsigned high = 0, low = 0;
    at.read(x, [&](int, int, REAL y) {
        high = max(high, __double2hiint(fabs(widened(y))));
        low = max(low, __double2loint(widened(y)));
    });
    const int e = tile_exponent(at, high, low);
    if (at.local_column == 0 && at.row() < x.rows) atomicMax(&out.exponent[at.row()], e);
}

/* `row_sums` on the host, for given exponents; where a tile holds rows UNSPLIT, it computes these, too, and norm
   scales. */
extern "C" __global__ void __launch_bounds__(THREADS, 3) row_sums(StridedParts x, Rows out, NormScales scales) {
    const Tile at(x.rows, x.columns);
    const int row = at.row();
    unsigned highs[PARTS][RUN], high = 0, low = 0;
    at.read(x, [&](int part, int j, REAL y) {
        highs[part][j] = __double2hiint(fabs(widened(y)));
        if (UNSPLIT) {
            high = max(high, highs[part][j]);
            low = max(low, __double2loint(widened(y)));
        }
    });
    const int e = UNSPLIT ? tile_exponent(at, high, low) : row < x.rows ? out.exponent[row] : ZERO;
    if (UNSPLIT && at.local_column == 0 && row < x.rows) out.exponent[row] = e;
    write_sums(at, x, highs, e, out, scales);
}
