#include "multiword/runtime/tiles.cuh"
#include "ozaki/scaling/statistics.cuh"

/* Threads of a tile that share a row: the lanes of a warp, or one in every group of LANES. */
#define GROUPS (ALONG_K ? 32 : THREADS / LANES)
#define WORDS (COUNTS / 2)

/* The largest exponent of each row in the tile, which all its threads learn. The bits of a positive double
   order as the numbers do, Inf and NaN above all; low halves decide only where all high ones are 0. */
__device__ int tile_exponent(const Tile &at, unsigned high, unsigned low) {
#if ALONG_K
    high = __reduce_max_sync(~0u, high);
    low = __reduce_max_sync(~0u, low);
#else
    __shared__ unsigned best[2][GROUPS][LANES];
    best[0][at.local_column][at.local_row] = high;
    best[1][at.local_column][at.local_row] = low;
    __syncthreads();
    for (int i = 0; i < GROUPS; i++) {
        high = max(high, best[0][i][at.local_row]);
        low = max(low, best[1][i][at.local_row]);
    }
#endif
    if (high == 0 && low == 0) return ZERO;
    return high < 0x7ff00000u ? ilogb(__hiloint2double(high, low)) + 1 : NONFINITE;
}

/* `largest_exponents` on the host. Exponents begin with ZERO. */
extern "C" __global__ void __launch_bounds__(THREADS, 3) largest_exponents(StridedParts x, Rows out) {
    const Tile at(x.rows, x.columns);
    unsigned high = 0, low = 0;
    at.read(x, [&](int, int, REAL y) {
        high = max(high, __double2hiint(fabs(exactly(y))));
        low = max(low, __double2loint(exactly(y)));
    });
    const int e = tile_exponent(at, high, low);
    if (at.local_column == 0 && at.row() < x.rows) atomicMax(&out.exponent[at.row()], e);
}

/* What a thread knows of a row. Its counts lie side by side in FIELD bits each, the fine and the coarse
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
    if (WHOLE) *to = x;
    else atomicAdd((u64 *)to, x);
}
__device__ void put(int *to, unsigned x) {
    if (WHOLE) *to = x;
    else atomicAdd(to, (int)x);
}
struct Share {
    const Rows &out;
    int row, length;
    bool summed;
    __device__ void counts(int i, unsigned word) const {
        put(&out.counts[(i64)i * out.rows + row], summed ? word & 0xffff : 0);
        put(&out.counts[(i64)(i + WORDS) * out.rows + row], summed ? word >> 16 : 0);
    }
    __device__ void sums(unsigned total, u64 square) const {
        put(&out.total[row], (u64)(summed ? total + length : 0));
        put(&out.square[row], summed ? square + 2 * (u64)total + length : 0);
    }
};

/* `row_sums` on the host, for exponents that are known; where a tile holds rows as a WHOLE, they are found
   beside. */
extern "C" __global__ void __launch_bounds__(THREADS, 3) row_sums(StridedParts x, Rows out) {
    const Tile at(x.rows, x.columns);
    const int row = at.row();
    unsigned highs[PARTS][RUN], high = 0, low = 0;
    at.read(x, [&](int part, int j, REAL y) {
        highs[part][j] = __double2hiint(fabs(exactly(y)));
        if (WHOLE) {
            high = max(high, highs[part][j]);
            low = max(low, __double2loint(exactly(y)));
        }
    });
    const int e = WHOLE ? tile_exponent(at, high, low) : row < x.rows ? out.exponent[row] : ZERO;
    if (WHOLE && at.local_column == 0 && row < x.rows) out.exponent[row] = e;
    const bool summed = e != ZERO && e != NONFINITE;
    /* Subnormal numbers are few: where they might count, all are read again and made larger. */
    const int lift = summed && e < -900 ? 200 : 0;
    if (lift)
        at.read(x, [&](int part, int j, REAL y) {
            highs[part][j] = __double2hiint(fabs(exactly(y)) * power_of_two(lift));
        });
    Sums sums;
#pragma unroll
    for (int part = 0; part < PARTS; part++)
#pragma unroll
        for (int j = 0; j < RUN; j++) sums.add(highs[part][j], e + 1022 + lift);
    const Share share{out, row, min(DEPTH, x.columns - at.first_column) * PARTS, summed};
#if ALONG_K
    const unsigned total = __reduce_add_sync(~0u, sums.total);
    const u64 square = __reduce_add_sync(~0u, (unsigned)sums.square & 0xfffff)
        + ((u64)__reduce_add_sync(~0u, (unsigned)(sums.square >> 20)) << 20);
    unsigned mine = 0;
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
        const unsigned word = __reduce_add_sync(~0u, sums.word(i));
        if (at.local_column == i) mine = word;
    }
    if (row >= x.rows) return;
    if (at.local_column < WORDS) share.counts(at.local_column, mine);
    if (at.local_column == WORDS) share.sums(total, square);
#else
    __shared__ unsigned words[WORDS + 1][GROUPS][LANES];
    __shared__ u64 squares[GROUPS][LANES];
#pragma unroll
    for (int i = 0; i < WORDS; i++) words[i][at.local_column][at.local_row] = sums.word(i);
    words[WORDS][at.local_column][at.local_row] = sums.total;
    squares[at.local_column][at.local_row] = sums.square;
    __syncthreads();
    if (row >= x.rows) return;
    /* Every group of threads adds up some of the words. */
    for (int i = at.local_column; i <= WORDS; i += GROUPS) {
        unsigned word = 0;
        for (int g = 0; g < GROUPS; g++) word += words[i][g][at.local_row];
        if (i < WORDS) {
            share.counts(i, word);
            continue;
        }
        u64 square = 0;
        for (int g = 0; g < GROUPS; g++) square += squares[g][at.local_row];
        share.sums(word, square);
    }
#endif
}
