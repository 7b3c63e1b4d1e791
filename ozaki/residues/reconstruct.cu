#include "ozaki/residues/reconstruct.cuh"

extern "C" __global__ void __launch_bounds__(256, BLOCKS)
reconstruct(ResidueProducts y, Rounding to, REAL *out) {
    REAL *const words[] = {out};
    reconstruct_rows(y, to, words);
}
