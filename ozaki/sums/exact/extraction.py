"""Exact column sums of a block of float64 in two vector passes: error-free extraction.

Adding σ = 1.5·2**k to x rounds x to a multiple of ulp(σ), and makes that multiple, plus a
constant, the bit pattern of the result: fl(x + σ) read as an integer is σ's integer plus
x/ulp(σ). So the bit patterns are added as integers, exactly and in any order, and
r = x − (fl(x + σ) − σ) is exactly what is left for a second σ. Two levels hold 92 bits below
the largest element; the rare elements that reach further down are handed back as they are.

The extraction is ExtractVector of Rump, Ogita and Oishi (Accurate floating-point summation,
part I, Algorithm 3.2); there the extracted parts are added in floating point, which leaves
log2(n) bits of each level unused. `extraction.cuh` is the CUDA form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from math import frexp, inf
from typing import Any

import numpy as np

from ozaki.sums.exact.fixed_point import (
    DIGIT_BITS,
    MINUS_INFINITY,
    MINUS_ZERO,
    NAN,
    ORDINARY,
    PLUS_INFINITY,
    DigitRange,
    FixedPoint,
    scatter,
)

BLOCK_ROWS = 1 << 15
"""The most elements of one column in a block: their sum stays below 2**60 in units of a level."""

CARRY = 6  # 51 - CARRY bits of an element, 15 for the rows of a block: below 2**60
LEVEL_BITS = 52 - CARRY
LOWEST = -970 - CARRY  # the second level's unit is not below the smallest subnormal
HIGHEST = 1023 - 1 - CARRY  # 1.5·2**k does not overflow

_ALIGNED = 10  # digits of 32 bits that hold the sums of a few blocks at nearby exponents
_UNUSED = 1 << 20

_WEIGHT = 2 * BLOCK_ROWS  # of what is added together: their sums stay below 2**61
NOTHING = np.empty(0, np.int64), np.empty(0)


@dataclass(frozen=True)
class PartialSums:
    """Exact column sums of a block: (high·2**LEVEL_BITS + low)·2**exponent + Σ values·2**scales.

    Attributes
    ----------
    high, low : (m,) int64.
    exponent : (m,) int64, or the int that all columns have in common.
    columns, values : (r,) int64 and float64: elements, or their remainders, outside the two levels.
    flags : (m,) uint8, as in `fixed_point`.
    scales : (r,) int64, or 0.
    weight : a bound on |high| and |low| in units of 2**45, if the exponent is an int.
    """

    high: np.ndarray
    low: np.ndarray
    exponent: np.ndarray | int
    columns: np.ndarray
    values: np.ndarray
    flags: np.ndarray
    scales: np.ndarray | int = 0
    weight: int = 0


def merged(sums: Iterable[PartialSums]) -> Iterator[PartialSums]:
    """Add up neighbouring sums with common units, as far as 64 bits hold them; the others pass."""
    waiting: PartialSums | None = None
    for new in sums:
        if not isinstance(new.exponent, int) or new.values.size:
            yield new
        elif waiting is None:
            waiting = new
        elif (both := _added(waiting, new)) is not None:
            waiting = both
        else:
            yield waiting
            waiting = new
    if waiting is not None:
        yield waiting


def _added(a: PartialSums, b: PartialSums) -> PartialSums | None:
    """Two sums in the finer of their units, or None if 64 bits might not hold them."""
    assert isinstance(a.exponent, int)
    assert isinstance(b.exponent, int)
    exponent = min(a.exponent, b.exponent)
    up, b_up = a.exponent - exponent, b.exponent - exponent
    weight = (a.weight << up) + (b.weight << b_up)
    if max(up, b_up) > LEVEL_BITS or weight > _WEIGHT:
        return None
    high, low = (a.high << up) + (b.high << b_up), (a.low << up) + (b.low << b_up)
    return PartialSums(high, low, exponent, *NOTHING, a.flags | b.flags, weight=weight)


def aligned(batch: Sequence[PartialSums]) -> FixedPoint | None:
    """Return the sums of a few blocks of the same columns in a few digits, or None if they do not fit."""
    if any(sums.values.size for sums in batch) or not batch:
        return None
    flags = np.bitwise_or.reduce([sums.flags for sums in batch])
    if len(batch) == 1:
        (sums,) = batch
        return FixedPoint(np.stack([sums.low, sums.high]), LEVEL_BITS, sums.exponent, flags)
    exponents = np.stack([np.broadcast_to(sums.exponent, flags.shape) for sums in batch])
    nonzero = np.stack([(sums.low != 0) | (sums.high != 0) for sums in batch])
    origin = np.where(nonzero, exponents, _UNUSED).min(axis=0)
    origin = np.where(origin == _UNUSED, 0, origin)
    position = np.where(nonzero, exponents - origin, 0)
    if position.size and position.max() > DIGIT_BITS * (_ALIGNED - 3) - LEVEL_BITS:
        return None
    digits = np.zeros((_ALIGNED, len(flags)), np.int64)
    columns = np.arange(len(flags))
    for sums, place in zip(batch, position, strict=True):
        scatter(digits, columns, sums.low, place)
        scatter(digits, columns, sums.high, place + LEVEL_BITS)
    return FixedPoint(digits, DIGIT_BITS, origin, flags)


def extract(block: np.ndarray) -> PartialSums:
    """Sum the columns of an (n, m) float64 block exactly; n is at most BLOCK_ROWS."""
    if not len(block):
        nothing = np.zeros(block.shape[1], np.int64)
        return PartialSums(nothing, nothing, nothing, *NOTHING, nothing.astype(np.uint8))
    if block.size and (sums := _common_extraction(block)) is not None:
        return sums
    largest, smallest = block.max(axis=0), block.min(axis=0)
    magnitude = np.maximum(largest, -smallest)
    flags = _flags(block, largest, smallest, magnitude)
    finite = magnitude < np.inf
    if not finite.all():
        block, magnitude = np.where(finite, block, 0.0), np.where(finite, magnitude, 0.0)
    k = np.frexp(magnitude)[1].astype(np.int64)
    huge = k > HIGHEST
    outside = _gather(np.where(huge, block, 0.0)) if huge.any() else None
    if outside is not None:
        block, k = np.where(huge, 0.0, block), np.where(huge, 0, k)
    k = np.maximum(k + 1 + CARRY, LOWEST)
    high, low, rest = _two_levels(block, k)
    parts = [part for part in (outside, rest) if part is not None] or [NOTHING]
    columns, values = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
    return PartialSums(high, low, k - 52 - LEVEL_BITS, columns, values, flags)


def _common_extraction(block: np.ndarray) -> PartialSums | None:
    """The sums in the same two levels for all columns, or None where those do not hold them."""
    largest = float(np.maximum.reduce(block, axis=None))
    smallest = float(np.minimum.reduce(block, axis=None))
    magnitude = max(largest, -smallest)
    if not 0 < magnitude < inf:
        return None
    k = max(frexp(magnitude)[1] + 1 + CARRY, LOWEST)
    if k > HIGHEST + 1 + CARRY:
        return None
    high, low, rest = _two_levels(block, k)
    if rest is not None and block.shape[1] > 1:
        return None
    columns, values = NOTHING if rest is None else rest
    flags = zero_flags((high | low) == 0, (block,))
    return PartialSums(high, low, k - 52 - LEVEL_BITS, columns, values, flags, weight=len(block))


def zero_flags(zero: np.ndarray, factors: Sequence[np.ndarray], sign: int = 1) -> np.ndarray:
    """The flags of finite sums of (n, m) elements, or of sign·x·y, some of which are zero."""
    flags = np.full(zero.shape, ORDINARY)
    if zero.any():
        negative = reduce(np.bitwise_xor, [np.signbit(x[:, zero]) for x in factors], np.bool_(sign < 0))
        zeros = reduce(np.bitwise_or, [x[:, zero] == 0 for x in factors])
        flags[zero] = np.where((zeros & negative).all(axis=0), MINUS_ZERO, ORDINARY)
    return flags


def _two_levels(
    block: np.ndarray, k: np.ndarray | int
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray] | None]:
    """The integer sums of both levels, and what is left."""
    shifted, rest = np.empty_like(block), np.empty_like(block)
    sigma = np.asarray(np.ldexp(1.5, k))
    np.add(block, sigma, out=shifted)
    high = _sum_of_patterns(shifted, sigma)
    shifted -= sigma
    np.subtract(block, shifted, out=rest)
    sigma = np.asarray(np.ldexp(1.5, k - LEVEL_BITS))
    np.add(rest, sigma, out=shifted)
    low = _sum_of_patterns(shifted, sigma)
    shifted -= sigma
    if np.equal(rest, shifted).all():
        return high, low, None
    rest -= shifted
    return high, low, _gather(rest)


def _sum_of_patterns(shifted: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    """Σ (shifted − sigma)/ulp(sigma): the patterns' sum wraps modulo 2**64, the result does not."""
    total = np.add.reduce(shifted.view(np.int64), axis=0)
    total -= np.multiply(sigma.view(np.int64), len(shifted), out=np.empty_like(sigma, np.int64))
    return total


