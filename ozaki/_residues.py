"""Scheme "residues": exact products by the Chinese remainder theorem (Ozaki scheme II).

    A'_t = A'·w_t mod p_t,   B'_t = B' mod p_t            t = 1, …, N    (residues)
    Y_t  = A'_t·B'_t mod p_t                                             (products, reduced)
    C'   = Σ_t Y_t·(P/p_t) - q·P,   q = RN(Σ_t Y_t/p_t),   P = Πp_t      (reconstruct)

w_t is the inverse of P/p_t modulo p_t: taken into A's residues, it costs nothing afterwards.
Every step is exact: the integers stay within float64's 53 bits, and C' is assembled from
digits small enough that their sums do too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np

from multiword._arrays import Array, is_cupy, namespace
from multiword._kernels import Kernel
from multiword.engines import Engine, get_product
from multiword.formats import FORMATS, Format
from ozaki._parallel import over_rows
from ozaki._profile import OPERAND_SOURCE, operand_layout
from ozaki._rounding import ROUNDING_SOURCE, round_digits
from ozaki._scales import DISCARD

SPLIT = 27
"""Integers are reduced in two halves, cut at this bit, so that nothing exceeds 53 bits."""

NARROW_BITS = 55
"""Integers up to 2**NARROW_BITS are reduced from their value, wider ones from 53 bits times 2**x."""

INT8_DEPTH = (1 << 17) - 1
"""The longest inner dimension over which products of int8 residues fit int32."""

FP64_DEPTH = 1 << 20
"""The longest inner dimension for which fp64 moduli are chosen; beyond, k is cut in blocks."""


@dataclass(frozen=True)
class ResidueSystem:
    """A residue number system: pairwise coprime moduli and the words that carry residues."""

    word: str
    depth: int
    moduli: tuple[int, ...]

    @cached_property
    def product(self) -> int:
        """P, the product of the moduli."""
        return math.prod(self.moduli)

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """w_t, the inverse of P/p_t modulo p_t."""
        return tuple(pow(self.product // p, -1, p) for p in self.moduli)

    @cached_property
    def base_bits(self) -> int:
        """Bits of a digit: Σ Y_t·digit and q·digit must stay below 2**53."""
        return min(40, 53 - (max(self.moduli) // 2).bit_length() - (len(self.moduli) + 1).bit_length())

    def digits(self, base_bits: int) -> np.ndarray:
        """(N + 1, L) float64: the digits of P/p_t, and of -P in the last row."""
        rows = [self.product // p for p in self.moduli] + [-self.product]
        count = -(-self.product.bit_length() // base_bits)
        mask = (1 << base_bits) - 1
        digits = [
            [(1 if x > 0 else -1) * ((abs(x) >> (base_bits * i)) & mask) for i in range(count)] for x in rows
        ]
        return np.array(digits, dtype=np.float64)

    def factors(self, weighted: int) -> np.ndarray:
        """(N, 4) float64: p, 1/p, and the symmetric residues of w·1 and w·2**SPLIT."""
        weights = self.weights if weighted else (1,) * len(self.moduli)
        rows = [
            (p, 1 / p, symmetric(w, p), symmetric(w << SPLIT, p))
            for p, w in zip(self.moduli, weights, strict=True)
        ]
        return np.array(rows, dtype=np.float64)

    def reconstruction_table(self, _: int = 0) -> np.ndarray:
        """1/p and -p for every modulus, then the rows of `digits`, in one float64 vector."""
        factors = [(1 / p, -p) for p in self.moduli]
        return np.concatenate([np.ravel(factors), self.digits(self.base_bits).ravel()])

    def powers(self, count: int) -> np.ndarray:
        """(N, count) float64: the symmetric residues of 2**x, for wide integers."""
        moduli = np.array(self.moduli)
        powers = np.ones((count, len(moduli)), np.int64)
        for before, after in pairwise(powers):
            np.remainder(2 * before, moduli, out=after)
        return np.where(powers > moduli // 2, powers - moduli, powers).T.astype(np.float64)


def symmetric(x: int, p: int) -> int:
    """The residue of x modulo p of least magnitude."""
    return (x + p // 2) % p - p // 2


@cache
def residue_system(word: str, bits: float, k: int, parts: int = 1) -> ResidueSystem:
    """Return the system of fewest moduli whose product exceeds 2·2**bits, for inner dimension k.

    `parts` is 2 for complex products, of which three are combined before they are reduced.

    Raises ValueError if int8 moduli, of which there are 49, do not reach that far.
    """
    if word == "int8":
        depth, largest = min(k, INT8_DEPTH), 256
    else:
        depth = min(1 << (k - 1).bit_length(), FP64_DEPTH)
        # depth·(p/2)² and its combinations stay below 2**53, with room for a multiple of p nearby
        exact = (1 << get_product(word).exact_bits) - (1 << 27)
        largest = min(2 * math.isqrt(exact // (depth * (1 if parts == 1 else 3))), 1 << 26)
    sequence = _coprimes(largest)
    total, count = 0.0, 0
    while total <= bits + 1:
        if count == len(sequence) and not _extend(sequence):
            raise ValueError(f"{word} moduli cannot hold integers of {bits:.0f} bits")
        total += math.log2(sequence[count])
        count += 1
    return _system(word, depth, tuple(sequence[:count]))


@cache
def _system(word: str, depth: int, moduli: tuple[int, ...]) -> ResidueSystem:
    return ResidueSystem(word, depth, moduli)


@cache
def _coprimes(largest: int) -> list[int]:
    """Pairwise coprime numbers from `largest` downwards, greedily; `_extend` adds the next."""
    return [largest]


def _extend(sequence: list[int]) -> bool:
    product = math.prod(sequence)
    for p in range(sequence[-1] - 1, 1, -1):
        if math.gcd(p, product) == 1:
            sequence.append(p)
            return True
    return False


INT8_BITS = 330.0
"""Integers beyond this many bits need fp64 moduli: the int8 ones are used up."""


def residues(
    parts: list[Array], scale: Array, system: ResidueSystem, padding: int, weighted: bool, wide: int
) -> Array:
    """Return the residues of an operand's integers A' = RN(A·2**scale), in the system's words.

    Parameters
    ----------
    parts : (r, k) float32 or float64 real parts.
    scale : (r,) int32; rows with the scale `DISCARD` are taken as zero.
    padding : the row count and row length are filled up with zeros to multiples of this.
    weighted : whether to take w_t in (one side of a product must, the other must not).
    wide : 0, or the number of powers of two that integers beyond NARROW_BITS need.

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
    make(parts, scale, system, weighted, wide, out)
    return out


