"""Scheme "residues": exact products by the Chinese remainder theorem (Ozaki scheme II).

    A'_t = A'·w_t mod p_t,   B'_t = B' mod p_t            t = 1, …, N    (residues)
    Y_t  = A'_t·B'_t mod p_t                                             (products, reduced)
    C'   = Σ_t Y_t·(P/p_t) - q·P,   q = RN(Σ_t Y_t/p_t),   P = Πp_t      (reconstruct)

w_t is the inverse of P/p_t modulo p_t: taken into A's residues, it costs nothing afterwards.
Every step is exact: the integers stay within float64's 53 bits, and C' is assembled from
digits small enough that their sums do too.
"""

from __future__ import annotations

import numpy as np

from multiword.engines import Engine, get_product
from multiword.runtime.arrays import Array, is_cupy, namespace
from multiword.runtime.parallel import empty_beside, over_rows
from ozaki.residues.reconstruct import reconstruct
from ozaki.residues.split import residues
from ozaki.residues.system import INT8_BITS, ResidueSystem, reduce, residue_system

__all__ = ["INT8_BITS", "products", "reconstruct", "residue_system", "residues"]


def products(
    a: Array, b: Array, system: ResidueSystem, engine: Engine, earlier: Array | None = None
) -> Array:
    """Return the (images, N, m', n') products of residues, exact, in the engine's result type.

    `earlier` are the products of other parts of the inner dimension: residues are associative,
    so they are added modulo the moduli, in any order.
    """
    out = empty_beside(a, (*a.shape[:3], b.shape[2]), get_product(system.word).result)
    for image, left, right in zip(out, a, b, strict=True):
        engine.multiply(system.word, left, right, out=image)
    if earlier is not None:
        _add_residues(earlier, out, system)
        return earlier
    return out


def _add_residues(total: Array, more: Array, system: ResidueSystem) -> None:
    """total += more, both reduced first."""
    if is_cupy(total):
        xp = namespace(total)
        for t, p in enumerate(system.moduli):
            total[:, t] = xp.remainder(total[:, t], p) + xp.remainder(more[:, t], p)
        return

    def work(block: slice) -> None:
        for t, p in enumerate(system.moduli):
            x, y = (z[:, t, block].astype(np.float64) for z in (total, more))
            total[:, t, block] = reduce(x, p, 1 / p) + reduce(y, p, 1 / p)

    over_rows(work, total.shape[2], total.shape[3])
