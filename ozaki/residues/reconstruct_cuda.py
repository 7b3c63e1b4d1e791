"""The last step of scheme "residues" on a GPU: digits of C' in float64, then one rounding.

By the Chinese remainder theorem C' is Σ y_t·(P/p_t) less a multiple of P. Residues modulo two int8 moduli are
combined first: y_t·p_u + y_u·p_t is an integer below 2**17, which stands for both with the weight
P/(p_t·p_u), and takes one operation of integers instead of half of those of float64, of which a GPU has few.
"""

from __future__ import annotations

import ctypes
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from multiword.engines import C_TYPES
from multiword.engines.moduli import ResidueSystem, digits_of, residue_system
from multiword.formats import Format
from multiword.runtime.arrays import Array, namespace
from multiword.runtime.kernels import Kernel, Struct, members
from multiword.runtime.tiles import REALS
from ozaki.residues.reduction import on_device


@dataclass(frozen=True)
class Weights:
    """The weights by which residues are multiplied and added up, in digits.

    Attributes
    ----------
    group : moduli whose residues are combined: 2, or 1 where they are large; the last group may be smaller.
    base_bits : bits of a digit: no sum of digits times residues reaches 2**53.
    digits : those of P over the moduli of each group, and those of -P.
    quotient_digits : how many leading digits of the sum, which is C' + q·P, tell q: those that leave out less
        than 2**-13·P, for |C'|/P stays 2**-11.6 below one half.
    """

    group: int
    base_bits: int
    digits: list[list[int]]
    quotient_digits: int

    @classmethod
    def of(cls, system: ResidueSystem) -> Weights:
        """Return the weights of a system, in the fewest digits."""
        product, group = system.product, 2 if max(system.moduli) <= 256 else 1
        groups = [system.moduli[i : i + group] for i in range(0, len(system.moduli), group)]
        weights = [product // math.prod(g) for g in groups]
        # |y_t| is at most p_t/2 + 2, and |q| about the sum of all |y_t|/p_t.
        factors = [sum((p // 2 + 2) * (math.prod(g) // p) for p in g) for g in groups]
        together = sum(factors) + len(system.moduli)
        # Digits are of least magnitude, at most half of 2**base_bits; the leading ones may be longer.
        base_bits, count, leading = 54 - together.bit_length(), 1, weights
        while sum(map(operator.mul, factors, leading)) >= 1 << 52:
            count, leading = count + 1, [w >> base_bits for w in leading]
        digits = [digits_of(x, base_bits, count) for x in (*weights, -product)]
        enough = (n for n in range(1, count) if together << 13 + base_bits * (count - n) < product)
        return cls(group, base_bits, digits, next(enough, count))


def reconstruction_table(system: ResidueSystem, _: int = 0) -> np.ndarray:
    """Return 1/p and -p for every modulus, the digits, B/P for the leading digit's weight B, and 1/j_t.

    The leading digit times B/P is C'/P.
    """
    weights = Weights.of(system)
    factors = [(1 / p, -p) for p in system.moduli]
    leading = (1 << weights.base_bits * (len(weights.digits[0]) - 1)) / system.product
    return np.concatenate([np.ravel(factors), np.ravel(weights.digits), [leading], system.inverse_roots])


class ResidueProducts(Struct):
    """Products of residues, (images, N, m, n), and the system's table; strides in elements."""

    _fields_ = (
        ("products", ctypes.c_void_p),
        *members(ctypes.c_longlong, "row_stride", "modulus_stride"),
        ("table", ctypes.c_void_p),
    )


class Rounding(Struct):
    """The scales of the integers, and the format that they are rounded to."""

    _fields_ = (
        *members(ctypes.c_void_p, "row_scale", "column_scale"),
        *members(ctypes.c_int, "rows_each", "rows", "columns", "precision", "smallest", "symmetric"),
    )


COLUMNS = {"int8": 4, "int32": 2, "float32": 2, "float64": 1}
"""Columns to a thread: they share the moduli's constants; more leave too few threads to hide latency."""

_THREADS = 256

COMPILED_IN = 1 << 10
"""Tables of up to this many numbers are compiled into the kernel."""


@lru_cache(512)
def reconstruction_constants(system: ResidueSystem) -> dict[str, Any]:
    """Return the constants of kernels that put the residues of a system together."""
    weights, table = Weights.of(system), reconstruction_table(system)
    constants: dict[str, Any] = {
        "MODULI": len(system.moduli),
        "IMAGES": system.images,
        "GROUP": weights.group,
        "DIGITS": len(weights.digits[0]),
        "BASE_BITS": weights.base_bits,
        "QUOTIENT_DIGITS": weights.quotient_digits,
        "LIMBS": -(-(system.product.bit_length() + 1) // 64),
    }
    if table.size <= COMPILED_IN:
        constants["TABLE"] = ",".join(float(x).hex() for x in table)
    return constants


def _reconstructing(name: str, *instances: tuple[str, float, str, int, int, str]) -> Kernel:
    """Return a kernel from residues to rounded numbers; instances: word, bits, real type, parts, columns to a
    thread, type of the products."""
    return Kernel(
        name,
        Path(__file__).with_name(f"{name}.cu"),
        tuple(
            {
                **reconstruction_constants(residue_system(word, bits, 4096, parts)),
                "REAL": t,
                "PARTS": parts,
                "VECTOR": vector,
                "PRODUCT": product,
            }
            for word, bits, t, parts, vector, product in instances
        ),
        (ResidueProducts, Rounding),
        equals="ozaki.definition.remainders.reconstructed",
    )


_RECONSTRUCT = _reconstructing(
    "reconstruct",
    ("int8", 109.2, "double", 1, 2, "int"),
    ("int8", 109.2, "double", 1, 4, "signed char"),
    ("int8", 54.6, "float", 2, 2, "int"),
    ("int8", 38.8, "Float16", 1, 4, "signed char"),
    ("int8", 30.8, "BFloat16", 1, 4, "signed char"),
    ("int8", 54.6, "double", 2, 4, "signed char"),
    ("int8", 320.0, "double", 2, 1, "signed char"),
    ("fp64", 900.0, "double", 1, 1, "double"),
)
_RECONSTRUCT_WORDS = _reconstructing(
    "reconstruct_words",
    ("int8", 217.2, "double", 1, 2, "int"),
    ("int8", 217.2, "double", 1, 4, "signed char"),
    ("int8", 109.2, "float", 2, 2, "int"),
    ("int8", 320.0, "double", 2, 1, "signed char"),
    ("fp64", 900.0, "double", 1, 1, "double"),
)


MIRRORED = 32
"""Rows and columns of the squares that are copied across the diagonal."""

_MIRROR = Kernel(
    "mirror",
    Path(__file__).with_name("mirror.cu"),
    tuple({"REAL": t, "SIDE": MIRRORED} for t in ("float", "double", "BFloat16")),
    equals="ozaki.definition.remainders.reconstructed",
)


def reconstruct_on_device(
    y: Array,
    system: ResidueSystem,
    scales: tuple[Array, Array],
    target: Format,
    words: Sequence[Array],
    symmetric: bool = False,
) -> None:
    """Write RN(C'·2**(-s_i - t_j)) to the first of one or two words, as `reconstruct`, for CuPy arrays.

    The second word is what the first one leaves, rounded, and 0 where the first is infinite.
    """
    (m, n), dtype = words[0].shape, words[0].dtype
    results = [x if x.flags.c_contiguous else namespace(y).empty((m, n), dtype) for x in words]
    grid, block, shape = launch_shape(y, m, n)
    constants = {
        **reconstruction_constants(system),
        **shape,
        "REAL": REALS[words[0].real.dtype.name],
        "PARTS": 1 + (dtype.kind == "c"),
    }
    rounding = Rounding(
        row_scale=scales[0],
        column_scale=scales[1],
        rows_each=m * n // scales[1].size,
        rows=m,
        columns=n,
        precision=target.precision,
        smallest=target.last_place,
        symmetric=int(symmetric),
    )
    kernel = _RECONSTRUCT if len(words) == 1 else _RECONSTRUCT_WORDS
    kernel(grid, block, (residue_products(y, system), rounding, *results), **constants)
    squares, real = -(-n // MIRRORED), constants["REAL"]
    for result, word in zip(results, words, strict=True):
        if symmetric:
            _MIRROR((squares, squares), (MIRRORED, 8), (result, np.int32(n)), REAL=real, SIDE=MIRRORED)
        if result is not word:
            word[...] = result


def residue_products(y: Array, system: ResidueSystem) -> ResidueProducts:
    """Return products of residues as kernels take them."""
    return ResidueProducts(
        products=y,
        row_stride=y.shape[3],
        modulus_stride=y.shape[2] * y.shape[3],
        table=on_device(reconstruction_table, system, 0, namespace(y)),
    )


def launch_shape(y: Array, m: int, n: int) -> tuple[tuple[int, int], tuple[int, int], dict[str, Any]]:
    """Return the grid and block of a kernel on m by n products, and its constants for them.

    Rows, or equal parts of long ones, lie in blocks one below the other, as many as fill a block.
    """
    vector = math.gcd(COLUMNS[y.dtype.name], y.shape[3])
    threads = -(-n // vector)
    parts = -(-threads // _THREADS)
    across = -(-threads // parts)
    down = _THREADS // across
    grid = parts, min(-(-m // down), 65535)
    return grid, (across, down), {"VECTOR": vector, "PRODUCT": C_TYPES[y.dtype.name]}
