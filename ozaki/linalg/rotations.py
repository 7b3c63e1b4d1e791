"""Tridiagonal and bidiagonal matrices, made diagonal by rotations: the implicit QR algorithm.

Golub and Van Loan, Matrix Computations, algorithms 8.3.2 and 8.6.1; a bidiagonal matrix with a zero on its
diagonal takes the sweep of Demmel and Kahan, Accurate singular values of bidiagonal matrices, section 3.
Numbers are at most about 1. A sweep's arithmetic is written here once; `rotations_numba` compiles it. Sweeps
are computed on the host, and applied to matrices where these lie.

Why the iteration ends. Let β₁ be the last number beside the diagonal of T, or of BᵀB, and β₂ the one before
it (1 if there is none). A sweep with Wilkinson's shift takes β₁²β₂ to at most β₁²β₂/√2, and to 0 in a block
of two (Hoffmann and Parlett, A new proof of global convergence for the tridiagonal QL algorithm). One that
does not has stalled: β₁ or β₂ consists of rounding errors, a few units roundoff of the block's numbers.
Clusters of equal values do that. After `PATIENCE` stalls what is below 2u times the largest number of the
block is dropped, and every further one doubles that bound, which passes all numbers after some fifty. So each
value of the diagonal takes a bounded number of stalled sweeps, between which β₁²β₂ > 0 shrinks by √2 with
every sweep. One sweep of a block with a zero on its diagonal leaves its last column zero. What does not stall
is dropped below u(|dᵢ| + |dᵢ₊₁|), as in Golub and Van Loan.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import copysign, ldexp, sqrt
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, is_cupy
from multiword.runtime.compiled import compiled
from ozaki.linalg import two_sided_cuda
from ozaki.linalg.small.language import text

FORM = "ozaki.linalg.rotations_numba"

NEGLIGIBLE = 2.0**-53
"""u: what is beside the diagonal is dropped below this share of its two neighbours there."""

TINY = 2.0**-250
"""Numbers below are zeros: squares and products of others are normal numbers."""

ROOT_HALF = sqrt(0.5)

PATIENCE = 32
"""Stalled sweeps before more is dropped: rounding errors stall graded matrices for a while, and then pass."""

SWEEPS_TOGETHER = 32
"""Sweeps whose rotations are applied together, to columns that stay in a cache."""


@text
def rotation(x: float, z: float) -> tuple[float, float, float]:
    """Return c, s and r with c·x + s·z = r and c·z - s·x = 0."""
    if max(abs(x), abs(z)) < TINY:
        return 1.0, 0.0, x
    r = sqrt(x * x + z * z)
    return x / r, z / r, r


@text
def corner(p: float, q: float, t: float) -> float:
    """Return the eigenvalue of [p q; q t] that is nearer to t: Wilkinson's shift."""
    delta = (p - t) * 0.5
    return t - q * q / (delta + copysign(sqrt(delta * delta + q * q), delta))


@text
def dropped(stalls: int) -> float:
    """Return the share of a block's largest number below which one beside the diagonal is dropped."""
    return ldexp(NEGLIGIBLE, stalls - PATIENCE) if stalls > PATIENCE else 0.0


@text
def block(d: np.ndarray, e: np.ndarray, last: int, share: float) -> int:
    """Return where the block that ends at `last` begins; what is negligible before it becomes 0."""
    first = beginning(d, e, last, TINY)
    if share > 0:
        largest = abs(d[last])
        for k in range(first, last):
            largest = max(largest, max(abs(d[k]), abs(e[k])))
        first = beginning(d, e, last, max(TINY, share * largest))
    if first > 0:
        e[first - 1] = 0
    return first


@text
def beginning(d: np.ndarray, e: np.ndarray, last: int, least: float) -> int:
    """Return where the numbers above e's last one begin that neither their neighbours nor `least` pass."""
    first = last
    while first > 0 and abs(e[first - 1]) > max(NEGLIGIBLE * (abs(d[first - 1]) + abs(d[first])), least):
        first -= 1
    return first


@text
def tridiagonal_sweep(d: np.ndarray, e: np.ndarray, first: int, last: int, angles: np.ndarray) -> bool:
    """Replace a block of T by QᵀTQ; angles[0, :, k] become c and s of the rotation of k and k + 1.

    Return whether the sweep has stalled.
    """
    before = unfinished(e[last - 1], e[last - 2], first, last)
    x, beside = d[first] - corner(d[last - 1], e[last - 1], d[last]), e[first]
    for k in range(first, last):
        c, s, r = rotation(x, beside)
        if k > first:
            e[k - 1] = r
        p, q, t = d[k], e[k], d[k + 1]
        f = (t - p) * s + 2 * c * q
        d[k], d[k + 1], e[k] = p + s * f, t - s * f, c * f - q
        if k + 1 < last:
            x, beside, e[k + 1] = e[k], s * e[k + 1], c * e[k + 1]
        angles[0, 0, k], angles[0, 1, k] = c, s
    return unfinished(e[last - 1], e[last - 2], first, last) >= before * ROOT_HALF


