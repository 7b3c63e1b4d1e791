/* Split-K: the residues of shares of the inner dimension, (images, shares, m, n), to those of their sums. */
#include "multiword/engines/residues.cuh"

extern "C" __global__ void __launch_bounds__(256)
add_shares(const signed char *residues, int shares, int images, int m, int n, ResidueMatrices to) {
    const long long each = (long long)m * n, index = blockIdx.x * 256ll + threadIdx.x, at = index % each;
    const int image = index / each;
    if (image >= images) return;
    const int p = to.moduli[image % to.count].p;
    signed char *const out = to.residues + image * to.image_stride + at / n * to.row_stride + at % n;
    int sum = to.add ? *out : 0;
#pragma unroll 8
    for (int share = 0; share < shares; share++) sum += residues[((long long)image * shares + share) * each + at];
    /* Exact: sums are below 2^24, and a quotient by an odd p is further from a tie than its rounding. */
    *out = sum - __float2int_rn((float)sum / p) * p;
}
