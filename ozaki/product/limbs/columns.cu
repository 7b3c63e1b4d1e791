/* Products of a matrix and some tens of columns in limbs of a byte, on Hopper's tensor cores:

       A' = Σ_i A_i·256^i,   B' = Σ_j B_j·256^j,   C' = Σ_d 256^d·Σ_{i + j = d} A_i·B_j,   -128 <= A_i, B_j < 128.

   The sums of every d stay in registers. A warpgroup has 64 rows and COLUMNS columns of real numbers; limbs of B lie
   in blocks of rows of STEP bytes, so that one instruction multiplies a limb of A by several of them:

       d:       LIMBS - 1 … 0   LIMBS … 2·LIMBS - 2
       limb j:  LIMBS - 1 … 0       1 …   LIMBS - 1     in blocks 0 … 2·LIMBS - 2

   Limb i of A by the blocks from i to LIMBS - 1 is for the first LIMBS - i sums, by the last i blocks for the first i
   of the others.

   A product of complex numbers is one of real numbers, [Re A, Im A] by [Re B, Im B; -Im B, Re B]: steps of k take
   turns between the parts of A, columns between those of C. */
#include "multiword/engines/hopper.cuh"
#include "ozaki/product/limbs/limbs.cuh"

#define ACROSS 2
#define THREADS (128 * ACROSS)
#define WARPS (THREADS / 32)
/* Numbers of k at a time, of which a thread cuts 4 together, for GROUPS times: two pairs of neighbours, so far apart. */
#define STEP 32
#define GROUPS 2
#define NUMBER(j) ((j) % 2 + (j) / 2 * (STEP / 2))
/* Bytes of a limb of A and of B in a step, and of all their limbs. */
#define BLOCKS_OF_B (2 * LIMBS - 1)
#define TILE_BYTES (64 * STEP)
#define BLOCK_BYTES (COLUMNS * STEP)
#define LEFT_BYTES (LIMBS * TILE_BYTES)
#define RIGHT_BYTES (ACROSS * BLOCKS_OF_B * BLOCK_BYTES)
/* Limbs of a step are made AHEAD steps before. Whoever sees those of step t knows that all warps have made them, and
   waited for their products of step t - 3 before: STAGES steps have room of their own. */
#define AHEAD 2
#define STAGES 5
/* Steps whose numbers are on their way into registers: as many as have room there. */
#ifndef LOADS
#define LOADS (COLUMNS == 16 ? 2 : 1)
#endif

/* Two neighbours along k. */
template <class T> struct Pair;
template <> struct Pair<double> { typedef double2 Type; };
template <> struct Pair<float> { typedef float2 Type; };

/* The word of a number with its sign and exponent, the bits below these in it, and the exponent of its last place
   where it is subnormal. */
__device__ __forceinline__ int upper(double x) { return __double2hiint(x); }
__device__ __forceinline__ int upper(float x) { return __float_as_int(x); }
__device__ __forceinline__ double with_upper(double x, int word) { return __hiloint2double(word, __double2loint(x)); }
__device__ __forceinline__ float with_upper(float, int word) { return __int_as_float(word); }
#define BELOW (sizeof(REAL) == 8 ? 20 : 23)
#define LAST_PLACE (sizeof(REAL) == 8 ? -1074 : -149)
#define SIGN (1 << 31)
/* Exponents by which rows that have subnormal numbers are enlarged; and the least scale of such a row, for with smaller
   ones these are rounded to 0. */
#define ENLARGED (-LAST_PLACE - 23)
#define OF_SMALL (-LAST_PLACE - 74)

/* x·2^s of a normal number, in integer arithmetic: that of doubles would wait for the tensor cores, and they for it.
   Of 0, and where that is too small for a normal number, something that is rounded to 0. */
__device__ __forceinline__ REAL scaled(REAL x, int s) {
    return with_upper(x, (upper(x) & SIGN) | max((upper(x) & ~SIGN) + (s << BELOW), 0));
}
/* x·2^ENLARGED. */
__device__ __forceinline__ REAL enlarged(REAL x) {
    const int sign = upper(x) & SIGN;
    if ((upper(x) & ~SIGN) >> BELOW) return scaled(x, ENLARGED);
    REAL places;
    if constexpr (sizeof(REAL) == 8) places = __ll2double_rn(__double_as_longlong(x) & ~(1ull << 63));
    else places = __int2float_rn(__float_as_int(x) & ~SIGN);
    const REAL y = scaled(places, LAST_PLACE + ENLARGED);
    return with_upper(y, upper(y) | sign);
}
__device__ __forceinline__ i64 nearest(double x) { return __double2ll_rn(x); }
__device__ __forceinline__ i64 nearest(float x) { return __float2ll_rn(x); }

