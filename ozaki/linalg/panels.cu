/* The leaves of `panels` on a GPU, of up to LEAF columns: the same operations on every element in the same order.
   Nothing is contracted. */

#include "ozaki/linalg/numbers.cuh"

#define THREADS 256
#define WARPS (THREADS / 32)
#define WIDE_THREADS 1024
#define WIDE_WARPS (WIDE_THREADS / 32)

/* A candidate for a pivot, and which is better: the larger one, then the first. */
struct Candidate {
    double size;
    i64 row;
};
__device__ bool better(const Candidate &x, const Candidate &y) {
    return x.size > y.size || (x.size == y.size && x.row < y.row);
}
__device__ Candidate best_of_warp(Candidate x) {
    for (int step = 16; step; step /= 2) {
        const Candidate y = {__shfl_xor_sync(~0u, x.size, step), __shfl_xor_sync(~0u, x.row, step)};
        if (better(y, x)) x = y;
    }
    return x;
}
#define NO_CANDIDATE {-1.0, 0x7fffffffffffffffll}

/* A transposed panel, (w, m), in place. Tiles of 32 rows of A go to the blocks in turn, a lane to a row, and stay in
   shared memory meanwhile if they are `resident`. At every step each block offers its candidate's row, and the owner of
   row j that one: what is exchanged. Two sets of offers take turns, so that one meeting a step is enough. */
extern "C" __global__ void __launch_bounds__(WIDE_THREADS)
lu_panel(Number *x, int w, i64 m, i64 *pivots, Candidate *candidates, Number *offers, unsigned *met, int resident) {
    extern __shared__ __align__(16) unsigned char memory[];
    Number *const upper = (Number *)memory; // the pivot's row
    Number *const lower = upper + w;        // multipliers of as many tiles as there are warps
    __shared__ Candidate best;
    unsigned round = 0;
    const i64 tiles = (m + 31) / 32, steps = w < m ? w : m;
    const int mine = (tiles - blockIdx.x + gridDim.x - 1) / gridDim.x;
    // Column c of row `lane` of the block's tile q is at own[c * column + q * hop + lane].
    Number *const own = resident ? lower + 32 * WIDE_WARPS : x + blockIdx.x * 32ll;
    const i64 column = resident ? 32 * mine + 1 : m, hop = resident ? 32 : 32ll * gridDim.x;
    const auto row_of = [&](int q) { return ((i64)q * gridDim.x + blockIdx.x) * 32 + LANE; };
    const auto place_of = [&](i64 row) { return row / 32 / gridDim.x * hop + row % 32; }; // of a row of this block
    for (int c = WARP; resident && c < w; c += WIDE_WARPS)
        for (int q = 0; q < mine; q++)
            if (row_of(q) < m) own[c * column + q * hop + LANE] = x[c * m + row_of(q)];
    __syncthreads();
    for (i64 j = 0; j < steps; j++) {
        Candidate *const of_blocks = candidates + j % 2 * gridDim.x;
        Number *const rows = offers + j % 2 * (gridDim.x + 1) * w;
        const bool has_row = j / 32 % gridDim.x == blockIdx.x;
        if (WARP == 0) {
            Candidate largest = NO_CANDIDATE;
            for (int q = 0; q < mine; q++) {
                const i64 i = row_of(q);
                if (i < j || i >= m) continue;
                const double s = size(own[j * column + q * hop + LANE]);
                const Candidate other = {s != s ? __longlong_as_double(0x7ff0000000000000ll) : s, i};
                if (better(other, largest)) largest = other;
            }
            largest = best_of_warp(largest);
            if (LANE == 0) best = of_blocks[blockIdx.x] = largest;
        }
        __syncthreads();
        for (int c = threadIdx.x; c < w; c += WIDE_THREADS) {
            if (best.size >= 0) rows[(blockIdx.x + 1) * w + c] = own[c * column + place_of(best.row)];
            if (has_row) rows[c] = own[c * column + place_of(j)];
        }
        meet(met, round);

        if (WARP == 0) {
            Candidate all = NO_CANDIDATE;
            for (int b = LANE; b < gridDim.x; b += 32) {
                const Candidate other = {__ldcg(&of_blocks[b].size), __ldcg(&of_blocks[b].row)};
                if (better(other, all)) all = other;
            }
            all = best_of_warp(all);
            if (LANE == 0) best = all;
        }
        __syncthreads();
        const i64 p = best.row, owner = p / 32 % gridDim.x;
        for (int c = threadIdx.x; c < w; c += WIDE_THREADS) {
            upper[c] = fresh(rows + (owner + 1) * w + c);
            if (p != j && has_row) own[c * column + place_of(j)] = upper[c];
            if (p != j && owner == blockIdx.x) own[c * column + place_of(p)] = fresh(rows + c);
        }
        if (blockIdx.x == 0 && threadIdx.x == 0) pivots[j] = p;
        __syncthreads();
        for (int first = 0; first < mine; first += WIDE_WARPS) {
            const int some = min(mine - first, WIDE_WARPS);
            Number *const tile = own + first * hop + LANE;
            if (WARP < some && row_of(first + WARP) > j && row_of(first + WARP) < m) {
                Number *const l = tile + j * column + WARP * hop;
                if (!is_zero(upper[j])) *l = quotient(*l, upper[j]);
                lower[threadIdx.x] = *l;
            }
            __syncthreads();
            for (int c = j + 1 + WARP; c < w; c += WIDE_WARPS)
                for (int q = 0; q < some; q++) {
                    Number *const element = tile + c * column + q * hop;
                    if (row_of(first + q) > j && row_of(first + q) < m)
                        *element = *element - upper[c] * lower[32 * q + LANE];
                }
            __syncthreads();
        }
    }
    for (int c = WARP; resident && c < w; c += WIDE_WARPS)
        for (int q = 0; q < mine; q++)
            if (row_of(q) < m) x[c * m + row_of(q)] = own[c * column + q * hop + LANE];
}

