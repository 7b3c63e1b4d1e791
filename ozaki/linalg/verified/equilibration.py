"""Equilibration of square systems by powers of two, exact or not at all."""

from __future__ import annotations

import numpy as np

from multiword.runtime.arrays import Array, namespace
from ozaki.linalg.verified.upward import magnitude
from ozaki.linalg.verified.words import scaled

PASSES = 3
"""Times that rows and columns are scaled by their largest elements in turn."""


TAME = 2.0**6
"""A ratio of largest to smallest row, and a size of both, that needs no scaling."""


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


def rows_scaled(b: Array, r: Array) -> tuple[Array, Array] | None:
    """Return 2**-r·B·2**-t and the exponents t that bring columns to about 1; None if that is not exact."""
    xp = namespace(b)
    size = magnitude(b)
    exponent = xp.where(size > 0, xp.frexp(size)[1] - r, -(2**20)).max(axis=0, keepdims=True)
    t = xp.where(exponent > -(2**20), exponent, 0).astype(np.int32)
    result = scaled(b, -r - t)
    return (result, t) if bool((scaled(result, r + t) == b).all()) else None
