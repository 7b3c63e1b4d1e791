"""Products of small matrices in limbs: split, multiplied and rounded by one kernel.

Residues take some hundred operations for each element, which small matrices do not repay, and four launches
where this takes one.
"""

from __future__ import annotations

from pathlib import Path

from multiword.runtime.arrays import Array
from multiword.runtime.kernels import Kernel
from multiword.runtime.tiles import StridedParts, strided_parts
from ozaki.product.factor import Factor
from ozaki.product.limbs.cut import LimbProduct, Limbs, constants, limbs_of
from ozaki.schemes import ProductSpecification
from ozaki.tuning import LIMB_PRODUCTS

_SIDE = 16

_LIMB_PRODUCT = Kernel(
    "limb_product",
    Path(__file__).with_suffix(".cu"),
    tuple(
        constants(limbs, real, parts)
        for limbs in (Limbs(2, 29), Limbs(3, 22))
        for real in ("float", "double")
        for parts in (1, 2)
    ),
    (StridedParts, LimbProduct),
    equals="ozaki.definition.products.product",
)


def limbs_of_small(specification: ProductSpecification, of_any_size: bool = False) -> Limbs | None:
    """Return the limbs of the integers; None where the product is not so small, or its rows are too long."""
    (m, k, n), (of_all, of_one) = specification.shape, LIMB_PRODUCTS
    limbs = limbs_of(max(specification.widths), specification.parts * k)
    if limbs is None or -(-m // _SIDE) >= 1 << 16:  # a grid's second dimension
        return None
    products = limbs.number**2 * k
    small = of_any_size or specification.stack > 1 or m * n * products <= of_all
    return limbs if small and products <= of_one else None


def multiply_small(
    limbs: Limbs,
    specification: ProductSpecification,
    a: Factor,
    b: Factor,
    scales: tuple[Array, Array],
    out: Array,
) -> None:
    """Write RN(A'B'·2**(-s_i - t_j)) to `out`, of a stack one product below the other."""
    (m, _, n), parts = specification.shape, specification.parts
    left, layout = strided_parts(a.parts)
    product = LimbProduct.of(specification.shape, scales, specification.target, out)
    grid = -(-n // _SIDE), -(-m // _SIDE), specification.stack
    arguments = left, strided_parts(b.parts)[0], product
    _LIMB_PRODUCT(grid, (_SIDE, _SIDE), arguments, **constants(limbs, layout["REAL"], parts))
