"""The first step of scheme "residues": integers, and their residues modulo every modulus."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from multiword._arrays import Array, is_cupy, namespace
from multiword._kernels import Kernel
from multiword.engines import get_product
from multiword.formats import FORMATS
from ozaki._parallel import over_rows
from ozaki._profile import OPERAND_SOURCE, operand_layout
from ozaki._residue_system import SPLIT, ResidueSystem, on_device, reduce, residue_system
from ozaki._scales import DISCARD

NARROW_BITS = {"int8": 68, "fp64": 55}
"""Integers up to these many bits are reduced from their value, wider ones from 53 bits times 2**x.

The value's upper half times a residue must be exact in float64; for int8 moduli only its quotient
is needed, to a hundredth."""

HOST_NARROW_BITS = 78
"""On the host the upper half is itself reduced first, if that makes the difference."""


def residues(
    parts: list[Array], scale: Array, system: ResidueSystem, padding: int, weighted: bool, width: int
) -> Array:
    """Return the residues of an operand's integers A' = RN(A·2**scale), in the system's words.

    Parameters
    ----------
    parts : (r, k) float32 or float64 real parts.
    scale : (r,) int32; rows with the scale `DISCARD` are taken as zero.
    padding : the row count and row length are filled up with zeros to multiples of this.
    weighted : whether to take w_t in (one side of a product must, the other must not).
    width : |A'| <= 2**width.

    Returns
    -------
    (images, N, r', k') array: the image of a real operand is itself; those of a complex one
    are its real part, its imaginary part and their sum (three products instead of four).
    """
    xp = namespace(parts[0])
    rows, columns = parts[0].shape
    shape = (2 * len(parts) - 1, len(system.moduli), _padded(rows, padding), _padded(columns, padding))
    out = xp.empty(shape, get_product(system.word).word)
    make = _residues_device if is_cupy(parts[0]) else _residues_host
    make(parts, scale, system, weighted, width, out)
    return out


def _padded(size: int, padding: int) -> int:
    return -(-size // padding) * padding


def _residues_host(
    parts: list[np.ndarray],
    scale: np.ndarray,
    system: ResidueSystem,
    weighted: bool,
    width: int,
    out: np.ndarray,
) -> None:
    factors = system.factors(weighted)
    powers = system.powers(width) if width > HOST_NARROW_BITS else None
    long = width > NARROW_BITS[system.word]
    rows, columns = parts[0].shape
    out[:, :, rows:] = 0
    out[:, :, :, columns:] = 0

    def work(block: slice) -> None:
        kept = scale[block] != DISCARD
        halves = [
            _integer_halves(_keep_rows(x[block], kept), scale[block] * kept, powers is not None)
            for x in parts
        ]
        for t, (p, inverse, low_factor, high_factor, *_) in enumerate(factors):
            images = []
            for high, low, power in halves:
                upper = reduce(high.copy(), p, inverse) if long else high
                y = reduce(upper * high_factor + low * low_factor, p, inverse)
                if powers is not None:
                    y = reduce(y * powers[t][power], p, inverse)
                images.append(y)
            if len(images) == 2:
                images.append(reduce(images[0] + images[1], p, inverse))
            for image, y in zip(out[:, t, block, :columns], images, strict=True):
                # 128 and -128 are one residue modulo 256; only the latter is an int8.
                np.copyto(
                    image,
                    np.where(y == 128, -128, y) if out.dtype == np.int8 and p == 256 else y,
                    casting="unsafe",
                )

    over_rows(work, rows, columns)


def _keep_rows(x: np.ndarray, kept: np.ndarray) -> np.ndarray:
    return x if kept.all() else np.where(kept[:, None], x, 0)


def _integer_halves(
    x: np.ndarray, scale: np.ndarray, wide: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """A' = (high·2**SPLIT + low)·2**power, with |low| below 2**SPLIT and |high| below 2**51."""
    power = None
    if wide:
        exponent = np.frexp(x)[1] + scale[:, None]
        power = np.maximum(exponent - FORMATS["fp64"].precision, 0)
        power[x == 0] = 0
        value = np.rint(np.ldexp(x.astype(np.float64), scale[:, None] - power))
    else:
        half = scale >> 1
        value = x * np.ldexp(1.0, half)[:, None]
        value *= np.ldexp(1.0, scale - half)[:, None]
        np.rint(value, out=value)
    high = value * 2.0**-SPLIT
    np.rint(high, out=high)
    value -= high * 2.0**SPLIT
    return high, value, power


