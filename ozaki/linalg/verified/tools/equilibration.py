"""Equilibration of square systems by powers of two, exact or not at all."""

from __future__ import annotations

import numpy as np

from multiword.runtime.arrays import Array, namespace, real_parts
from ozaki.linalg.verified.tools.upward import magnitude
from ozaki.linalg.verified.tools.words import scaled

PASSES = 3
"""Times that rows and columns are scaled by their largest elements in turn."""

TAME = 2.0**6
"""A ratio of largest to smallest row, and a size of both, that needs no scaling."""

SPREAD = 1000
"""Octaves below 1 in which float64 numbers have all of their bits, and more than that."""

FAR_BELOW = -(2**20)
"""An exponent for zero."""


def equilibrated(a: Array) -> tuple[Array, Array, Array]:
    """Return 2**-r·A·2**-c and the integer exponents r of rows and c of columns.

    The largest magnitudes of rows and columns become about 1 (Ruiz, A scaling algorithm to equilibrate both
    rows and columns norms in matrices). Nothing is scaled where some element could not be exactly.
    """
    xp = namespace(a)
    size = magnitude(a)
    rows, columns = xp.zeros((a.shape[0], 1)), xp.zeros((1, a.shape[1]))
    extremes = xp.concatenate([size.max(axis=1), size.max(axis=0)])
    if bool(extremes.min() * TAME > extremes.max()) and 1 / TAME < float(extremes.max()) < TAME:
        return a, rows.astype(np.int32), columns.astype(np.int32)
    exponent = xp.where(size > 0, xp.frexp(size)[1].astype(np.float64), -np.inf)
    for _ in range(PASSES):
        for scale, axis in ((rows, 1), (columns, 0)):
            largest = (exponent - rows - columns).max(axis=axis, keepdims=True)
            scale += xp.where(xp.isfinite(largest), largest, 0.0)
    r, c = rows.astype(np.int32), columns.astype(np.int32)
    result = scaled(a, -r - c)
    if not bool((scaled(result, r + c) == a).all()):
        return a, 0 * r, 0 * c
    return result, r, c


def rows_scaled(b: Array, r: Array) -> tuple[Array, Array]:
    """Return parts of 2**-r·B, side by side, and exponents t: times 2**t they add up to it exactly.

    Each part is scaled so that columns are at about 1. There are several where numbers of a column are
    farther apart than float64 numbers can be: then a part has those within `SPREAD` octaves.
    """
    xp, rest = namespace(b), b.copy()
    parts: list[Array] = []
    exponents: list[Array] = []
    while not parts or bool(rest.any()):
        octave = [_octaves(x) - r for x in real_parts(rest)]
        top = xp.maximum(octave[0], octave[-1]).max(axis=0, keepdims=True)
        t = xp.where(top > FAR_BELOW // 2, top, 0).astype(np.int32)
        part = rest.copy()
        for of_part, of_rest, e in zip(real_parts(part), real_parts(rest), octave, strict=True):
            near = e > t - SPREAD
            of_part[~near], of_rest[near] = 0, 0
        parts.append(scaled(part, -r - t))
        exponents.append(t)
    return xp.hstack(parts), xp.hstack(exponents)


def _octaves(x: Array) -> Array:
    """The exponents of real numbers, and `FAR_BELOW` of zeros."""
    xp = namespace(x)
    return xp.where(x != 0, xp.frexp(x)[1], FAR_BELOW)
