#include "multiword/runtime/exact.cuh"
#include "multiword/runtime/parts.cuh"
#include "ozaki/certificate/counting.cuh"
#include "ozaki/certificate/pairwise.cuh"
#include "ozaki/scaling/exact.cuh"

#define LEVEL(q) ((q) < FINE ? (q) : FINE - 1 + STEP * ((q) - FINE + 1))

/* What a warp learns of a row: `RowStatistics`. */
struct Row {
    int exponent;
    i64 total, square;
    unsigned counts[COUNTS];
    /* Of number i, the real parts before the imaginary ones, the high half of |x| times 2^lift. */
    __device__ static unsigned high(const StridedParts &x, i64 start, int i, int lift, unsigned *low = nullptr) {
        const int part = PARTS == 2 && i >= x.columns, column = i - part * x.columns;
        const double y = fabs(widened(x.part(part)[start + column * x.column_stride])) * power_of_two(lift);
        if (low) *low = max(*low, (unsigned)__double2loint(y));
        return __double2hiint(y);
    }
    __device__ Row(const StridedParts &x, int row) : total(0), square(0), counts() {
        const i64 start = x.start(row);
        const int length = PARTS * x.columns, lane = threadIdx.x % 32;
        unsigned most = 0, low = 0;
        for (int i = lane; i < length; i += 32) most = max(most, high(x, start, i, 0, &low));
        most = __reduce_max_sync(~0u, most);
        low = __reduce_max_sync(~0u, low);
        exponent = most == 0 && low == 0 ? ZERO
            : most < 0x7ff00000u ? ilogb(__hiloint2double(most, low)) + 1 : NONFINITE;
        if (exponent == ZERO || exponent == NONFINITE) return;
        const int lift = exponent < -900 ? 200 : 0, largest = exponent + 1022 + lift; /* as in `row_sums` */
        unsigned sum = 0;
        u64 squares = 0;
        for (int first = 0; first < length; first += 32) {
            const unsigned y = first + lane < length ? high(x, start, first + lane, lift) : 0;
            const int octave = largest - (int)(y >> 20);
            const int shift = 21 - BITS + octave;
            const unsigned t = shift < 32 ? (y & 0xfffff | 0x100000) >> shift : 0;
            sum += t;
            squares += (u64)t * t;
#pragma unroll
            for (int q = 0; q < COUNTS; q++) counts[q] += __popc(__ballot_sync(~0u, octave <= LEVEL(q)));
        }
        sum = __reduce_add_sync(~0u, sum);
        squares = __reduce_add_sync(~0u, (unsigned)squares & 0xfffff)
            + ((u64)__reduce_add_sync(~0u, (unsigned)(squares >> 20)) << 20);
        total = (i64)sum + length;
        square = squares + 2 * (i64)sum + length;
    }
};

/* What a decision is made by: the tolerances of both bounds; the largest sum of exponents of a graded inner dimension; twice
   the bits that a number may have that loses nothing; and by how many bits integers may grow. */
struct Tolerances {
    double counting, pairs, unit_roundoff;
    int graded, room, count, widenings[16];
};

#if DECIDES
#define NO_EXPONENT (-(1 << 30))
#define UNKNOWN -1
#define BEYOND (1 << 19)     /* more bits than there is room for */
#define EVERYTHING (1 << 20) /* no bits are enough */

/* `_widening`; UNKNOWN of a rounded excess that may be on either side of a power of two. */
__device__ int widening(double excess, bool rounded, const Tolerances &to) {
    if (excess == 1.0 / 0) return EVERYTHING;
    int least;
    const double fraction = frexp(excess, &least), margin = 1.0 / (1ll << 40);
    if (rounded && (fraction < 0.5 + margin || fraction > 1 - margin)) return UNKNOWN;
    if (excess <= 1) return 0;
    for (int i = 0; i < to.count; i++)
        if (to.widenings[i] >= least) return to.widenings[i];
    return BEYOND;
}

/* What a block knows of its product's rows of A, and then of its columns of B, in so many bytes of shared memory: norm
   scales, those that lose nothing, truncation scales; bounds; the largest exponents along the inner dimension
   of both; magnitudes, four at a time, and above each whether its number is not zero. */
#define NOT_ZERO 0x80808080u
struct Known {
    int rows, columns, words; /* all rows; numbers of a part, and words of their magnitudes */
    RowBounds *bounds;
    int *scale, *exact, *truncation_scale, *inner;
    unsigned *magnitudes;
    __device__ Known(char *memory, int rows, int columns)
        : rows(rows), columns(columns), words((columns + 3) / 4), bounds((RowBounds *)memory), scale((int *)(bounds + rows)),
          exact(scale + rows), truncation_scale(exact + rows), inner(truncation_scale + rows),
          magnitudes((unsigned *)(inner + 2 * columns)) {}
    __device__ unsigned *of(int row, int part) const { return magnitudes + (row * PARTS + part) * words; }

