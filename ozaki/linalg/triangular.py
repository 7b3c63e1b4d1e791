"""Triangular systems by halves: leaves in a fixed order, the rest by products."""

from __future__ import annotations

from collections.abc import Callable

from multiword.runtime.arrays import Array, backwards, namespace
from multiword.runtime.readback import anywhere, everywhere
from ozaki.linalg.arguments import LinAlgError
from ozaki.linalg.arithmetic import LEAF, times_powers
from ozaki.linalg.panels import lower_leaf, split
from ozaki.linalg.products import multiply
from ozaki.linalg.small import calls

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
    """Return solution(B), a linear function of columns, whatever overflows on the way. B may be a stack.

    A component that overflows makes NaN of others, to which it is added times 0. Columns with such ones are
    solved again for right sides that are smaller by powers of two.
    """
    xp = namespace(b)
    x = solution(b)
    finite = xp.isfinite(x)
    if everywhere(finite):
        return x
    left = ~_columns(finite) & _columns(xp.isfinite(b))
    for octaves in SMALLER:
        if not anywhere(left):
            break
        smaller = solution(times_powers(xp.where(left, b, 0), -octaves))
        done = left & _columns(xp.isfinite(smaller))
        x = xp.where(done & ~finite, times_powers(smaller, octaves), x)
        left &= ~done
    return x


def _columns(finite: Array) -> Array:
    """Return which columns are finite, in all rows."""
    return backwards(finite, -2).all(axis=-2, keepdims=True)


def refuse(zeros: Array) -> None:
    """Raise LinAlgError where an element of a triangle's diagonal is 0."""
    if anywhere(zeros):
        raise LinAlgError("Singular matrix: a is singular, an element of the diagonal of its triangle is 0")


def solved(a: Array, b: Array, lower: bool, unit: bool = False) -> Array:
    """Return the solution of a triangular system, or of a stack of small ones.

    An upper one is solved from its last row up.
    """
    if a.ndim == 3:
        return calls.triangular(a, b, lower, unit)
    if calls.takes(a, b):
        return calls.triangular(a[None], b[None], lower, unit)[0]
    x = (b if lower else b[::-1]).copy(order="C")
    solve_lower(a if lower else a[::-1, ::-1], x, unit)
    return x if lower else x[::-1]
