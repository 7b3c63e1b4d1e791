"""Running sums, each one correctly rounded: the definition, and the launches of `cumulative.cu`.

On the host, `running_numba` adds each number to an exact expansion. On a GPU, rows of ordinary data are a
launch or three (`exact.prefixes`); others are cut into tiles. The tiles' exact totals come from the kernels
of `reduction_cuda`, and their running sums, digit by digit, from `cupy.cumsum`; then every thread
goes through one tile, adds its terms to the digits that come before it, and rounds after each. That is much
slower than a sum, in which only the last is rounded; nothing is copied to the host.
"""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import c_int, c_longlong, c_void_p
from itertools import accumulate
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from multiword.formats import Format
from multiword.rounding import round_to
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
from ozaki.public import public
from ozaki.rounding.conversion import joined, narrow
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
from ozaki.sums.exact.extraction import LOOPS, READABLE, SOURCES, constants, contiguous
from ozaki.sums.exact.fixed_point import DigitRange, Rounding, flagged, flags_of
from ozaki.sums.exact.prefixes import prefix_sums
from ozaki.sums.exact.reduction_cuda import exact_totals
from ozaki.sums.exact.summands import Summands, as_floats
from ozaki.sums.exact.vectors import UNIT

_ROOM = 1 << 11  # numbers of an expansion: float64 has fewer bits between its largest and its smallest
_TILE = 128  # terms of a thread on a GPU
_TILES = 1 << 15  # at one time: their digits, twice, are the memory beyond input and result
_THREADS = 128


@public("Sums", dask=True, torch="cumsum")
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
        sums = form(xp.moveaxis(part, axis, 0) if axis else part, format_of(target), first)
        parts.append(xp.moveaxis(sums, 0, axis) if axis else sums)
    return joined(parts, target)


def _running_sums(x: np.ndarray, target: Format, before: np.ndarray | None) -> np.ndarray:
    """Along the first axis."""
    terms = x[..., None] if x.dtype in READABLE else np.stack(as_floats(x), axis=-1)
    if before is not None:
        first = np.full((len(before), *terms.shape[1:]), -0.0)
        first[..., 0] = before
        terms = np.concatenate([first, terms])
    n, *others, parts = terms.shape
    rows = contiguous(terms.reshape(n, prod(others), parts).swapaxes(0, 1))
    sums = _compiled_running_sums(rows, target)
    sums = _plain_running_sums(rows, target) if sums is None else sums
    return sums.T[n - len(x) :].reshape(x.shape)


def _compiled_running_sums(rows: np.ndarray, target: Format) -> np.ndarray | None:
    """The running sums of (l, n, k) numbers, k at a time, in the format's dtype; None where there are none.

    A sum rounded to odd in float64 is rounded to a narrower format as if it was once (Boldo and Melquiond,
    Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd).
    """
    if (loops := compiled(LOOPS)) is None:
        return None
    result, to_odd = np.empty(rows.shape[:2]), target.precision < 53
    add = loops.loop(loops.running_sums, rows.dtype)
    if not add(rows, to_odd, np.empty(_ROOM), result):
        return None
    return round_to(result, target) if to_odd else result


def _plain_running_sums(rows: np.ndarray, target: Format) -> np.ndarray:
    """The definition: the sums are integers in units of 2**-UNIT, each of which is rounded."""
    rows, rounding = to_float64(rows), Rounding(target)
    flags = np.bitwise_or.accumulate(np.bitwise_or.reduce(flags_of(rows), axis=2), axis=1)
    finite = np.where(np.isfinite(rows), rows, 0.0).tolist()
    exact = [accumulate(sum(map(_in_units, terms)) for terms in row) for row in finite]
    sums = [[rounding.ratio(total, 1, -UNIT) for total in row] for row in exact]
    return narrow(flagged(sums, flags), target.dtype)


def _in_units(x: float) -> int:
    """A finite number in units of 2**-UNIT."""
    numerator, denominator = x.as_integer_ratio()
    return numerator << (UNIT + 1 - denominator.bit_length())


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
    equals="ozaki.definition.sums.rounded_sum",
)


def _device_running_sums(x: Array, target: Format, before: Array | None) -> Array:
    """`_running_sums` of CuPy arrays."""
    cupy = import_cupy()
    if x.size == 0:
        return cupy.empty(x.shape, target.dtype)
    if before is None and (found := prefix_sums(x, target)) is not None:
        return found
    rows = cupy.ascontiguousarray(cupy.moveaxis(x, 0, -1)).reshape(-1, len(x))
    parts = [rows] if rows.dtype.name in SOURCES and before is None else as_floats(rows)
    # A term's two parts are neighbours, and the sum after the second is wanted.
    rows = cupy.stack(parts, axis=-1).reshape(len(rows), -1) if len(parts) > 1 else parts[0]
    if before is not None:
        rows = cupy.concatenate([cupy.moveaxis(before, 0, -1).reshape(len(rows), -1), rows], axis=1)
    digits = DigitRange.of(format_of(rows.dtype))
    result = cupy.empty(rows.shape, target.dtype)
    for together, pieces in _in_pieces(*rows.shape):
        state: tuple[Array, Array] | None = None
        for piece in pieces:
            x_of_piece = cupy.ascontiguousarray(rows[together, piece])
            result[together, piece], state = _piece(x_of_piece, state, target, digits)
    left_out = len(parts) - 1 if before is None else len(before) + len(parts) - 1
    result = result[:, left_out :: len(parts)]
    return cupy.moveaxis(result.reshape(*x.shape[1:], len(x)), -1, 0)


def _in_pieces(rows: int, n: int) -> Iterator[tuple[slice, list[slice]]]:
    """Yield rows that are summed together, and the pieces of them, one after the other: _TILES tiles at most.

    >>> list(_in_pieces(40_000, 200))
    [(slice(0, 32768, None), [slice(0, 128, None), slice(128, 256, None)]), \
(slice(32768, 65536, None), [slice(0, 128, None), slice(128, 256, None)])]
    """
    length = _TILE * max(1, _TILES // max(1, rows))
    for first in range(0, rows, _TILES):
        yield slice(first, first + _TILES), [slice(i, i + length) for i in range(0, n, length)]


def _piece(
    x: Array, state: tuple[Array, Array] | None, target: Format, digits: DigitRange
) -> tuple[Array, tuple[Array, Array]]:
    """The running sums of contiguous rows after what `state` says came before, and the state after them."""
    cupy = import_cupy()
    rows, n = x.shape
    tile = min(n, _TILE)
    tiles = -(-n // tile)
    count = rows * tiles
    padded = cupy.zeros((rows, tiles * tile), x.dtype)  # after the last number no sum is asked for
    padded[:, :n] = x
    totals, flags = exact_totals([Summands((padded.reshape(count, tile).T,))], 1, digits)
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
            length=tile,
            tiles=tiles,
            carry=carry,
            precision=target.precision,
            smallest=target.last_place,
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