def _padded(size: int, padding: int) -> int:
    return -(-size // padding) * padding


def _residues_host(
    parts: list[np.ndarray],
    scale: np.ndarray,
    system: ResidueSystem,
    weighted: bool,
    wide: int,
    out: np.ndarray,
) -> None:
    factors = system.factors(weighted)
    powers = system.powers(wide) if wide else None
    rows, columns = parts[0].shape
    out[:, :, rows:] = 0
    out[:, :, :, columns:] = 0

    def work(block: slice) -> None:
        kept = scale[block] != DISCARD
        halves = [_integer_halves(_keep_rows(x[block], kept), scale[block] * kept, bool(wide)) for x in parts]
        for t, (p, inverse, low_factor, high_factor) in enumerate(factors):
            images = []
            for high, low, power in halves:
                y = _reduce(high * high_factor + low * low_factor, p, inverse)
                if powers is not None:
                    y = _reduce(y * powers[t][power], p, inverse)
                images.append(y)
            if len(images) == 2:
                images.append(_reduce(images[0] + images[1], p, inverse))
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


def _reduce(x: np.ndarray, p: float, inverse: float) -> np.ndarray:
    """x mod p, symmetric, in place; exact for integers |x| < 2**52."""
    quotient = x * inverse
    np.rint(quotient, out=quotient)
    quotient *= p
    x -= quotient
    return x


def _integer_halves(
    x: np.ndarray, scale: np.ndarray, wide: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """A' = (high·2**SPLIT + low)·2**power, with |high| and |low| below 2**28."""
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


def products(
    a: Array, b: Array, system: ResidueSystem, engine: Engine, earlier: Array | None = None
) -> Array:
    """Return the (images, N, m', n') products of residues, exact, in the engine's result type.

    `earlier` are the products of other parts of the inner dimension: residues are associative,
    so they are added modulo the moduli, in any order.
    """
    xp = namespace(a)
    out = xp.empty((*a.shape[:3], b.shape[2]), get_product(system.word).result)
    for image, left, right in zip(out, a, b, strict=True):
        engine.multiply(system.word, left, right, out=image)
    if earlier is not None:
        for t, p in enumerate(system.moduli):
            earlier[:, t] = xp.remainder(earlier[:, t], p) + xp.remainder(out[:, t], p)
        return earlier
    return out


def reconstruct(
    y: Array, system: ResidueSystem, scales: tuple[Array, Array], target: Format, out: Array
) -> None:
    """Write RN(C'·2**(-s_i - t_j)) to `out`, an (m, n) array of the target's dtype or its complex.

    `y` is what `products` returned; it is destroyed.
    """
    make = _reconstruct_device if is_cupy(y) else _reconstruct_host
    make(y, system, scales, target, out)


def _reconstruct_host(
    y: np.ndarray,
    system: ResidueSystem,
    scales: tuple[np.ndarray, np.ndarray],
    target: Format,
    out: np.ndarray,
) -> None:
    m, n = out.shape
    moduli = np.array(system.moduli, np.float64)
    base_bits = min(system.base_bits, 31)
    digits = np.ascontiguousarray(system.digits(base_bits).T)
    parts = (out.real, out.imag) if out.dtype.kind == "c" else (out,)

    def work(block: slice) -> None:
        exponent = -(scales[0][block, None].astype(np.int64) + scales[1])
        for part, terms in zip(parts, _real_parts(y[:, :, block, :n]), strict=True):
            count = terms[0].size
            residue = np.empty((len(moduli) + 1, count))
            fraction = np.zeros(count)
            for t, p in enumerate(moduli):
                residue[t] = terms[t].ravel()
                _reduce(residue[t], p, 1 / p)
                fraction += residue[t] * (1 / p)
            np.rint(fraction, out=residue[-1])
            value = (digits @ residue).astype(np.int64)
            part[block] = round_digits(value.reshape(-1, *exponent.shape), base_bits, exponent, target)

    over_rows(work, m, n * 4)


def _real_parts(y: Array) -> list[Array]:
    """The real parts of a product from the products of images (Karatsuba's three)."""
    if len(y) == 1:
        return [y[0]]
    real, imaginary, both = y.astype(np.float64, copy=False)
    return [real - imaginary, both - real - imaginary]


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
__device__ WORD word_of(double y) { return FLOATING ? (WORD)y : (WORD)__double2loint(y + MAGIC); }

/* One element: its integer in two halves, and the power of two beyond NARROW_BITS. */
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
    __device__ double residue(const double *factor, const double *powers) const {
        double y = reduced(fma(high, factor[3], low * factor[2]), factor[0], factor[1]);
        if (WIDE) y = reduced(y * powers[power], factor[0], factor[1]);
        return y;
    }
};

struct alignas(QUAD * sizeof(WORD)) Quad { WORD word[QUAD]; };

extern "C" __global__ void __launch_bounds__(THREADS)
split_residues(const REAL *x0, const REAL *x1, i64 row_stride, i64 column_stride, int rows, int columns,
               const int *scale, const double *factors, const double *powers, int wide, int moduli,
               WORD *out, int padded_rows, int padded_columns) {
    __shared__ double factor[MODULI_LIMIT * 4];
#if !ALONG_K
    __shared__ REAL tile[PARTS][ROWS][TILE_K + 1];
#endif
    for (int i = threadIdx.x; i < moduli * 4; i += THREADS) factor[i] = factors[i];
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
#endif
    __syncthreads();
    const i64 image = (i64)moduli * padded_rows * padded_columns;
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
                    integer[0][j] = Integer(x0[at], s);
                    if (PARTS == 2) integer[PARTS - 1][j] = Integer(x1[at], s);
#else
                    integer[0][j] = Integer(tile[0][local][lane * QUAD + j], s);
                    if (PARTS == 2) integer[PARTS - 1][j] = Integer(tile[PARTS - 1][local][lane * QUAD + j], s);
#endif
                }
        }
        WORD *target = out + (i64)row * padded_columns + column;
        for (int t = 0; t < moduli; t++, target += (i64)padded_rows * padded_columns) {
            Quad quad[2 * PARTS - 1];
            const double *f = factor + 4 * t;
#pragma unroll
            for (int j = 0; j < QUAD; j++) {
                const double y0 = integer[0][j].residue(f, powers + (i64)t * wide);
                /* The low byte: modulo 256 the residue 128 wraps around to -128. */
                quad[0].word[j] = word_of(y0);
                if (PARTS == 2) {
                    const double y1 = integer[PARTS - 1][j].residue(f, powers + (i64)t * wide);
                    quad[PARTS - 1].word[j] = word_of(y1);
                    quad[2 * PARTS - 2].word[j] = word_of(reduced(y0 + y1, f[0], f[1]));
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
_SPLIT_CONSTANTS: dict[str, Any] = {"SPLIT": SPLIT, "MODULI_LIMIT": 320, "DISCARD": DISCARD}
_SPLIT_RESIDUES = Kernel(
    "split_residues",
    _SPLIT_SOURCE,
    tuple(
        {**_SPLIT_CONSTANTS, **types, "ALONG_K": along, "REAL": t, "PARTS": parts, "WIDE": wide}
        for types in _WORD_TYPES.values()
        for along in (0, 1)
        for t, parts, wide in (
            ("double", 1, 0),
            ("double", 2, 0),
            ("float", 1, 0),
            ("float", 2, 1),
            ("double", 1, 1),
        )
    ),
)


def _residues_device(
    parts: list[Array], scale: Array, system: ResidueSystem, weighted: bool, wide: int, out: Array
) -> None:
    xp = namespace(out)
    strides, layout = operand_layout(parts[0])
    rows, columns = parts[0].shape
    padded_rows, padded_columns = out.shape[2:]
    constants = {
        **_SPLIT_CONSTANTS,
        **_WORD_TYPES[system.word],
        **layout,
        "PARTS": len(parts),
        "WIDE": int(wide > 0),
    }
    block_rows = 8 if layout["ALONG_K"] else 32 // len(parts)
    grid = (-(-padded_rows // block_rows), -(-padded_columns // 128))
    factors = _on_device(system, "factors", int(weighted), xp)
    powers = _on_device(system, "powers", wide, xp) if wide else factors
    sizes = (np.int64(strides[0]), np.int64(strides[1]), np.int32(rows), np.int32(columns))
    tables = (scale, factors, powers, np.int32(wide), np.int32(len(system.moduli)))
    arguments = (parts[0], parts[-1], *sizes, *tables, out, np.int32(padded_rows), np.int32(padded_columns))
    _SPLIT_RESIDUES(grid, (256,), arguments, **constants)


@cache
def _table(system: ResidueSystem, name: str, argument: int, device: int, xp: ModuleType) -> Array:
    del device  # part of the key: the copy lies there
    table = xp.asarray(getattr(system, name)(argument))
    xp.cuda.get_current_stream().synchronize()  # other streams will read it
    return table


def _on_device(system: ResidueSystem, name: str, argument: int, xp: ModuleType) -> Array:
    return _table(system, name, argument, xp.cuda.runtime.getDevice(), xp)


_RECONSTRUCT_SOURCE = (
    ROUNDING_SOURCE
    + r"""
/* Table: 1/p and -p for every modulus, then the digits of every P/p, then those of -P. Up to a
   certain size it is compiled in, so that the multiplications take their factors for free. */
#ifdef TABLE
__constant__ const double compiled_in[] = {TABLE};
#define FROM_TABLE(i) compiled_in[i]
#define UNROLL MODULI
#else
#define FROM_TABLE(i) table[i]
#define UNROLL 1
#endif
#define MAGIC 6755399441055744.0
#define SMALL_UNROLL (DIGITS <= 16 ? DIGITS : 1)

__device__ double from_product(double x) { return x; }
/* Exact, without the slow conversion: 2^52 + 2^31 + x, and back. */
__device__ double from_product(int x) {
    return __hiloint2double(0x43300000, x ^ 0x80000000) - 4503601774854144.0;
}

/* Residues of one real number to its rounded value: what _reconstruct_host computes. */
__device__ double assemble(const PRODUCT *y0, const PRODUCT *y1, const PRODUCT *y2, long long stride,
                           const double *__restrict__ table, int exponent, int precision, int smallest) {
    double sum[DIGITS] = {}, fraction = 0;
#pragma unroll(UNROLL)
    for (int t = 0; t < MODULI; t++) {
        const long long at = t * stride;
        double y = from_product(y0[at]);
        if (y1) y -= from_product(y1[at]);
        if (y2) y -= from_product(y2[at]);
        const double inverse = FROM_TABLE(2 * t), negative = FROM_TABLE(2 * t + 1);
        y = fma(fma(y, inverse, MAGIC) - MAGIC, negative, y);
        fraction = fma(y, inverse, fraction);
#pragma unroll(SMALL_UNROLL)
        for (int d = 0; d < DIGITS; d++) sum[d] = fma(y, FROM_TABLE(2 * MODULI + t * DIGITS + d), sum[d]);
    }
    fraction = (fraction + MAGIC) - MAGIC;
    u64 limb[LIMBS] = {};
#pragma unroll(SMALL_UNROLL)
    for (int d = 0; d < DIGITS; d++) {
        const double value = fma(fraction, FROM_TABLE((2 + DIGITS) * MODULI + d), sum[d]);
        add_shifted<LIMBS>(limb, (long long)value, d * BASE_BITS);
    }
    return round_limbs<LIMBS>(limb, exponent, precision, smallest);
}

extern "C" __global__ void __launch_bounds__(256)
reconstruct(const PRODUCT *y, long long row_stride, long long modulus_stride, const double *__restrict__ table,
            const int *row_scale, const int *column_scale, int m, int n, int precision, int smallest, REAL *out) {
    const int column = blockIdx.x * 256 + threadIdx.x;
    if (column >= n) return;
    const long long image = modulus_stride * MODULI;
    for (int row = blockIdx.y; row < m; row += gridDim.y) {
        const PRODUCT *const at = y + row * row_stride + column;
        const int exponent = -(row_scale[row] + column_scale[column]);
        const long long target = (long long)row * n + column;
        if (PARTS == 1) {
            out[target] = (REAL)assemble(at, 0, 0, modulus_stride, table, exponent, precision, smallest);
        } else {
            out[2 * target] = (REAL)assemble(at, at + image, 0, modulus_stride, table, exponent,
                                          precision, smallest);
            out[2 * target + 1] = (REAL)assemble(at + 2 * image, at, at + image, modulus_stride, table,
                                              exponent, precision, smallest);
        }
    }
}
"""
)

_PRODUCT_TYPES = {"int8": "int", "fp64": "double"}

COMPILED_IN = 1 << 10
"""Tables of up to this many numbers are compiled into the kernel."""


@cache
def _reconstruct_constants(system: ResidueSystem) -> dict[str, Any]:
    digits = system.digits(system.base_bits)
    constants: dict[str, Any] = {
        "PRODUCT": _PRODUCT_TYPES[system.word],
        "MODULI": len(system.moduli),
        "DIGITS": digits.shape[1],
        "BASE_BITS": system.base_bits,
        "LIMBS": -(-(system.product.bit_length() + 1) // 64),
    }
    table = system.reconstruction_table()
    if table.size <= COMPILED_IN:
        constants["TABLE"] = ",".join(float(x).hex() for x in table)
    return constants


_RECONSTRUCT = Kernel(
    "reconstruct",
    _RECONSTRUCT_SOURCE,
    tuple(
        {**_reconstruct_constants(residue_system(word, bits, 4096, parts)), "REAL": t, "PARTS": parts}
        for word, bits, t, parts in (
            ("int8", 109.2, "double", 1),
            ("int8", 54.6, "float", 2),
            ("int8", 320.0, "double", 2),
            ("fp64", 900.0, "double", 1),
        )
    ),
)


def _reconstruct_device(
    y: Array, system: ResidueSystem, scales: tuple[Array, Array], target: Format, out: Array
) -> None:
    xp = namespace(y)
    m, n = out.shape
    result = out if out.flags.c_contiguous else xp.empty((m, n), out.dtype)
    constants = {
        **_reconstruct_constants(system),
        "REAL": "float" if out.dtype.name in ("float32", "complex64") else "double",
        "PARTS": 1 + (out.dtype.kind == "c"),
    }
    strides = (np.int64(y.shape[3]), np.int64(y.shape[2] * y.shape[3]))
    tables = (_on_device(system, "reconstruction_table", 0, xp), *scales)
    formats = (np.int32(target.precision), np.int32(target.emin - target.precision + 1))
    arguments = (y, *strides, *tables, np.int32(m), np.int32(n), *formats, result)
    _RECONSTRUCT((-(-n // 256), min(m, 65535)), (256,), arguments, **constants)
    if result is not out:
        out[...] = result
