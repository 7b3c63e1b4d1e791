typedef unsigned long long u64;
typedef long long i64;
struct Row { int exponent; i64 total, square; };

/* _fold_host: every lane has a row, every one of a block's WARPS some of its segments. All learn the row. */
__device__ Row fold(const int *exponents, const int *totals, const i64 *squares, int segments, int rows,
                    int row) {
    __shared__ int largest[WARPS][32];
    __shared__ i64 sums[2][WARPS][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, last = row < rows ? segments : 0;
    int e = ZERO;
    for (int s = warp; s < last; s += WARPS) e = max(e, exponents[(i64)s * rows + row]);
    largest[warp][lane] = e;
    __syncthreads();
    for (int i = 0; i < WARPS; i++) e = max(e, largest[i][lane]);
    Row found = {e, 0, 0};
    for (int s = warp; s < last; s += WARPS) {
        const i64 at = (i64)s * rows + row;
        const int shift = e - exponents[at];
        found.total -= -(i64)totals[at] >> min(shift, 63);
        found.square -= -squares[at] >> min(2 * shift, 63);
    }
    sums[0][warp][lane] = found.total;
    sums[1][warp][lane] = found.square;
    __syncthreads();
    found.total = found.square = 0;
    if (e == NONFINITE) return found;
    for (int i = 0; i < WARPS; i++) {
        found.total += sums[0][i][lane];
        found.square += sums[1][i][lane];
    }
    return found;
}

/* norm_scales: the largest s with square·4^s below thirtyseconds/32·2^limit_bits. */
__device__ int norm_scale(const Row &row, int limit_bits, int thirtyseconds) {
    if (row.exponent == ZERO) return 0;
    if (row.exponent == NONFINITE) return DISCARD;
    const int bits = 63 - __clzll(row.square);
    const i64 threshold = (1ll << bits) + (((thirtyseconds - 32) * (1ll << bits)) >> 5);
    return ((limit_bits - bits - (row.square > threshold)) >> 1) + BITS - row.exponent;
}