/* The limbs of RN(x·2^s) of four numbers, word[i] with limb i of all: the bytes of the integer + Σ 128·256^i, each
   less 128. Of a row that is left out all are zeros. */
__device__ __forceinline__ void cut_four(REAL (&x)[4], int scale, unsigned (&word)[8]) {
    const u64 middle = 0x8080808080808080ull;
    unsigned low[4], high[4];
    if (scale == NONFINITE_ROW) scale = 0;
    if (scale >= OF_SMALL) {
#pragma unroll
        for (int j = 0; j < 4; j++) x[j] = enlarged(x[j]);
        scale -= ENLARGED;
    }
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const u64 y = (u64)nearest(scaled(x[j], scale)) + middle ^ middle;
        low[j] = (unsigned)y, high[j] = (unsigned)(y >> 32);
    }
    const auto turn = [](const unsigned(&x)[4], unsigned *to) {
        const unsigned a = __byte_perm(x[0], x[1], 0x5140), b = __byte_perm(x[2], x[3], 0x5140);
        const unsigned c = __byte_perm(x[0], x[1], 0x7362), d = __byte_perm(x[2], x[3], 0x7362);
        to[0] = __byte_perm(a, b, 0x5410), to[1] = __byte_perm(a, b, 0x7632);
        to[2] = __byte_perm(c, d, 0x5410), to[3] = __byte_perm(c, d, 0x7632);
    };
    turn(low, word);
    turn(high, word + 4);
}

/* Where the bytes of four numbers lie in a tile or block, permuted as the tensor cores take it. */
__device__ __forceinline__ int place_of(int row, int four) { return row * STEP + ((four * 4) ^ (row & 4) << 2); }

/* The limbs of B, (steps, columns / COLUMNS, blocks, COLUMNS, STEP), zeros beyond its edges. */
extern "C" __global__ void __launch_bounds__(THREADS)
cut_columns(StridedParts few, LimbProduct to, i64 steps, int columns, unsigned char *limbs) {
    const i64 index = blockIdx.x * (i64)THREADS + threadIdx.x, step = index / (STEP / 4) / columns;
    const int four = index % (STEP / 4), of_result = index / (STEP / 4) % columns, column = of_result / PARTS;
    if (step >= steps) return;
    const int part = of_result % PARTS ^ step % PARTS, sign = part && of_result % PARTS == 0 ? SIGN : 0; // i·i = -1
    const int scale = column < to.n ? to.column_scale[column] : NONFINITE_ROW;
    REAL x[4];
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const i64 h = step / PARTS * STEP + 2 * four + NUMBER(j);
        const bool there = scale != NONFINITE_ROW && h < to.k;
        x[j] = there ? few.part(part)[column * few.row_stride + h * few.column_stride] : (REAL)0;
        x[j] = with_upper(x[j], upper(x[j]) ^ sign);
    }
    unsigned word[8];
    cut_four(x, scale, word);
    unsigned char *const out = limbs + (step * columns + of_result / COLUMNS * COLUMNS) * BLOCKS_OF_B * STEP +
                               place_of(of_result % COLUMNS, four);
#pragma unroll
    for (int j = 0; j < LIMBS; j++) {
        *(unsigned *)(out + (LIMBS - 1 - j) * BLOCK_BYTES) = word[j];
        if (j) *(unsigned *)(out + (LIMBS - 1 + j) * BLOCK_BYTES) = word[j];
    }
}

/* A thread's sums, in the order above. */
#define OF_BLOCK (COLUMNS / 2)
typedef int Sums[BLOCKS_OF_B * OF_BLOCK];

/* Nothing that reads or writes sums is moved across this. */
__device__ __forceinline__ void pin(Sums &sum) {
#pragma unroll
    for (int i = 0; i < BLOCKS_OF_B * OF_BLOCK; i++) asm volatile("" : "+r"(sum[i])::"memory");
}

