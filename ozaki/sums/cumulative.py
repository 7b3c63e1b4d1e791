"""Running sums, each one correctly rounded."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from multiword.formats import FORMATS, Format
from multiword.runtime.arrays import (
    Array,
    as_array,
    check_same_device,
    is_cupy,
    namespace,
    on_device_of_arrays,
    real_parts,
)
from ozaki.sums.columns import as_floats
from ozaki.sums.exactsum import format_of, real_dtype
from ozaki.sums.fixedpoint import MINUS_INFINITY, MINUS_ZERO, NAN, ORDINARY, PLUS_INFINITY, FixedPoint
from ozaki.sums.superaccumulator import Layout
from ozaki.sums.window import BLOCK_ROWS, LEVEL_BITS

_LOWEST = FORMATS["fp64"].emin - 52  # the unit of level 0 is 2**-1074, that of level j 2**(46·j) more
_TOP = 44  # the highest level whose sigma is finite
_SMALL = 1 << 13  # an integer that fits into the level below, beside what is there
_LEVELS = _TOP + 5  # two more for numbers that are scaled down, and room for carries


@on_device_of_arrays
def cumsum(
    x: Array, axis: int | None = None, dtype: DTypeLike | None = None, out: Array | None = None
) -> Any:
    """Return the running sums along an axis, each correctly rounded: `numpy.cumsum`, no error carried on.

    Parameters
    ----------
    x : array, NumPy or CuPy; dtypes as in `ozaki.sum`. Integers and booleans are summed as
        `numpy.cumsum` does.
    axis : int, or None for the flattened array.
    dtype, out : as in `ozaki.sum`.

    Returns
    -------
    An array of the shape of x (flat if axis is None). The last sums are those of `ozaki.sum`.

    Raises
    ------
    TypeError : as `ozaki.sum`. ValueError : out of another shape.

    References
    ----------
    Kulisch, Computer Arithmetic and Validity, chapter 8 (sums in fixed point, each rounded once).

    >>> cumsum(np.array([1.0, 1e100, 1.0, -1e100]))
    array([1.e+000, 1.e+100, 1.e+100, 2.e+000])
    """
    x = as_array(x, "x")
    xp = namespace(x)
    target = np.dtype(x.dtype if dtype is None else dtype)
    if target.kind in "iub":
        return xp.cumsum(x, axis=axis, dtype=dtype, out=out)
    if x.dtype.kind == "c" and target.kind != "c":
        raise TypeError(f"dtype must be complex for a complex result, got {target}; take the real part first")
    source = np.dtype(np.float64) if x.dtype.kind in "iub" else real_dtype(x.dtype, "the array's dtype")
    along = 0 if axis is None else axis
    sums = []
    for part in real_parts(x):
        moved = xp.moveaxis(part.reshape(-1) if axis is None else part, along, 0)
        running = (
            _device_sums(moved, target, source) if is_cupy(x) else _running_sums(moved, format_of(target))
        )
        sums.append(xp.moveaxis(running, 0, along))
    with np.errstate(over="ignore"):
        result = sums[0].astype(real_dtype(target))
        if target.kind == "c":
            imaginary = sums[1].astype(result.dtype) if len(sums) > 1 else xp.zeros_like(result)
            result = xp.stack([result, imaginary], axis=-1).view(target)[..., 0]
    if out is None:
        return result
    check_same_device(x=x, out=out)
    if out.shape != result.shape:
        raise ValueError(f"out must have shape {result.shape}, got {out.shape}")
    out[...] = result
    return out


def _device_sums(x: Array, target: np.dtype, source: np.dtype) -> Array:
    from ozaki.sums.cumulative_cuda import device_running_sums

    return device_running_sums(x, format_of(target), Layout.of(format_of(source)))


def _running_sums(x: np.ndarray, target: Format) -> np.ndarray:
    """Along the first axis, as float64 numbers of the target format."""
    flat = x.reshape(len(x), prod(x.shape[1:]))
    result = np.empty(flat.shape)
    total = _Total(flat.shape[1])
    rows = min(BLOCK_ROWS // 2, max(1, BLOCK_ROWS // max(1, flat.shape[1])))
    for start in range(0, len(flat), rows):
        result[start : start + rows] = total.advance(flat[start : start + rows], target)
    return result.reshape(x.shape)


class _Total:
    """The exact sums so far: integers at levels LEVEL_BITS apart, and flags."""

    def __init__(self, columns: int) -> None:
        self.levels = np.zeros((_LEVELS, columns), np.int64)
        self.flags = np.zeros(columns, np.uint8)

    def advance(self, block: np.ndarray, target: Format) -> np.ndarray:
        """Return the rounded running sums over an (n, m) block, and move on past it."""
        with np.errstate(all="ignore"):
            running = _running_levels(block)
        flags = np.bitwise_or.accumulate(_flags(block), axis=0) | self.flags
        used = np.flatnonzero(self.levels.any(axis=1)).tolist() + list(running)
        low, high = (min(used), max(used) + 1) if used else (0, 1)
        levels = [running.get(level, 0) + self.levels[level] for level in range(low, high)]
        while len(levels) > 2 and np.abs(levels[-1]).max(initial=0) < _SMALL:
            last = levels.pop()
            levels[-1] = levels[-1] + (last << LEVEL_BITS)
        exact = _fixed_point(levels, _LOWEST + LEVEL_BITS * low, flags)
        for level, sums in running.items():
            self.levels[level] += sums[-1]
        self._carry(low)
        self.flags = flags[-1]
        return exact.round(target).reshape(block.shape)

    def _carry(self, low: int) -> None:
        """Keep every level but the last within half a unit of the next, so that signs do not spread."""
        half = 1 << (LEVEL_BITS - 1)
        for level in range(low, _LEVELS - 1):
            over = (self.levels[level] + half) >> LEVEL_BITS
            self.levels[level] -= over << LEVEL_BITS
            self.levels[level + 1] += over


def _fixed_point(levels: list[np.ndarray], exponent: int, flags: np.ndarray) -> FixedPoint:
    """Integers below 2**61, LEVEL_BITS apart, as digits; two of them as the pair that rounds fast."""
    levels = [np.broadcast_to(level, flags.shape).reshape(-1) for level in levels]
    if len(levels) == 2:
        return FixedPoint(np.stack(levels), LEVEL_BITS, exponent, flags.reshape(-1))
    digits = np.zeros((2 * len(levels) - 1, flags.size), np.int64)
    digits[::2] = levels
    return FixedPoint(digits, LEVEL_BITS // 2, exponent, flags.reshape(-1))


def _running_levels(block: np.ndarray) -> dict[int, np.ndarray]:
    """The running sums of an (n, m) block, as integers by level; n is at most BLOCK_ROWS/2."""
    running: dict[int, np.ndarray] = {}
    for part in as_floats(block):
        finite = np.where(np.isfinite(part), part, 0.0)
        large = np.abs(finite) >= 2.0**900
        if large.any():
            scaled = np.where(large, finite, 0.0) * 2.0 ** (-2 * LEVEL_BITS)
            _extract(scaled, 2, running)
            finite = np.where(large, 0.0, finite)
        _extract(finite, 0, running)
    return running


def _extract(x: np.ndarray, raised: int, running: dict[int, np.ndarray]) -> None:
    """Add x's running sums to `running`, `raised` levels up: `_window`'s extraction on a fixed grid."""
    steps = np.arange(1, len(x) + 1)[:, None]
    level = _TOP + 1
    while (largest := np.abs(x).max(initial=0.0)) > 0:
        # What level j leaves is at most half its unit: level j - 1 takes it.
        exponent = int(np.frexp(largest)[1])
        level = min(level - 1, max(0, -(-(exponent - 45 - _LOWEST) // LEVEL_BITS)))
        sigma = np.ldexp(1.5, _LOWEST + 52 + LEVEL_BITS * level)
        shifted = x + sigma
        sums = np.add.accumulate(shifted.view(np.int64), axis=0) - steps * sigma.view(np.int64)
        x = x - (shifted - sigma)
        place = level + raised
        running[place] = running[place] + sums if place in running else sums


def _flags(block: np.ndarray) -> np.ndarray:
    flags = np.full(block.shape, ORDINARY)
    if block.dtype.kind in "iub":
        return flags
    flags[(block == 0) & np.signbit(block)] = MINUS_ZERO
    special = ~np.isfinite(block)
    if special.any():
        flags[np.isnan(block)] = NAN
        flags[special & (block > 0)] = PLUS_INFINITY
        flags[special & (block < 0)] = MINUS_INFINITY
    return flags
