"""The last places of an operand's rows: the scales of exact products, and where zeros are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from multiword._arrays import Array, is_cupy, namespace
from multiword._kernels import Kernel
from ozaki._parallel import contiguous_rows, over_rows, scratch
from ozaki._scales import DISCARD
from ozaki._segments import NONFINITE
from ozaki._tiles import TILES_SOURCE, operand_layout, tile_count


@dataclass(frozen=True)
class LastPlaces:
    """What the last places of an operand's elements say of its rows.

    Attributes
    ----------
    scales : (r,) int32, the smallest for which no element of a row is rounded. Zero rows have 0,
        rows that are not finite DISCARD.
    zeros : (r,) bool, whether a row has an element that is 0.
    """

    scales: Array
    zeros: Array


def last_places(parts: list[Array]) -> LastPlaces:
    """Return the last places of an operand given as (r, k) float32 or float64 parts."""
    xp = namespace(parts[0])
    lowest, zeros = (_lowest_device if is_cupy(parts[0]) else _lowest_host)(parts)
    scales = xp.where(lowest != _BAD, xp.where(lowest < NONFINITE, -lowest, 0), DISCARD)
    return LastPlaces(scales.astype(xp.int32), zeros)


def _lowest_host(parts: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The exponent of the last place of every row, and whether it has a zero.

    NONFINITE for zero rows, _BAD for an Inf or NaN.
    """
    rows, columns = parts[0].shape
    lowest, zeros = np.full(rows, NONFINITE, np.int32), np.zeros(rows, bool)

    def work(block: slice) -> None:
        for x in parts:
            y = contiguous_rows(x, block, scratch("rows", (block.stop - block.start, columns)))
            significand = y.view(np.int64)
            exponent = significand >> 52 & 0x7FF
            significand &= (1 << 52) - 1
            significand |= np.where(exponent == 0, 0, 1 << 52)
            last = (significand & -significand).astype(np.float64).view(np.int64) >> 52
            place = np.maximum(exponent, 1) - 1075 + (last - 1023)
            zero = significand == 0
            place[zero] = NONFINITE
            place[exponent == 0x7FF] = _BAD
            np.minimum(lowest[block], place.min(axis=1), out=lowest[block], casting="unsafe")
            zeros[block] |= zero.any(axis=1)

    over_rows(work, rows, columns)
    return lowest, zeros


_BAD = -(1 << 20)
"""What stands for the last place of an Inf or NaN: below all others."""

_LAST_PLACES = Kernel(
    "last_places",
    TILES_SOURCE
    + r"""
/* _lowest_host. */
extern "C" __global__ void __launch_bounds__(THREADS)
last_places(const REAL *x0, const REAL *x1, i64 row_stride, i64 column_stride, int rows, int columns,
            int *lowest, bool *zeros) {
    const Operand x(x0, x1, row_stride, column_stride, rows, columns);
    const Tile at(rows, columns);
    __shared__ int least[ROWS], zero[ROWS];
    if (threadIdx.x < ROWS) least[threadIdx.x] = NONFINITE, zero[threadIdx.x] = 0;
    __syncthreads();
    int place = NONFINITE;
    bool has_zero = false;
    at.read(x, [&](int, int j, REAL y) {
        const double z = exactly(y);
        const int high = __double2hiint(z) & 0x7fffffff, low = __double2loint(z), exponent = high >> 20;
        const int leading = (high & 0xfffff) | (exponent ? 1 << 20 : 0);
        const int zeros_below = low ? __ffs(low) - 1 : 31 + __ffs(leading);
        const int column = at.first_column + at.local_column + j * STRIDE;
        if (exponent == 0x7ff) place = BAD;
        else if (low | leading) place = min(place, max(exponent, 1) - 1075 + zeros_below);
        else if (column < columns) has_zero = true;
    });
    atomicMin(&least[at.local_row], place);
    if (has_zero) atomicOr(&zero[at.local_row], 1);
    __syncthreads();
    const int row = at.first_row + threadIdx.x;
    if (threadIdx.x >= ROWS || row >= rows) return;
    atomicMin(&lowest[row], least[threadIdx.x]);
    if (zero[threadIdx.x]) zeros[row] = true;
}
""",
    tuple(
        {"NONFINITE": NONFINITE, "BAD": _BAD, "ALONG_K": along, "UNIT": 2 - parts, "REAL": t}
        | {"PARTS": parts, "RUN": 16 // parts, "LANES": 32}
        for along in (0, 1)
        for t in ("float", "double")
        for parts in (1, 2)
    ),
)


def _lowest_device(parts: list[Array]) -> tuple[Array, Array]:
    xp = namespace(parts[0])
    rows, columns = parts[0].shape
    strides, layout = operand_layout(parts[0])
    constants: dict[str, Any] = {"NONFINITE": NONFINITE, "BAD": _BAD, **layout, "PARTS": len(parts)}
    constants |= {"RUN": 16 // len(parts), "LANES": 32}
    lowest, zeros = xp.full(rows, NONFINITE, xp.int32), xp.zeros(rows, bool)
    sizes = (*map(np.int64, strides), np.int32(rows), np.int32(columns))
    arguments = (parts[0], parts[-1], *sizes, lowest, zeros)
    _LAST_PLACES((tile_count(constants, rows, columns),), (256,), arguments, **constants)
    return lowest, zeros
