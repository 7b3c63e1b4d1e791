/* C_t = A_t·B_tᵀ modulo p_t for every modulus, from int8 residues to int8 residues: the int32 sums never
   leave the registers. A block computes BM by BN elements of one product, of BK numbers of k at a time,
   STAGES of which are on their way into shared memory; a warp computes WM by WN of them.

   WGMMA: on sm_90a the tensor cores read both operands from shared memory, 64 rows to a warpgroup; elsewhere,
   through registers, by mma.sync. The sums lie alike in registers: of every 8 columns a thread has two
   neighbours in a row, and the two 8 rows below. */
#define WARPS_M (BM / WM)
#define WARPS_N (BN / WN)
#define THREADS (32 * WARPS_M * WARPS_N)
/* What finishes its rows together: a warpgroup, without a look at the other one; or the block. */
#define TEAM (WGMMA ? 128 : THREADS)
#define TEAM_ROWS (WGMMA ? 64 : BM)
#define CHUNKS (BK / 16)
#define STAGE_BYTES ((BM + BN) * BK)
#define PAD 16
#define FLOAT_MAGIC 12582912.0f

/* Matrices of words, (images, stack, rows, k): where they lie; strides in bytes. */
struct WordMatrices { const signed char *words; long long row_stride, matrix_stride, image_stride; };

/* The residues of a product: 1/p, p, where sums start, and the residues of 256^i, a byte each. */
struct Modulus { float inverse; int p, start, weights; };

/* Image i is modulo moduli[i % count]. */
struct Residues { Modulus moduli[56]; int count; };

struct ProductShape { int m, n, k, stack, tiles, add; };

/* Where sums start: added to this, modulo 2^32, no sum is negative. */
#define BIAS (1 << 31)

/* The residue of least magnitude in the low byte, from a biased sum: its bytes times the residues of their
   weights; `start` takes the bias back and puts the new sum, below 2^17, into the low bits of the float
   1.5·2^23 + sum, so that no conversion is needed for the quotient, which is exact. */
