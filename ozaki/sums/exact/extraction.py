"""Exact column sums of a block of float64 in compiled loops: error-free extraction at two levels.

Adding σ = 1.5·2**k to x rounds x to a multiple of ulp(σ), and makes that multiple, plus a
constant, the bit pattern of the result: fl(x + σ) read as an integer is σ's integer plus
x/ulp(σ). So the bit patterns are added as integers, exactly and in any order, and
r = x − (fl(x + σ) − σ) is exactly what is left for a second σ. The two levels, a window, hold 92 bits
below the largest element; what reaches further down is left to windows below.

The extraction is ExtractVector of Rump, Ogita and Oishi (Accurate floating-point summation,
part I, Algorithm 3.2); there the extracted parts are added in floating point, which leaves
log2(n) bits of each level unused. `extraction_numba` has the loops, `extraction.cuh` is the CUDA form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from itertools import chain
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, is_cupy, namespace
from multiword.runtime.compiled import compiled
from ozaki.sums.exact.fixed_point import (
    DIGITS_ABOVE,
    DIGITS_BELOW,
    FLAG_CONSTANTS,
    MINUS_ZERO,
    ORDINARY,
    DigitRange,
    FixedPoint,
)
from ozaki.sums.exact.summands import Summands

BLOCK_ROWS = 1 << 15
"""The most elements of one column in a block: their sum stays below 2**60 in units of a level."""

CARRY = 6  # 51 - CARRY bits of an element, 15 for the rows of a block: below 2**60
LEVEL_BITS = 52 - CARRY
LOWEST = -970 - CARRY  # the second level's unit is not below the smallest subnormal
HIGHEST = 1023 - 1 - CARRY  # 1.5·2**k does not overflow

BLOCK = 1 << 11  # elements that go into a window together, or not at all
ERROR = 16  # units of a window, for each number: a bound of what enclosures are off
SLACK = 2  # bits by which what follows may be larger than what a window was made for

TINY, HUGE = 2.0**-900, 2.0**1000
"""Products between these have an error that is a float64."""

LOOPS = "ozaki.sums.exact.loops_numba"
"""The module of compiled loops."""

_WEIGHT = 2 * BLOCK_ROWS  # of what is added together: their sums stay below 2**61


def window_above(largest: int) -> int:
    """Return k of a sigma = 1.5·2**k for what is somewhat above this bit pattern, if there is one."""
    k = (largest >> 52) - 1022 + SLACK + 1 + CARRY
    return k if LOWEST < k <= HIGHEST + 1 + CARRY else LOWEST


@dataclass(frozen=True)
class PartialSums:
    """Exact column sums of a block: (high·2**LEVEL_BITS + low)·2**exponent.

    Attributes
    ----------
    high, low : (m,) int64.
    exponent : of the unit of all columns.
    flags : (m,) uint8, as in `fixed_point`.
    weight : a bound on |high| and |low| in units of 2**45.
    """

    high: np.ndarray
    low: np.ndarray
    exponent: int
    flags: np.ndarray
    weight: int

    def plus(self, other: PartialSums) -> PartialSums | None:
        """Return the sum of both in the finer of their units, or None if 64 bits might not hold it."""
        exponent = min(self.exponent, other.exponent)
        up, other_up = self.exponent - exponent, other.exponent - exponent
        weight = (self.weight << up) + (other.weight << other_up)
        if max(up, other_up) > LEVEL_BITS or weight > _WEIGHT:
            return None
        high = (self.high << up) + (other.high << other_up)
        low = (self.low << up) + (other.low << other_up)
        return PartialSums(high, low, exponent, self.flags | other.flags, weight)

    def fixed_point(self) -> FixedPoint:
        """The exact values."""
        return FixedPoint(np.stack([self.low, self.high]), LEVEL_BITS, self.exponent, self.flags)


def merged(sums: Iterable[PartialSums]) -> Iterator[PartialSums]:
    """Add up neighbouring sums as far as 64 bits hold them."""
    total: PartialSums | None = None
    for new in sums:
        both = new if total is None else total.plus(new)
        if both is None and total is not None:
            yield total
        total = both or new
    if total is not None:
        yield total


def block_sums(block: Summands) -> list[PartialSums]:
    """Return the exact sums of the columns of (n, m) terms, n at most BLOCK_ROWS, window by window.

    None where windows do not hold them: Inf and NaN, and products whose errors are no float64; and
    without compiled code.
    """
    n, m = block.shape
    if not n * m or compiled(LOOPS) is None:
        return []
    sums = [_sums_of(factors, block.sign, block.narrow()) for factors in readable(block.factors)]
    return [*chain(*sums)] if all(sums) else []


def readable(factors: tuple[np.ndarray, ...]) -> list[tuple[np.ndarray, ...]]:
    """The factors as float64 or float32, as which the loops read them; 64-bit integers are sums of two."""
    dtypes = {x.dtype for x in factors}
    return [factors] if len(dtypes) == 1 and dtypes <= READABLE else Summands(factors).in_float64()


READABLE = {np.dtype(np.float64), np.dtype(np.float32)}


def contiguous(x: Array) -> Array:
    """The array in C order and aligned, copied if it is not."""
    if is_cupy(x):
        return namespace(x).ascontiguousarray(x)
    return x if x.flags.c_contiguous and x.flags.aligned else np.require(x, requirements=("C", "A"))


def _sums_of(factors: tuple[np.ndarray, ...], sign: int, narrow: bool) -> list[PartialSums]:
    """The sums of factors that are readable; narrow products have no error."""
    loops, by_rows = compiled(LOOPS), abs(factors[0].strides[0]) > abs(factors[0].strides[1])
    terms = xs = [contiguous(x if by_rows else x.T) for x in factors]
    if len(xs) == 2:
        terms = [*np.empty((2, *xs[0].shape))]
        if not loops.loop(loops.products, xs[0].dtype)(*[x.reshape(-1) for x in (*xs, *terms)]):
            return []
    windows = [_windows(x, by_rows) for x in terms[: 1 if narrow else 2]]
    if not all(windows):
        return []
    high, low, _ = windows[0][0]
    flags = zero_flags((high | low) == 0, factors, sign)
    return [
        PartialSums(sign * high, sign * low, k - 52 - LEVEL_BITS, flags * (i == 0), weight=len(factors[0]))
        for i, (high, low, k) in enumerate(chain(*windows))
    ]


def _windows(x: np.ndarray, by_rows: bool) -> list[tuple[np.ndarray, np.ndarray, int]]:
    """The high and low sums of columns in as many windows k as they need; nothing if a number is above all.

    x : (n, m), or (m, n) if not by_rows.
    """
    loops, windows = compiled(LOOPS), []
    k = loops.loop(loops.window, x.dtype)(x.reshape(-1)[:BLOCK])  # the first block is like the rest
    rest = np.empty(0)
    while True:  # the lowest window leaves nothing
        high, low = np.empty((2, x.shape[by_rows]), np.int64)
        add = loops.loop(loops.column_sums if by_rows else loops.row_sums, x.dtype)
        above, below = add(x, k, high, low)
        if above:
            k = loops.loop(loops.window, x.dtype)(x.reshape(-1))
            above, below = add(x, k, high, low)
        if above:
            return []
        windows.append((high, low, k))
        if not below:
            return windows
        rest = rest if rest.size else np.empty(x.shape)
        loops.loop(loops.leave_rest, x.dtype)(x.reshape(-1), k, rest.reshape(-1))
        x, k = rest, max(k + 1 - 2 * LEVEL_BITS, LOWEST)


def zero_flags(zero: np.ndarray, factors: Sequence[np.ndarray], sign: int = 1) -> np.ndarray:
    """The flags of finite sums of (n, m) elements, or of sign·x·y, some of which are zero."""
    flags = np.full(zero.shape, ORDINARY)
    if zero.any():
        negative = reduce(np.bitwise_xor, [np.signbit(x[:, zero]) for x in factors], np.bool_(sign < 0))
        zeros = reduce(np.bitwise_or, [x[:, zero] == 0 for x in factors])
        flags[zero] = np.where((zeros & negative).all(axis=0), MINUS_ZERO, ORDINARY)
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
        "BELOW": DIGITS_BELOW,
        "ABOVE": DIGITS_ABOVE,
        "TWO_LEVELS_BITS": LEVEL_BITS,
        **FLAG_CONSTANTS,
        **form,
    }
