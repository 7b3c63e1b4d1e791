"""Exact column sums of a block of float64 in compiled loops: error-free extraction at two levels.

`levels` has the theorem: bit patterns are added as integers, exactly and in any order, and what is left goes
to a second level. The two levels, a window, hold 92 bits below the largest element; what reaches further down
is left to windows below. `extraction_numba` has the loops, `extraction.cuh` is the CUDA form.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from ozaki.sums.exact.levels import LEVEL_BITS, LOWEST, THREE, TWO, WINDOW_BLOCK, WORD
from ozaki.sums.exact.summands import Summands

TINY, HUGE = 2.0**-900, 2.0**1000
"""Products between these have an error that is a float64."""

LOOPS = "ozaki.sums.exact.loops_numba"
"""The module of compiled loops."""


def block_sums(block: Summands) -> list[FixedPoint]:
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
    return x if x.flags.c_contiguous and x.flags.aligned else x.copy()


def _sums_of(factors: tuple[np.ndarray, ...], sign: int, narrow: bool) -> list[FixedPoint]:
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
    levels, _ = windows[0][0]
    flags, bound = zero_flags((levels[0] | levels[1]) == 0, factors, sign), TWO.units(len(factors[0]))
    return [
        FixedPoint(levels if sign > 0 else -levels, LEVEL_BITS, k - 52 - LEVEL_BITS, flags * (i == 0), bound)
        for i, (levels, k) in enumerate(chain(*windows))
    ]


def _windows(x: np.ndarray, by_rows: bool) -> list[tuple[np.ndarray, int]]:
    """The low and high sums of columns in as many windows k as they need; nothing if a number is above all.

    x : (n, m), or (m, n) if not by_rows.
    """
    loops, windows = compiled(LOOPS), []
    k = loops.loop(loops.window, x.dtype)(x.reshape(-1)[:WINDOW_BLOCK])  # the first block is like the rest
    rest = np.empty(0)
    while True:  # the lowest window leaves nothing
        low, high = levels = np.empty((2, x.shape[by_rows]), np.int64)
        add = loops.loop(loops.column_sums if by_rows else loops.row_sums, x.dtype)
        above, below = add(x, k, high, low)
        if above:
            k = loops.loop(loops.window, x.dtype)(x.reshape(-1))
            above, below = add(x, k, high, low)
        if above:
            return []
        windows.append((levels, k))
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
        "TWO_LEVELS_BITS": TWO.bits,
        "THREE_LEVELS_BITS": THREE.bits,
        "WORD_BITS": WORD,
        **FLAG_CONSTANTS,
        **form,
    }
