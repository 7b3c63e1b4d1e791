"""Running sums of CuPy arrays: a scan over superaccumulators.

Rows are cut into tiles. The tiles' exact totals come from the kernels of `_columns_kernel`, and
their running sums, digit by digit, from `cupy.cumsum`; then every thread goes through one tile,
adds its terms to the digits that come before it, and rounds after each. That is much slower than a
sum, in which only the last is rounded; nothing is copied to the host.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from multiword.formats import FORMATS, Format
from multiword.runtime.arrays import Array, import_cupy
from multiword.runtime.kernels import Kernel
from ozaki.sums.columns import Stream, as_floats
from ozaki.sums.columns_cuda import exact_totals
from ozaki.sums.columns_window import SOURCES, constants
from ozaki.sums.superaccumulator import Layout

_TILE = 128  # terms of a thread
_TILES = 1 << 15  # at one time: their digits, twice, are the memory beyond input and result
_BLOCK = 128


_FORM = {"ALIKE": 0, "HEADROOM": 0}

running_sums_kernel = Kernel(
    "running_sums",
    Path(__file__).with_name("running_sums.cu"),
    tuple(
        constants(dtype, False, False, Layout.of(FORMATS[name]), **_FORM)
        for dtype, name in (
            ("float64", "fp64"),
            ("float32", "fp32"),
            ("float16", "fp16"),
            ("bfloat16", "bf16"),
        )
    ),
)
"""See the comment above its CUDA source."""


def device_running_sums(x: Array, target: Format, layout: Layout) -> Array:
    """Return the running sums along the first axis, as float64 numbers of the target format."""
    cupy = import_cupy()
    if x.size == 0:
        return cupy.empty(x.shape)
    rows = cupy.ascontiguousarray(cupy.moveaxis(x, 0, -1)).reshape(-1, len(x))
    parts = [rows] if rows.dtype.name in SOURCES else as_floats(rows)
    # A term's two parts are neighbours, and the sum after the second is wanted.
    rows = cupy.stack(parts, axis=-1).reshape(len(rows), -1) if len(parts) > 1 else parts[0]
    result = cupy.empty(rows.shape)
    state: tuple[Array, Array] | None = None
    length = max(_TILE, _TILE * max(1, _TILES // max(1, len(rows))))
    for start in range(0, rows.shape[1], length):
        piece = cupy.ascontiguousarray(rows[:, start : start + length])
        result[:, start : start + length], state = _piece(piece, state, target, layout)
    result = result[:, len(parts) - 1 :: len(parts)]
    return cupy.moveaxis(result.reshape(*x.shape[1:], len(x)), -1, 0)


def _piece(
    x: Array, state: tuple[Array, Array] | None, target: Format, layout: Layout
) -> tuple[Array, tuple[Array, Array]]:
    """The running sums of contiguous rows after what `state` says came before, and the state after them."""
    cupy = import_cupy()
    rows, n = x.shape
    tiles = -(-n // _TILE)
    count = rows * tiles
    padded = cupy.full((rows, tiles * _TILE), -0.0, x.dtype)
    padded[:, :n] = x
    totals, flags = exact_totals([Stream((padded.reshape(count, _TILE).T,))], 1, layout)
    sizes = (np.int64(n), np.int32(_TILE), np.int32(tiles), np.int64(count))
    rounding = np.int32(target.precision), np.int32(target.emin - target.precision + 1)
    chosen = constants(x.dtype.name, False, False, layout, **_FORM)
    result, room = cupy.empty((rows, n)), cupy.empty_like(totals)
    grid = (-(-count // _BLOCK),)

    def launch(digits: Array, seen: Array, carry: bool) -> None:
        arrays = digits, room, seen, result
        running_sums_kernel(grid, (_BLOCK,), (x, *sizes, *arrays, *rounding, np.int32(carry)), **chosen)

    launch(totals, flags, True)
    digits = totals.reshape(-1, rows, tiles)
    before = cupy.zeros_like(digits)
    before[:, :, 1:] = digits[:, :, :-1]
    seen = cupy.zeros((rows, tiles), np.uint32)
    flags = flags.reshape(rows, tiles)
    if state is not None:
        before[:, :, 0], seen[:, 0] = state
    seen[:, 1:] = flags[:, :-1]
    before = cupy.cumsum(before, axis=2)
    bits = np.uint32(1) << cupy.arange(5, dtype=np.uint32)
    present = cupy.cumsum((seen[..., None] & bits) != 0, axis=1) > 0
    seen = (present * bits).sum(axis=2).astype(np.uint32)
    before, seen = cupy.ascontiguousarray(before).reshape(-1, count), seen.reshape(count)
    launch(before, seen, False)
    last = before.reshape(-1, rows, tiles)[:, :, -1], seen.reshape(rows, tiles)[:, -1]
    return result, (last[0].copy(), last[1].copy())
