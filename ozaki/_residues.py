"""Scheme "residues": exact products by the Chinese remainder theorem (Ozaki scheme II).

    A'_t = A'·w_t mod p_t,   B'_t = B' mod p_t            t = 1, …, N    (residues)
    Y_t  = A'_t·B'_t mod p_t                                             (products, reduced)
    C'   = Σ_t Y_t·(P/p_t) - q·P,   q = RN(Σ_t Y_t/p_t),   P = Πp_t      (reconstruct)

w_t is the inverse of P/p_t modulo p_t: taken into A's residues, it costs nothing afterwards.
Every step is exact: the integers stay within float64's 53 bits, and C' is assembled from
digits small enough that their sums do too.
"""

from __future__ import annotations

from multiword._arrays import Array, namespace
from multiword.engines import Engine, get_product
from ozaki._residue_reconstruct import reconstruct
from ozaki._residue_split import NARROW_BITS, residues
from ozaki._residue_system import INT8_BITS, ResidueSystem, residue_system

__all__ = ["INT8_BITS", "NARROW_BITS", "products", "reconstruct", "residue_system", "residues"]


def products(
    a: Array, b: Array, system: ResidueSystem, engine: Engine, earlier: Array | None = None
) -> Array:
    """Return the (images, N, m', n') products of residues, exact, in the engine's result type.

    `earlier` are the products of other parts of the inner dimension: residues are associative,
    so they are added modulo the moduli, in any order.
    """
    xp = namespace(a)
    out = xp.empty((*a.shape[:3], b.shape[2]), get_product(system.word).result)
    for image, left, right in zip(out, a, b, strict=True):
        engine.multiply(system.word, left, right, out=image)
    if earlier is not None:
        for t, p in enumerate(system.moduli):
            earlier[:, t] = xp.remainder(earlier[:, t], p) + xp.remainder(out[:, t], p)
        return earlier
    return out
