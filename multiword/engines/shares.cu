/* Split-K: the residues of shares of the inner dimension, (images, shares, m, n), to those of their sums. */
typedef long long i64;

/* The moduli of a product's images. */
struct Moduli {
    int p[56];
};

extern "C" __global__ void __launch_bounds__(256)
add_shares(const signed char *residues, int shares, int images, int m, int n, Moduli moduli, int count,
           signed char *out, i64 row_stride, i64 image_stride, int add) {
    const i64 each = (i64)m * n, index = blockIdx.x * 256ll + threadIdx.x, at = index % each;
    const int image = index / each, p = moduli.p[image % count];
    if (image >= images) return;
    signed char *const to = out + image * image_stride + at / n * row_stride + at % n;
    int sum = add ? *to : 0;
#pragma unroll 8
    for (int share = 0; share < shares; share++) sum += residues[((i64)image * shares + share) * each + at];
    /* Exact: sums are below 2^24, and a quotient by an odd p is further from a tie than its rounding. */
    *to = sum - __float2int_rn((float)sum / p) * p;
}
