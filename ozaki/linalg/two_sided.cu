/* `two_sided` on a GPU, and the rotations of `rotations.diagonalize`: the same operations on every element in the same
   order. Nothing is contracted. What is as long as a row, every block computes for itself: so all blocks wait for each
   other once for each sum over all rows or columns, and for nothing else. */

#include "ozaki/linalg/numbers.cuh"

#define THREADS 288
#define WARPS (THREADS / 32)
#define MAKERS (THREADS - 32)
#define TILE 1024

/* sums[i] for i = first, …, n - 1: what `term` makes of the rows c = from, …, n - 1 in column i, one after the other.
   Tiles of rows and `width` neighbouring columns, 8, 16 or 32, are made by all warps but the first, which adds up the
   tile before; `tiles` has room for two. */
template <class Term>
__device__ void sums_of_columns(int from, int first, int n, int width, Number *sums, Number *tiles, Term term) {
    const int rows = TILE / width, steps = (n - from + rows - 1) / rows, start = first / width * width;
    for (int left = start + blockIdx.x * width; left < n; left += gridDim.x * width) {
        Number total = number(0);
        for (int q = 0; q <= steps; q++) {
            Number *const making = tiles + q % 2 * TILE, *const made = tiles + (q + 1) % 2 * TILE;
            if (WARP > 0 && q < steps) {
                const int maker = threadIdx.x - 32, i = left + maker % width;
#pragma unroll
                for (int part = 0; part < TILE / MAKERS; part++) {
                    const int place = maker + part * MAKERS, c = from + q * rows + place / width;
                    if (i >= first && i < n && c < n) making[place] = term(c, i);
                }
            }
            if (WARP == 0 && q > 0 && LANE < width) {
                const int some = min(rows, n - from - (q - 1) * rows);
#pragma unroll 16
                for (int r = 0; r < some; r++) total = total + made[r * width + LANE];
            }
            __syncthreads();
        }
        const int i = left + threadIdx.x;
        if (threadIdx.x < width && i >= first && i < n) sums[i] = total;
    }
}

/* A Hermitian A, C-contiguous, to T: its diagonal d, e beside it, and the reflections of Q. Each step updates what is
   left by the step before it while it adds that up. `totals` are two sets of n numbers, which take turns; `scratch`
   is 4n numbers for each block where its shared memory has no room. */
extern "C" __global__ void __launch_bounds__(THREADS)
tridiagonalize(Number *a, int n, int width, double *d, double *e, Number *vectors, Number *taus, Number *totals,
               Number *scratch, unsigned *met) {
    extern __shared__ __align__(16) unsigned char memory[];
    Number *const tiles = (Number *)memory;
    Number *v = scratch ? scratch + blockIdx.x * 4ll * n : tiles + 2 * TILE;
    Number *before = v + n, *const w = before + n, *const terms = w + n;
    unsigned round = 0;
    for (int i = threadIdx.x; i < n; i += THREADS) before[i] = w[i] = number(0);
    for (int j = 0; j < n; j++) {
        __syncthreads();
        const auto updated = [=](i64 c, int i) {
            return fresh(a + c * n + i) - (before[c] * conjugate(w[i]) + w[c] * conjugate(before[i]));
        };
        for (int i = j + threadIdx.x; i < n; i += THREADS) v[i] = conjugate(updated(j, i));
        __syncthreads();
        if (blockIdx.x == 0 && threadIdx.x == 0) d[j] = real(v[j]);
        const int first = j + 1, m = n - first;
        if (m == 0) break;
        Number tau;
        const double beta = reflect(v + first, m, (double *)terms, tau);
        if (blockIdx.x == 0) {
            for (int i = first + threadIdx.x; i < n; i += THREADS) vectors[(i64)j * n + i] = v[i];
            if (threadIdx.x == 0) e[j] = beta, taus[j] = tau;
        }
        Number *const sums = totals + j % 2 * n;
        sums_of_columns(first, first, n, width, sums, tiles, [=](i64 c, int i) {
            const Number element = updated(c, i);
            a[c * n + i] = element;
            return conjugate(v[c]) * element;
        });
        meet(met, round);

        for (int i = first + threadIdx.x; i < n; i += THREADS) {
            w[i] = tau * conjugate(fresh(sums + i));
            terms[i] = conjugate(w[i]) * v[i];
        }
        const Number half = tau * sum<Block>(terms + first, m) * number(-0.5);
        for (int i = first + threadIdx.x; i < n; i += THREADS) w[i] = w[i] + half * v[i];
        Number *const other = before;
        before = v, v = other;
    }
}

/* A, C-contiguous, to B: its diagonal d, e above it, and the reflections of Q and P. `lines` are n numbers for each of
   the WARPS of a block, in `scratch` where its shared memory has no room, after 3n others. */
