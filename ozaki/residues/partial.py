"""Products of residues of a part of the inner dimension, in as few bytes as hold them, and their sum.

What workers send one another: a byte for each int8 modulus and element, four for an fp64 one. Sums modulo p
are associative, so partial products add up in any order and are reconstructed once.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from multiword.engines.moduli import ResidueSystem
from multiword.runtime.arrays import Array, import_cupy, is_cupy, namespace
from ozaki.residues.reduction import reduce


def no_residues(system: ResidueSystem, shape: tuple[int, ...], like: Array) -> Array:
    """Return zeros, (images, N, m, n), to add partial products to."""
    return namespace(like).zeros(shape, system.word.residue_moduli.residue)


def put_residues(y: Array, system: ResidueSystem, out: Array) -> None:
    """Write the symmetric residues of products from `Residues.multiply` to a part of `no_residues`.

    Padding of the products is left out; those of an engine's own kind are taken out as residues.
    """
    rows, columns = out.shape[2:]
    residues = y.first(len(system.moduli)) if hasattr(y, "first") else y
    y = residues[:, :, :rows, :columns]
    if is_cupy(y):
        for t, p in enumerate(system.moduli):
            _symmetric_residues()(y[:, t], p, out[:, t])
        return
    for t, p in enumerate(system.moduli):
        x = y[:, t].astype(np.float64)
        reduce(reduce(x, p, 1 / p), p, 1 / p)  # once more, for sums near 2**53
        np.copyto(out[:, t], np.where(x > (p - 1) // 2, x - p, x), casting="unsafe")


def add_residues(x: Array, y: Array, system: ResidueSystem) -> Array:
    """Return x + y modulo every modulus, symmetric residues as before."""
    xp = namespace(x)
    out = xp.empty_like(x)
    for t, p in enumerate(system.moduli):
        total = x[:, t].astype(np.int32) + y[:, t]
        total -= np.int32(p) * (total > (p - 1) // 2)
        total += np.int32(p) * (total < -(p // 2))
        out[:, t] = total
    return out


def as_products(x: Array, system: ResidueSystem) -> Array:
    """Return residues in the type of an engine's products, to be reconstructed."""
    return x.astype(system.word.result)


@cache
def _symmetric_residues() -> Any:
    """Return a CuPy kernel from products, int32 or float64, to residues, int8 or int32."""
    return import_cupy().ElementwiseKernel(
        "T y, int32 p",
        "R r",
        "long long x = (long long)y % p; x += x < 0 ? p : 0; r = (R)(x > (p - 1) / 2 ? x - p : x);",
        "symmetric_residues",
    )
