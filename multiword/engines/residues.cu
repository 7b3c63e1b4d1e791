/* C_t = A_t·B_tᵀ modulo p_t for every modulus, from int8 residues to int8 residues: the int32 sums never
   leave the registers. */
#include "multiword/engines/fused_tile.cuh"
#define FLOAT_MAGIC 12582912.0f

/* The residues of a product: 1/p, p, where sums start, and the residues of 256^i, a byte each. */
struct Modulus { float inverse; int p, start, weights; };

/* Where residues go, as `WordMatrices`; image i is modulo moduli[i % count]; whether they are added to what is
   there. */
struct ResidueMatrices {
    signed char *residues;
    long long row_stride, matrix_stride, image_stride;
    Modulus moduli[56];
    int count, add;
};
typedef ResidueMatrices Output;

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
    __device__ Target(const Place &place, const Output &c, const ProductShape &shape)
        : to(c.residues + place.image * c.image_stride + place.matrix * c.matrix_stride +
             place.row * c.row_stride + place.column),
          rows(shape.m - place.row), columns(shape.n - place.column),
          modulus(c.moduli[place.image % c.count]) {}
};

/* The residues of a team's rows, from shared memory to the result, in whole rows of T's. */
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
__device__ __forceinline__ void finish(const Sums &sum, unsigned char *staged, const Target &target, const Output &c) {
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
            signed char *const x = to + row * stride + column, found = staged[row * STAGED_BYTES + column];
            *x = c.add ? added(*x, found, modulus.p) : found;
        }
}

__device__ void finish_all(const Output &) {}

#include "multiword/engines/fused.cuh"
