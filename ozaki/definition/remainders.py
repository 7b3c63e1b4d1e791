"""Products of integers by Chinese remainders: Ozaki scheme II.

With pairwise coprime moduli p_t whose product P exceeds 2·|C'|, C' = A'B' is known from its residues: these
are products of residues, each of them short enough to be exact in a tensor core.

Source: Ozaki, Uchino and Imamura, Ozaki scheme II, 2025.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd, prod


def moduli(largest: int = 256) -> Iterator[int]:
    """Yield pairwise coprime numbers from `largest` downwards, greedily.

    >>> [p for p, _ in zip(moduli(), range(6))]
    [256, 255, 253, 251, 247, 241]
    """
    product = 1
    for p in range(largest, 1, -1):
        if gcd(p, product) == 1:
            product *= p
            yield p


def enough_moduli(bound: int, largest: int = 256) -> list[int]:
    """Return as many moduli as tell integers up to a bound apart. ValueError if there are too few."""
    chosen: list[int] = []
    for p in moduli(largest):
        chosen.append(p)
        if prod(chosen) > 2 * bound:
            return chosen
    raise ValueError(f"moduli up to {largest} tell no integers up to {bound} apart")


def symmetric_residue(x: int, p: int) -> int:
    """Return the r of least magnitude with r = x modulo p; -p/2 where two have it.

    >>> [symmetric_residue(x, 4) for x in range(4)]
    [0, 1, -2, -1]
    """
    r = x % p
    return r - p if 2 * r >= p else r


def reconstructed(residues: Sequence[int], chosen: Sequence[int]) -> int:
    """Return the integer of least magnitude with these residues.

    Σ r_t·w_t·P/p_t modulo P, with w_t·P/p_t = 1 modulo p_t.

    >>> reconstructed([-1 % p for p in (7, 5)], (7, 5))
    -1
    """
    product = prod(chosen)
    total = sum(r * pow(product // p, -1, p) * (product // p) for r, p in zip(residues, chosen, strict=True))
    return symmetric_residue(total, product)


def product_by_remainders(a: Sequence[int], b: Sequence[int]) -> int:
    """Return Σ a_h·b_h of integers: one product of residues for each modulus.

    >>> product_by_remainders([10**9, 3], [10**9, -7])
    999999999999999979
    """
    chosen = enough_moduli(sum(abs(x * y) for x, y in zip(a, b, strict=True)) or 1)
    residues = [
        sum(symmetric_residue(x, p) * symmetric_residue(y, p) for x, y in zip(a, b, strict=True)) % p
        for p in chosen
    ]
    return reconstructed(residues, chosen)
