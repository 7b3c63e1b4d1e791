"""Scheme "residues": exact products by the Chinese remainder theorem (Ozaki scheme II).

    A'_t = A'·w_t mod p_t,   B'_t = B' mod p_t            t = 1, …, N    (split)
    Y_t  = A'_t·B'_t mod p_t                                             (multiply)
    C'   = Σ_t Y_t·(P/p_t) - q·P,   q = RN(Σ_t Y_t/p_t),   P = Πp_t      (reconstruct)

w_t is the inverse of P/p_t modulo p_t: taken into A's residues, it costs nothing afterwards.
Every step is exact: the integers stay within float64's 53 bits, and C' is reconstructed from
digits small enough that their sums do too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from multiword.engines import Engine, ResidueEngine, get_product
from multiword.runtime.arrays import Array, is_cupy, namespace
from multiword.runtime.parallel import empty_beside, over_rows
from ozaki.residues.reconstruct import reconstruct
from ozaki.residues.split import residues
from ozaki.residues.system import INT8_BITS, ResidueSystem, reduce, residue_system
from ozaki.schemes import ProductSpecification

HOST_K_BLOCK = 1024
"""Real numbers in a row beyond which it is cut on a CPU: five fp64 moduli then hold what six hold at 2048."""


class Residues:
    """Scheme "residues" for a specification.

    Attributes
    ----------
    reduced : whether the engine reduces the products, to int8 residues, before it writes them.
    """

    name = "residues"

    def __init__(
        self, specification: ProductSpecification, word: str, on_host: bool = False, reduced: bool = False
    ) -> None:
        self.word = word
        self.reduced = reduced
        self.specification = specification
        k = specification.shape[1]
        block = HOST_K_BLOCK // specification.parts if on_host else k
        self.system = residue_system(word, specification.bits, min(k, block), specification.parts)
        self.k_block = self.system.k_block
        # The host multiplies int8 words in float64.
        self._carrier = 8 if on_host and word == "int8" else 0

    @property
    def pieces(self) -> int:
        return len(self.system.moduli)

    @property
    def products(self) -> int:
        return self.system.images * self.pieces

    @property
    def roomy_specification(self) -> ProductSpecification:
        """That of all the products for which these moduli are chosen, nearly, with widths in whole bytes."""
        left, right = (-(-width // 8) * 8 for width in self.specification.widths)
        bits = self.system.capacity
        if self.word == "int8":
            bits = min(bits, INT8_BITS)
        return replace(self.specification, widths=(left, right), bits=bits)

    def split(self, parts: list[Array], scale: Array, side: int, padding: int) -> Array:
        width = self.specification.widths[side]
        return residues(parts, scale, self.system, padding, weighted=side == 0, width=width)

    def multiply(self, a: Array, b: Array, engine: Engine, earlier: Array | None) -> Array:
        """Return the (images, N, m', n') products of residues, exact, in the engine's result type.

        Residues are associative: those of earlier blocks of k are added modulo the moduli, in any order.
        """
        if self.reduced:
            return self._multiply_reduced(a, b, engine, earlier)
        if self.specification.stack > 1:
            out = self._multiply_stack(a, b, engine)
        else:
            out = empty_beside(a, (*a.shape[:3], b.shape[2]), get_product(self.word).result)
            for image, left, right in zip(out, a, b, strict=True):
                engine.multiply(self.word, left, right, out=image)
        if earlier is None:
            return out
        _add_residues(earlier, out, self.system)
        return earlier

    def _multiply_reduced(self, a: Array, b: Array, engine: Engine, earlier: Array | None) -> Array:
        """All products at once, reduced modulo the moduli before they are written."""
        stack, (m, _, n) = self.specification.stack, self.specification.shape
        if stack > 1:
            a, b = a[:, :, : stack * m], b[:, :, : stack * n]
        out = earlier
        if out is None:
            out = namespace(a).empty((*a.shape[:3], b.shape[2] // stack), np.int8)
        left, right, target = (x.reshape(-1, stack, x.shape[2] // stack, x.shape[3]) for x in (a, b, out))
        cast(ResidueEngine, engine).multiply_residues(
            left, right, self.system.moduli, out=target, add=earlier is not None
        )
        return out

    def _multiply_stack(self, a: Array, b: Array, engine: Engine) -> Array:
        """The products of a stack, one below the other."""
        stack, (m, _, n) = self.specification.stack, self.specification.shape
        # Rows that pad the whole are left away; what pads the inner dimension stays.
        a, b = a[:, :, : stack * m], b[:, :, : stack * n]
        out = namespace(a).empty((*a.shape[:2], stack * m, n), get_product(self.word).result)
        # Where no rows were left away, the products of all moduli are one batch.
        whole = a.flags.c_contiguous and b.flags.c_contiguous
        for index in [()] if whole else np.ndindex(*out.shape[:2]):
            left, right, target = (x[index].reshape(-1, r, x.shape[3]) for x, r in ((a, m), (b, n), (out, m)))
            engine.multiply(self.word, left, right, out=target)
        return out

    def reconstruct(self, y: Array, scales: tuple[Array, Array], out: Array) -> None:
        reconstruct(y, self.system, scales, self.specification.target, out)

    def operand_bytes(self) -> int:
        return self.products * (get_product(self.word).word.itemsize + self._carrier)

    def product_bytes(self) -> int:
        result = 1 if self.reduced else get_product(self.word).result.itemsize
        return self.products * (result + self._carrier)


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
