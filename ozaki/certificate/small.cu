#include "multiword/runtime/exact.cuh"
#include "multiword/runtime/parts.cuh"
#include "ozaki/certificate/counting.cuh"

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

/* `scales_and_bounds` on the host: a warp takes a row of A or a column of B at a time; the grid's second dimension
   counts the products of a stack, and the maxima in memory are zeros at first, as in `counting_bound`. */
extern "C" __global__ void __launch_bounds__(32 * WARPS)
scales_and_bounds(StridedParts a, StridedParts b, NormScales of_a, NormScales of_b, int m, int n, int top, double enough,
                  u64 *maxima, double *bounds) {
    __shared__ Maxima largest;
    __shared__ int counts[WARPS][COUNTS];
    const int warp = threadIdx.x / 32;
    const i64 length = PARTS * (i64)a.columns;
    for (int i = threadIdx.x; i < 2 * MAXIMA; i += blockDim.x) largest[i / MAXIMA][i % MAXIMA] = 0;
    __syncthreads();
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
        __syncwarp();
    }
    of_rows.raise(largest[0]);
    of_columns.raise(largest[1]);
    __syncthreads();
    if (gridDim.x > 1 && !brought_together(largest, maxima + blockIdx.y * (2 * MAXIMA + 1))) return;
    write_bounds(largest, length, enough, bounds + blockIdx.y * (i64)(5 + SUMS));
}