__device__ __forceinline__ int reduced(int biased, const Modulus &m) {
    int sum = m.start;
    asm("dp4a.u32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(biased), "r"(m.weights));
    const float quotient = __fmaf_rn(__int_as_float(sum) - FLOAT_MAGIC, m.inverse, FLOAT_MAGIC);
    return sum - __float_as_int(quotient) * m.p;
}

/* The sum of two residues of least magnitude, such a residue again; modulo 256 a byte is. */
__device__ int added(int x, int y, int p) {
    const int sum = x + y;
    return 2 * sum > p ? sum - p : 2 * sum < -p ? sum + p : sum;
}

/* Chunks of 16 bytes of a row are permuted, so that 8 rows of a column lie in different banks. */
__device__ __forceinline__ int chunk_of(int row, int chunk) {
    return chunk ^ (CHUNKS == 8 ? row & 7 : row >> 1 & 3);
}

/* Which tile: its image and matrix, first row and column; the tiles of a cluster's blocks lie one below the
   other. Those of GROUP rows of them go together, for they share what they read in the second-level cache. */
struct Place {
    int image, matrix, row, column;
    __device__ Place(const ProductShape &shape, int index, int block = 0) {
        const int height_of_all = CLUSTER * BM, columns = (shape.n + BN - 1) / BN;
        const int rows = (shape.m + height_of_all - 1) / height_of_all;
        const int product = index / (rows * columns), tile = index % (rows * columns);
        const int group = tile / (GROUP * columns) * GROUP, height = min(rows - group, GROUP);
        image = product / shape.stack, matrix = product % shape.stack;
        row = (group + (tile - group * columns) % height) * height_of_all + block * BM;
        column = (tile - group * columns) / height * BN;
    }
};

#if WGMMA
/* How matrices lie in memory, as the copy engine takes it: CUtensorMap. */
struct alignas(64) Operand { unsigned char map[128]; };

/* A tile of BK numbers, permuted as above, to this block or, at the same place, to all of the cluster; what is
   outside of the matrix is zero. */
template <bool TO_ALL>
__device__ __forceinline__ void copy_tile(unsigned to, const Operand &x, int k, int row, const Place &place,
                                          unsigned barrier) {
    if constexpr (TO_ALL)
        asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                     ".multicast::cluster [%0], [%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(to),
                     "l"(&x), "r"(k), "r"(row), "r"(place.matrix), "r"(place.image), "r"(barrier),
                     "h"((unsigned short)((1 << CLUSTER) - 1))
                     : "memory");
    else
        asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                     " [%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(to),
                     "l"(&x), "r"(k), "r"(row), "r"(place.matrix), "r"(place.image), "r"(barrier)
                     : "memory");
}
/* Barriers of shared memory: so many arrivals, and all bytes that are expected, end a phase. */
__device__ __forceinline__ void prepare(unsigned barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/* Arrive at the barrier of a block of this cluster. */
__device__ __forceinline__ void arrive(unsigned barrier, int block) {
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;"
                 " mbarrier.arrive.shared::cluster.b64 _, [there]; }" ::"r"(barrier), "r"(block)
                 : "memory");
}
__device__ __forceinline__ int block_of_cluster() {
    int rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
__device__ __forceinline__ void meet_the_cluster() {
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ __forceinline__ void expect(unsigned barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void wait(unsigned barrier, int parity) {
    int done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(barrier), "r"(parity)
                     : "memory");
}

#define FRAGMENTS_M 1
#define FRAGMENTS_N (WN / 8)
/* Rows of 128 bytes, permuted as above, groups of 8 of them 1024 bytes apart. */
__device__ __forceinline__ unsigned long long descriptor(unsigned address) {
    return (unsigned long long)(address >> 4 & 0x3fff) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}
#define R4(d, i) "+r"(d[i][0]), "+r"(d[i][1]), "+r"(d[i][2]), "+r"(d[i][3])
#define R16(d, i) R4(d, i), R4(d, i + 1), R4(d, i + 2), R4(d, i + 3)
#define WGMMA_FENCE asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
/* sum += A·Bᵀ of 32 numbers of k, for a warpgroup. */
__device__ __forceinline__ void wgmma(int (&sum)[FRAGMENTS_N][4], unsigned long long left, unsigned long long right) {
#if WN == 256
    asm volatile("wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
                 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
                 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
                 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
                 "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
                 "%128, %129, 1;"
                 : R16(sum, 0), R16(sum, 4), R16(sum, 8), R16(sum, 12),
                 R16(sum, 16), R16(sum, 20), R16(sum, 24), R16(sum, 28)
                 : "l"(left), "l"(right));
#else
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
                 "%64, %65, 1;"
                 : R16(sum, 0), R16(sum, 4), R16(sum, 8), R16(sum, 12)
                 : "l"(left), "l"(right));
#endif
}

/* sum += A·Bᵀ of a stage, of which so many numbers of k are left. */
__device__ __forceinline__ void accumulate(int (&sum)[FRAGMENTS_N][4], unsigned stage, int team, int left_of_k) {
    static_assert(BM == 128 && BK == 128 && WM == 16 && WN == BN && (BN == 128 || BN == 256), "two warpgroups");
    const unsigned left = stage + team * TEAM_ROWS * BK, right = stage + BM * BK;
    if (left_of_k >= BK) {
        WGMMA_FENCE;
#pragma unroll
        for (int h = 0; h < BK; h += 32) wgmma(sum, descriptor(left + h), descriptor(right + h));
    } else {
#pragma unroll 1
        for (int h = 0; h < left_of_k; h += 32) {
            WGMMA_FENCE;
            wgmma(sum, descriptor(left + h), descriptor(right + h));
        }
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
#else
__device__ __forceinline__ void copy16(unsigned to, const void *from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0)
                 : "memory");
}
#define COPIES_DONE_BUT(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")

/* This thread's part of a tile of ROWS rows and BK numbers; what is outside of the matrix is zero. */
template <int ROWS> struct Tile {
    const signed char *from;
    long long step;
    int rows, k, to;
    __device__ Tile(const WordMatrices &x, int image, int matrix, int first, int all, int length) {
        const int row = threadIdx.x / CHUNKS, chunk = threadIdx.x % CHUNKS;
        from = x.words + image * x.image_stride + matrix * x.matrix_stride + (first + row) * x.row_stride +
               16 * chunk;
        step = THREADS / CHUNKS * x.row_stride;
        rows = all - first - row;
        k = length - 16 * chunk;
        to = row * BK + 16 * chunk_of(row, chunk);
    }
    __device__ __forceinline__ void load(unsigned tile, int h) const {
        static_assert(ROWS % (THREADS / CHUNKS) == 0 && THREADS / CHUNKS % 8 == 0, "rows of a tile");
#pragma unroll
        for (int i = 0; i < ROWS * CHUNKS / THREADS; i++)
            copy16(tile + to + i * THREADS * 16, from + i * step + h, h < k && i * (THREADS / CHUNKS) < rows);
    }
};

#define FRAGMENTS_M (WM / 16)
#define FRAGMENTS_N (WN / 8)

__device__ __forceinline__ void load_fragment(unsigned (&x)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(address));
}

