"""Exact column sums of a block of float64 in two vector passes: the window.

Adding σ = 1.5·2**k to x rounds x to a multiple of ulp(σ), and makes that multiple, plus a
constant, the bit pattern of the result: fl(x + σ) read as an integer is σ's integer plus
x/ulp(σ). So the bit patterns are added as integers, exactly and in any order, and
r = x − (fl(x + σ) − σ) is exactly what is left for a second σ. Two levels hold 92 bits below
the largest element; the rare elements that reach further down are handed back as they are.

The extraction is ExtractVector of Rump, Ogita and Oishi (Accurate floating-point summation,
part I, Algorithm 3.2); there the extracted parts are added in floating point, which leaves
log2(n) bits of each level unused.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import frexp, inf

import numpy as np

from ozaki.sums.fixedpoint import (
    DIGIT_BITS,
    MINUS_INFINITY,
    MINUS_ZERO,
    NAN,
    ORDINARY,
    PLUS_INFINITY,
    FixedPoint,
    scatter,
)

BLOCK_ROWS = 1 << 15
"""The most elements of one column in a block: their sum stays below 2**60 in units of a level."""

_CARRY = 6  # 51 - _CARRY bits of an element, 15 for the rows of a block: below 2**60
LEVEL_BITS = 52 - _CARRY
_LOWEST = -970 - _CARRY  # the second level's unit is not below the smallest subnormal
_HIGHEST = 1023 - 1 - _CARRY  # 1.5·2**k does not overflow

_ALIGNED = 8  # digits of 32 bits that hold a few windows at nearby exponents
_UNUSED = 1 << 20

_SPREAD = 8  # bits of a column's window that may be given up for a common one
_WEIGHT = 2 * BLOCK_ROWS  # of terms added together: their sums stay below 2**61
_LOCAL = threading.local()
_BUFFERS = 9


@dataclass(frozen=True)
class Terms:
    """Exact column sums of a block: (high·2**LEVEL_BITS + low)·2**exponent + Σ values·2**scales.

    Attributes
    ----------
    high, low, exponent : (m,) int64.
    columns, values : (r,) int64 and float64: elements, or their remainders, outside the window.
    flags : (m,) uint8, as in `_fixedpoint`.
    scales : (r,) int64, or 0.
    unit : the exponent that all columns have in common, if known.
    weight : a bound on |high| and |low| in units of 2**45, if the unit is known.
    """

    high: np.ndarray
    low: np.ndarray
    exponent: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    flags: np.ndarray
    scales: np.ndarray | int = 0
    unit: int | None = None
    weight: int = 0


def merged(terms: Iterable[Terms]) -> Iterator[Terms]:
    """Add up neighbouring terms with common units, as far as 64 bits hold them; the others pass."""
    waiting: Terms | None = None
    for new in terms:
        if new.unit is None or new.values.size:
            yield new
            continue
        if waiting is None:
            waiting = new
            continue
        assert waiting.unit is not None
        unit = min(waiting.unit, new.unit)
        up, new_up = waiting.unit - unit, new.unit - unit
        if max(up, new_up) > LEVEL_BITS or (waiting.weight << up) + (new.weight << new_up) > _WEIGHT:
            yield waiting
            waiting = new
            continue
        waiting = Terms(
            (waiting.high << up) + (new.high << new_up),
            (waiting.low << up) + (new.low << new_up),
            waiting.exponent if up == 0 else new.exponent,
            new.columns,
            new.values,
            waiting.flags | new.flags,
            unit=unit,
            weight=(waiting.weight << up) + (new.weight << new_up),
        )
    if waiting is not None:
        yield waiting


def align_terms(batch: Sequence[Terms]) -> FixedPoint | None:
    """Return the sums of a few blocks of the same columns in a few digits, or None if they do not fit."""
    if any(terms.values.size for terms in batch) or not batch:
        return None
    flags = np.bitwise_or.reduce([terms.flags for terms in batch])
    if len(batch) == 1:
        (terms,) = batch
        exponent = terms.exponent if terms.unit is None else terms.unit
        return FixedPoint(np.stack([terms.low, terms.high]), LEVEL_BITS, exponent, flags)
    exponents = np.stack([terms.exponent for terms in batch])
    nonzero = np.stack([(terms.low != 0) | (terms.high != 0) for terms in batch])
    origin = np.where(nonzero, exponents, _UNUSED).min(axis=0)
    origin = np.where(origin == _UNUSED, 0, origin)
    position = np.where(nonzero, exponents - origin, 0)
    if position.size and position.max() > DIGIT_BITS * (_ALIGNED - 3) - LEVEL_BITS:
        return None
    digits = np.zeros((_ALIGNED, len(flags)), np.int64)
    columns = np.arange(len(flags))
    for terms, place in zip(batch, position, strict=True):
        scatter(digits, columns, terms.low, place)
        scatter(digits, columns, terms.high, place + LEVEL_BITS)
    return FixedPoint(digits, DIGIT_BITS, origin, flags)


def window_terms(block: np.ndarray) -> Terms:
    """Sum the columns of an (n, m) float64 block exactly; n is at most BLOCK_ROWS."""
    if not len(block):
        nothing = np.zeros(block.shape[1], np.int64)
        return Terms(nothing, nothing, nothing, nothing[:0], np.empty(0), nothing.astype(np.uint8))
    if block.size and (terms := _common_window(block)) is not None:
        return terms
    largest, smallest = block.max(axis=0), block.min(axis=0)
    magnitude = np.maximum(largest, -smallest)
    flags = _flags(block, largest, smallest, magnitude)
    finite = magnitude < np.inf
    if not finite.all():
        block, magnitude = np.where(finite, block, 0.0), np.where(finite, magnitude, 0.0)
    k = np.frexp(magnitude)[1].astype(np.int64)
    huge = k > _HIGHEST
    outside = _gather(np.where(huge, block, 0.0)) if huge.any() else None
    if outside is not None:
        block, k = np.where(huge, 0.0, block), np.where(huge, 0, k)
    k = _common(np.maximum(k + 1 + _CARRY, _LOWEST), magnitude)
    high, low, rest = _two_levels(block, k)
    parts = [part for part in (outside, rest) if part is not None]
    if len(parts) == 1:
        ((columns, values),) = parts
    else:
        columns = np.concatenate([c for c, _ in parts]) if parts else np.empty(0, np.int64)
        values = np.concatenate([v for _, v in parts]) if parts else np.empty(0)
    exponent = np.broadcast_to(k - 52 - LEVEL_BITS, flags.shape)
    return Terms(high, low, exponent, columns, values, flags)


def _common_window(block: np.ndarray) -> Terms | None:
    """The sums in one window for all columns, or None where it does not hold them."""
    largest = float(np.maximum.reduce(block, axis=None))
    smallest = float(np.minimum.reduce(block, axis=None))
    magnitude = max(largest, -smallest)
    if not 0 < magnitude < inf:
        return None
    k = max(frexp(magnitude)[1] + 1 + _CARRY, _LOWEST)
    if k > _HIGHEST + 1 + _CARRY:
        return None
    high, low, rest = _two_levels(block, k)
    if rest is not None and block.shape[1] > 1:
        return None
    columns, values = (_NONE, _NOTHING) if rest is None else rest
    flags = np.full(high.shape, ORDINARY)
    zero = (high | low) == 0
    if block.shape[1] > 1 and zero.any():
        part = block[:, zero]
        flags[zero] = np.where(((part == 0) & np.signbit(part)).all(axis=0), MINUS_ZERO, ORDINARY)
    unit = k - 52 - LEVEL_BITS
    exponent = np.broadcast_to(np.int64(unit), flags.shape)
    return Terms(high, low, exponent, columns, values, flags, unit=unit, weight=len(block))


_NONE, _NOTHING = np.empty(0, np.int64), np.empty(0)


def _common(k: np.ndarray, magnitude: np.ndarray) -> np.ndarray:
    """One window for all columns where that costs few bits: adding one number is faster."""
    used = k[magnitude != 0] if k.size > 1 else k
    if k.size < 2 or not used.size or used.max() - used.min() > _SPREAD:
        return k
    return used.max(keepdims=True)


def _two_levels(
    block: np.ndarray, k: np.ndarray | int
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray] | None]:
    """The integer sums of both levels, and what is left."""
    shifted, rest = workspace(block, 2)
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


def workspace(block: np.ndarray, count: int, first: int = 0) -> list[np.ndarray]:
    """Arrays like `block`, the same memory in every call of a thread: fresh pages cost more.

    The first two are those of `window_terms`.
    """
    if block.size > BLOCK_ROWS:
        return [np.empty_like(block) for _ in range(count)]
    if not hasattr(_LOCAL, "buffers"):
        _LOCAL.buffers = np.empty((_BUFFERS, BLOCK_ROWS))
    by_columns = abs(block.strides[0]) < abs(block.strides[1])
    shape = block.shape[::-1] if by_columns else block.shape
    arrays = [buffer[: block.size].reshape(shape) for buffer in _LOCAL.buffers[first : first + count]]
    return [array.T if by_columns else array for array in arrays]


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
