"""The tables of the vector steps, from the moduli."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from multiword.engines.int8_cpu.scalars import DIGIT
from multiword.engines.int8_cpu.steps import COMBINE_TABLE, PRODUCT_TABLE, ROUND_TABLE, SPLIT_HEADER
from multiword.engines.moduli import ResidueSystem
from multiword.engines.words import FLOAT_MAGIC, FLOAT_MAGIC_BITS, symmetric

IMAGES = {1: ((1,),), 2: ((1, 1), (1, -1)), 3: ((1, 0), (0, 1), (1, 1))}
"""By how many images a number has: the signs of its real parts in each, weights apart."""


def _inverse(p: int) -> float:
    """1/p, or 0 for 256: the lowest byte of a number is its residue."""
    return 1 / p if p < 256 else 0.0


def image_weights(system: ResidueSystem, weighted: bool) -> tuple[tuple[int, ...], ...]:
    """Return what the real parts of a number are multiplied by before they are added up, image by image.

    A real part of a product is half of the sum of two images (x + jy)(u + jv) and (x - jy)(u - jv), j² = -1.
    """
    of_parts = [weights for _, weights in system.weights_of_parts(weighted)]
    return tuple(
        tuple(sign * weight for sign, weight in zip(signs, weights, strict=True))
        for signs in IMAGES[system.images]
        for weights in of_parts
    )


def part_factors(system: ResidueSystem) -> list[tuple[int, ...]]:
    """Return what the images of a product are multiplied by to add up to its real, and its imaginary part."""
    if system.images == 2:  # half of the difference of images is j times the imaginary part, and 1/j = -j
        return [(1, 1, 0, -j, j, 0) for j in system.roots]
    return [(1, -1, 0, -1, -1, 1) if system.images == 3 else (1, 0, 0, 1, 0, 0)] * len(system.moduli)


def split_table(
    moduli: tuple[int, ...],
    of_images: tuple[tuple[int, ...], ...],
    limbs: int,
    unsigned: bool,
    signed_bytes: bool,
) -> np.ndarray:
    """Return the table of `steps.split`: Σ of the parts' integers times weights, modulo moduli[t].

    limbs : 64-bit words of an integer. unsigned : residues lie in [0, p), or have the least magnitude.
    """
    parts = len(of_images[0])
    header = np.dtype([("start", "<i4"), ("middle", "<f4"), ("inverse", "<f4"), ("minus_p", "<f4")])
    assert header.itemsize == SPLIT_HEADER
    table = np.zeros(len(moduli), [("header", header), ("weights", "i1", (parts, 8 * limbs))])
    top = 1 << 64 * limbs - 1
    # What the bytes of `write_words` are too large by: -2**63 became 0, or every byte 0 became -128.
    excess = -sum(128 << 8 * i for i in range(8 * limbs - 1)) if signed_bytes else top
    for row, p, of_parts in zip(table, moduli, of_images, strict=True):
        start = symmetric(-sum(of_parts) * excess, p)
        middle = FLOAT_MAGIC + ((p - 1) // 2 if unsigned else 0)
        row["header"] = FLOAT_MAGIC_BITS + start, middle, _inverse(p), -p
        row["weights"] = [[symmetric(w << 8 * i, p) for i in range(8 * limbs)] for w in of_parts]
    return table


def product_table(moduli: tuple[int, ...]) -> np.ndarray:
    """Return the table of `steps.multiply_in_registers`."""
    kind = [("halves", "<i2", 2), ("inverse", "<f4"), ("minus_p", "<f4"), ("unused", "<i4")]
    rows = [((1, symmetric(1 << 16, p)), _inverse(p), -p, 0) for p in moduli]
    table = np.array(rows, kind)
    assert table.itemsize == PRODUCT_TABLE
    return table


def combine_table(moduli: tuple[int, ...], factors: list[tuple[int, ...]]) -> np.ndarray:
    """Return the table of `steps.combine`: for each modulus, the factors of both sums."""
    kind = [("factors", "<i4", 6), ("inverse", "<f4"), ("minus_p", "<f4")]
    rows = [
        ([symmetric(f, p) for f in of_p], _inverse(p), -p) for p, of_p in zip(moduli, factors, strict=True)
    ]
    table = np.array(rows, kind)
    assert table.itemsize == COMBINE_TABLE
    return table


class RoundTables(NamedTuple):
    """The tables of `steps.round_group`, and of the numbers that it leaves undecided."""

    pairs: np.ndarray
    digits: np.ndarray


def round_tables(moduli: tuple[int, ...]) -> RoundTables:
    """Return what makes numbers of residues.

    C' = Σ z·(P/(p·p')) - q·P with z = y·p' + y'·p, |z| <= 2**16, for n pairs p, p' of moduli, in three
    sums. The upper parts of P/(p·p') and of P are multiples of a first unit; the middle ones, at most half
    of that, of a second: so few that their sums are exact,

        |Σ z·upper| + |q|·P <= (2·n + 2)·P <= 2**53 first units
        |Σ z·middle| + |q·middle| <= (n + 1)·2**16·first/2 <= 2**53 second units

    The lower parts are at most half of the second unit: partial sums at most n·2**15 + n of it, each
    rounded by 2**-53 of that, as the parts are, and once more where the margin is added: in all below
    n·(n + 4)·2**(16 - 53) second units.
    """
    product = math.prod(moduli)
    padded = (*moduli, 1) if len(moduli) % 2 else moduli  # residues modulo 1, whatever they are, count as 0
    n = len(padded) // 2
    first = max(0, (product * (2 * n + 2)).bit_length() - 53)
    second = max(0, first + 16 + (n + 1).bit_length() - 53)

    def parts(x: int) -> tuple[float, float, float]:
        upper = (x + (1 << first >> 1)) >> first << first
        middle = (x - upper + (1 << second >> 1)) >> second << second
        return float(upper), float(middle), float(x - upper - middle)

    pairs = np.zeros((n + 1, ROUND_TABLE // 8))
    for row, p, q in zip(pairs, padded[::2], padded[1::2], strict=False):
        row[:4] = 1 / (p * q), *parts(product // (p * q))
        row[4:].view(np.int16)[:2] = q, p if q > 1 else 0
    margin = math.ldexp(n * (n + 4), second + 16 - 53) if second else 0.0
    pairs[n] = 0, *(-x for x in parts(product)), margin
    return RoundTables(pairs, _digits(moduli, product))


def _digits(moduli: tuple[int, ...], product: int) -> np.ndarray:
    """Digits of all P/p and of P, the least significant first, and 1/p as a float64 behind them.

    |C'| < P and the last digit's carry make one digit more.
    """
    size = -(-(product.bit_length() + 1) // DIGIT) + 1
    table = np.zeros((len(moduli) + 1, size + 1), np.int64)
    for row, p in zip(table, (*moduli, 1), strict=True):
        x = product // p
        row[:size] = [x >> DIGIT * d & ((1 << DIGIT) - 1) for d in range(size)]
        row[size] = np.float64(1 / p).view(np.int64)
    return table
