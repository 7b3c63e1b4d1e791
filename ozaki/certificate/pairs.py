"""The pairwise bound on an NVIDIA GPU, where products of magnitudes never leave the registers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
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
    choose_tile,
    launch_tiles,
)
from multiword.engines.machine import compute_capability
from multiword.engines.residues import share_of_k
from multiword.runtime.arrays import Array
from multiword.runtime.kernels import Kernel
from ozaki.certificate.counting import RowBounds
from ozaki.certificate.pairwise import PairwiseBound, PanelPairs, SentBound

DEEP = replace(MIDDLE, k=128, blocks=3)
"""Where one product has few tiles, what takes time is how many steps of k follow one another."""

_FILE = Path(__file__).with_suffix(".cu")
_ANYWHERE = Kernel(
    "bound_pairs",
    _FILE,
    tuple(tile.constants for tile in (LARGE, DEEP, SMALL)),
    (WordMatrices, PanelPairs, ProductShape),
)
_ON_HOPPER = Kernel(
    "bound_pairs_wgmma",
    _FILE,
    tuple(tile.constants for tile in (HOPPER, HOPPER_ALONE)),
    (PanelPairs, ProductShape),
    architecture="sm_90a",
)


def keeps_products(engine: object, m: int, k: int, n: int) -> bool:
    """Return whether products of magnitudes stay in the registers: where k is not shared out."""
    return isinstance(engine, Cublas) and engine.reduces("int8", (m, k, n)) and not share_of_k(m, k, n, 1)


def bound_of_pairs(
    rows: tuple[RowBounds, RowBounds], length: int, operands: list[tuple[Array, Array]]
) -> Callable[[], PairwiseBound]:
    """Compare all pairs of rows and columns, and return a function that waits for the bound.

    `operands` are magnitudes of real and of imaginary parts, as `Magnitudes.operands` returns them.
    """
    sent = SentBound()
    for i, (a, b) in enumerate(operands):
        pairs = PanelPairs.of(*rows, length, sent, last=i == len(operands) - 1)
        tile = choose_tile(len(a), len(b), 1, compute_capability() == (9, 0))
        tile = DEEP if tile == MIDDLE else tile
        launch_tiles(_ANYWHERE, _ON_HOPPER, a[None, None], b[None, None], pairs, tile=tile)
    return sent.on_its_way()
