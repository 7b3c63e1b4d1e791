/* Of a product of a (rows, width) matrix that has so many entries stored, and a (width, columns) one, of real columns. */
struct SparseSizes {
    long long rows, width, stored, columns;
    double imaginary; /* the sign of the matrix's imaginary parts */
};