_SPLIT_SOURCE = (
    OPERAND_SOURCE
    + r"""
#define QUAD 4
#define TILE_K 128
#define ROWS (ALONG_K ? WARPS : 32 / PARTS)
/* Adding 1.5·2^52 rounds to an integer and leaves it in the low bits: much faster than rint and
   the conversions. Good for magnitudes up to 2^51. */
#define MAGIC 6755399441055744.0
__device__ double reduced(double x, double p, double inverse) {
    return fma(-(fma(x, inverse, MAGIC) - MAGIC), p, x);
}
__device__ int low_bits(double x) { return __double2loint(x + MAGIC); }
#define BYTES (!FLOATING && !WIDE)

/* A modulus and its tables: p, 1/p, f0 = w, f1 = w·2^SPLIT modulo p, f0/p, f1/p; p, f0, f1 again. */
struct Modulus {
    double p, inverse, f0, f1, f0_over_p, f1_over_p;
    int whole_p, whole_f0, whole_f1;
    __device__ constexpr Modulus(double p, double inverse, double f0, double f1, double f0_over_p,
                                 double f1_over_p)
        : p(p), inverse(inverse), f0(f0), f1(f1), f0_over_p(f0_over_p), f1_over_p(f1_over_p),
          whole_p((int)p), whole_f0((int)f0), whole_f1((int)f1) {}
};
#ifdef TABLE
__constant__ const Modulus compiled_in[] = {TABLE};
#define MODULUS(t) compiled_in[t]
#define UNROLL MODULI
#else
#define MODULUS(t) \
    Modulus(table[6 * (t)], table[6 * (t) + 1], table[6 * (t) + 2], table[6 * (t) + 3], \
            table[6 * (t) + 4], table[6 * (t) + 5])
#define UNROLL 1
#endif

/* One element: its integer in two halves, and the power of two beyond its 53 bits if WIDE. */
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
#if BYTES
    /* The residue has magnitude at most 128, so its low byte, from integers modulo 2^32, is all of
       it: only the quotient needs floating point. */
    __device__ int residue(const Modulus &m, const double *) const {
        const int quotient = low_bits(fma(high, m.f1_over_p, low * m.f0_over_p));
        const int whole = low_bits(high) * m.whole_f1 + low_bits(low) * m.whole_f0;
        return (signed char)(whole - quotient * m.whole_p);
    }
    static __device__ int sum(int x, int y, const Modulus &m) {
        const int p = m.whole_p, half = (p - 1) / 2;
        return x + y + (x + y < -half ? p : 0) - (x + y > half ? p : 0);
    }
    static __device__ WORD word(int y) { return (WORD)y; }
#else
    __device__ double residue(const Modulus &m, const double *powers) const {
        double y = reduced(fma(high, m.f1, low * m.f0), m.p, m.inverse);
        if (WIDE) y = reduced(y * powers[power], m.p, m.inverse);
        return y;
    }
    static __device__ double sum(double x, double y, const Modulus &m) {
        return reduced(x + y, m.p, m.inverse);
    }
    /* The low byte: modulo 256 the residue 128 wraps around to -128. */
    static __device__ WORD word(double y) { return FLOATING ? (WORD)y : (WORD)low_bits(y); }
#endif
};

struct alignas(QUAD * sizeof(WORD)) Quad { WORD word[QUAD]; };

extern "C" __global__ void __launch_bounds__(THREADS)
split_residues(const REAL *x0, const REAL *x1, i64 row_stride, i64 column_stride, int rows, int columns,
               const int *scale, const double *__restrict__ table, const double *powers, int wide,
               WORD *out, int padded_rows, int padded_columns) {
#if !ALONG_K
    __shared__ REAL tile[PARTS][ROWS][TILE_K + 1];
#endif
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const int first_row = blockIdx.x * ROWS, first_column = blockIdx.y * TILE_K;
#if !ALONG_K
#pragma unroll 4
    for (int i = threadIdx.x; i < ROWS * TILE_K; i += THREADS) {
        const int r = i % ROWS, h = i / ROWS;
        if (first_row + r < rows && first_column + h < columns) {
            const i64 at = (first_row + r) * row_stride + (first_column + h) * column_stride;
            tile[0][r][h] = x0[at];
            if (PARTS == 2) tile[PARTS - 1][r][h] = x1[at];
        }
    }
    __syncthreads();
#endif
    const i64 modulus = (i64)padded_rows * padded_columns, image = MODULI * modulus;
    for (int local = warp; local < ROWS; local += WARPS) {
        const int row = first_row + local, column = first_column + lane * QUAD;
        if (row >= padded_rows || column >= padded_columns) continue;
        Integer integer[PARTS][QUAD];
        if (row < rows && scale[row] != DISCARD) {
            const int s = scale[row];
#pragma unroll
            for (int j = 0; j < QUAD; j++)
                if (column + j < columns) {
#if ALONG_K
                    const i64 at = row * row_stride + (column + j) * column_stride;
                    integer[0][j] = Integer(exactly(x0[at]), s);
                    if (PARTS == 2) integer[PARTS - 1][j] = Integer(exactly(x1[at]), s);
#else
                    const int h = lane * QUAD + j;
                    integer[0][j] = Integer(exactly(tile[0][local][h]), s);
                    if (PARTS == 2) integer[PARTS - 1][j] = Integer(exactly(tile[PARTS - 1][local][h]), s);
#endif
                }
        }
        WORD *target = out + (i64)row * padded_columns + column;
#pragma unroll(UNROLL)
        for (int t = 0; t < MODULI; t++, target += modulus) {
            Quad quad[2 * PARTS - 1];
            const Modulus m = MODULUS(t);
#pragma unroll
            for (int j = 0; j < QUAD; j++) {
                const auto y0 = integer[0][j].residue(m, powers + (i64)t * wide);
                quad[0].word[j] = Integer::word(y0);
                if (PARTS == 2) {
                    const auto y1 = integer[PARTS - 1][j].residue(m, powers + (i64)t * wide);
                    quad[PARTS - 1].word[j] = Integer::word(y1);
                    quad[2 * PARTS - 2].word[j] = Integer::word(Integer::sum(y0, y1, m));
                }
            }
#pragma unroll
            for (int i = 0; i < 2 * PARTS - 1; i++) *(Quad *)(target + i * image) = quad[i];
        }
    }
}
"""
)