/* Σ_d 256^d·sum_d of one element. */
__device__ __forceinline__ void put_together(const Sums &sum, int element, u64 (&product)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) product[i] = 0;
#pragma unroll
    for (int d = 0; d < BLOCKS_OF_B; d += 4) {
        i64 some = 0;
#pragma unroll
        for (int c = d; c < d + 4 && c < BLOCKS_OF_B; c++)
            some += (i64)sum[(c < LIMBS ? LIMBS - 1 - c : c) * OF_BLOCK + element] << 8 * (c - d);
        add_shifted<COUNT>(product, some, 8 * d);
    }
}

/* Products of the limbs of A from the I-th on. */
template <int I> __device__ __forceinline__ void accumulate(Sums &sum, unsigned left, unsigned right) {
    if constexpr (I < LIMBS) {
        const u64 limb = descriptor<STEP>(left + I * TILE_BYTES);
        WGMMA_FENCE; // instructions of different shapes access the same sums
        wgmma<COLUMNS * (LIMBS - I)>(sum, limb, descriptor<STEP>(right + I * BLOCK_BYTES));
        if constexpr (I)
            wgmma<COLUMNS * I>(sum + LIMBS * OF_BLOCK, limb, descriptor<STEP>(right + (BLOCKS_OF_B - I) * BLOCK_BYTES));
        accumulate<I + 1>(sum, left, right);
    }
}

/* Warpgroups multiply in turn, and cut while the other one does. */
__device__ __forceinline__ void wait_for_turn(int team) {
    asm volatile("bar.sync %0, %1;" ::"r"(1 + team), "n"(THREADS) : "memory");
}
__device__ __forceinline__ void give_turn_to(int team) {
    asm volatile("bar.arrive %0, %1;" ::"r"(1 + team), "n"(THREADS) : "memory");
}

/* A thread's numbers of some steps, 4 for each of GROUPS, all of one row, and where their limbs go. */
struct Left {
    REAL number[LOADS][GROUPS][4];
    const REAL *from;
    i64 stride, apart;
    int scale, end, place;
    __device__ Left(const StridedParts &x, const LimbProduct &to, i64 begin, int length)
        : stride(UNIT && ALONG_K ? 1 : x.column_stride), apart(PARTS > 1 ? x.part1 - x.part0 : 0) {
        const int local = threadIdx.x / 4, four = threadIdx.x % 4, row = blockIdx.x * 64 + local;
        scale = row < to.m ? to.row_scale[row] : NONFINITE_ROW;
        end = scale == NONFINITE_ROW ? 0 : length - 2 * four;
        from = x.part0 + row * x.row_stride + (begin + 2 * four) * stride;
        place = place_of(local, four);
    }
    __device__ __forceinline__ void load(int step, int slot, int group) {
        const int first = step / PARTS * STEP + 2 * 4 * group;
        const REAL *const x = from + first * stride + (PARTS > 1 && step % PARTS ? apart : 0);
#pragma unroll
        for (int j = 0; j < 4; j += 1 + WIDE) {
            const bool there = first + NUMBER(j) < end;
            if constexpr (WIDE) { // pairs are aligned, and lie inside or outside as a whole
                typedef Pair<REAL>::Type Two;
                const Two two = there ? __ldcs((const Two *)(x + NUMBER(j))) : Two{};
                number[slot][group][j] = two.x, number[slot][group][j + 1] = two.y;
            } else {
                number[slot][group][j] = there ? __ldcs(x + NUMBER(j) * stride) : (REAL)0;
            }
        }
    }
    __device__ __forceinline__ void cut(unsigned char *tiles, int slot, int group) {
        unsigned word[8];
        cut_four(number[slot][group], scale, word);
#pragma unroll
        for (int i = 0; i < LIMBS; i++) *(unsigned *)(tiles + i * TILE_BYTES + (place ^ group * 16)) = word[i];
    }
};

