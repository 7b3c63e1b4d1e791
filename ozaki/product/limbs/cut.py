"""How integers are cut into limbs, and what kernels of products in limbs are told.

    A' = Σ_i A_i·2**(b·i),   B' = Σ_j B_j·2**(b·j)                                         (split)
    S_d = Σ_{i + j = d} A_i·B_j,   C' = Σ_d S_d·2**(b·d)                                    (multiply)

with limbs of 32 bits and sums of 64.
"""

from __future__ import annotations

import ctypes
import math
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from multiword.formats import Format
from multiword.runtime.arrays import Array
from multiword.runtime.kernels import Kernel, Struct, members
from multiword.runtime.tiles import StridedParts, strided_parts
from ozaki.product.factor import Factor
from ozaki.scaling.statistics import NONFINITE_ROW
from ozaki.schemes import ProductSpecification

_THREADS, _LANES = 256, 8

_BITS = 29, 28, 22, 30, 25
"""Of a limb: few, for each has kernels of its own, and enough for as few limbs as of any number of bits where
rows are short; 25 where a thread adds up thousands of products."""


class Limbs(NamedTuple):
    """How integers are cut: so many limbs, all but the last one of so many bits with their sign."""

    number: int
    bits: int


@lru_cache(512)
def limbs_of(width: int, terms: int) -> Limbs | None:
    """Return the fewest limbs for rows of norms up to 2**width, and products of so many terms; None beyond.

    A limb but the last is at most 2**(b - 1), so that rows of it have norms up to √terms·2**(b - 1); those of
    the last one are at most 2**(width - b·(number - 1)) + √terms. All fit 32 bits if that is below 2**31, and
    by Cauchy and Schwarz |S_d| is at most the sum of the products of norms.

    >>> limbs_of(59, 32), limbs_of(63, 16), limbs_of(32, 32), limbs_of(2000, 4)
    (Limbs(number=2, bits=29), Limbs(number=3, bits=29), Limbs(number=2, bits=29), None)
    """
    root = math.sqrt(terms)
    for number in (2, 3):
        for bits in _BITS:
            above = width - bits * (number - 1)
            if above > 31:
                continue
            norms = [root * 2.0 ** (bits - 1)] * (number - 1) + [2.0**above + root]
            if norms[-1] < 2**31 and np.convolve(norms, norms).max() < 2**63:
                return Limbs(number, bits)
    return None


class LimbProduct(Struct):
    """What the integers are scaled by, and where their rounded products go; strides in real numbers."""

    _fields_ = (
        *members(ctypes.c_void_p, "row_scale", "column_scale", "out"),
        *members(ctypes.c_longlong, "row_stride", "column_stride"),
        *members(ctypes.c_int, "m", "n", "k", "precision", "smallest"),
    )

    @classmethod
    def of(
        cls, shape: tuple[int, int, int], scales: tuple[Array, Array], target: Format, out: Array
    ) -> LimbProduct:
        """Return the product of such a shape, (m, k, n), rounded to a format and written to `out`."""
        (m, k, n), real = shape, out.real.itemsize
        return cls(
            row_scale=scales[0],
            column_scale=scales[1],
            out=out,
            row_stride=out.strides[0] // real,
            column_stride=out.strides[1] // real,
            m=m,
            n=n,
            k=k,
            precision=target.precision,
            smallest=target.last_place,
        )


class TallProduct(NamedTuple):
    """A product of a matrix and a few columns, as kernels take it.

    Attributes
    ----------
    matrix : its first part.
    many, few : the rows of the matrix, and the columns.
    layout : constants of the matrix.
    product : where it goes.
    """

    matrix: Array
    many: StridedParts
    few: StridedParts
    layout: dict[str, Any]
    product: LimbProduct

    @classmethod
    def of(
        cls,
        specification: ProductSpecification,
        a: Factor,
        b: Factor,
        scales: tuple[Array, Array],
        out: Array,
    ) -> TallProduct:
        """Return AB, or where A has fewer rows than B columns, its transpose."""
        m, k, n = specification.shape
        if m < n:  # Cᵀ = BᵀAᵀ
            m, n, a, b, scales, out = n, m, b, a, scales[::-1], out.T
        many, layout = strided_parts(a.parts)
        few, _ = strided_parts(b.parts)
        product = LimbProduct.of((m, k, n), scales, specification.target, out)
        return cls(a.parts[0], many, few, layout, product)


def constants(limbs: Limbs, real: str, parts: int) -> dict[str, Any]:
    """Return the constants of kernels of products in limbs."""
    return {
        "COUNT": limbs.number,
        "BASE_BITS": limbs.bits,
        "REAL": real,
        "PARTS": parts,
        "NONFINITE_ROW": NONFINITE_ROW,
    }


def constants_of_words(words: int, real: str, parts: int) -> dict[str, Any]:
    """Return the constants of kernels that have nothing of limbs but sums, of so many words of 64 bits."""
    return constants(Limbs(words, 32), real, parts)


_ADD_SHARES = Kernel(
    "add_limb_products",
    Path(__file__).with_name("shares.cu"),
    tuple(
        constants_of_words(words, real, parts)
        for words in (2, 3)
        for real in ("float", "double")
        for parts in (1, 2)
    ),
    (LimbProduct,),
    equals="ozaki.definition.products.product",
)


def add_shares(sums: Array, product: LimbProduct, shares: int, words: int, real: str, parts: int) -> None:
    """Write the rounded sum of what blocks that share k have left, (shares, parts, columns, rows, words)."""
    blocks = -(-product.m * product.n * _LANES // _THREADS)
    arguments = sums, product, np.int32(shares)
    _ADD_SHARES((blocks,), (_THREADS,), arguments, **constants_of_words(words, real, parts))