_WORD_TYPES: dict[str, dict[str, Any]] = {
    "int8": {"WORD": "signed char", "FLOATING": 0},
    "fp64": {"WORD": "double", "FLOATING": 1},
}
COMPILED_IN = 32
"""Tables of up to this many moduli are compiled into the kernel."""


@cache
def _split_constants(system: ResidueSystem, weighted: bool) -> dict[str, Any]:
    constants = {"SPLIT": SPLIT, "DISCARD": DISCARD, **_WORD_TYPES[system.word], "MODULI": len(system.moduli)}
    if len(system.moduli) <= COMPILED_IN:
        rows = (",".join(float(x).hex() for x in row) for row in system.factors(int(weighted)))
        constants["TABLE"] = ",".join(f"{{{row}}}" for row in rows)
    return constants


_SPLIT_RESIDUES = Kernel(
    "split_residues",
    _SPLIT_SOURCE,
    tuple(
        {
            **_split_constants(residue_system(word, bits, 4096, parts), True),
            "ALONG_K": along,
            "REAL": t,
            "PARTS": parts,
            "WIDE": wide,
        }
        for along in (0, 1)
        for word, bits, t, parts, wide in (
            ("int8", 109.2, "double", 1, 0),
            ("int8", 54.6, "float", 2, 0),
            ("int8", 300.0, "double", 2, 1),
            ("fp64", 109.2, "float", 1, 0),
            ("fp64", 900.0, "double", 1, 1),
        )
    ),
)


def _residues_device(
    parts: list[Array], scale: Array, system: ResidueSystem, weighted: bool, width: int, out: Array
) -> None:
    wide = width if width > NARROW_BITS[system.word] else 0
    xp = namespace(out)
    strides, layout = operand_layout(parts[0])
    rows, columns = parts[0].shape
    padded_rows, padded_columns = out.shape[2:]
    constants = {**_split_constants(system, weighted), **layout, "PARTS": len(parts), "WIDE": int(wide > 0)}
    block_rows = 8 if layout["ALONG_K"] else 32 // len(parts)
    grid = (-(-padded_rows // block_rows), -(-padded_columns // 128))
    factors = on_device(system, "factors", int(weighted), xp)
    powers = on_device(system, "powers", wide, xp) if wide else factors
    sizes = (np.int64(strides[0]), np.int64(strides[1]), np.int32(rows), np.int32(columns))
    tables = (scale, factors, powers, np.int32(wide))
    arguments = (parts[0], parts[-1], *sizes, *tables, out, np.int32(padded_rows), np.int32(padded_columns))
    _SPLIT_RESIDUES(grid, (256,), arguments, **constants)