    /* By a full warp: a row's own. */
    __device__ void measure(int row, const Row &found, int norm_scale, const int *counts, int top, int root) const {
        const bool summed = found.exponent != ZERO && found.exponent != NONFINITE;
        const int largest = summed ? found.exponent + norm_scale : 0;
        const int offset = summed ? scale_offset(counts, largest, top, root) : 0;
        if (threadIdx.x % 32) return;
        const double total = summed ? scalbn((double)found.total, largest - BITS) : 0;
        bounds[row] = RowBounds(&total, &offset, 0, 1);
        scale[row] = norm_scale, truncation_scale[row] = norm_scale - offset;
    }
    /* By a full warp, of a finite row: its magnitudes, its numbers' exponents, and its scale that loses nothing; whether
       there is room for that. */
    __device__ bool truncate(int row, const StridedParts &x, int at, int *exponents, int room) const {
        const i64 start = x.start(at);
        const Scale scaled(min(truncation_scale[row], FURTHEST));
        int lowest = NOTHING, highest = NO_EXPONENT;
        for (int part = 0; part < PARTS; part++)
            for (int column = threadIdx.x % 32; column < 4 * words; column += 32) {
                const double y = column < columns ? fabs(widened(x.part(part)[start + column * x.column_stride])) : 0;
                ((unsigned char *)of(row, part))[column] = (int)fmin(LARGEST, scaled(y)) | (y != 0) << 7;
                if (y == 0) continue;
                const int exponent = ilogb(y) + 1;
                atomicMax(&exponents[column], exponent + scale[row]);
                highest = max(highest, exponent), lowest = min(lowest, last_place(y));
            }
        __syncwarp();
        highest = __reduce_max_sync(~0u, highest), lowest = __reduce_min_sync(~0u, lowest);
        if (threadIdx.x % 32 == 0) exact[row] = lowest == NOTHING ? 0 : -lowest;
        return lowest == NOTHING || 2 * (highest - lowest) <= room;
    }
    /* The larger one of an error and of T / |A||B| of a pair, in the real part of the product or in the imaginary one;
       `apart` where its row and column, neither zero, have no nonzero number in common. */
    __device__ double larger(double error, int row, int column, double quarter, int &apart) const {
        const bool real = bounds[row].half > 0 && bounds[column].half > 0;
#pragma unroll
        for (int component = 0; component < PARTS; component++) {
            unsigned product = 0, common = 0;
#pragma unroll
            for (int part = 0; part < PARTS; part++) {
                const unsigned *const a = of(row, part), *const b = of(column, part ^ component);
                for (int i = 0; i < words; i++) {
                    product = __dp4a(a[i] & ~NOT_ZERO, b[i] & ~NOT_ZERO, product);
                    common |= a[i] & b[i] & NOT_ZERO;
                }
            }
            if (real && !common) apart = 1;
            error = Pair(product, bounds[row], bounds[column], quarter).larger(error);
        }
        return error;
    }
};

/* `decide` of a product whose counting bound is not enough, without an Inf or NaN: the bits by which its integers grow,
   EVERYTHING where they are to lose nothing; UNKNOWN where the inner dimension is graded, or there is no room. */
