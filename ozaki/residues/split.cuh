#include "multiword/runtime/tiles.cuh"

/* The scales of the rows and, for fp64 words, the tables of the system: `SplitTables`. */
struct SplitTables { const int *scales; const double *factors, *powers; int wide; };

#if !FLOATING
/* INTEGERS: the operand's own are taken, with a sign (1) or without (-1).

   An integer as WORDS words of 32 bits, biased by half their range so that no byte is negative. Its
   residue is the sum of its bytes times their weights 256^i·w modulo p: the dot products start from
   `start`, which takes the bias back, and for the first part puts the sum into the low bits of the float
   1.5·2^23 + sum; one multiplication finds the quotient, whose product with p is taken off modulo 2^32. */
struct Modulus { float inverse; int p, start[PARTS], weights[PARTS][WORDS]; };
__constant__ const Modulus moduli[][MODULI] = TABLE; /* of each factor */
#define TABLES_OF(tables) moduli[0]
#define FLOAT_MAGIC 12582912.0f

struct Integer {
    unsigned word[WORDS];
    __device__ Integer() : word() { word[WORDS - 1] = 0x80000000u; }
#if INTEGERS
    /* The bits of x are an integer of 64 bits. */
    __device__ Integer(double x, int) {
        const i64 value = __double_as_longlong(x), above = INTEGERS > 0 ? value >> 63 : 0;
#pragma unroll
        for (int i = 0; i < WORDS; i++) word[i] = (unsigned)(i < 2 ? value >> 32 * i : above);
        word[WORDS - 1] ^= 0x80000000u;
    }
#else
    __device__ Integer(double x, int scale)
        : Integer(x, scale, WORDS > 2 ? max(0, exponent_of(x) + scale - 53) : 0) {}
    /* From 64 bits, times 2^power. */
    __device__ Integer(double x, int scale, int power) {
        const i64 value = __double2ll_rn(Scale(scale - power)(x));
#pragma unroll
        for (int i = 0; i < WORDS; i++) {
            const int shift = 32 * i - power;
            word[i] = (unsigned)(shift >= 0 ? value >> min(shift, 63) : shift > -32 ? value << -shift : 0);
        }
        word[WORDS - 1] ^= 0x80000000u;
    }
#endif
    /* Adds an integer, with carries. Two biases are one range, and vanish: the sum gets its own. */
    __device__ void operator+=(const Integer &other) {
        u64 sum = 0;
#pragma unroll
        for (int i = 0; i < WORDS; i++) {
            sum = (sum >> 32) + word[i] + other.word[i];
            word[i] = (unsigned)sum;
        }
        word[WORDS - 1] ^= 0x80000000u;
    }
    /* As frexp's. */
    static __device__ int exponent_of(double x) {
        const int exponent = __double2hiint(x) >> 20 & 0x7ff;
        return exponent ? exponent - 1022 : (__double2hiint(x * 18014398509481984.0) >> 20 & 0x7ff) - 1076;
    }
    /* The sum of bytes times weights of a part. */
    __device__ int weighted(const Modulus &m, int part) const {
        int sum = m.start[part];
#pragma unroll
        for (int i = 0; i < WORDS; i++)
            asm("dp4a.u32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(word[i]), "r"(m.weights[part][i]));
        return sum;
    }
};
/* Of a sum in the low bits of a float: its low byte is the residue. */
__device__ unsigned reduced(int sum, const Modulus &m) {
    const float quotient = __fmaf_rn(__int_as_float(sum) - FLOAT_MAGIC, m.inverse, FLOAT_MAGIC);
    return sum - __float_as_int(quotient) * m.p;
}

struct alignas(RUN) Run { unsigned word[RUN / 4]; };

__device__ void write_residues(const Integer (&x)[PARTS][RUN], const Modulus (&moduli)[MODULI], int count,
                               WORD *target, i64 modulus_stride) {
#pragma unroll 2
    for (int t = 0; t < MODULI; t++, target += modulus_stride) {
        const Modulus &m = moduli[t];
        Run images[IMAGES];
#pragma unroll
        for (int j = 0; j < RUN; j += 4) {
            unsigned y[IMAGES][4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int sum = x[0][j + i].weighted(m, 0);
                const int other = PARTS == 2 ? x[PARTS - 1][j + i].weighted(m, PARTS - 1) : 0;
                y[0][i] = reduced(IMAGES == 2 ? sum + other : sum, m);
                if (IMAGES == 2) y[IMAGES - 1][i] = reduced(sum - other, m);
                if (IMAGES == 3) {
                    y[IMAGES - 2][i] = reduced(__float_as_int(FLOAT_MAGIC) + other, m);
                    y[IMAGES - 1][i] = reduced(sum + other, m);
                }
            }
#pragma unroll
            for (int i = 0; i < IMAGES; i++)
                images[i].word[j / 4] = __byte_perm(__byte_perm(y[i][0], y[i][1], 0x40),
                                                    __byte_perm(y[i][2], y[i][3], 0x40), 0x5410);
        }
#pragma unroll
        for (int i = 0; i < IMAGES; i++) {
            WORD *const to = target + i * MODULI * modulus_stride;
            if (ALIGNED) *(Run *)to = images[i];
            else for (int j = 0; j < count; j++) to[j] = (WORD)(images[i].word[j / 4] >> j % 4 * 8);
        }
    }
}
#else
#define TABLES_OF(tables) tables

/* An fp16 number: CUDA's own takes a header that not every machine has. */
struct Half {
    unsigned short bits;
    Half() = default;
    __device__ Half(double x) { asm("cvt.rn.f16.f64 %0, %1;" : "=h"(bits) : "d"(x)); }
};
/* Adding 1.5·2^52 rounds to an integer: much faster than rint. Good for magnitudes up to 2^51. */
#define MAGIC 6755399441055744.0
__device__ double reduced(double x, double p, double inverse) {
    return fma(-(fma(x, inverse, MAGIC) - MAGIC), p, x);
}
/* An integer in two halves, and the power of two beyond narrow_bits. */
struct Integer {
    double high, low;
    int power;
    __device__ Integer() : high(0), low(0), power(0) {}
    __device__ Integer(double x, int scale) : power(0) {
        double value;
        if (WIDE) {
            power = x == 0 ? 0 : max(0, ilogb(x) + 1 + scale - 53);
            value = rint(scalbn(x, scale - power));
        } else {
            value = rint(Scale(scale)(x));
        }
        high = rint(value * (1.0 / (1 << SPLIT)));
        low = fma(-high, (double)(1 << SPLIT), value);
    }
};
__device__ void write_residues(const Integer (&x)[PARTS][RUN], const SplitTables &tables, int count, WORD *target,
                               i64 modulus_stride) {
    for (int t = 0; t < MODULI; t++, target += modulus_stride) {
        const double *m = tables.factors + (2 + 2 * PARTS) * t;
        const double p = m[0], inverse = m[1];
#pragma unroll
        for (int j = 0; j < RUN; j++) {
            if (j >= count) break;
            double y[PARTS];
            for (int part = 0; part < PARTS; part++) {
                const Integer &integer = x[part][j];
                y[part] = reduced(fma(integer.high, m[3 + 2 * part], integer.low * m[2 + 2 * part]), p, inverse);
                const i64 power = t * (i64)tables.wide + integer.power;
                if (WIDE) y[part] = reduced(y[part] * tables.powers[power], p, inverse);
            }
            const double other = y[PARTS - 1];
            target[j] = IMAGES == 2 ? reduced(y[0] + other, p, inverse) : y[0];
            if (IMAGES > 1)
                target[MODULI * modulus_stride + j] = IMAGES == 2 ? reduced(y[0] - other, p, inverse) : other;
            if (IMAGES == 3) target[2 * MODULI * modulus_stride + j] = reduced(y[0] + other, p, inverse);
        }
    }
}
#endif

/* The residues of a thread's run of integers. */
template <class Tables>
__device__ void write_residues(const Integer (&integer)[PARTS][RUN], const StagedRun &run, const Tables &tables,
                               WORD *out, int padded_rows, int padded_columns) {
    write_residues(integer, tables, min(RUN, padded_columns - run.column),
                   out + (i64)run.row * padded_columns + run.column, (i64)padded_rows * padded_columns);
}

/* The residues of a thread's run. */
template <class Tables>
__device__ void write_residues(const Staged &staged, const StagedRun &run, int scale, const Tables &tables, WORD *out,
                               int padded_rows, int padded_columns) {
    Integer integer[PARTS][RUN];
    if (scale != NONFINITE_ROW)
#pragma unroll
        for (int part = 0; part < PARTS; part++)
#pragma unroll
            for (int j = 0; j < RUN; j += 2) {
                const double2 pair = staged.pair(part, run.local_row, run.local_column + j);
                integer[part][j] = Integer(pair.x, scale);
                integer[part][j + 1] = Integer(pair.y, scale);
            }
    write_residues(integer, run, tables, out, padded_rows, padded_columns);
}
