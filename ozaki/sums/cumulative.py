"""Running sums, each one correctly rounded: the NumPy form, and the launches of `cumulative.cu`.

On the host, the extraction's levels lie on a fixed grid, so that running sums of integers are
`np.add.accumulate`. On a GPU, rows are cut into tiles. The tiles' exact totals come from the kernels
of `reduction_cuda`, and their running sums, digit by digit, from `cupy.cumsum`; then every thread goes
through one tile, adds its terms to the digits that come before it, and rounds after each. That is much
slower than a sum, in which only the last is rounded; nothing is copied to the host.
"""

from __future__ import annotations

from ctypes import c_int, c_longlong, c_void_p
from math import copysign, isfinite, ldexp, prod
from pathlib import Path
from typing import Any

import numpy as np

from multiword.formats import FORMATS, Format
from multiword.runtime.arrays import (
    Array,
    import_cupy,
    is_cupy,
    namespace,
    on_device_of_arrays,
    real_parts,
    to_float64,
)
from multiword.runtime.compiled import compiled
from multiword.runtime.kernels import Kernel, Struct
from multiword.runtime.options import integer
from ozaki.rounding.conversion import joined, narrow
from ozaki.rounding.digits import last_place
from ozaki.sums.arguments import (
    DType,
    Out,
    axes_of,
    deliver,
    format_of,
    numbers,
    result_dtype,
    summed_dtype,
)
from ozaki.sums.exact.extraction import (
    BLOCK_ROWS,
    CARRY,
    LEVEL_BITS,
    LOOPS,
    LOWEST,
    READABLE,
    SOURCES,
    constants,
    contiguous,
)
from ozaki.sums.exact.fixed_point import DigitRange, FixedPoint, flags_of
from ozaki.sums.exact.reduction_cuda import exact_totals
from ozaki.sums.exact.summands import Summands, as_floats
from ozaki.sums.exact.vectors import UNIT
from ozaki.tuning import RUNNING_LENGTH

_LOWEST = FORMATS["fp64"].emin - 52  # the unit of level 0 is 2**-1074, that of level j 2**(46·j) more
_TOP = 44  # the highest level whose sigma is finite
_RUNNING_BITS = 14  # 2**14 running sums at a time
_RUNNING_TOP = 900  # of windows of running sums, which stay far from overflow
_SMALL = 1 << 13  # an integer that fits into the level below, beside what is there
_LEVELS = _TOP + 5  # two more for numbers that are scaled down, and room for carries
_TILE = 128  # terms of a thread on a GPU
_TILES = 1 << 15  # at one time: their digits, twice, are the memory beyond input and result
_THREADS = 128


