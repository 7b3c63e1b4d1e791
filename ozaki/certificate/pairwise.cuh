#define SLACK (1 - 1.0 / (1ll << 50))

/* The bounds of one row of A, or column of B: half of its total, and 2^offset, both exact; of zeros, and outside of the
   panel, such that no pair has an error. */
struct RowBounds {
    double half, unit;
    __device__ RowBounds() {}
    __device__ RowBounds(const double *total, const int *offset, int i, int count) : half(-1.0 / 0), unit(0) {
        if (i < count && total[i] > 0) half = total[i] / 2, unit = scalbn(1.0, offset[i]);
    }
};

/* A pair, and the product of its magnitudes: `compare_pairs`. */
struct Pair {
    double lower, truncation; /* of |A||B|, and T */
    __device__ Pair(double product, const RowBounds &a, const RowBounds &b, double quarter)
        : lower(product * SLACK * a.unit * b.unit), truncation(a.half + b.half + quarter) {}
    /* Whether T / |A||B| may be larger than an error: most often that is told without a division, which takes time. */
    __device__ bool may_exceed(double error) const { return !(truncation < error * lower * SLACK); }
    /* The larger one of them. */
    __device__ double larger(double error) const {
        return may_exceed(error) ? fmax(error, truncation / lower) : error;
    }
};

/* The largest number of a full warp. */
__device__ double largest_of_warp(double x) {
    for (int d = 16; d; d >>= 1) x = fmax(x, __shfl_xor_sync(~0u, x, d));
    return x;
}
