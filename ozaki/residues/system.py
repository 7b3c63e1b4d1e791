"""Residue number systems: pairwise coprime moduli, and the tables that go with them."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from types import ModuleType

import numpy as np

from multiword.engines import get_product
from multiword.runtime.arrays import Array

SPLIT = 27
"""Integers are reduced in two halves, cut at this bit, so that nothing exceeds 53 bits."""

QUOTIENT = 1.5 * 2.0**52
"""Adding it and taking it off again rounds numbers below 2**51 to integers."""

INT8_K_BLOCK = (1 << 17) - 16
"""The longest inner dimension, of round length, over which products of int8 residues fit int32."""

FP64_K_BLOCK = 1 << 20
"""The longest inner dimension for which fp64 moduli are chosen; beyond, k is cut in blocks."""


@dataclass(frozen=True)
class ResidueSystem:
    """A residue number system: pairwise coprime moduli and the words that carry residues."""

    word: str
    k_block: int
    moduli: tuple[int, ...]

    @cached_property
    def product(self) -> int:
        """P, the product of the moduli."""
        return math.prod(self.moduli)

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """w_t, the inverse of P/p_t modulo p_t."""
        return tuple(pow(self.product // p, -1, p) for p in self.moduli)

    @cached_property
    def capacity(self) -> float:
        """Bits for which `residue_system` chooses these moduli, nearly the most."""
        return sum(map(math.log2, self.moduli)) - 1 - 2.0**-9

    @cached_property
    def base_bits(self) -> int:
        """Bits of a digit: Σ Y_t·digit and q·digit must stay below 2**53."""
        return min(40, 53 - (max(self.moduli) // 2).bit_length() - (len(self.moduli) + 1).bit_length())

    def digits(self, base_bits: int) -> np.ndarray:
        """(N + 1, L) float64: the digits of P/p_t, and of -P in the last row."""
        rows = [self.product // p for p in self.moduli] + [-self.product]
        count = -(-self.product.bit_length() // base_bits)
        mask = (1 << base_bits) - 1
        digits = [
            [(1 if x > 0 else -1) * ((abs(x) >> (base_bits * i)) & mask) for i in range(count)] for x in rows
        ]
        return np.array(digits, dtype=np.float64)

    @cached_property
    def quotient_digits(self) -> int:
        """How many leading digits of Σ Y_t·(P/p_t) tell q: those that leave out less than 2**-13·P.

        That sum is C' + q·P, and |C'|/P stays 2**-11.6 below one half. Two digits of fp64 moduli would not
        do: P/p_t is shorter than P by more than a digit.
        """
        left_out = sum(p // 2 + 2 for p in self.moduli) << 13
        count = -(-self.product.bit_length() // self.base_bits)
        return next(
            (n for n in range(1, count) if left_out << self.base_bits * (count - n) < self.product), count
        )

    def weighted_moduli(self, weighted: bool) -> list[tuple[int, int]]:
        """Every modulus p with its weight: w, or 1 for the side that takes no weights in."""
        weights = self.weights if weighted else (1,) * len(self.moduli)
        return list(zip(self.moduli, weights, strict=True))

    def factors(self, weighted: int) -> np.ndarray:
        """(N, 6) float64: p, 1/p, f and g, the symmetric residues of w and w·2**SPLIT, f/p, g/p."""
        rows = []
        for p, w in self.weighted_moduli(bool(weighted)):
            f, g = symmetric(w, p), symmetric(w << SPLIT, p)
            rows.append((p, 1 / p, f, g, f / p, g / p))
        return np.array(rows, dtype=np.float64)

    def reconstruction_table(self, _: int = 0) -> np.ndarray:
        """1/p and -p for every modulus, the rows of `digits`, and B/P for the leading digit B.

        B is the weight of the leading digit: that digit times B/P is C'/P.
        """
        digits = self.digits(self.base_bits)
        factors = [(1 / p, -p) for p in self.moduli]
        leading = (1 << self.base_bits * (digits.shape[1] - 1)) / self.product
        return np.concatenate([np.ravel(factors), digits.ravel(), [leading]])

    def powers(self, count: int) -> np.ndarray:
        """(N, count) float64: the symmetric residues of 2**x, for wide integers."""
        moduli = np.array(self.moduli)
        powers = np.ones((count, len(moduli)), np.int64)
        for before, after in pairwise(powers):
            np.remainder(2 * before, moduli, out=after)
        symmetric = np.where(powers > moduli // 2, powers - moduli, powers)
        return np.ascontiguousarray(symmetric.T, dtype=np.float64)


def symmetric(x: int, p: int) -> int:
    """The residue of x modulo p of least magnitude."""
    return (x + p // 2) % p - p // 2


def residue_system(word: str, bits: float, k: int, parts: int = 1) -> ResidueSystem:
    """Return the system of fewest moduli whose product exceeds 2·2**bits, for inner dimension k.

    `parts` is 2 for complex products, of which three are combined before they are reduced.

    Raises ValueError if int8 moduli, of which there are 49, do not reach that far.
    """
    if word == "int8":
        k_block, largest = min(k, INT8_K_BLOCK), 256
    else:
        k_block = min(1 << (k - 1).bit_length(), FP64_K_BLOCK)
        # k_block·(p/2 + 2)² and its combinations stay below 2**53, with room for a multiple of p nearby
        exact = (1 << get_product(word).exact_bits) - (1 << 27)
        largest = min(2 * math.isqrt(exact // (k_block * (1 if parts == 1 else 3))) - 4, 1 << 26)
    sequence = _coprimes(largest)
    total, count = 0.0, 0
    while total <= bits + 1 + 2.0**-10:  # C'/P stays that far away from 1/2
        if count == len(sequence) and not _extend(sequence, count):
            raise ValueError(f"{word} moduli cannot hold integers of {bits:.0f} bits")
        total += math.log2(sequence[count])
        count += 1
    return _system(word, k_block, tuple(sequence[:count]))


@lru_cache(512)
def _system(word: str, k_block: int, moduli: tuple[int, ...]) -> ResidueSystem:
    return ResidueSystem(word, k_block, moduli)


@cache  # of a few dozen limits
def _coprimes(largest: int) -> list[int]:
    """Pairwise coprime numbers from `largest` downwards, greedily; `_extend` adds the next."""
    return [largest]


def _extend(sequence: list[int], count: int) -> bool:
    """Append the next number to a sequence of `count`, unless another thread has; whether there is one."""
    with _extending:
        if len(sequence) > count:
            return True
        product = math.prod(sequence)
        found = next((p for p in range(sequence[-1] - 1, 1, -1) if math.gcd(p, product) == 1), None)
        if found is not None:
            sequence.append(found)
        return found is not None


_extending = threading.Lock()


INT8_BITS = 330.0
"""Integers beyond this many bits need fp64 moduli: the int8 ones are used up."""


@lru_cache(2048)
def _table(system: ResidueSystem, name: str, argument: int, device: int, xp: ModuleType) -> Array:
    del device  # part of the key: the copy lies there
    table = xp.asarray(getattr(system, name)(argument))
    xp.cuda.get_current_stream().synchronize()  # other streams will read it
    return table


def on_device(system: ResidueSystem, name: str, argument: int, xp: ModuleType) -> Array:
    return _table(system, name, argument, xp.cuda.runtime.getDevice(), xp)


def reduce(
    x: np.ndarray,
    p: float | np.ndarray,
    inverse: float | np.ndarray,
    scratch: np.ndarray | None = None,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """x mod p, in place or in `out`, for integers |x| < 2**53: of least magnitude where |x| < 2**51.

    Beyond, the quotient may be rounded to the wrong side of one half: at most p/2 + 2 then.
    """
    quotient = np.multiply(x, inverse, out=scratch)
    np.rint(quotient, out=quotient)
    quotient *= p
    return np.subtract(x, quotient, out=x if out is None else out)
