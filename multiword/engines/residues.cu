/* C_t = A_t·B_tᵀ modulo p_t for every modulus, from int8 residues to int8 residues: the int32 sums never
   leave the registers. */
#include "multiword/engines/fused.cuh"
#include "multiword/engines/residues.cuh"
#define FLOAT_MAGIC 12582912.0f

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
struct alignas(16) TileResidues {
    signed char *to;
    int rows, columns;
    Modulus modulus;
    __device__ TileResidues(const TileIndex &at, const ResidueMatrices &c, const ProductShape &shape)
        : to(c.residues + at.image * c.image_stride + at.matrix * c.matrix_stride +
             at.row * c.row_stride + at.column),
          rows(shape.m - at.row), columns(shape.n - at.column),
          modulus(c.moduli[at.image % c.count]) {}
};

/* The residues of a team's rows, from shared memory to the result, in complete rows of T's. */
template <class T>
__device__ __forceinline__ void store(const unsigned char *from, signed char *to, long long stride, int rows,
                                      int columns) {
    constexpr int ACROSS = BN / (int)sizeof(T), STEP = TEAM / ACROSS;
    static_assert(TEAM % ACROSS == 0, "threads side by side");
    const int row = threadIdx.x % TEAM / ACROSS, column = threadIdx.x % ACROSS * (int)sizeof(T);
    from += row * STAGED_BYTES + column;
    to += row * stride + column;
    if (column >= columns) return;
#pragma unroll
    for (int i = 0; i < (TEAM_ROWS + STEP - 1) / STEP; i++, to += STEP * stride)
        if (row + i * STEP < min(rows, TEAM_ROWS)) *(T *)to = *(const T *)(from + i * STEP * STAGED_BYTES);
}

/* The sums of a tile to residues, by way of shared memory. */
__device__ __forceinline__ void reduce(const Sums &sum, unsigned char *staged, const TileResidues &target,
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

/* Sums are reduced; added to where they start, modulo 2^32, none is negative. */
struct Residues {
    typedef TileResidues Target;
    static constexpr int START = 1 << 31;
    const ResidueMatrices &matrices;
    __device__ Target target(const TileIndex &at, const ProductShape &shape) const { return {at, matrices, shape}; }
    __device__ __forceinline__ void finish(const Sums &sum, unsigned char *staged, const Target &target) const {
        reduce(sum, staged, target, matrices);
    }
};

#if WGMMA
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS + 32, BLOCKS)
multiply_residues_wgmma(const __grid_constant__ Operand a, const __grid_constant__ Operand b,
                        ResidueMatrices matrices, ProductShape shape) {
#else
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
multiply_residues(WordMatrices a, WordMatrices b, ResidueMatrices matrices, ProductShape shape) {
#endif
    const Residues output{matrices};
    multiply_tiles(a, b, shape, output);
}