def _gather(block: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The columns and the values of what is not zero, and perhaps some zeros."""
    if block.shape[1] == 1:
        column = block[:, 0]
        few = np.count_nonzero(column) < len(column) // 4
        values = column[column != 0] if few else column.copy()
        return np.broadcast_to(np.int64(0), values.shape), values
    rows, columns = np.nonzero(block)
    return columns, block[rows, columns]


def _flags(block: np.ndarray, largest: np.ndarray, smallest: np.ndarray, magnitude: np.ndarray) -> np.ndarray:
    flags = np.full(magnitude.shape, ORDINARY)
    zero = magnitude == 0
    if zero.any():
        flags[zero] = np.where(np.signbit(block[:, zero]).all(axis=0), MINUS_ZERO, ORDINARY)
    special = ~(magnitude < np.inf)
    if special.any():
        flags[np.isnan(magnitude)] |= NAN
        flags[largest == np.inf] |= PLUS_INFINITY
        flags[smallest == -np.inf] |= MINUS_INFINITY
    return flags


SOURCES = {"float64": 0, "float32": 1, "float16": 2, "bfloat16": 3}
"""What `extraction.cuh` calls the dtypes that it reads."""


def batch(dtype: str, product: bool, square: bool) -> int:
    """Terms that a thread reads at a time: 64 bytes of float64 and of float32."""
    return (8 if dtype == "float64" else 16) // (2 if product and not square else 1)


@cache
def constants(
    dtype: str, digits: DigitRange, product: bool = False, square: bool = False, **form: int
) -> dict[str, Any]:
    """The compile-time constants of `extraction.cuh`, for arrays of this dtype summed into these digits."""
    return {
        "SOURCE": SOURCES[dtype],
        "PRODUCT": int(product),
        "SQUARE": int(square),
        "BATCH": batch(dtype, product, square),
        "DIGITS": digits.digits,
        "LOWEST": f"({digits.exponent})",
        "TWO_LEVELS_BITS": LEVEL_BITS,
        "PLUS_INFINITY": f"{PLUS_INFINITY}u",
        "MINUS_INFINITY": f"{MINUS_INFINITY}u",
        "NOT_A_NUMBER": f"{NAN}u",
        "ORDINARY": f"{ORDINARY}u",
        "MINUS_ZERO": f"{MINUS_ZERO}u",
        **form,
    }