@text
def bidiagonal_sweep(d: np.ndarray, e: np.ndarray, first: int, last: int, angles: np.ndarray) -> bool:
    """Replace a block of B by PᵀBQ; angles[0, :, k] are of P's rotations, angles[1, :, k] of Q's.

    Return whether the sweep has stalled.
    """
    for i in range(first, last + 1):
        if abs(d[i]) < TINY:
            singular_sweep(d, e, first, last, angles)
            return False
    before = unfinished(d[last - 1] * e[last - 1], d[last - 2] * e[last - 2], first, last)
    x, beside = d[first] - shift(d, e, first, last), e[first]
    for k in range(first, last):
        c, s, r = rotation(x, beside)
        if k > first:
            e[k - 1] = r
        x, e[k] = c * d[k] + s * e[k], c * e[k] - s * d[k]
        beside, d[k + 1] = s * d[k + 1], c * d[k + 1]
        angles[1, 0, k], angles[1, 1, k] = c, s
        c, s, d[k] = rotation(x, beside)
        x, d[k + 1] = c * e[k] + s * d[k + 1], c * d[k + 1] - s * e[k]
        e[k] = x
        if k + 1 < last:
            beside, e[k + 1] = s * e[k + 1], c * e[k + 1]
        angles[0, 0, k], angles[0, 1, k] = c, s
    return unfinished(d[last - 1] * e[last - 1], d[last - 2] * e[last - 2], first, last) >= before * ROOT_HALF


@text
def singular_sweep(d: np.ndarray, e: np.ndarray, first: int, last: int, angles: np.ndarray) -> None:
    """Replace a block with a zero on its diagonal by PᵀBQ, with the shift 0: the last column becomes zero.

    BQ = L is lower bidiagonal and PᵀL upper bidiagonal. No number is a difference, and the zero makes the
    last of L's diagonal zero.
    """
    cosine, p, q = 1.0, 1.0, 0.0  # of Q's rotation before, and of P's
    for k in range(first, last + 1):
        x = cosine * d[k] if abs(d[k]) >= TINY else 0.0
        if k == last:
            e[k - 1], d[k] = q * x, p * x
            break
        cosine, sine, r = rotation(x, e[k])
        if k > first:
            e[k - 1] = q * r
        p, q, d[k] = rotation(p * r, sine * d[k + 1])
        angles[0, 0, k], angles[0, 1, k] = p, q
        angles[1, 0, k], angles[1, 1, k] = cosine, sine


@text
def unfinished(beside: float, before: float, first: int, last: int) -> float:
    """Return |β₁²β₂|, which falls with every sweep that rounding errors do not stall."""
    return abs(beside * beside * (before if last - first > 1 else 1.0))


@text
def shift(d: np.ndarray, e: np.ndarray, first: int, last: int) -> float:
    """Return Wilkinson's shift of BᵀB over B's first number, which is not zero."""
    above = e[last - 2] if last - 1 > first else 0.0
    a, b, g = d[last - 1], e[last - 1], d[last]
    return corner(a * a + above * above, a * b, g * g + b * b) / d[first]


def rotate(rows: np.ndarray, spans: np.ndarray, angles: np.ndarray) -> None:
    """Replace rows k and k + 1, x and y, by c·x + s·y and c·y - s·x, for k of each span in turn."""
    for (first, last), (cosines, sines) in zip(spans.tolist(), angles, strict=True):
        for k in range(first, last):
            c, s, x, y = cosines[k], sines[k], rows[k].copy(), rows[k + 1]
            rows[k], rows[k + 1] = c * x + s * y, c * y - s * x


def diagonalize(d: np.ndarray, e: np.ndarray, matrices: Sequence[Array]) -> None:
    """Replace d by a diagonal matrix D, and each of the matrices by the product of its rotations and it.

    d, e : the diagonal and what is beside, or above, it; n numbers with 0 as the last.
    matrices : Z for QᵀZ, where T = QDQᵀ is tridiagonal; U and V for PᵀU and QᵀV, where B = PDQᵀ is
        bidiagonal.
    """
    form: Any = compiled(FORM) or sys.modules[__name__]
    sweep = form.tridiagonal_sweep if len(matrices) == 1 else form.bidiagonal_sweep
    rotated = two_sided_cuda.rotate if is_cupy(matrices[0]) else form.rotate
    angles = np.zeros((SWEEPS_TOGETHER, len(matrices), 2, len(d)))
    spans, pending = np.zeros((SWEEPS_TOGETHER, 2), np.int64), 0

    def apply() -> None:
        for i, rows in enumerate(matrices):
            rotated(rows, spans[:pending], np.ascontiguousarray(angles[:pending, i]))

    last, stalls = len(d) - 1, 0
    while last > 0:
        first = form.block(d, e, last, dropped(stalls))
        if first == last:
            last, stalls = last - 1, 0
            continue
        stalls += bool(sweep(d, e, first, last, angles[pending]))
        spans[pending], pending = (first, last), pending + 1
        if pending == SWEEPS_TOGETHER:
            apply()
            pending = 0
    apply()
