"""Scheme "slices": exact products of integers cut into slices of few bits (Ozaki scheme I).

    A' = Σ_p A_p·2**(b·(S_A - 1 - p)),   every slice an integer of magnitude at most 2**(b - 1)
    D_d = Σ_{p + q = d} A_p·B_q,         every product exact in the engine, every sum in int64
    C' = Σ_d D_d·2**(b·(S_A + S_B - 2 - d))

All S_A·S_B products are needed: the definition asks for the exact C'. (`mukunoki` has the
paper's floating-point form and its fast mode.)
"""

from __future__ import annotations

from dataclasses import dataclass

from multiword.engines import Engine, Word, get_word
from multiword.runtime.arrays import Array, namespace, real_parts, to_float32, to_float64
from multiword.runtime.memory import padded
from ozaki.rounding.digits import round_digits
from ozaki.scaling.statistics import NONFINITE_ROW
from ozaki.schemes import ProductSpecification

SHORTEST_K_BLOCK = 1 << 12
"""Inner dimensions beyond this are cut rather than sliced thinner."""


@dataclass(frozen=True)
class SliceSystem:
    """How many slices of how many bits stand for the integers of either side.

    Attributes
    ----------
    word : the kind of product.
    bits : b; one bit is the sign, so magnitudes are at most 2**(b - 1).
    counts : S_A and S_B.
    k_block : the longest inner dimension for which products of slices are exact.
    """

    word: Word
    bits: int
    counts: tuple[int, int]
    k_block: int


def slice_system(word: str | Word, widths: tuple[int, int], k: int) -> SliceSystem:
    """Return the slices for integers of magnitudes at most 2**widths, and inner dimension k."""
    word = get_word(word)
    # Integers of a fixed size end one below a power of two: so do int8 words, and int32 sums.
    largest, exact_bits = word.bits - (word.dtype.kind == "i"), word.exact_bits - (word.result.kind == "i")
    shortest = min(k, SHORTEST_K_BLOCK)
    magnitude_bits = min(largest, (exact_bits - (shortest - 1).bit_length()) // 2)
    for bits in range(min(magnitude_bits + 1, 31), 1, -1):
        # The leading slice holds magnitudes up to 2**(b - 1), as all do; so S slices reach
        # 2**(b·S - 1) less what the lower ones may add to it: one bit is left free.
        counts = tuple(max(1, -(-(width + 2) // bits)) for width in widths)
        # The sums D_d, over all of k and of both parts of complex numbers, must suit `round_digits`.
        if 2 * k * min(counts) << 2 * (bits - 1) < 1 << 62:
            break
    return SliceSystem(word, bits, (counts[0], counts[1]), 1 << (exact_bits - 2 * (bits - 1)))


class Slices:
    """Scheme "slices" for a specification."""

    name = "slices"
    shares_words = False
    tile = 1, 1, 1

    def __init__(self, specification: ProductSpecification, word: str | Word) -> None:
        self.word = get_word(word)
        self.specification = specification
        self.system = slice_system(self.word, specification.widths, specification.shape[1])
        self.k_block = self.system.k_block

    @property
    def pieces(self) -> int:
        return self.system.counts[0]

    @property
    def products(self) -> int:
        return self.system.counts[0] * self.system.counts[1] * self.specification.parts**2

    def split(self, parts: list[Array], scale: Array, side: int, padding: int) -> Array:
        """Return the (parts, S, r', k') slices of an operand's integers A' = RN(A·2**scale).

        Rounding each slice to nearest even in turn rounds the last one, and so A', to nearest even:
        what the higher slices take away is an even number of last places.
        """
        xp, system = namespace(parts[0]), self.system
        rows, columns = parts[0].shape
        count = system.counts[side]
        shape = (len(parts), count, padded(rows, padding), padded(columns, padding))
        out = xp.zeros(shape, self.word.dtype)
        finite = (scale != NONFINITE_ROW)[:, None]
        for component, x in zip(out, parts, strict=True):
            rest = xp.where(finite, to_float64(x), 0)
            # A slice of the largest numbers may round up to 2**1024: those are divided by four.
            quarter = xp.where(abs(rest) >= 1, 2, 0)
            rest = xp.ldexp(rest, -quarter)
            for p in range(count):
                unit = xp.where(finite, system.bits * (count - 1 - p) - scale[:, None], 0) - quarter
                digit = xp.rint(xp.ldexp(rest, -unit))
                component[p, :rows, :columns] = digit
                rest -= xp.ldexp(digit, unit)
        return out

    def multiply(self, a: Array, b: Array, engine: Engine, earlier: Array | None) -> Array:
        """Return the (parts, S_A + S_B - 1, m', n') sums D_d in int64, least significant first."""
        xp = namespace(a)
        length = a.shape[1] + b.shape[1] - 1
        out = earlier
        if out is None:
            out = xp.zeros((len(a), length, a.shape[2], b.shape[2]), xp.int64)
        for i in range(len(a)):
            for j in range(len(b)):
                # (a0 + a1·i)(b0 + b1·i): the real part is a0·b0 - a1·b1.
                target, subtract = out[i ^ j], i and j
                for p in range(a.shape[1]):
                    for q in range(b.shape[1]):
                        part = engine.multiply(self.word.name, a[i, p], b[j, q])
                        target[length - 1 - p - q] += (-part if subtract else part).astype(xp.int64)
        return out

    def reconstruct(self, y: Array, scales: tuple[Array, Array], out: Array) -> None:
        """Write RN(C'·2**(-s_i - t_j)) to `out`, an (m, n) array."""
        m, n = out.shape
        exponent = -(scales[0][:, None] + scales[1])
        for part, digits in zip(real_parts(out), y, strict=True):
            value = round_digits(digits[:, :m, :n], self.system.bits, exponent, self.specification.target)
            part[...] = to_float32(value) if part.dtype == "float32" else value

    def operand_bytes(self) -> int:
        # And 24 for the rest being sliced, in float64, and two temporaries.
        words = max(self.system.counts) * self.word.dtype.itemsize
        return self.specification.parts * words + 24

    def product_bytes(self) -> int:
        return self.specification.parts * 8 * (sum(self.system.counts) + 6)
