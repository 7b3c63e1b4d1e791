"""Products of a matrix and a few vectors in limbs: a GPU reads the matrix, and writes nothing of its size.

Residues of a matrix are written and read again, one byte for every modulus, which takes longer than reading
its numbers; only many columns, which share them, repay it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from multiword.engines.machine import multiprocessors
from multiword.runtime.arrays import Array, namespace
from multiword.runtime.kernels import Kernel
from multiword.runtime.memory import padded
from multiword.runtime.tiles import StridedParts
from ozaki.product.factor import Factor
from ozaki.product.limbs.cut import LimbProduct, Limbs, TallProduct, add_shares, constants, limbs_of
from ozaki.schemes import ProductSpecification
from ozaki.tuning import FEW_OF_SHORT, MOST_PRODUCTS, SHORT_ROWS, THIN_BLOCKS, THIN_SHARE

_THREADS, _AT_ONCE, _MOST_SLICES = 256, 8, 8

_LONGEST = 1 << 13
"""Numbers of a thread, whose products' sums fit 64 bits in two limbs of integers of ordinary width."""

_MOST_SUMS = 80
"""Of 64 bits in a thread: registers hold them."""


class ThinLimbs(NamedTuple):
    """How a thin product is cut.

    Attributes
    ----------
    limbs : of the integers.
    slices : threads that share a row.
    share, shares : numbers of k of a block, and how many blocks share k.
    words : of 64 bits, for the sums of several shares.
    products : of limbs, for each number of the matrix.
    """

    limbs: Limbs
    slices: int
    share: int
    shares: int
    words: int
    products: int

    @property
    def rows(self) -> int:
        """The rows of a block."""
        return _THREADS // self.slices

    @property
    def workspace(self) -> int:
        """Bytes of those words."""
        return 8 * self.words


def _kernel_constants(
    limbs: Limbs, slices: int, parts: int, columns: int, layout: dict[str, Any]
) -> dict[str, Any]:
    return {**constants(limbs, layout["REAL"], parts), "SLICES": slices, "COLUMNS": columns, **layout}


_INSTANCES = tuple(
    _kernel_constants(limbs, slices, parts, columns, {"REAL": real, "ALONG_K": along, "UNIT": 2 - parts})
    for limbs, slices, real, parts, columns, along in (
        (Limbs(2, 25), 8, "double", 1, 12, 1),
        (Limbs(2, 25), 1, "double", 1, 1, 0),
        (Limbs(3, 22), 1, "float", 1, 16, 0),
        (Limbs(2, 29), 1, "double", 2, 8, 1),
        (Limbs(3, 22), 8, "double", 2, 2, 0),
    )
)
_FILE = Path(__file__).with_suffix(".cu")
_THIN_PRODUCT = Kernel(
    "thin_product", _FILE, _INSTANCES, (StridedParts, LimbProduct), equals="ozaki.definition.products.product"
)


def limbs_of_thin(specification: ProductSpecification) -> ThinLimbs | None:
    """Return how a product of a few columns, or rows, is cut; None where there are more."""
    (m, k, n), parts = specification.shape, specification.parts
    few, short = min(m, n), k <= SHORT_ROWS
    if specification.stack > 1 or few * parts > FEW_OF_SHORT:
        return None
    slices = min(_MOST_SLICES, 1 << max(k // (4 * _AT_ONCE), 1).bit_length() - 1)  # each has a few steps
    blocks, depth = -(-max(m, n) * slices // _THREADS), _AT_ONCE * slices
    shares = max(1, min(THIN_BLOCKS * multiprocessors() // blocks, k // THIN_SHARE))
    share = min(padded(-(-k // shares), depth), _LONGEST * slices)
    limbs, shares = limbs_of(max(specification.widths), parts * (share // slices)), -(-k // share)
    if limbs is None or parts * _columns(few) * (2 * limbs.number - 1) > _MOST_SUMS:
        return None
    if (products := limbs.number**2 * parts * few) > MOST_PRODUCTS[limbs.number] and not short:
        return None
    words = shares * parts * m * n * limbs.number if shares > 1 else 0
    return ThinLimbs(limbs, slices, share, shares, words, products)


def multiply_thin(
    thin: ThinLimbs,
    specification: ProductSpecification,
    a: Factor,
    b: Factor,
    scales: tuple[Array, Array],
    out: Array,
) -> None:
    """Write RN(A'B'·2**(-s_i - t_j)) to `out`."""
    parts = specification.parts
    _, many, few, layout, product = TallProduct.of(specification, a, b, scales, out)
    sums = namespace(out).empty(thin.words, np.uint64)
    instance = _kernel_constants(thin.limbs, thin.slices, parts, _columns(product.n), layout)
    arguments = many, few, product, np.int32(thin.share), sums
    _THIN_PRODUCT((-(-product.m // thin.rows), thin.shares), (_THREADS,), arguments, **instance)
    if thin.shares > 1:
        add_shares(sums, product, thin.shares, thin.limbs.number, layout["REAL"], parts)


def _columns(few: int) -> int:
    """Return the columns that the kernel is compiled for: 1, 2, or a multiple of 4."""
    return few if few < 3 else padded(few, 4)
