"""Products of small matrices on a GPU: split, multiplied and rounded by one kernel, in limbs of the integers.

    A' = Σ_i A_i·2**(b·i),   B' = Σ_j B_j·2**(b·j)                                         (split)
    S_d = Σ_{i + j = d} A_i·B_j,   C' = Σ_d S_d·2**(b·d)                                    (multiply)

with limbs of 32 bits and sums of 64. Residues take some hundred operations for each element, which small
matrices do not repay, and four launches where this takes one.
"""

from __future__ import annotations

import ctypes
import math
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from multiword.engines.cublas import Cublas
from multiword.runtime.arrays import Array
from multiword.runtime.kernels import Kernel, Struct, members
from multiword.runtime.tiles import StridedParts, strided_parts
from ozaki.product.factor import Factor
from ozaki.product.request import Request
from ozaki.rounding.digits import last_place
from ozaki.scaling.statistics import NONFINITE_ROW
from ozaki.schemes import ProductSpecification
from ozaki.tuning import LIMB_PRODUCTS

_SIDE = 16

_BITS = 29, 28, 22, 30
"""Of a limb: few, for each has kernels of its own, and enough for as few limbs as of any number of bits where
rows are so short that limbs pay."""


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


def _constants(limbs: Limbs, real: str, parts: int) -> dict[str, Any]:
    return {
        "COUNT": limbs.number,
        "BASE_BITS": limbs.bits,
        "TOTAL_WORDS": limbs.number,  # of 64 bits
        "REAL": real,
        "PARTS": parts,
        "NONFINITE_ROW": NONFINITE_ROW,
    }


_LIMB_PRODUCT = Kernel(
    "limb_product",
    Path(__file__).with_suffix(".cu"),
    tuple(
        _constants(limbs, real, parts)
        for limbs in (Limbs(2, 29), Limbs(3, 22))
        for real in ("float", "double")
        for parts in (1, 2)
    ),
    (StridedParts, LimbProduct),
)


def in_limbs(specification: ProductSpecification, request: Request) -> Limbs | None:
    """Return the limbs of the integers; None where residues take less time, or something else is wanted."""
    if request.scheme != "auto" or request.word is not None or request.symmetric:
        return None
    if not (isinstance(request.engine, Cublas) and request.engine.fused):  # everything is to be cuBLAS's
        return None
    limbs = limbs_of(max(specification.widths), specification.parts * specification.shape[1])
    return limbs if limbs is not None and _pays(specification, limbs) else None


def _pays(specification: ProductSpecification, limbs: Limbs) -> bool:
    """Return whether residues take more time."""
    (m, k, n), (of_all, of_one) = specification.shape, LIMB_PRODUCTS
    products = limbs.number**2 * k
    fits = -(-m // _SIDE) < 1 << 16  # a grid's second dimension
    return fits and products <= of_one and (specification.stack > 1 or m * n * products <= of_all)


def multiply_limbs(
    a: Factor,
    b: Factor,
    scales: tuple[Array, Array],
    specification: ProductSpecification,
    limbs: Limbs,
    out: Array,
) -> None:
    """Write RN(A'B'·2**(-s_i - t_j)) to `out`, of a stack one product below the other."""
    (m, k, n), parts, target = specification.shape, specification.parts, specification.target
    left, constants = strided_parts(a.parts)
    size = out.itemsize // parts
    product = LimbProduct(
        row_scale=scales[0],
        column_scale=scales[1],
        out=out,
        row_stride=out.strides[0] // size,
        column_stride=out.strides[1] // size,
        m=m,
        n=n,
        k=k,
        precision=target.precision,
        smallest=last_place(target),
    )
    grid = -(-n // _SIDE), -(-m // _SIDE), specification.stack
    arguments = left, strided_parts(b.parts)[0], product
    _LIMB_PRODUCT(grid, (_SIDE, _SIDE), arguments, **_constants(limbs, constants["REAL"], parts))