/* sum += A·Bᵀ of a stage. */
__device__ __forceinline__ void accumulate(int (&sum)[FRAGMENTS_M][FRAGMENTS_N][4], unsigned stage, int warp_m,
                                           int warp_n) {
    const int lane = threadIdx.x % 32;
    const int row = lane & 15, column = (lane & 7) + (lane >> 4) * 8;
    const unsigned left = stage + (warp_m * WM + row) * BK, right = stage + (BM + warp_n * WN + column) * BK;
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; chunk += 2) {
        unsigned a[FRAGMENTS_M][4], b[FRAGMENTS_N / 2][4];
#pragma unroll
        for (int j = 0; j < FRAGMENTS_N / 2; j++)
            load_fragment(b[j], right + j * 16 * BK + 16 * chunk_of(column, chunk + (lane >> 3 & 1)));
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; i++)
            load_fragment(a[i], left + i * 16 * BK + 16 * chunk_of(row, chunk + (lane >> 4)));
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; i++)
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; j++)
                asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                             "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                             : "+r"(sum[i][j][0]), "+r"(sum[i][j][1]), "+r"(sum[i][j][2]), "+r"(sum[i][j][3])
                             : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]),
                               "r"(b[j / 2][j % 2 * 2]), "r"(b[j / 2][j % 2 * 2 + 1]));
    }
}
#endif

__device__ __forceinline__ void clear(int (&sum)[FRAGMENTS_M][FRAGMENTS_N][4]) {
#pragma unroll
    for (int i = 0; i < FRAGMENTS_M * FRAGMENTS_N * 4; i++) (&sum[0][0][0])[i] = BIAS;
}

/* Wait for the other threads of a team. */
__device__ __forceinline__ void meet(int team) {
    asm volatile("bar.sync %0, %1;" ::"r"(1 + team), "n"(TEAM) : "memory");
}

/* Where the residues of a tile go: its first element, rows and columns from there, and its modulus. */
struct alignas(16) Target {
    signed char *to;
    int rows, columns;
    Modulus modulus;
    __device__ Target(const Place &place, const WordMatrices &c, const Residues &residues, const ProductShape &shape)
        : to((signed char *)c.words + place.image * c.image_stride + place.matrix * c.matrix_stride +
             place.row * c.row_stride + place.column),
          rows(shape.m - place.row), columns(shape.n - place.column),
          modulus(residues.moduli[place.image % residues.count]) {}
};

