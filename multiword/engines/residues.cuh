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