/* The solution of LX = B in place of the C-contiguous B, (w, n): 32 columns to a block, a lane to a column. One warp
   finds STEP rows at a time, which all warps then subtract from those below, one after the other. */
extern "C" __global__ void __launch_bounds__(THREADS)
lower_leaf(const Number *l, i64 row_stride, i64 column_stride, Number *b, int w, i64 n, int unit) {
    extern __shared__ __align__(16) unsigned char memory[];
    Number *const x = (Number *)memory + LANE;               // (LEAF, 32): this lane's column
    Number *const some = (Number *)memory + 32 * LEAF;     // STEP columns of L, from row i on
    const i64 column = blockIdx.x * 32ll + LANE;
    for (int k = WARP; k < w; k += WARPS)
        if (column < n) x[32 * k] = b[k * n + column];
    for (int i = 0; i < w; i += STEP) {
        for (int e = threadIdx.x; e < (w - i) * STEP; e += THREADS)
            if (i + e % STEP < w) some[e] = l[(i + e / STEP) * row_stride + (i + e % STEP) * column_stride];
        __syncthreads();
        Number solved[STEP];
        if (WARP == 0) { // of rows beyond the last, with numbers that stand for nothing
#pragma unroll
            for (int s = 0; s < STEP; s++) solved[s] = x[32 * (i + s)];
#pragma unroll
            for (int s = 0; s < STEP; s++) {
                if (!unit) solved[s] = quotient(solved[s], some[s * STEP + s]);
#pragma unroll
                for (int r = s + 1; r < STEP; r++) solved[r] = solved[r] - some[r * STEP + s] * solved[s];
                x[32 * (i + s)] = solved[s];
            }
        }
        __syncthreads();
#pragma unroll
        for (int s = 0; s < STEP; s++) solved[s] = x[32 * (i + s)];
        for (int k = i + STEP + WARP; k < w; k += WARPS) {
            Number rest = x[32 * k];
#pragma unroll
            for (int s = 0; s < STEP; s++) rest = rest - some[(k - i) * STEP + s] * solved[s];
            x[32 * k] = rest;
        }
        __syncthreads();
    }
    for (int k = WARP; k < w; k += WARPS)
        if (column < n) b[k * n + column] = x[32 * k];
}