/* The residues of a team's rows, from shared memory to the result, in whole rows of T's. */
template <class T>
__device__ __forceinline__ void store(const unsigned char *from, signed char *to, long long stride, int rows,
                                      int columns) {
    constexpr int ACROSS = BN / (int)sizeof(T), STEP = TEAM / ACROSS;
    static_assert(TEAM % ACROSS == 0, "threads side by side");
    const int row = threadIdx.x % TEAM / ACROSS, column = threadIdx.x % ACROSS * (int)sizeof(T);
    from += row * (BN + PAD) + column;
    to += row * stride + column;
    if (column >= columns) return;
#pragma unroll
    for (int i = 0; i < (TEAM_ROWS + STEP - 1) / STEP; i++, to += STEP * stride)
        if (row + i * STEP < min(rows, TEAM_ROWS)) *(T *)to = *(const T *)(from + i * STEP * (BN + PAD));
}

/* The sums of a tile to residues, by way of shared memory; each team its rows. */
__device__ __forceinline__ void finish(int (&sum)[FRAGMENTS_M][FRAGMENTS_N][4], unsigned char *staged,
                                       const Target &target, long long stride, bool add) {
    const Modulus &modulus = target.modulus;
    const int team = threadIdx.x / TEAM, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int first_row = warp % WARPS_M * WM % TEAM_ROWS + lane / 4;
    const int first_column = warp / WARPS_M * WN + lane % 4 * 2, above = team * TEAM_ROWS;
    staged += above * (BN + PAD);
    meet(team); // what lay there has been read
#pragma unroll
    for (int i = 0; i < FRAGMENTS_M; i++)
#pragma unroll
        for (int j = 0; j < FRAGMENTS_N; j++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int x = reduced(sum[i][j][2 * half], modulus), y = reduced(sum[i][j][2 * half + 1], modulus);
                *(unsigned short *)(staged + (first_row + i * 16 + half * 8) * (BN + PAD) + first_column + j * 8) =
                    __byte_perm(x, y, 0x40);
            }
    meet(team);
    const int rows = target.rows - above, columns = target.columns;
    signed char *const to = target.to + above * stride;
    const size_t alignment = (size_t)to | stride | columns;
    if (!add && alignment % 16 == 0) store<int4>(staged, to, stride, rows, columns);
    else if (!add && alignment % 4 == 0) store<int>(staged, to, stride, rows, columns);
    else
        for (int q = threadIdx.x % TEAM; q < TEAM_ROWS * BN; q += TEAM) {
            const int row = q / BN, column = q % BN;
            if (row >= rows || column >= columns) continue;
            signed char *const x = to + row * stride + column, found = staged[row * (BN + PAD) + column];
            *x = add ? added(*x, found, modulus.p) : found;
        }
}

