#include "multiword/runtime/tiles.cuh"
#include "ozaki/scaling/statistics.cuh"

#define COUNT_WORDS (COUNTS / 2) /* two counts in each */
/* Partial results of a row in a tile: one of each warp that has numbers of it. */
template <bool ALONG> constexpr int PARTIALS = ALONG ? WARPS / ROWS : WARPS;
template <bool ALONG> __device__ int partial(const TileOf<ALONG> &at) {
    static_assert(ALONG ? WARPS % ROWS == 0 : 32 % ROWS == 0, "a warp's rows");
    return (ALONG ? at.local_column : threadIdx.x) / 32;
}
/* Whether this lane speaks for its row. */
template <bool ALONG> __device__ bool speaks() { return threadIdx.x % 32 < (ALONG ? 1 : ROWS); }

/* The largest of what the lanes of a row have in this warp, and their sum. */
template <bool ALONG> __device__ unsigned largest_of_lanes(unsigned x) {
    if (ALONG) return __reduce_max_sync(~0u, x);
#pragma unroll
    for (int apart = 16; apart >= ROWS; apart /= 2) x = max(x, __shfl_xor_sync(~0u, x, apart));
    return x;
}
template <bool ALONG> __device__ unsigned sum_of_lanes(unsigned x) {
    if (ALONG) return __reduce_add_sync(~0u, x);
#pragma unroll
    for (int apart = 16; apart >= ROWS; apart /= 2) x += __shfl_xor_sync(~0u, x, apart);
    return x;
}

/* The largest exponent of each row in the tile, which all its threads learn. The bits of a positive double
   order as the numbers do, Inf and NaN above all; low halves decide only where all high ones are 0. */
template <bool ALONG> __device__ int tile_exponent(const TileOf<ALONG> &at, unsigned high, unsigned low) {
    __shared__ unsigned best[2][PARTIALS<ALONG>][ROWS];
    high = largest_of_lanes<ALONG>(high), low = largest_of_lanes<ALONG>(low);
    if (speaks<ALONG>()) {
        best[0][partial(at)][at.local_row] = high;
        best[1][partial(at)][at.local_row] = low;
    }
    __syncthreads();
    for (int i = 0; i < PARTIALS<ALONG>; i++) {
        high = max(high, best[0][i][at.local_row]);
        low = max(low, best[1][i][at.local_row]);
    }
    if (high == 0 && low == 0) return ZERO;
    return high < 0x7ff00000u ? ilogb(__hiloint2double(high, low)) + 1 : NONFINITE;
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
        static_assert(COUNTS == 2 * COUNT_WORDS && BITS < 20 && FIELD % STEP == 0, "");
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
    __device__ unsigned word(int i) const { return count(i) | count(i + COUNT_WORDS) << 16; }
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

/* What a tile knows of its rows in the end. */
struct RowsOfTile {
    int exponent[ROWS], scale[ROWS], counts[ROWS][COUNTS];
    i64 total[ROWS], square[ROWS];
};

/* Write the sums of a tile's rows below their exponents, e of this thread's, and norm scales of UNSPLIT ones; to `known`
   in shared memory, too, unless it is null. */
template <bool ALONG>
__device__ void write_sums(const TileOf<ALONG> &at, const StridedParts &x, unsigned (&highs)[PARTS][RUN], int e,
                           const Rows &out, const NormScales &scales, RowsOfTile *known = nullptr) {
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
    __shared__ unsigned words[COUNT_WORDS + 1][PARTIALS<ALONG>][ROWS];
    __shared__ u64 squares[PARTIALS<ALONG>][ROWS];
    __shared__ int exponents[ROWS];
    const unsigned total = sum_of_lanes<ALONG>(sums.total);
    const u64 square = sum_of_lanes<ALONG>((unsigned)sums.square & 0xfffff)
        + ((u64)sum_of_lanes<ALONG>((unsigned)(sums.square >> 20)) << 20);
#pragma unroll
    for (int i = 0; i < COUNT_WORDS; i++) {
        const unsigned word = sum_of_lanes<ALONG>(sums.word(i));
        if (ALONG ? threadIdx.x % 32 == i : speaks<ALONG>()) words[i][partial(at)][at.local_row] = word;
    }
    if (speaks<ALONG>()) {
        words[COUNT_WORDS][partial(at)][at.local_row] = total;
        squares[partial(at)][at.local_row] = square;
        exponents[at.local_row] = e;
    }
    __syncthreads();
    /* Every thread adds up a word of a row, the last of a row its sums. */
    const int length = min(DEPTH, x.columns - at.first_column) * PARTS;
    for (int task = threadIdx.x; task < (COUNT_WORDS + 1) * ROWS; task += THREADS) {
        const int i = task / ROWS, local = task % ROWS, to = at.first_row + local;
        if (to >= x.rows) continue;
        const int exponent = exponents[local];
        const bool counted = exponent != ZERO && exponent != NONFINITE;
        unsigned word = 0;
        for (int j = 0; j < PARTIALS<ALONG>; j++) word += counted ? words[i][j][local] : 0;
        if (i < COUNT_WORDS) {
            put(&out.counts[(i64)i * out.rows + to], word & 0xffff);
            put(&out.counts[(i64)(i + COUNT_WORDS) * out.rows + to], word >> 16);
            if (known) known->counts[local][i] = word & 0xffff, known->counts[local][i + COUNT_WORDS] = word >> 16;
        } else {
            u64 all = 2 * (u64)word + length;
            for (int j = 0; j < PARTIALS<ALONG>; j++) all += squares[j][local];
            const u64 total = counted ? word + length : 0, square = counted ? all : 0;
            put(&out.total[to], total);
            put(&out.square[to], square);
            if (!UNSPLIT || !scales.scale) continue;
            const int scale = scales.scale[to] = norm_scale(scales, exponent, all);
            if (!known) continue;
            known->exponent[local] = exponent, known->scale[local] = scale;
            known->total[local] = total, known->square[local] = square;
        }
    }
}
