"""Residue number systems: pairwise coprime moduli, and which of them a product takes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from multiword.engines.words import Word, get_word, symmetric
from multiword.runtime.cached import cached_property


@dataclass(frozen=True)
class ResidueSystem:
    """A residue number system: pairwise coprime moduli and the words that carry residues.

    Attributes
    ----------
    images : residues modulo p that stand for a number: 1 for a real one. For a complex one 2, where -1 is a
        square modulo every p, j² = -1: x + iy becomes (x + jy, x - jy), and products are taken image by
        image (the Chinese remainder theorem again: the polynomials modulo t² + 1 fall into those modulo
        t - j and t + j). Where such moduli are used up, 3, by Karatsuba: (x, y, x + y).
    """

    word: Word
    k_block: int
    moduli: tuple[int, ...]
    images: int = 1

    @cached_property
    def product(self) -> int:
        """P, the product of the moduli."""
        return math.prod(self.moduli)

    @property
    def products(self) -> int:
        """Residues that stand for a number: products of words that a product takes."""
        return self.images * len(self.moduli)

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """w_t, the inverse of P/p_t modulo p_t."""
        return tuple(pow(self.product // p, -1, p) for p in self.moduli)

    @cached_property
    def capacity(self) -> float:
        """Bits for which `residue_system` chooses these moduli, nearly the most."""
        return sum(map(math.log2, self.moduli)) - 1 - 2.0**-9

    @cached_property
    def roots(self) -> tuple[int, ...]:
        """j_t with j_t² = -1 modulo p_t, where numbers have two images."""
        return tuple(root_of_minus_one(p) for p in self.moduli) if self.images == 2 else ()

    def weights_of_parts(self, weighted: bool) -> list[tuple[int, tuple[int, ...]]]:
        """Return every modulus p with the factors of an operand's real parts, before these are added up.

        One side takes the weights in: w, or w/2 of two images, because the real part of a product is half of
        their sum.
        """
        pairs: list[tuple[int, tuple[int, ...]]] = []
        parts, halved = 1 if self.images == 1 else 2, self.images == 2
        for p, w, j in zip(self.moduli, self.weights, self.roots or (1,) * len(self.moduli), strict=True):
            weight = (w * pow(2, -1, p) % p if halved else w) if weighted else 1
            pairs.append((p, (weight, weight * j % p)[:parts]))
        return pairs

    @cached_property
    def inverse_roots(self) -> np.ndarray:
        """1/j_t = -j_t, symmetric residues: the imaginary part is half the images' difference times these."""
        return np.array([symmetric(-j, p) for p, j in zip(self.moduli, self.roots, strict=False)], np.float64)


def digits_of(x: int, base_bits: int, count: int) -> list[int]:
    """Return the digits of x = Σ digit_d·2**(base_bits·d), of least magnitude but for the last, the rest.

    >>> digits_of(255, 4, 2)
    [-1, 16]
    """
    digits = []
    for _ in range(count - 1):
        digits.append(symmetric(x, 1 << base_bits))
        x = (x - digits[-1]) >> base_bits
    return [*digits, x]


def root_of_minus_one(p: int) -> int:
    """Return j with j² = -1 modulo an odd p, or 0 for none: p = a² + b² without a common factor, j = a/b."""
    a = np.arange(1, math.isqrt(p // 2) + 1)
    b = np.sqrt(p - a * a).astype(np.int64)  # of numbers below 2**52, that is the root where it is an integer
    for x, y in zip(*(side[a * a + b * b == p].tolist() for side in (a, b)), strict=True):
        if math.gcd(x, y) == 1:
            return int(x * pow(y, -1, p) % p)
    return 0


def residue_system(word: str | Word, bits: float, k: int, parts: int = 1) -> ResidueSystem:
    """Return the system of fewest products that holds integers up to 2**bits, for inner dimension k.

    `parts` is 2 for complex products.

    Raises ValueError if the word has no moduli, or too few.
    """
    word = get_word(word)
    images = (1,) if parts == 1 else word.residue_moduli.images
    systems = [x for x in (_fewest_moduli(word, bits, k, i) for i in images) if x is not None]
    if not systems:
        raise ValueError(f"{word} moduli cannot hold integers of {bits:.0f} bits")
    return min(systems, key=lambda x: x.images * len(x.moduli))


@lru_cache(512)
def _fewest_moduli(word: Word, bits: float, k: int, images: int) -> ResidueSystem | None:
    """Return the system of fewest moduli whose product exceeds 2·2**bits, if there is one."""
    k_block, largest = word.residue_limits(k, images)
    moduli = _first_moduli(_coprimes(largest, images == 2), bits)
    return None if moduli is None else _system(word, k_block, moduli, images)


def _first_moduli(moduli: Iterable[int], bits: float) -> tuple[int, ...] | None:
    """Return as many of the moduli as hold integers up to 2**bits; None if all are too few."""
    total, chosen = 0.0, []
    for p in moduli:
        total += math.log2(p)
        chosen.append(p)
        if total > bits + 1 + 2.0**-10:  # C'/P stays that far away from 1/2
            return tuple(chosen)
    return None


def fewest_moduli(system: ResidueSystem, bits: float) -> ResidueSystem:
    """Return the system of as many of its moduli as hold integers up to 2**bits."""
    moduli = _first_moduli(system.moduli, bits)
    return system if moduli is None else _system(system.word, system.k_block, moduli, system.images)


@lru_cache(512)
def _system(word: Word, k_block: int, moduli: tuple[int, ...], images: int) -> ResidueSystem:
    return ResidueSystem(word, k_block, moduli, images)


_beginnings: dict[tuple[int, bool], tuple[int, ...]] = {}
"""The beginnings of `_coprimes`. Threads may replace a tuple by a shorter one, which costs time alone."""


def _coprimes(largest: int, rooted: bool) -> Iterator[int]:
    """Yield pairwise coprime numbers from `largest` downwards, greedily; if rooted, those that are odd and
    have a root of -1."""
    sequence = _beginnings.get((largest, rooted), ())
    yield from sequence
    product, last = math.prod(sequence), sequence[-1] if sequence else largest + 1
    for p in range(last - 1, 1, -1):
        if math.gcd(p, product) == 1 and (not rooted or (p % 4 == 1 and root_of_minus_one(p))):
            product *= p
            _beginnings[largest, rooted] = sequence = (*sequence, p)
            yield p
