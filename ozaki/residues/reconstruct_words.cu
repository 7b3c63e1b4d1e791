#include "ozaki/residues/reconstruct.cuh"

extern "C" __global__ void __launch_bounds__(256, BLOCKS)
reconstruct_words(ResidueProducts y, Rounding to, REAL *high, REAL *low) {
    REAL *const words[] = {high, low};
    reconstruct_rows(y, to, words);
}
