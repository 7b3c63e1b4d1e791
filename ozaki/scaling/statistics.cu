#include "multiword/runtime/tiles.cuh"
#include "ozaki/scaling/statistics.cuh"

/* Partial results of a row in a tile: with ALONG_K of each warp, else of each thread. */
#define PARTIALS (ALONG_K ? WARPS / ROWS : THREADS / ROWS)
#define WORDS (COUNTS / 2)
__device__ int partial(const Tile &at) { return ALONG_K ? at.local_column / 32 : at.local_column; }

/* The largest exponent of each row in the tile, which all its threads learn. The bits of a positive double
   order as the numbers do, Inf and NaN above all; low halves decide only where all high ones are 0. */
__device__ int tile_exponent(const Tile &at, unsigned high, unsigned low) {
    __shared__ unsigned best[2][PARTIALS][ROWS];
#if ALONG_K
    high = __reduce_max_sync(~0u, high);
    low = __reduce_max_sync(~0u, low);
#endif
    if (!ALONG_K || threadIdx.x % 32 == 0) {
        best[0][partial(at)][at.local_row] = high;
        best[1][partial(at)][at.local_row] = low;
    }
    __syncthreads();
    for (int i = 0; i < PARTIALS; i++) {
        high = max(high, best[0][i][at.local_row]);
        low = max(low, best[1][i][at.local_row]);
    }
    if (high == 0 && low == 0) return ZERO;
    return high < 0x7ff00000u ? ilogb(__hiloint2double(high, low)) + 1 : NONFINITE;
}

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

/* A thread's sums of a row. Its counts lie side by side in FIELD bits each, the fine and the coarse
   ones in a word of their own: adding ones from the field of a number's octave upwards counts it in all of
   them at once. */
#define FIELD 6
#define COARSE (COUNTS - FINE)
#define ONES(fields) (((1ull << (fields) * FIELD) - 1) / ((1 << FIELD) - 1)) /* in every field */
__device__ u64 ones_from(int bit) {
    u64 y;
    asm("shl.b64 %0, %1, %2;" : "=l"(y) : "l"(~0ull), "r"(bit)); /* 0 beyond bit 63 */
    return y;
}
struct Sums {
    u64 fine, coarse, square;
    unsigned total;
    __device__ Sums() : fine(0), coarse(0), square(0), total(0) {
        static_assert(RUN * PARTS < 1 << FIELD && FINE * FIELD < 64 && COARSE * FIELD < 64, "");
        static_assert(COUNTS == 2 * WORDS && BITS < 20 && FIELD % STEP == 0, "");
    }
    /* The high half of |x|, whose 21 leading bits suffice, and the exponent field of the row's largest. */
    __device__ void add(unsigned high, int largest) {
        const int octave = largest - (int)(high >> 20);
        unsigned t;
        asm("shr.u32 %0, %1, %2;" : "=r"(t) : "r"((high & 0xfffff) | 0x100000), "r"(21 - BITS + octave));
        fine += ones_from(octave * FIELD) & ONES(FINE);
        coarse += ones_from(max(0, octave - (FINE - 1 + STEP)) * (FIELD / STEP)) & ONES(COARSE);
        total += t;
        square += (u64)t * t;
    }
    __device__ unsigned count(int q) const {
        return (unsigned)(q < FINE ? fine >> q * FIELD : coarse >> (q - FINE) * FIELD) & ((1 << FIELD) - 1);
    }
    __device__ unsigned word(int i) const { return count(i) | count(i + WORDS) << 16; }
};

/* A tile's share of a row's sum. */
__device__ void put(i64 *to, u64 x) {
    if (UNSPLIT) *to = x;
    else atomicAdd((u64 *)to, x);
}
__device__ void put(int *to, unsigned x) {
    if (UNSPLIT) *to = x;
    else atomicAdd(to, (int)x);
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
    const bool summed = e != ZERO && e != NONFINITE;
    /* Subnormal numbers are rare: where they might count, all are read again and made larger. */
    const int lift = summed && e < -900 ? 200 : 0;
    if (lift)
        at.read(x, [&](int part, int j, REAL y) {
            highs[part][j] = __double2hiint(fabs(widened(y)) * power_of_two(lift));
        });
    Sums sums;
#pragma unroll
    for (int part = 0; part < PARTS; part++)
#pragma unroll
        for (int j = 0; j < RUN; j++) sums.add(highs[part][j], e + 1022 + lift);
    __shared__ unsigned words[WORDS + 1][PARTIALS][ROWS];
    __shared__ u64 squares[PARTIALS][ROWS];
    __shared__ int exponents[ROWS];
    unsigned total = sums.total;
    u64 square = sums.square;
#if ALONG_K
    total = __reduce_add_sync(~0u, total);
    square = __reduce_add_sync(~0u, (unsigned)square & 0xfffff)
        + ((u64)__reduce_add_sync(~0u, (unsigned)(square >> 20)) << 20);
#endif
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
        const unsigned word = ALONG_K ? __reduce_add_sync(~0u, sums.word(i)) : sums.word(i);
        if (!ALONG_K || threadIdx.x % 32 == i) words[i][partial(at)][at.local_row] = word;
    }
    if (!ALONG_K || threadIdx.x % 32 == 0) {
        words[WORDS][partial(at)][at.local_row] = total;
        squares[partial(at)][at.local_row] = square;
        exponents[at.local_row] = e;
    }
    __syncthreads();
    /* Every thread adds up a word of a row, the last of a row its sums. */
    const int length = min(DEPTH, x.columns - at.first_column) * PARTS;
    for (int task = threadIdx.x; task < (WORDS + 1) * ROWS; task += THREADS) {
        const int i = task / ROWS, local = task % ROWS, to = at.first_row + local;
        if (to >= x.rows) continue;
        const int exponent = exponents[local];
        const bool counted = exponent != ZERO && exponent != NONFINITE;
        unsigned word = 0;
        for (int j = 0; j < PARTIALS; j++) word += counted ? words[i][j][local] : 0;
        if (i < WORDS) {
            put(&out.counts[(i64)i * out.rows + to], word & 0xffff);
            put(&out.counts[(i64)(i + WORDS) * out.rows + to], word >> 16);
        } else {
            u64 all = 2 * (u64)word + length;
            for (int j = 0; j < PARTIALS; j++) all += squares[j][local];
            put(&out.total[to], (u64)(counted ? word + length : 0));
            put(&out.square[to], counted ? all : 0);
            if (UNSPLIT && scales.scale) scales.scale[to] = norm_scale(scales, exponent, all);
        }
    }
}
