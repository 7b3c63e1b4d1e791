"""Triangular systems by halves: leaves in a fixed order, the rest by products."""

from __future__ import annotations

from collections.abc import Callable

from multiword.runtime.arrays import Array, namespace
from ozaki.linalg.arithmetic import LEAF, times_powers
from ozaki.linalg.panels import lower_leaf, split
from ozaki.linalg.products import multiply

SMALLER = (64, 256, 512, 1100)
"""Octaves by which right sides are made smaller where components overflow."""


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


def within_range(solution: Callable[[Array], Array], b: Array) -> Array:
    """Return solution(B), a linear function of columns, whatever overflows on the way.

    A component that overflows makes NaN of others, to which it is added times 0. Columns with such ones are
    solved again for right sides that are smaller by powers of two.
    """
    xp = namespace(b)
    x = solution(b)
    left = xp.flatnonzero(~xp.isfinite(x).all(axis=0) & xp.isfinite(b).all(axis=0))
    for octaves in SMALLER:
        if not len(left):
            break
        smaller = solution(times_powers(b[:, left], -octaves))
        finite = xp.isfinite(smaller).all(axis=0)
        done = left[finite]
        x[:, done] = xp.where(xp.isfinite(x[:, done]), x[:, done], times_powers(smaller[:, finite], octaves))
        left = left[~finite]
    return x


def solved(a: Array, b: Array, lower: bool, unit: bool = False) -> Array:
    """Return the solution of a triangular system; an upper one is solved from its last row up."""
    x = (b if lower else b[::-1]).copy(order="C")
    solve_lower(a if lower else a[::-1, ::-1], x, unit)
    return x if lower else x[::-1]
