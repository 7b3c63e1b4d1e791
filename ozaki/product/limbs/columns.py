"""Products of a matrix and some tens of columns in limbs of a byte, by the tensor cores of Hopper GPUs.

A number is cut into the seven or eight bytes that its integer has, all of whose products are added up in
registers, and only results are written. Residues are twice as many bytes, which are written and read again.
These limbs are the int8 slices of the Ozaki scheme (Ootomo, Ozaki and Yokota, "DGEMM on integer matrix
multiplication unit", 2024), none of whose products is left away: C' is exact.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from multiword.engines.machine import compute_capability, multiprocessors
from multiword.runtime.arrays import Array, namespace
from multiword.runtime.kernels import Kernel
from multiword.runtime.memory import padded
from multiword.runtime.tiles import StridedParts
from ozaki.product.factor import Factor
from ozaki.product.limbs.cut import LimbProduct, TallProduct, add_shares, constants_of_words
from ozaki.schemes import ProductSpecification
from ozaki.tuning import COLUMNS_IN_BYTES, LEAST_IN_BYTES, SHORT_ROWS, STEPS_OF_A_BLOCK

_THREADS, _ROWS, _STEP, _STAGES = 256, 64, 32, 5

_WORDS = 2
"""Of 64 bits, that hold a result."""


class ByteLimbs(NamedTuple):
    """How a product is cut.

    Attributes
    ----------
    number : of the limbs.
    columns : of real numbers, of half of a block.
    wide : columns of all blocks.
    share, shares : numbers of k of a block, and how many blocks share k.
    of_columns, of_sums : bytes of the limbs of B, and of the sums of several shares.
    """

    number: int
    columns: int
    wide: int
    share: int
    shares: int
    of_columns: int
    of_sums: int

    @property
    def workspace(self) -> int:
        """Bytes of both."""
        return self.of_columns + self.of_sums

    @property
    def shared(self) -> int:
        """Bytes of shared memory: limbs of both factors for each stage, and its barrier."""
        of_a, of_b = self.number * _ROWS, (2 * self.number - 1) * 2 * self.columns
        return 1024 + _STAGES * ((of_a + of_b) * _STEP + 8)


def limbs_of_columns(specification: ProductSpecification) -> ByteLimbs | None:
    """Return how a product of some tens of columns, or rows, is cut; None where residues take less time."""
    (m, k, n), parts = specification.shape, specification.parts
    m, n, number = max(m, n), min(m, n), max(4, max(specification.widths) // 8 + 1)  # the last one has a sign
    if specification.stack > 1 or k <= SHORT_ROWS or m * k * parts < LEAST_IN_BYTES:
        return None
    if n * parts > COLUMNS_IN_BYTES.get(number, 0) or compute_capability() != (9, 0):
        return None
    columns = 32 if n * parts > 32 and number < 8 else 16  # whose sums registers have room for
    wide, steps = padded(n * parts, 2 * columns), -(-k // _STEP)
    shares = _shares(-(-m // _ROWS) * (wide // (2 * columns)), steps, _longest(number) // _STEP // parts)
    share = -(-steps // shares) * _STEP
    shares = -(-k // share)
    of_sums = 8 * _WORDS * shares * parts * m * n if shares > 1 else 0
    of_columns = (2 * number - 1) * wide * parts * steps * _STEP
    return ByteLimbs(number, columns, wide, share, shares, of_columns, of_sums)


def _longest(number: int) -> int:
    """Return how many products of so many limbs, each up to 2**14, are summed up in 32 bits."""
    return (2**31 - 1) // (number << 14)


def _shares(blocks: int, steps: int, most_steps: int) -> int:
    """Return into how many shares k goes, so that few multiprocessors are idle."""
    at_once, least = multiprocessors(), -(-steps // most_steps)
    most = max(least, min(steps // STEPS_OF_A_BLOCK, 2 * at_once))

    def time(shares: int) -> int:
        return -(-blocks * shares // at_once) * (-(-steps // shares) + STEPS_OF_A_BLOCK)

    return min(range(least, most + 1), key=time)


def _constants(limbs: int, columns: int, parts: int, layout: dict[str, Any], wide: bool) -> dict[str, Any]:
    of_sums = constants_of_words(_WORDS, layout["REAL"], parts)
    return {**of_sums, **layout, "LIMBS": limbs, "COLUMNS": columns, "WIDE": int(wide)}


_INSTANCES = tuple(
    _constants(limbs, columns, parts, {"REAL": real, "ALONG_K": along, "UNIT": 2 - parts}, wide)
    for limbs, columns, parts, real, along, wide in (
        (7, 32, 1, "double", 1, True),
        (7, 32, 1, "double", 0, False),
        (6, 32, 1, "double", 1, False),
        (8, 16, 2, "double", 1, False),
        (4, 32, 1, "float", 1, True),
        (5, 16, 2, "float", 0, False),
    )
)
_FILE, _STRUCTS = Path(__file__).with_suffix(".cu"), (StridedParts, LimbProduct)
_CUT_COLUMNS = Kernel(
    "cut_columns",
    _FILE,
    _INSTANCES,
    _STRUCTS,
    architecture="sm_90a",
    equals="ozaki.definition.products.product",
)
_MULTIPLY_COLUMNS = Kernel(
    "multiply_columns",
    _FILE,
    _INSTANCES,
    _STRUCTS,
    architecture="sm_90a",
    equals="ozaki.definition.products.product",
)


def multiply_columns(
    limbs: ByteLimbs,
    specification: ProductSpecification,
    a: Factor,
    b: Factor,
    scales: tuple[Array, Array],
    out: Array,
) -> None:
    """Write RN(A'B'·2**(-s_i - t_j)) to `out`."""
    parts = specification.parts
    matrix, many, few, layout, product = TallProduct.of(specification, a, b, scales, out)
    of_columns = namespace(out).empty(limbs.of_columns, np.uint8)
    sums = namespace(out).empty(limbs.of_sums // 8, np.uint64)
    instance = _constants(limbs.number, limbs.columns, parts, layout, _in_pairs(matrix, layout))
    steps = -(-product.k // _STEP) * parts
    blocks = -(-steps * limbs.wide * _STEP // 4 // _THREADS)
    of_b = few, product, np.int64(steps), np.int32(limbs.wide), of_columns
    _CUT_COLUMNS((blocks,), (_THREADS,), of_b, **instance)
    grid = -(-product.m // _ROWS), limbs.shares, limbs.wide // (2 * limbs.columns)
    arguments = many, of_columns, product, np.int32(limbs.share), sums
    _MULTIPLY_COLUMNS(grid, (_THREADS,), arguments, shared=limbs.shared, **instance)
    if limbs.shares > 1:
        add_shares(sums, product, limbs.shares, _WORDS, layout["REAL"], parts)


def _in_pairs(x: Array, layout: dict[str, Any]) -> bool:
    """Return whether rows are aligned pairs of neighbours."""
    if not (layout["ALONG_K"] and layout["UNIT"]):
        return False
    pair = 2 * x.itemsize  # of one matrix, or of a stack of one
    return all(bytes_ % pair == 0 for bytes_ in (x.data.ptr, x.strides[-2], x.shape[-1] * x.itemsize))
