typedef unsigned long long u64;
typedef long long i64;

/* The statistics of an operand's rows: `RowStatistics`. */
struct Rows {
    int *exponent;
    i64 *total, *square;
    int *counts; /* (COUNTS, rows) */
    int rows;
};