/* The upper triangle of a C-contiguous A to U with UᴴU = A, by one block; `definite` becomes 0 if that fails. */
extern "C" __global__ void __launch_bounds__(WIDE_THREADS) cholesky_leaf(Number *a, int n, int *definite) {
    for (int i = 0; i < n; i++) {
        Number *const row = a + i * n;
        const double pivot = real(row[i]);
        __syncthreads(); // all have read it
        if (!(pivot > 0)) {
            if (threadIdx.x == 0) *definite = 0;
            return;
        }
        const double root = sqrt(pivot);
        for (int j = i + threadIdx.x; j < n; j += blockDim.x) row[j] = j == i ? number(root) : row[j] / root;
        __syncthreads();
        for (int k = i + 1 + WARP; k < n; k += blockDim.x / 32)
            for (int j = k + LANE; j < n; j += 32) a[k * n + j] = a[k * n + j] - conjugate(row[k]) * row[j];
        __syncthreads();
    }
}

/* Householder's reflections of a transposed panel, (w, m): its columns go to the blocks in turn. At step j the owner
   of column j makes the reflection, to which the columns after it are subjected; those before it are multiplied by
   it, for T. `terms` is scratch memory, m numbers to a block; `overlaps` are (w, w), row j of reflection j. */
extern "C" __global__ void __launch_bounds__(WIDE_THREADS)
qr_panel(Number *x, Number *y, Number *t, int w, i64 m, Number *overlaps, Number *terms, unsigned *met) {
    unsigned round = 0;
    Number *const mine = terms + blockIdx.x * m;
    for (int j = 0; j < w; j++) {
        Number *const v = y + j * m + j, *const column = x + j * m + j;
        const i64 n = m - j;
        if (j % gridDim.x == blockIdx.x) {
            for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
                v[i] = column[i];
                column[i] = number(0);
            }
            Number tau;
            const double beta = reflect(v, n, (double *)mine, tau);
            if (threadIdx.x == 0) {
                column[0] = number(beta);
                t[j * w + j] = tau;
            }
        }
        meet(met, round);
        if (is_zero(fresh(v))) continue; // a column of zeros: there is no reflection
        const Number tau = fresh(t + j * w + j);
        for (int c = blockIdx.x; c < w; c += gridDim.x) {
            if (c == j) continue;
            Number *const other = (c < j ? y : x) + c * m + j;
            for (i64 i = threadIdx.x; i < n; i += blockDim.x)
                mine[i] = c < j ? conjugate(other[i]) * fresh(v + i) : other[i] * conjugate(fresh(v + i));
            const Number overlap = sum<Block>(mine, n), weight = overlap * conjugate(tau);
            if (c < j) {
                if (threadIdx.x == 0) overlaps[j * w + c] = overlap;
            } else {
                for (i64 i = threadIdx.x; i < n; i += blockDim.x) other[i] = other[i] - weight * fresh(v + i);
            }
        }
        __syncthreads();
    }
}

/* T of the compact form, of its diagonal and the overlaps: a warp to a row, none of which asks for another. */
extern "C" __global__ void __launch_bounds__(THREADS) qr_triangle(Number *t, const Number *overlaps, int w) {
    __shared__ Number memory[WARPS][2][LEAF];
    Number *const row = memory[WARP][0], *const terms = memory[WARP][1];
    const int i = blockIdx.x * WARPS + WARP;
    if (i >= w) return;
    for (int k = i + LANE; k < w; k += 32) row[k] = t[i * w + k];
    __syncwarp();
    for (int j = i + 1; j < w; j++) {
        const Number tau = t[j * w + j];
        if (is_zero(tau)) continue;
        for (int k = i + LANE; k < j; k += 32) terms[k - i] = row[k] * overlaps[j * w + k];
        const Number total = sum<Warp>(terms, j - i);
        if (LANE == 0) t[i * w + j] = row[j] = -(total * tau);
        __syncwarp();
    }
}
