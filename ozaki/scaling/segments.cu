#include "multiword/runtime/tiles.cuh"

/* A tile holds SIDE_BY_SIDE segments of a row; EACH of a thread's numbers are of one of them. */
#define SIDE_BY_SIDE (ALONG_K ? DEPTH * PARTS / SEGMENT : 1)
#define EACH (RUN / SIDE_BY_SIDE)

/* What a thread knows of a segment. Its counts lie side by side in FIELD bits each, the fine and the
   coarse ones in a word of their own: adding ones from the field of a number's octave upwards counts
   it in all of them at once. */
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
        static_assert(EACH * PARTS < 1 << FIELD && FINE * FIELD < 64 && COARSE * FIELD < 64, "");
        static_assert(COUNTS == 3 * COUNT_WORDS && BITS < 20 && FIELD % STEP == 0, "");
        static_assert(SEGMENT < 1 << COUNT_BITS && COUNT_WORDS == 6 && WARPS == 8, "");
    }
    /* The high half of |x|, whose 21 leading bits suffice, and the exponent field of the largest. */
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
    __device__ unsigned word(int i) const {
        return count(i) | count(i + COUNT_WORDS) << COUNT_BITS | count(i + 2 * COUNT_WORDS) << 2 * COUNT_BITS;
    }
};

struct Found {
    int *exponent, *total;
    u64 *square;
    unsigned *counts;
};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
segments(const REAL *x0, const REAL *x1, i64 row_stride, i64 column_stride, int rows, int columns,
        int *exponents, int *totals, u64 *squares, unsigned *counts) {
    const Operand x(x0, x1, row_stride, column_stride, rows, columns);
    const Tile at(rows, columns);
    const int row = at.row(), lane = threadIdx.x % 32;
    unsigned highs[PARTS][RUN], lows[SIDE_BY_SIDE] = {};
    at.read(x, [&](int part, int j, REAL y) {
        highs[part][j] = __double2hiint(fabs(exactly(y)));
        lows[j / EACH] = max(lows[j / EACH], __double2loint(exactly(y)));
    });
#if !ALONG_K
    __shared__ unsigned best[2][WARPS][32], words[COUNT_WORDS + 1][WARPS][32];
    __shared__ u64 squared[WARPS][32];
#endif
#pragma unroll
    for (int s = 0; s < SIDE_BY_SIDE; s++) {
        const int first = at.first_column + s * (SEGMENT / PARTS);
        const i64 place = (i64)(first / (SEGMENT / PARTS)) * rows + row;
        /* The bits of a positive double order as the numbers do, Inf and NaN above all. The low halves
           decide only where all high ones are zero: only the exponent is of interest. */
        unsigned high = 0, low = lows[s];
#pragma unroll
        for (int part = 0; part < PARTS; part++)
#pragma unroll
            for (int j = s * EACH; j < (s + 1) * EACH; j++) high = max(high, highs[part][j]);
#if ALONG_K
        high = __reduce_max_sync(~0u, high);
        low = __reduce_max_sync(~0u, low);
#else
        best[0][at.local_column][at.local_row] = high;
        best[1][at.local_column][at.local_row] = low;
        __syncthreads();
        for (int i = 0; i < WARPS; i++) {
            high = max(high, best[0][i][at.local_row]);
            low = max(low, best[1][i][at.local_row]);
        }
#endif
        const bool zero = high == 0 && low == 0, usable = !zero && high < 0x7ff00000u;
        const int e = zero ? ZERO : usable ? ilogb(__hiloint2double(high, low)) + 1 : NONFINITE;
        /* Subnormal numbers are few: where they might count, all are read again and made larger. */
        const int lift = usable && e < -900 ? 200 : 0;
        if (lift)
            at.read(x, [&](int part, int j, REAL y) {
                if (j / EACH == s) highs[part][j] = __double2hiint(fabs(exactly(y)) * power_of_two(lift));
            });
        Sums sums;
#pragma unroll
        for (int part = 0; part < PARTS; part++)
#pragma unroll
            for (int j = s * EACH; j < (s + 1) * EACH; j++) sums.add(highs[part][j], e + 1022 + lift);
        const int length = min(SEGMENT, (columns - first) * PARTS);
        const bool exists = row < rows && length > 0;
#if ALONG_K
        const unsigned total = __reduce_add_sync(~0u, sums.total);
        const u64 square = __reduce_add_sync(~0u, (unsigned)sums.square & 0xfffff)
            + ((u64)__reduce_add_sync(~0u, (unsigned)(sums.square >> 20)) << 20);
        unsigned mine = 0;
#pragma unroll
        for (int i = 0; i < COUNT_WORDS; i++) {
            const unsigned word = __reduce_add_sync(~0u, sums.word(i));
            if (lane == i && usable) mine = word;
        }
        if (!exists) continue;
        if (lane < COUNT_WORDS) counts[(place - row) * COUNT_WORDS + (i64)lane * rows + row] = mine;
        if (lane > 0) continue;
        exponents[place] = e;
        totals[place] = usable ? total + length : 0;
        squares[place] = usable ? square + 2 * total + length : 0;
#else
#pragma unroll
        for (int i = 0; i < COUNT_WORDS; i++) words[i][at.local_column][at.local_row] = sums.word(i);
        words[COUNT_WORDS][at.local_column][at.local_row] = sums.total;
        squared[at.local_column][at.local_row] = sums.square;
        __syncthreads();
        if (!exists) return;
        /* Each warp adds up one of the words, and the last two the sums. */
        unsigned sum = 0;
        for (int i = 0; i < WARPS; i++) sum += words[min(at.local_column, COUNT_WORDS)][i][at.local_row];
        if (at.local_column < COUNT_WORDS) {
            counts[(place - row) * COUNT_WORDS + (i64)at.local_column * rows + row] = usable ? sum : 0;
        } else if (at.local_column == COUNT_WORDS) {
            exponents[place] = e;
            totals[place] = usable ? sum + length : 0;
        } else {
            u64 square = 2 * (u64)sum + length;
            for (int i = 0; i < WARPS; i++) square += squared[i][at.local_row];
            squares[place] = usable ? square : 0;
        }
#endif
    }
}
