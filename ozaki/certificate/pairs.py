"""The pairwise bound on an NVIDIA GPU, where products of magnitudes never leave the registers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from multiword.engines.cublas import Cublas
from multiword.engines.fused import (
    HOPPER,
    HOPPER_ALONE,
    LARGE,
    MIDDLE,
    SMALL,
    ProductShape,
    WordMatrices,
    launch_tiles,
)
from multiword.engines.residues import share_of_k
from multiword.runtime.arrays import Array
from multiword.runtime.kernels import Kernel
from ozaki.certificate.counting import RowBounds
from ozaki.certificate.pairwise import PairwiseBound, PanelPairs, SentBound

_FILE = Path(__file__).with_suffix(".cu")
_ANYWHERE = Kernel(
    "bound_pairs",
    _FILE,
    tuple(tile.constants for tile in (LARGE, MIDDLE, SMALL)),
    (WordMatrices, PanelPairs, ProductShape),
)
_ON_HOPPER = Kernel(
    "bound_pairs_wgmma",
    _FILE,
    tuple(tile.constants for tile in (HOPPER, HOPPER_ALONE)),
    (PanelPairs, ProductShape),
    architecture="sm_90a",
)


def keeps_products(engine: object, shape: tuple[int, int, int]) -> bool:
    """Return whether products of magnitudes, (m, k, n), stay in the registers: where k is not shared out."""
    m, k, n = shape
    return isinstance(engine, Cublas) and engine.reduces("int8", shape) and not share_of_k(m, k, n, 1)


def bound_of_pairs(
    rows: tuple[RowBounds, RowBounds], length: int, operands: list[tuple[Array, Array]]
) -> Callable[[], PairwiseBound]:
    """Compare all pairs of rows and columns, and return a function that waits for the bound.

    `operands` are magnitudes of real and of imaginary parts, as `Magnitudes.operands` returns them.
    """
    sent = SentBound()
    for i, (a, b) in enumerate(operands):
        pairs = PanelPairs.of(*rows, length, sent, last=i == len(operands) - 1)
        launch_tiles(_ANYWHERE, _ON_HOPPER, a[None, None], b[None, None], pairs)
    return sent.on_its_way()