@on_device_of_arrays
def cumsum(x: Array, axis: int | None = None, dtype: DType = None, out: Out = None) -> Any:
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
    TypeError, ValueError : as `ozaki.sum`.

    References
    ----------
    Kulisch, Computer Arithmetic and Validity, chapter 8 (sums in fixed point, each rounded once).

    >>> cumsum(np.array([1.0, 1e100, 1.0, -1e100]))
    array([1.e+000, 1.e+100, 1.e+100, 2.e+000])
    """
    x = numbers(x, "x")
    (along,) = (0,) if axis is None else axes_of(integer("axis", axis), x.ndim)
    shape = (x.size,) if axis is None else x.shape
    target = result_dtype(x, summed_dtype(x), dtype, out, shape)
    if target.kind in "iub":
        return deliver(namespace(x).cumsum(x, axis=axis, dtype=target), out)
    return deliver(running_sums(x.reshape(shape), along, target), out)


def running_sums(x: Array, axis: int, target: np.dtype, before: Array | None = None) -> Array:
    """The running sums along an axis, rounded to a dtype that is not an integer's.

    before : (t, *others), a few numbers that come first, in float64, or complex128 for a complex x; their own
        running sums are left out.
    """
    xp, parts = namespace(x), []
    for i, part in enumerate(real_parts(x)):
        form = _device_running_sums if is_cupy(x) else _running_sums
        first = None if before is None else real_parts(before)[i]
        sums = form(xp.moveaxis(part, axis, 0), format_of(target), first)
        parts.append(xp.moveaxis(sums, 0, axis))
    return joined(parts, target)


def _running_sums(x: np.ndarray, target: Format, before: np.ndarray | None) -> np.ndarray:
    """Along the first axis."""
    flat = x.reshape(len(x), prod(x.shape[1:]))
    before = before if before is None else before.reshape(len(before), -1)
    result = np.empty(flat.shape, target.dtype)
    loops = compiled(LOOPS) if x.dtype in READABLE and len(x) >= RUNNING_LENGTH else None
    if loops and target.precision == 53:
        for j in range(flat.shape[1]):
            first = before if before is None else before[:, j : j + 1]
            sums = _compiled_running_sums(flat[:, j], first)
            result[:, j] = _blockwise(flat[:, j : j + 1], target, first)[:, 0] if sums is None else sums
        return result.reshape(x.shape)
    return _blockwise(flat, target, before).reshape(x.shape)


def _compiled_running_sums(x: np.ndarray, before: np.ndarray | None) -> np.ndarray | None:
    """The running sums of a vector as float64, each rounded once; None where a window does not hold them.

    The total so far, of a few float64 numbers before the first sum, is an integer in units of 2**-UNIT. A
    window holds it, and what is added to it.
    """
    earlier = [] if before is None else before[:, 0].tolist()
    if not all(map(isfinite, earlier)):
        return None
    loops, total, result, x = compiled(LOOPS), sum(map(_in_units, earlier)), np.empty(len(x)), contiguous(x)
    for start in range(0, len(x), 1 << _RUNNING_BITS):
        part = x[start : start + (1 << _RUNNING_BITS)]
        k = loops.loop(loops.window, x.dtype)(part) - loops.SLACK - 1 - CARRY  # |x| < 2**k
        k = max(k + _RUNNING_BITS + 2, total.bit_length() - UNIT + 2, LOWEST)
        shift, half = k - LOWEST, 1 << (LEVEL_BITS - 1)
        if k > _RUNNING_TOP or total & ((1 << shift) - 1):
            return None
        low = ((total >> shift) + half) % (2 * half) - half
        high = ((total >> shift) - low) >> LEVEL_BITS
        units = ldexp(1.0, k - 52), ldexp(1.0, k - 52 - LEVEL_BITS)
        add = loops.loop(loops.running_sums, x.dtype)
        high, low, fits = add(part, k, high, low, *units, result[start : start + len(part)])
        if not fits:
            return None
        total = ((high << LEVEL_BITS) + low) << shift
    if all(v == 0 and copysign(1.0, v) < 0 for v in earlier):
        first = next((i for i, v in enumerate(x) if v or not np.signbit(v)), len(x))
        result[:first] = -0.0  # the sums of −0 alone
    return result


def _in_units(x: float) -> int:
    """A finite number in units of 2**-UNIT."""
    numerator, denominator = x.as_integer_ratio()
    return numerator << (UNIT + 1 - denominator.bit_length())


def _blockwise(flat: np.ndarray, target: Format, before: np.ndarray | None) -> np.ndarray:
    """Of each column, by the NumPy form."""
    result, total = np.empty(flat.shape, target.dtype), _Total(flat.shape[1])
    rows = min(BLOCK_ROWS // 2, max(1, BLOCK_ROWS // max(1, flat.shape[1])))
    if before is not None:
        for start in range(0, len(before), rows):
            total.advance(before[start : start + rows], target)
    for start in range(0, len(flat), rows):
        running = total.advance(flat[start : start + rows], target)
        result[start : start + rows] = narrow(running, target.dtype)
    return result


class _Total:
    """The exact sums so far: integers at levels LEVEL_BITS apart, and flags."""

    def __init__(self, columns: int) -> None:
        self.levels = np.zeros((_LEVELS, columns), np.int64)
        self.flags = np.zeros(columns, np.uint8)

    def advance(self, block: np.ndarray, target: Format) -> np.ndarray:
        """Return the rounded running sums over an (n, m) block, and move on past it."""
        with np.errstate(all="ignore"):
            running = _running_levels(block)
        flags = np.bitwise_or.accumulate(flags_of(to_float64(block)), axis=0) | self.flags
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
    """Add x's running sums to `running`, `raised` levels up: `extraction` on a fixed grid."""
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
        index = level + raised
        running[index] = running[index] + sums if index in running else sums


class RunningSums(Struct):
    """The kernel's parameters; see the comment above the C struct."""

    _fields_ = (
        ("x", c_void_p),
        *((name, c_longlong) for name in ("n", "count")),
        *((name, c_void_p) for name in ("totals", "room", "flags", "result")),
        *((name, c_int) for name in ("length", "tiles", "precision", "smallest", "carry")),
    )


