/* C_t = A_t·B_tᵀ modulo p_t for every modulus, from int8 residues to int8 residues: the int32 sums never
   leave the registers. */
#include "multiword/engines/fused.cuh"
#include "multiword/engines/residues.cuh"
#define FLOAT_MAGIC 12582912.0f

/* Where sums start: added to this, modulo 2^32, no sum is negative. */
#define START (1 << 31)

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

/* Where the residues of a tile go: its first element, rows and columns from there, and its modulus. */
struct alignas(16) Target {
    signed char *to;
    int rows, columns;
    Modulus modulus;
    __device__ Target(const TileIndex &at, const ResidueMatrices &c, const ProductShape &shape)
        : to(c.residues + at.image * c.image_stride + at.matrix * c.matrix_stride +
             at.row * c.row_stride + at.column),
          rows(shape.m - at.row), columns(shape.n - at.column),
          modulus(c.moduli[at.image % c.count]) {}
};

/* The residues of a team's rows, from shared memory to the result, in complete rows of T's: as many at a time as the
   team has threads for. */
template <class T>
__device__ __forceinline__ void store(const unsigned char *from, signed char *to, long long stride, int rows,
                                      int columns) {
    constexpr int ACROSS = BN / (int)sizeof(T), STEP = TEAM / ACROSS;
    const int row = threadIdx.x % TEAM / ACROSS, column = threadIdx.x % TEAM % ACROSS * (int)sizeof(T);
    from += row * STAGED_BYTES + column;
    to += row * stride + column;
    if (row >= STEP || column >= columns) return;
#pragma unroll
    for (int i = 0; i < (TEAM_ROWS + STEP - 1) / STEP; i++, to += STEP * stride)
        if (row + i * STEP < min(rows, TEAM_ROWS)) *(T *)to = *(const T *)(from + i * STEP * STAGED_BYTES);
}

/* The sums of a tile to residues, by way of shared memory. */
__device__ __forceinline__ void finish(const Sums &sum, unsigned char *staged, const Target &target,
                                       const ResidueMatrices &c) {
    const Modulus &modulus = target.modulus;
    const int team = threadIdx.x / TEAM, above = team * TEAM_ROWS, row = first_row(), column = first_column();
    const long long stride = c.row_stride;
    meet(team); // what lay there has been read
#pragma unroll
    for (int i = 0; i < FRAGMENTS_M; i++)
#pragma unroll
        for (int j = 0; j < FRAGMENTS_N; j++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int x = reduced(sum[i][j][2 * half], modulus), y = reduced(sum[i][j][2 * half + 1], modulus);
                *(unsigned short *)(staged + (row + i * 16 + half * 8) * STAGED_BYTES + column + j * 8) =
                    __byte_perm(x, y, 0x40);
            }
    meet(team);
    const int rows = target.rows - above, columns = target.columns;
    signed char *const to = target.to + above * stride;
    const size_t alignment = (size_t)to | stride | columns;
    if (!c.add && alignment % 16 == 0) store<int4>(staged, to, stride, rows, columns);
    else if (!c.add && alignment % 4 == 0) store<int>(staged, to, stride, rows, columns);
    else
        for (int q = threadIdx.x % TEAM; q < TEAM_ROWS * BN; q += TEAM) {
            const int row = q / BN, column = q % BN;
            if (row >= rows || column >= columns) continue;
            signed char *const x = to + row * stride + column, residue = staged[row * STAGED_BYTES + column];
            *x = c.add ? added(*x, residue, modulus.p) : residue;
        }
}

__device__ __forceinline__ void clear(Sums &sum) {
#pragma unroll
    for (int i = 0; i < FRAGMENTS_M * FRAGMENTS_N * 4; i++) (&sum[0][0][0])[i] = START;
}

#if WGMMA
/* A cluster computes one tile for each of its blocks after another. A warp of each block copies its rows of A,
   and its share of the rows of B to all blocks. That warp and the warpgroups wait for each other by stages, and
   for nothing else: what the one finishes or copies, the others' products hide. */
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS + 32, BLOCKS)
multiply_residues_wgmma(const __grid_constant__ Operand a, const __grid_constant__ Operand b,
                        ResidueMatrices output, ProductShape shape) {
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
            const TileIndex from(shape, tile, block);
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
                WGMMA_WAIT(1);
                if (step > 0 && lane < CLUSTER) arrive(used + 8 * last, lane);
                last = stage;
            }
            WGMMA_WAIT(0);
            if (lane < CLUSTER) arrive(used + 8 * last, lane);
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; j++) asm volatile("" : R4(sum[0], j)::"memory"); // none is read before
            finish(sum, shared + STAGES * STAGE_BYTES + team * TEAM_ROWS * STAGED_BYTES, target, output);
        }
    }
    __syncwarp();
    meet_the_cluster(); // no block is gone while another one writes to its memory
}
#else
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
multiply_residues(WordMatrices a, WordMatrices b, ResidueMatrices output, ProductShape shape) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const unsigned stages = (unsigned)__cvta_generic_to_shared(shared);
    const int warp = threadIdx.x / 32, warp_m = warp % WARPS_M, warp_n = warp / WARPS_M;
    const TileIndex at(shape, blockIdx.x);
    const Tile<BM> left(a, at.image, at.matrix, at.row, shape.m, shape.k);
    const Tile<BN> right(b, at.image, at.matrix, at.column, shape.n, shape.k);
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
    finish(sum, shared, Target(at, output, shape), output);
}
#endif
