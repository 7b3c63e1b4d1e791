"""The last step of scheme "residues": from residues of the product to its rounded value."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from multiword._arrays import Array, is_cupy, namespace, real_parts
from multiword._kernels import Kernel
from multiword.formats import Format
from ozaki._parallel import over_rows
from ozaki._residue_system import ResidueSystem, on_device, reduce, residue_system
from ozaki._rounding import ROUNDING_SOURCE, round_digits, round_short

HOST_BASE_BITS = 26
"""Bits of a digit on the host, where `round_short` puts two digits into one float64."""


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
    base_bits = min(system.base_bits, HOST_BASE_BITS)
    digits = np.ascontiguousarray(system.digits(base_bits).T)
    parts = real_parts(out)

    def work(block: slice) -> None:
        rows = scales[0][block, None].astype(np.int64)
        for part, terms in zip(parts, _real_parts(y[:, :, block, :n]), strict=True):
            residue = np.empty((len(moduli) + 1, *terms[0].shape))
            for t, p in enumerate(moduli):
                residue[t] = terms[t]
                reduce(residue[t], p, 1 / p)
            flat = residue.reshape(len(residue), -1)
            np.rint((1 / moduli) @ flat[:-1], out=flat[-1])
            value = (digits @ flat).reshape(-1, *terms[0].shape)
            rounded = round_short(value, base_bits, -rows, -scales[1].astype(np.int64), target)
            if rounded is None:
                rounded = round_digits(value.astype(np.int64), base_bits, -(rows + scales[1]), target)
            part[block] = rounded

    over_rows(work, m, n * 2)


def _real_parts(y: Array) -> list[Array]:
    """The real parts of a product from the products of images (Karatsuba's three)."""
    if len(y) == 1:
        return [y[0]]
    real, imaginary, both = y.astype(np.float64, copy=False)
    return [real - imaginary, both - real - imaginary]


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

/* Conversions that do not flush subnormals to zero, as those of CuPy's options would. */
__device__ void store(double *out, double x) { *out = x; }
__device__ void store(float *out, double x) { asm("cvt.rn.f32.f64 %0, %1;" : "=f"(*out) : "d"(x)); }

/* Residues of one real number to its rounded value: what _reconstruct_host computes. */
__device__ double assemble(const PRODUCT *y0, const PRODUCT *y1, const PRODUCT *y2, long long stride,
                           const double *__restrict__ table, int exponent, int precision, int smallest) {
    double sum[DIGITS] = {};
#pragma unroll(UNROLL)
    for (int t = 0; t < MODULI; t++) {
        const long long at = t * stride;
        double y = from_product(y0[at]);
        if (y1) y -= from_product(y1[at]);
        if (y2) y -= from_product(y2[at]);
        const double inverse = FROM_TABLE(2 * t), negative = FROM_TABLE(2 * t + 1);
        y = fma(fma(y, inverse, MAGIC) - MAGIC, negative, y);
#pragma unroll(SMALL_UNROLL)
        for (int d = 0; d < DIGITS; d++) sum[d] = fma(y, FROM_TABLE(2 * MODULI + t * DIGITS + d), sum[d]);
    }
    /* q = RN(Σ y·(P/p) / P): the leading digits tell, for |C'| stays away from P/2. */
    double leading = sum[DIGITS - 1];
    if (DIGITS > 1) leading = fma(sum[DIGITS - 2], 1.0 / (1ull << BASE_BITS), leading);
    const double quotient = fma(leading, FROM_TABLE((2 + DIGITS) * MODULI + DIGITS), MAGIC) - MAGIC;
#pragma unroll(SMALL_UNROLL)
    for (int d = 0; d < DIGITS; d++) sum[d] = fma(quotient, FROM_TABLE((2 + DIGITS) * MODULI + d), sum[d]);
#if DIGITS == 3
    double result;
    const double base = (double)(1ull << BASE_BITS);
    if (precision == 53 && round_three(base * base * sum[2], base * sum[1], sum[0], exponent, &result))
        return result;
#endif
    u64 limb[LIMBS] = {};
#pragma unroll(SMALL_UNROLL)
    for (int d = 0; d < DIGITS; d++) add_shifted<LIMBS>(limb, (long long)sum[d], d * BASE_BITS);
    return round_limbs<LIMBS>(limb, exponent, precision, smallest);
}

extern "C" __global__ void __launch_bounds__(256)
reconstruct(const PRODUCT *y, long long row_stride, long long modulus_stride,
            const double *__restrict__ table, const int *row_scale, const int *column_scale,
            int m, int n, int precision, int smallest, REAL *out) {
    const int column = blockIdx.x * 256 + threadIdx.x;
    if (column >= n) return;
    const long long image = modulus_stride * MODULI;
    for (int row = blockIdx.y; row < m; row += gridDim.y) {
        const PRODUCT *const at = y + row * row_stride + column;
        const int exponent = -(row_scale[row] + column_scale[column]);
        const long long target = (long long)row * n + column;
        if (PARTS == 1) {
            store(out + target, assemble(at, 0, 0, modulus_stride, table, exponent, precision, smallest));
        } else {
            store(out + 2 * target,
                  assemble(at, at + image, 0, modulus_stride, table, exponent, precision, smallest));
            store(out + 2 * target + 1,
                  assemble(at + 2 * image, at, at + image, modulus_stride, table, exponent, precision,
                           smallest));
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
    tables = (on_device(system, "reconstruction_table", 0, xp), *scales)
    formats = (np.int32(target.precision), np.int32(target.emin - target.precision + 1))
    arguments = (y, *strides, *tables, np.int32(m), np.int32(n), *formats, result)
    _RECONSTRUCT((-(-n // 256), min(m, 65535)), (256,), arguments, **constants)
    if result is not out:
        out[...] = result
