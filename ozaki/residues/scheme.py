"""Scheme "residues": exact products by the Chinese remainder theorem (Ozaki scheme II).

    A'_t = A'·w_t mod p_t,   B'_t = B' mod p_t            t = 1, …, N    (split)
    Y_t  = A'_t·B'_t mod p_t                                             (multiply)
    C'   = Σ_t Y_t·(P/p_t) - q·P,   q = RN(Σ_t Y_t/p_t),   P = Πp_t      (reconstruct)

w_t is the inverse of P/p_t modulo p_t: taken into A's residues, it costs nothing afterwards.
Every step is exact: the integers stay within float64's 53 bits, and C' is reconstructed from
digits small enough that their sums do too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any, cast

import numpy as np

from multiword.engines import Engine, ResidueEngine, Word, declared, get_word, reduces_residues
from multiword.engines.moduli import ResidueSystem, fewest_moduli, residue_system
from multiword.runtime.arrays import Array, is_cupy, namespace, real_parts
from multiword.runtime.parallel import empty_beside, over_rows
from ozaki.residues.reconstruct import reconstruct
from ozaki.residues.reconstruct_cuda import reconstruct_on_device
from ozaki.residues.reduction import reduce
from ozaki.residues.split import Truncated, residues
from ozaki.residues.sums import residues_of_sums, sum_of_residues
from ozaki.schemes import ProductSpecification


class Residues:
    """Scheme "residues" for a specification and an engine.

    Attributes
    ----------
    word : what carries the residues: fp64 words where the integers are too wide for the moduli of another.
    reduced : whether the engine reduces the products modulo the moduli before it writes them. Steps that it
        has of its own (`ResidueEngine`) are then taken.
    symmetric : whether the product is known to be symmetric (Hermitian), and all of it one panel, so that the
        engine, which has `mirrors`, computes half of it (`of_half`).
    """

    name = "residues"

    def __init__(self, specification: ProductSpecification, word: str | Word, engine: Engine) -> None:
        self.word = get_word(word)
        if specification.bits > self.word.residue_moduli.capacity:
            self.word = get_word("fp64")
        self.specification, self.engine = specification, engine
        self.reduced = reduces_residues(engine, self.word.name, specification.shape)
        k, block = specification.shape[1], declared(engine, "residue_block")
        k = k if block is None or self.reduced else min(k, block // specification.parts)
        self.system = residue_system(self.word, specification.bits, k, specification.parts)
        self.k_block = self.system.k_block
        self.symmetric = False

    def with_system(self, system: ResidueSystem) -> Residues:
        """Return this scheme with the moduli that it has on another engine."""
        other = copy(self)
        other.system, other.k_block = system, min(self.k_block, system.k_block)
        return other

    def of_half(self) -> Residues:
        """Return this scheme for a symmetric product, of which the engine computes half."""
        other = copy(self)
        other.symmetric = True
        return other

    @property
    def pieces(self) -> int:
        return len(self.system.moduli)

    @property
    def products(self) -> int:
        return self.system.products

    @property
    def roomy_specification(self) -> ProductSpecification:
        """The specification of all products, but for a few bits, that take these moduli: widths in bytes."""
        left, right = (-(-width // 8) * 8 for width in self.specification.widths)
        bits = min(self.system.capacity, self.word.residue_moduli.capacity)
        return replace(self.specification, widths=(left, right), bits=bits)

    def split(self, parts: list[Array], scale: Array, side: int, padding: int) -> Array:
        step = getattr(self.engine, "split_residues", residues) if self.reduced else residues
        if step is not residues and self.specification.stack > 1:
            parts = [x.reshape(self.specification.stack, -1, x.shape[-1]) for x in parts]
        width = self.specification.widths[side]
        words: Array = step(parts, scale, self.system, padding, weighted=side == 0, width=width)
        return words

    def split_and_truncate(
        self, parts: list[Array], scale: Array, side: int, padding: int, truncated: Truncated
    ) -> Array:
        """As `split` on a GPU, in int8; the same launch writes the factor's magnitudes."""
        width = self.specification.widths[side]
        return residues(parts, scale, self.system, padding, side == 0, width, truncated)

    def split_sum(self, high: list[Array], low: list[Array], scale: Array, side: int, padding: int) -> Array:
        """Return the words of the sums of two integers, RN(high·2**scale) + RN(low·2**scale)."""
        if self.sums_in_one_step:
            return self.split([*high, *low], scale, side, padding)
        width = self.specification.widths[side]
        return residues_of_sums(high, low, scale, self.system, padding, side == 0, width)

    @property
    def sums_in_one_step(self) -> bool:
        """Whether the engine's own step splits a number of two words, which are given as two parts of it."""
        return self.reduced and hasattr(self.engine, "split_residues")

    def multiply(self, a: Array, b: Array, engine: Engine, earlier: Array | None) -> Array:
        """Return the (images, N, m', n') products of residues, exact, in the engine's result type.

        Residues are associative: those of earlier blocks of k are added modulo the moduli, in any order.
        """
        if self.reduced:
            step = getattr(engine, "multiply_words", None)
            if step is not None:
                cut = (
                    a.shape[3] < self.specification.shape[1]
                )  # the words of this block are to go before the next
                products: Array = step(a, b, self.system, earlier, cut)
                return products
            return self._multiply_reduced(a, b, engine, earlier)
        if self.specification.stack > 1:
            out = self._multiply_stack(a, b, engine)
        else:
            out = empty_beside(a, (*a.shape[:3], b.shape[2]), self.word.result)
            for image, left, right in zip(out, a, b, strict=True):
                engine.multiply(self.word.name, left, right, out=image)
        if earlier is None:
            return out
        _add_residues(earlier, out, self.system)
        return earlier

    def _multiply_reduced(self, a: Array, b: Array, engine: Engine, earlier: Array | None) -> Array:
        """Return all products at once, reduced modulo the moduli before they are written."""
        stack, (m, _, n) = self.specification.stack, self.specification.shape
        if stack > 1:
            a, b = a[:, :, : stack * m], b[:, :, : stack * n]
        out = earlier
        if out is None:
            out = namespace(a).empty((*a.shape[:3], b.shape[2] // stack), self.word.residue_moduli.residue)
        left, right, target = (x.reshape(-1, stack, x.shape[2] // stack, x.shape[3]) for x in (a, b, out))
        weights: dict[str, Any] = {"weights": self.system.weights} if self.shares_words else {}
        cast(ResidueEngine, engine).multiply_residues(
            left, right, self.system.moduli, out=target, add=earlier is not None, **self._half, **weights
        )
        return out

    def _multiply_stack(self, a: Array, b: Array, engine: Engine) -> Array:
        """Return the products of a stack, one below the other."""
        stack, (m, _, n) = self.specification.stack, self.specification.shape
        # Rows of padding are left out; the padding of the inner dimension stays.
        a, b = a[:, :, : stack * m], b[:, :, : stack * n]
        out = namespace(a).empty((*a.shape[:2], stack * m, n), self.word.result)
        # Where there were none, the products of all moduli are one batch.
        one_batch = a.flags.c_contiguous and b.flags.c_contiguous
        for index in [()] if one_batch else np.ndindex(*out.shape[:2]):
            left, right, target = (x[index].reshape(-1, r, x.shape[3]) for x, r in ((a, m), (b, n), (out, m)))
            engine.multiply(self.word.name, left, right, out=target)
        return out

    @property
    def _half(self) -> dict[str, Any]:
        """What the steps of engines with `mirrors` are told of a symmetric product; others do not take it."""
        return {"symmetric": True} if self.symmetric else {}

    @property
    def tile(self) -> tuple[int, int, int]:
        """Multiples of m, k and n to which an engine's own steps fill operands up."""
        return declared(self.engine, "tile") if self.reduced else (1, 1, 1)

    @property
    def shares_words(self) -> bool:
        """Whether both factors of a symmetric product are the right one's words: the residues of products
        take the weights w_t in."""
        own_step = hasattr(self.engine, "split_residues")
        return self.symmetric and self.system.images == 1 and not own_step

    @property
    def mirrors(self) -> bool:
        """Whether the engine computes half of a symmetric product, and the other half from it, by itself."""
        return self.reduced and bool(getattr(self.engine, "mirrors", False))

    def reconstruct(self, y: Array, scales: tuple[Array, Array], out: Array) -> None:
        step = reconstruct
        if self.reduced and y.dtype == self.word.residue_moduli.residue:
            step = getattr(self.engine, "reconstruct_residues", reconstruct)
        step(y, self.system, scales, self.specification.target, out, **self._half)

    def round_words(self, y: Any, scales: tuple[Array, Array], words: Sequence[Array]) -> None:
        """Round C'·2**(-s_i - t_j) to the first word, what that leaves to the second, and so on.

        Words after one that is infinite are 0.
        """
        first, *more = words
        if not more:
            self.reconstruct(y, scales, first)
            return
        if len(more) == 1 and is_cupy(first):
            reconstruct_on_device(y, self.system, scales, self.specification.target, words)
            return
        rest = self._of_rest(scales)
        count = len(rest.system.moduli)
        kept = y.first(count) if hasattr(y, "first") else y[:, :count].copy()
        self.reconstruct(y, scales, first)
        rest.round_words(self._remainder(kept, first, scales, rest), scales, more)
        for high, *lower in zip(*map(real_parts, words), strict=True):
            for low in lower:
                low[~namespace(high).isfinite(high)] = 0

    def _of_rest(self, scales: tuple[Array, Array]) -> Residues:
        """Return the scheme for what a rounded word leaves of C': on a CPU with fewer moduli.

        It is less than 2**(bits - precision) where no integer times 2**(-s_i - t_j) is subnormal.
        """
        rest, target = copy(self), self.specification.target
        rest.reduced = False
        if not is_cupy(scales[0]) and int(scales[0].max()) + int(scales[1].max()) <= -target.emin:
            bits = max(0.0, self.specification.bits - target.precision)
            rest.specification = replace(self.specification, bits=bits)
            rest.system = fewest_moduli(self.system, bits)
        return rest

    def _remainder(self, y: Array, word: Array, scales: tuple[Array, Array], rest: Residues) -> Array:
        """Return the products of C' - word·2**(s_i + t_j), an integer, for the scheme of the rest.

        `y` are the products of C' modulo its moduli.
        """
        xp, (m, n), system = namespace(y), word.shape, self.system
        exponent = scales[0][:, None] + scales[1]
        finite = [xp.where(xp.isfinite(part), part, 0) for part in real_parts(word)]
        parts = [-xp.ldexp(part, exponent) for part in finite]
        width = min(1023, math.ceil(self.specification.bits) + 1)
        taken = residues(parts, xp.zeros(m, xp.int32), rest.system, 1, weighted=True, width=width)
        if system.images == 3:  # of A'B' they are (xx', yy', (x + y)(x' + y')), of a number (x, y, x + y)
            taken[1] = 0
        factors = [
            w * pow(v, -1, p) % p
            for p, w, v in zip(rest.system.moduli, rest.system.weights, system.weights, strict=False)
        ]
        products = y[:, : len(factors), :m, :n]
        return sum_of_residues(products, factors, taken, rest.system.moduli)

    def operand_bytes(self) -> int:
        return self.products * self._bytes(self.word.dtype)

    def product_bytes(self) -> int:
        return self.products * self._bytes(
            self.word.residue_moduli.residue if self.reduced else self.word.result
        )

    def _bytes(self, dtype: np.dtype) -> int:
        """Return the bytes of a number, and of its copy where an engine converts it to multiply."""
        carrier = None if self.reduced else declared(self.engine, "carrier")(self.word)
        return dtype.itemsize + (0 if carrier is None or carrier == dtype else carrier.itemsize)


def _add_residues(total: Array, more: Array, system: ResidueSystem) -> None:
    """Add products to others, both reduced first."""
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
