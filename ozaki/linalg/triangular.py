"""Triangular systems by halves: leaves in a fixed order, the rest by products."""

from __future__ import annotations

from multiword.runtime.arrays import Array
from ozaki.linalg.arithmetic import LEAF
from ozaki.linalg.panels import lower_leaf, split
from ozaki.linalg.products import multiply


def solve_lower(lower: Array, b: Array, unit: bool) -> None:
    """Replace the C-contiguous B by the solution of LX = B; what is above L's diagonal is not read.

    L₁₁X₁ = B₁,   B₂ = B₂ - L₂₁X₁,   L₂₂X₂ = B₂
    """
    n = len(lower)
    if n <= LEAF:
        lower_leaf(lower, b, unit)
        return
    h = split(n)
    solve_lower(lower[:h, :h], b[:h], unit)
    b[h:] -= multiply(lower[h:, :h], b[:h])
    solve_lower(lower[h:, h:], b[h:], unit)


def solved(a: Array, b: Array, lower: bool, unit: bool = False) -> Array:
    """Return the solution of a triangular system; an upper one is solved from its last row up."""
    x = (b if lower else b[::-1]).copy(order="C")
    solve_lower(a if lower else a[::-1, ::-1], x, unit)
    return x if lower else x[::-1]