/* A block has 64 rows, COLUMNS·ACROSS columns and a share of k, (blocks of rows, shares, blocks of columns). */
extern "C" __global__ void __launch_bounds__(THREADS, 1)
multiply_columns(StridedParts many, const unsigned char *limbs, LimbProduct to, int share, u64 *sums) {
    extern __shared__ __align__(1024) unsigned char memory[];
    unsigned char *const shared = memory + (-(unsigned)__cvta_generic_to_shared(memory) & 1023);
    const unsigned lefts = (unsigned)__cvta_generic_to_shared(shared), rights = lefts + STAGES * LEFT_BYTES;
    const unsigned ready = rights + STAGES * RIGHT_BYTES;
    // From lane 0, so that the compiler knows it to be one for the warp.
    const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), lane = threadIdx.x % 32, team = warp / 4;
    const i64 begin = (i64)blockIdx.y * share;
    const int length = min((i64)share, to.k - begin), steps = (length + STEP - 1) / STEP * PARTS;

    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) prepare(ready + 8 * i, WARPS + 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    const unsigned char *const right = limbs + (begin / STEP * PARTS * gridDim.z + blockIdx.z) * RIGHT_BYTES;
    const auto copy_right = [&](int step) {
        if (threadIdx.x == 0 && step < steps) {
            const unsigned barrier = ready + 8 * (step % STAGES);
            expect(barrier, RIGHT_BYTES);
            const unsigned char *const from = right + (i64)step * gridDim.z * RIGHT_BYTES;
            copy_bytes(rights + step % STAGES * RIGHT_BYTES, from, RIGHT_BYTES, barrier);
        }
        __syncwarp();
    };
    Left left(many, to, begin, length);
    /* Cut a step's numbers, and read later ones. */
    const auto make = [&](int step, int slot) {
#pragma unroll
        for (int group = 0; group < GROUPS; group++) left.cut(shared + step % STAGES * LEFT_BYTES, slot, group);
#pragma unroll
        for (int group = 0; group < GROUPS; group++) left.load(step + LOADS, slot, group);
        FENCE_SHARED;
        __syncwarp();
        if (lane == 0) arrive(ready + 8 * (step % STAGES));
        __syncwarp();
    };

#pragma unroll
    for (int i = 0; i < LOADS * GROUPS; i++) left.load(i / GROUPS, i / GROUPS, i % GROUPS);
#pragma unroll
    for (int step = 0; step < AHEAD; step++) {
        copy_right(step);
        make(step, step % LOADS);
    }
    if (team == 1) give_turn_to(0);
    Sums sum = {};
    pin(sum);
#pragma unroll 1
    for (int first = 0; first < steps; first += LOADS)
#pragma unroll
        for (int slot = 0; slot < LOADS; slot++) {
            const int step = first + slot, stage = step % STAGES;
            if (step >= steps) break;
            wait(ready + 8 * stage, step / STAGES & 1);
            wait_for_turn(team);
            accumulate<0>(sum, lefts + stage * LEFT_BYTES,
                          rights + stage * RIGHT_BYTES + team * BLOCKS_OF_B * BLOCK_BYTES);
            WGMMA_COMMIT;
            if (team == 0 || step + 1 < steps) give_turn_to(1 - team);
            WGMMA_WAIT(1); // products of the step before
            copy_right(step + AHEAD);
            make(step + AHEAD, (slot + AHEAD) % LOADS);
        }
    WGMMA_WAIT(0);
    pin(sum);
    __syncthreads();

    /* The products, rounded, or where k is shared, into memory. */
    u64(*const product)[ACROSS * COLUMNS + 1][COUNT] = (u64(*)[ACROSS * COLUMNS + 1][COUNT])shared;
#pragma unroll
    for (int e = 0; e < OF_BLOCK; e++) {
        const int row = warp % 4 * 16 + e / 2 % 2 * 8 + lane / 4;
        const int column = team * COLUMNS + e / 4 * 8 + lane % 4 * 2 + e % 2;
        put_together(sum, e, product[row][column]);
    }
    __syncthreads();
    const bool by_rows = llabs(to.column_stride) < llabs(to.row_stride);
#pragma unroll 1
    for (int at = threadIdx.x; at < 64 * ACROSS * COLUMNS; at += THREADS) {
        const int r = by_rows ? at / (ACROSS * COLUMNS) : at % 64, c = by_rows ? at % (ACROSS * COLUMNS) : at / 64;
        const int row = blockIdx.x * 64 + r, column = (blockIdx.z * ACROSS * COLUMNS + c) / PARTS, part = c % PARTS;
        if (row < to.m && column < to.n) to.put(product[r][c], row, column, part, sums);
    }
}