__device__ int decided(const Known &known, const StridedParts &a, const StridedParts &b, int m, const Numbers &numbers,
                       i64 length, int top, const Tolerances &to) {
    __shared__ int unfit, apart, graded_by;
    __shared__ u64 largest_error;
    const int n = known.rows - m;
    if (threadIdx.x == 0) unfit = apart = 0, graded_by = NO_EXPONENT, largest_error = 0;
    for (int h = threadIdx.x; h < 2 * known.columns; h += blockDim.x) known.inner[h] = NO_EXPONENT;
    __syncthreads();
    for (int row = threadIdx.x / 32; row < known.rows; row += blockDim.x / 32) {
        const bool second = row >= m;
        const StridedParts x = second ? b : a;
        const int at = second ? blockIdx.y * n + row - m : blockIdx.y * m + row;
        if (!known.truncate(row, x, at, known.inner + second * known.columns, to.room)) unfit = 1;
    }
    __syncthreads();
    for (int h = threadIdx.x; h < known.columns; h += blockDim.x) {
        const int p = known.inner[h], q = known.inner[known.columns + h];
        if (min(p, q) > NO_EXPONENT) atomicMax(&graded_by, p + q);
    }
    double error = 0;
    for (int pair = threadIdx.x; pair < m * n; pair += blockDim.x)
        error = known.larger(error, pair / n, m + pair % n, (double)length / 4, apart);
    __syncwarp();
    error = largest_of_warp(error);
    if (threadIdx.x % 32 == 0) atomicMax(&largest_error, (u64)__double_as_longlong(error));
    __syncthreads();
    if (apart) return unfit ? UNKNOWN : EVERYTHING; // whatever the questions, for no bound proves anything
    double lower = 0;
    for (int i = 0; i < SUMS; i++) lower += numbers[5 + i];
    const double truncation = 0.5 * (numbers[1] + numbers[2]) + 0.25 * length; /* `counting_error` */
    const double counted = lower > 0 ? truncation / scalbn(lower, 2 * (top - 1)) : 1.0 / 0;
    const int by_counting = widening(counted / to.counting, true, to);
    if (by_counting <= WIDENED_BY_COUNTING) return by_counting;
    if (graded_by > NO_EXPONENT && graded_by <= to.graded) return UNKNOWN;
    const double ratio = __longlong_as_double(largest_error) / to.pairs;
    const int bits = min(by_counting, widening(ratio / to.unit_roundoff, false, to));
    return bits == BEYOND || (bits == EVERYTHING && unfit) ? UNKNOWN : bits;
}
#endif

/* `scales_and_bounds` on the host: a warp takes a row of A or a column of B at a time; the grid's second dimension
   counts the products of a stack, and the maxima in memory are zeros at first, as in `counting_bound`. DECIDES: a block
   has a product, and decides of it. */
extern "C" __global__ void __launch_bounds__(32 * WARPS)
scales_and_bounds(StridedParts a, StridedParts b, NormScales of_a, NormScales of_b, int m, int n, int top, int root,
                  double enough, Tolerances tolerances, u64 *maxima, double *bounds) {
    __shared__ Maxima largest;
    __shared__ int counts[WARPS][COUNTS];
    const int warp = threadIdx.x / 32;
    const i64 length = PARTS * (i64)a.columns;
    for (int i = threadIdx.x; i < 2 * MAXIMA; i += blockDim.x) largest[i / MAXIMA][i % MAXIMA] = 0;
    __syncthreads();
#if DECIDES
    extern __shared__ __align__(16) char memory[];
    const Known known(memory, m + n, a.columns);
#endif
    Seen of_rows, of_columns;
    for (int i = blockIdx.x * WARPS + warp; i < m + n; i += gridDim.x * WARPS) {
        const bool second = i >= m;
        const int row = second ? blockIdx.y * n + i - m : blockIdx.y * m + i;
        const StridedParts x = second ? b : a; /* no reference to either, which would put both into memory */
        const NormScales limit = second ? of_b : of_a;
        const Row found(x, row);
        const int scale = norm_scale(limit, found.exponent, found.square);
        if (threadIdx.x % 32 == 0) limit.scale[row] = scale;
#pragma unroll
        for (int q = 0; q < COUNTS; q++) if (threadIdx.x % 32 == q) counts[warp][q] = found.counts[q];
        __syncwarp();
        const auto see = [&](Seen &seen) {
            seen.measure(found.exponent, found.total, found.square, scale);
            seen.count(found.exponent, scale, length, top, counts[warp]);
        };
        if (second) see(of_columns);
        else see(of_rows);
#if DECIDES
        known.measure(i, found, scale, counts[warp], top, root);
#endif
        __syncwarp();
    }
    of_rows.raise(largest[0]);
    of_columns.raise(largest[1]);
    __syncthreads();
#if DECIDES
    __shared__ Numbers numbers;
    find_bounds(largest, length, enough, numbers);
    if (numbers[0] == OPEN) {
        const int bits = decided(known, a, b, m, numbers, length, top, tolerances);
        for (int i = threadIdx.x; bits != UNKNOWN && i < m + n; i += blockDim.x) {
            int *const scale = i < m ? of_a.scale + blockIdx.y * m + i : of_b.scale + blockIdx.y * n + i - m;
            *scale = bits == EVERYTHING ? known.exact[i] : known.scale[i] + bits;
        }
        __syncthreads();
        if (threadIdx.x == 0 && bits != UNKNOWN) numbers[0] = DECIDED;
        __syncthreads();
    }
    for (int i = threadIdx.x; i < 5 + SUMS; i += blockDim.x) bounds[blockIdx.y * (i64)(5 + SUMS) + i] = numbers[i];
#else
    if (gridDim.x > 1 && !brought_together(largest, maxima + blockIdx.y * (2 * MAXIMA + 1))) return;
    write_bounds(largest, length, enough, bounds + blockIdx.y * (i64)(5 + SUMS));
#endif
}
