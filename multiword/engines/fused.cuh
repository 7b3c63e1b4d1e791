/* Products of int8 matrices, A·Bᵀ, whose int32 sums never leave the registers but by an epilogue. A file that
   includes this one has included `fused_tile.cuh`, and has

       struct Output                           where sums go, a parameter of the kernel
       START                                   what they start from
       struct Target                           of a tile: a constructor of (Place, Output, ProductShape)
       finish(sums, staged, target, output)    by each team, with shared memory for its rows; lined up by meet
       finish_all(output)                      by each block, at its end

   and KERNEL is the kernel's name. */
/* Chunks of 16 bytes of a row are permuted, so that 8 rows of a column lie in different banks. */
__device__ __forceinline__ int chunk_of(int row, int chunk) {
    return chunk ^ (CHUNKS == 8 ? row & 7 : row >> 1 & 3);
}

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

__device__ __forceinline__ void load_fragment(unsigned (&x)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(address));
}

/* sum += A·Bᵀ of a stage. */
__device__ __forceinline__ void accumulate(Sums &sum, unsigned stage, int warp_m, int warp_n) {
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

__device__ __forceinline__ void clear(Sums &sum) {
#pragma unroll
    for (int i = 0; i < FRAGMENTS_M * FRAGMENTS_N * 4; i++) (&sum[0][0][0])[i] = START;
}

#if WGMMA
/* A cluster computes one tile for each of its blocks after another. A warp of each block copies its rows of A,
   and its share of the rows of B to all blocks. That warp and the warpgroups wait for each other by stages, and
   for nothing else: what the one finishes or copies, the others' products hide. */
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS + 32, BLOCKS)
KERNEL(const __grid_constant__ Operand a, const __grid_constant__ Operand b, Output output, ProductShape shape) {
    extern __shared__ __align__(1024) unsigned char memory[];
    /* Where it is, unless a sanitizer has shared memory of its own. */
    unsigned char *const shared = memory + (-(unsigned)__cvta_generic_to_shared(memory) & 1023);
    const unsigned stages = (unsigned)__cvta_generic_to_shared(shared);
    const unsigned copied = stages + STAGES * STAGE_BYTES + BM * STAGED_BYTES, used = copied + 8 * STAGES;
    /* Of the tile that begins with a stage: the copying thread works it out for all. */
    Target *const targets = (Target *)(shared + STAGES * STAGE_BYTES + BM * STAGED_BYTES + 16 * STAGES);
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
                if (step == 0) targets[stage] = Target(from, output, shape);
                expect(barrier, STAGE_BYTES);
                copy_tile<false>(to, a, step * BK, from.row, from, barrier);
                copy_tile<(CLUSTER > 1)>(to + (BM + share) * BK, b, step * BK, from.column + share, from, barrier);
            }
        }
    } else {
#pragma unroll 1
        for (int tile = first; tile < shape.tiles; tile += stride) {
            Sums sum;
            int last = 0;
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
            finish(sum, shared + STAGES * STAGE_BYTES + team * TEAM_ROWS * STAGED_BYTES, target, output);
        }
    }
    __syncwarp();
    meet_the_cluster(); // no block is gone while another one writes to its memory
    finish_all(output);
}
#else
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
KERNEL(WordMatrices a, WordMatrices b, Output output, ProductShape shape) {
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
    Sums sum;
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
    finish(sum, shared, Target(place, output, shape), output);
    finish_all(output);
}
#endif