#if WGMMA
/* A cluster computes one tile for each of its blocks after another. A warp of each block copies its rows of A,
   and its share of the rows of B to all blocks. That warp and the warpgroups wait for each other by stages, and
   for nothing else: what the one finishes or copies, the others' products hide. */
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS + 32, BLOCKS)
multiply_residues_wgmma(const __grid_constant__ Operand a, const __grid_constant__ Operand b, WordMatrices c,
                        Residues residues, ProductShape shape) {
    extern __shared__ __align__(1024) unsigned char memory[];
    /* Where it is, unless a sanitizer has shared memory of its own. */
    unsigned char *const shared = memory + (-(unsigned)__cvta_generic_to_shared(memory) & 1023);
    const unsigned stages = (unsigned)__cvta_generic_to_shared(shared);
    const unsigned copied = stages + STAGES * STAGE_BYTES + BM * (BN + PAD), used = copied + 8 * STAGES;
    /* Of the tile that begins with a stage: the copying thread works it out for all. */
    Target *const targets = (Target *)(shared + STAGES * STAGE_BYTES + BM * (BN + PAD) + 16 * STAGES);
    // From lane 0, so that the compiler knows it to be one for the warp: else it lets no two wgmma overlap.
    const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), lane = threadIdx.x % 32, team = warp / 4;
    const int block = block_of_cluster();
    const int steps = (shape.k + BK - 1) / BK, first = blockIdx.x / CLUSTER, stride = gridDim.x / CLUSTER;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) prepare(copied + 8 * i, 1), prepare(used + 8 * i, CLUSTER * THREADS / 32);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    meet_the_cluster();

    int stage = 0, parity = 0;
    const auto advance = [&]() {
        if (++stage == STAGES) stage = 0, parity ^= 1;
    };
    if (warp == THREADS / 32) {
        const int share = block * (BN / CLUSTER);
#pragma unroll 1
        for (int tile = first; lane == 0 && tile < shape.tiles; tile += stride) {
            const Place from(shape, tile, block);
#pragma unroll 1
            for (int step = 0; step < steps; step++, advance()) {
                const unsigned to = stages + stage * STAGE_BYTES, barrier = copied + 8 * stage;
                wait(used + 8 * stage, parity ^ 1);
                if (step == 0) targets[stage] = Target(from, c, residues, shape);
                expect(barrier, STAGE_BYTES);
                copy_tile<false>(to, a, step * BK, from.row, from, barrier);
                copy_tile<(CLUSTER > 1)>(to + (BM + share) * BK, b, step * BK, from.column + share, from, barrier);
            }
        }
    } else {
#pragma unroll 1
        for (int tile = first; tile < shape.tiles; tile += stride) {
            int sum[1][FRAGMENTS_N][4], last = 0;
            clear(sum);
            wait(copied + 8 * stage, parity);
            const Target target = targets[stage];
#pragma unroll 1
            for (int step = 0; step < steps; step++, advance()) {
                wait(copied + 8 * stage, parity);
                accumulate(sum[0], stages + stage * STAGE_BYTES, team, shape.k - step * BK);
                asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
                if (step > 0 && lane < CLUSTER) arrive(used + 8 * last, lane);
                last = stage;
            }
            asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
            if (lane < CLUSTER) arrive(used + 8 * last, lane);
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; j++) asm volatile("" : R4(sum[0], j)::"memory"); // none is read before
            finish(sum, shared + STAGES * STAGE_BYTES, target, c.row_stride, shape.add);
        }
    }
    __syncwarp();
    meet_the_cluster(); // no block is gone while another one writes to its memory
}
#else
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
multiply_residues(WordMatrices a, WordMatrices b, WordMatrices c, Residues residues, ProductShape shape) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const unsigned stages = (unsigned)__cvta_generic_to_shared(shared);
    const int warp = threadIdx.x / 32, warp_m = warp % WARPS_M, warp_n = warp / WARPS_M;
    const Place place(shape, blockIdx.x);
    const Tile<BM> left(a, place.image, place.matrix, place.row, shape.m, shape.k);
    const Tile<BN> right(b, place.image, place.matrix, place.column, shape.n, shape.k);
    const int steps = (shape.k + BK - 1) / BK;
    const auto load = [&](int step) {
        if (step < steps) {
            const unsigned stage = stages + step % STAGES * STAGE_BYTES;
            left.load(stage, step * BK);
            right.load(stage + BM * BK, step * BK);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    int sum[FRAGMENTS_M][FRAGMENTS_N][4];
    clear(sum);
    for (int step = 0; step < STAGES - 1; step++) load(step);
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        COPIES_DONE_BUT(STAGES - 2);
        __syncthreads();
        load(step + STAGES - 1);
        accumulate(sum, stages + step % STAGES * STAGE_BYTES, warp_m, warp_n);
    }
    COPIES_DONE_BUT(0);
    finish(sum, shared, Target(place, c, residues, shape), c.row_stride, shape.add);
}
#endif