_FORM = {"ALIKE": 0, "HEADROOM": 0}

running_sums_kernel = Kernel(
    "running_sums",
    Path(__file__).with_name("cumulative.cu"),
    tuple(constants(dtype, DigitRange.of(format_of(dtype)), **_FORM) for dtype in SOURCES),
    (RunningSums,),
)


def _device_running_sums(x: Array, target: Format, before: Array | None) -> Array:
    """`_running_sums` of CuPy arrays."""
    cupy = import_cupy()
    if x.size == 0:
        return cupy.empty(x.shape, target.dtype)
    rows = cupy.ascontiguousarray(cupy.moveaxis(x, 0, -1)).reshape(-1, len(x))
    parts = [rows] if rows.dtype.name in SOURCES and before is None else as_floats(rows)
    # A term's two parts are neighbours, and the sum after the second is wanted.
    rows = cupy.stack(parts, axis=-1).reshape(len(rows), -1) if len(parts) > 1 else parts[0]
    if before is not None:
        rows = cupy.concatenate([cupy.moveaxis(before, 0, -1).reshape(len(rows), -1), rows], axis=1)
    digits = DigitRange.of(format_of(rows.dtype))
    result = cupy.empty(rows.shape, target.dtype)
    state: tuple[Array, Array] | None = None
    length = max(_TILE, _TILE * max(1, _TILES // max(1, len(rows))))
    for start in range(0, rows.shape[1], length):
        piece = cupy.ascontiguousarray(rows[:, start : start + length])
        result[:, start : start + length], state = _piece(piece, state, target, digits)
    left_out = len(parts) - 1 if before is None else len(before) + len(parts) - 1
    result = result[:, left_out :: len(parts)]
    return cupy.moveaxis(result.reshape(*x.shape[1:], len(x)), -1, 0)


def _piece(
    x: Array, state: tuple[Array, Array] | None, target: Format, digits: DigitRange
) -> tuple[Array, tuple[Array, Array]]:
    """The running sums of contiguous rows after what `state` says came before, and the state after them."""
    cupy = import_cupy()
    rows, n = x.shape
    tiles = -(-n // _TILE)
    count = rows * tiles
    padded = cupy.full((rows, tiles * _TILE), -0.0, x.dtype)
    padded[:, :n] = x
    totals, flags = exact_totals([Summands((padded.reshape(count, _TILE).T,))], 1, digits)
    chosen = constants(x.dtype.name, digits, **_FORM)
    result, room = cupy.empty((rows, n), target.dtype), cupy.empty_like(totals)

    def launch(before: Array, seen: Array, carry: bool) -> None:
        parameters = RunningSums(
            x=x,
            n=n,
            count=count,
            totals=before,
            room=room,
            flags=seen,
            result=result,
            length=_TILE,
            tiles=tiles,
            carry=carry,
            precision=target.precision,
            smallest=last_place(target),
        )
        running_sums_kernel((-(-count // _THREADS),), (_THREADS,), (parameters,), **chosen)

    launch(totals, flags, True)
    before, seen = _sums_before(totals.reshape(-1, rows, tiles), flags.reshape(rows, tiles), state)
    launch(before.reshape(-1, count), seen.reshape(count), False)
    return result, (before[:, :, -1].copy(), seen[:, -1].copy())


def _sums_before(totals: Array, flags: Array, state: tuple[Array, Array] | None) -> tuple[Array, Array]:
    """Digits and flags of what comes before each tile, from those of the tiles."""
    cupy = import_cupy()
    before, seen = cupy.zeros_like(totals), cupy.zeros(flags.shape, np.uint32)
    before[:, :, 1:], seen[:, 1:] = totals[:, :, :-1], flags[:, :-1]
    if state is not None:
        before[:, :, 0], seen[:, 0] = state
    before = cupy.cumsum(before, axis=2)
    bits = np.uint32(1) << cupy.arange(5, dtype=np.uint32)
    present = cupy.cumsum((seen[..., None] & bits) != 0, axis=1) > 0
    seen = (present * bits).sum(axis=2).astype(np.uint32)
    return cupy.ascontiguousarray(before), cupy.ascontiguousarray(seen)
