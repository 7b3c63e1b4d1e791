"""Sums of residues: numbers of several words have those of their sum, and of what a rounding leaves."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, import_cupy, is_cupy
from ozaki.residues.reduction import reduce


def sum_of_residues(x: Array, factors: Sequence[int], y: Array, moduli: Sequence[int]) -> Array:
    """Return (x·f_t + y) mod p_t of (images, N, m, n) residues, in the dtype of x.

    They are of least magnitude, and of 128 and -128, which are one modulo 256, the latter.

    Parameters
    ----------
    x : residues, or products of residues, which only int8 holds reduced.
    factors : f_t, from 0 to p_t - 1, for each modulus.
    y : residues.

    >>> x = np.array([100.0, -3.0]).reshape(1, 2, 1, 1)
    >>> sum_of_residues(x, (2, 1), x, (256, 7)).ravel()
    array([44.,  1.])
    """
    if is_cupy(x):
        f, p = (import_cupy().array(z, np.float64)[:, None, None] for z in (factors, moduli))
        return _in_one_launch()(x, f, y, p)
    out, short = np.empty(x.shape, x.dtype), x.itemsize == 1  # what float32 multiplies exactly
    for t, (f, p) in enumerate(zip(factors, moduli, strict=True)):
        residues = x[:, t].astype(np.float32 if short else np.float64)
        if not short:
            residues = reduce(residues, p, 1 / p)
        residues *= f
        if not short:
            residues = reduce(residues, p, 1 / p)
        residues += y[:, t]
        residues = reduce(residues, p, 1 / p)
        out[:, t] = np.where(residues == 128, -128, residues) if p == 256 else residues
    return out


@cache
def _in_one_launch() -> Any:
    """The same on a GPU: every number is read and written once."""
    steps = "z = {}; z -= rint(z / p) * p;"
    code = "double z;" + "".join(map(steps.format, ("x", "z * f", "z + y")))
    return import_cupy().ElementwiseKernel(
        "T x, float64 f, U y, float64 p", "T sum", code + "sum = z == 128 && p == 256 ? -128 : z", "residues"
    )