extern "C" __global__ void __launch_bounds__(THREADS)
bidiagonalize(Number *a, int n, int width, double *d, double *e, Number *left, Number *left_taus, Number *right,
              Number *right_taus, Number *totals, Number *scratch, unsigned *met) {
    extern __shared__ __align__(16) unsigned char memory[];
    Number *const tiles = (Number *)memory;
    Number *const v = scratch ? scratch + blockIdx.x * (3ll + WARPS) * n : tiles + 2 * TILE;
    Number *const u = v + n, *const sums = u + n, *const lines = sums + n, *const line = lines + (i64)WARP * n;
    unsigned round = 0;
    for (int k = 0; k < n; k++) {
        for (int i = k + threadIdx.x; i < n; i += THREADS) v[i] = fresh(a + (i64)i * n + k);
        __syncthreads();
        Number tau, other;
        const double beta = reflect(v + k, n - k, (double *)lines, tau);
        if (blockIdx.x == 0) {
            for (int i = k + threadIdx.x; i < n; i += THREADS) left[(i64)k * n + i] = v[i];
            if (threadIdx.x == 0) d[k] = beta, left_taus[k] = tau;
        }
        const int first = k + 1, m = n - first;
        if (m == 0) break;
        sums_of_columns(k, first, n, width, totals, tiles,
                        [=](i64 c, int i) { return conjugate(v[c]) * fresh(a + c * n + i); });
        meet(met, round);

        for (int i = first + threadIdx.x; i < n; i += THREADS) {
            sums[i] = fresh(totals + i);
            u[i] = conjugate(fresh(a + (i64)k * n + i) - conjugate(tau) * v[k] * sums[i]);
        }
        __syncthreads();
        const double gamma = reflect(u + first, m, (double *)lines, other);
        if (blockIdx.x == 0) {
            for (int i = first + threadIdx.x; i < n; i += THREADS) right[(i64)k * n + i] = u[i];
            if (threadIdx.x == 0) e[k] = gamma, right_taus[k] = other;
        }
        for (int i = first + blockIdx.x * WARPS + WARP; i < n; i += gridDim.x * WARPS) {
            Number *const row = a + (i64)i * n;
            const Number factor = conjugate(tau) * v[i];
            for (int c = first + LANE; c < n; c += 32) line[c] = (fresh(row + c) - factor * sums[c]) * u[c];
            const Number weight = other * sum<Warp>(line + first, m);
            for (int c = first + LANE; c < n; c += 32)
                row[c] = fresh(row + c) - factor * sums[c] - weight * conjugate(u[c]);
        }
        meet(met, round);
    }
}

/* `rotations.rotate`: rows k and k + 1 of Z, x and y, become c·x + s·y and c·y - s·x, for k of each sweep's span in
   turn. A lane has a column. GROUP sweeps go down its rows together: at step t sweep s is at k = t - 2s, so that no two of
   them touch a row. `rows` has those of a step, t - WINDOW + 2 to t + 1, row k at k mod WINDOW. Angles are (sweeps, 2, n)
   cosines and sines, of which shared memory has CHUNK steps. */
#define GROUP 4
#define WINDOW (2 * GROUP)
#define CHUNK 128

extern "C" __global__ void __launch_bounds__(32)
rotate(double *z, i64 columns, const i64 *spans, const double *angles, int sweeps, int n) {
    __shared__ double turns[GROUP][2][CHUNK];
    const bool writes = blockIdx.x * 32ll + LANE < columns;
    double *const own = z + (writes ? blockIdx.x * 32ll + LANE : 0);
    for (int done = 0; done < sweeps; done += GROUP) {
        int begin = n, end = 0, starts[GROUP], stops[GROUP];
#pragma unroll
        for (int s = 0; s < GROUP; s++) {
            const i64 *const span = spans + 2 * (done + s);
            starts[s] = done + s < sweeps ? (int)span[0] : n;
            stops[s] = done + s < sweeps ? (int)span[1] : 0;
            begin = min(begin, starts[s]), end = max(end, stops[s]);
        }
        double rows[WINDOW], next[WINDOW];
        const auto row = [=](int k) { return k >= begin && k <= end ? own[k * columns] : 0.0; };
        const int first = (begin + WINDOW - 1) / WINDOW * WINDOW - WINDOW;
#pragma unroll
        for (int u = 0; u < WINDOW; u++) rows[u] = 0, next[u] = row(first + u + 1);
        for (int base = first; base < end + WINDOW; base += WINDOW) {
            const int place = (base - first) % CHUNK;
            if (place == 0) {
                __syncwarp();
                for (int p = LANE; p < GROUP * 2 * CHUNK; p += 32) {
                    const int s = p / (2 * CHUNK), part = p / CHUNK % 2, k = base + p % CHUNK - 2 * s;
                    if (done + s < sweeps && k >= 0 && k < n)
                        turns[s][part][p % CHUNK] = angles[((done + s) * 2 + part) * (i64)n + k];
                }
                __syncwarp();
            }
            double now[WINDOW];
#pragma unroll
            for (int u = 0; u < WINDOW; u++) now[u] = next[u], next[u] = row(base + WINDOW + u + 1);
#pragma unroll
            for (int u = 0; u < WINDOW; u++) {
                const int t = base + u, over = t + 1 - WINDOW; // the row that no sweep will touch
                if (writes && over >= begin && over <= end) own[over * columns] = rows[(u + 1) % WINDOW];
                rows[(u + 1) % WINDOW] = now[u];
#pragma unroll
                for (int s = 0; s < GROUP; s++) {
                    const int k = t - 2 * s;
                    if (k < starts[s] || k >= stops[s]) continue;
                    double &x = rows[(u + WINDOW - 2 * s) % WINDOW], &y = rows[(u + WINDOW - 2 * s + 1) % WINDOW];
                    const double cosine = turns[s][0][place + u], sine = turns[s][1][place + u], old = x;
                    x = cosine * old + sine * y;
                    y = cosine * y - sine * old;
                }
            }
        }
    }
}
