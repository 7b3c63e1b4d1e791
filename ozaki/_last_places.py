"""The last places of an operand's rows: the scales of exact products, and where zeros are."""

from __future__ import annotations

from typing import Any

import numpy as np

from multiword._arrays import Array, is_cupy, namespace
from multiword._kernels import Kernel
from ozaki._parallel import contiguous_rows, over_rows, scratch
from ozaki._scales import DISCARD
from ozaki._segments import NONFINITE
from ozaki._tiles import TILES_SOURCE, operand_layout, tile_count


def exact_scales(parts: list[Array]) -> Array:
    """Return the (r,) int32 scales, the smallest for which no element of a row is rounded.

    Zero rows get 0, rows that are not finite DISCARD.
    """
    if is_cupy(parts[0]):
        lowest, xp = _last_places_device(parts)[0], namespace(parts[0])
        finite = lowest != _BAD
    else:
        xp, lowest = np, _last_places_host(parts)
        finite = lowest != _BAD
    return xp.where(finite, xp.where(lowest < NONFINITE, -lowest, 0), DISCARD).astype(xp.int32)


def _last_places_host(parts: list[np.ndarray]) -> np.ndarray:
    """The exponent of the last place of every row: NONFINITE for zero rows, _BAD for an Inf or NaN."""
    rows, columns = parts[0].shape
    lowest = np.full(rows, NONFINITE, np.int32)

    def work(block: slice) -> None:
        for x in parts:
            y = contiguous_rows(x, block, scratch("rows", (block.stop - block.start, columns)))
            significand = y.view(np.int64)
            exponent = significand >> 52 & 0x7FF
            significand &= (1 << 52) - 1
            significand |= np.where(exponent == 0, 0, 1 << 52)
            last = (significand & -significand).astype(np.float64).view(np.int64) >> 52
            place = np.maximum(exponent, 1) - 1075 + (last - 1023)
            place[significand == 0] = NONFINITE
            place[exponent == 0x7FF] = _BAD
            np.minimum(lowest[block], place.min(axis=1), out=lowest[block], casting="unsafe")

    over_rows(work, rows, columns)
    return lowest


def rows_with_zeros(parts: list[Array]) -> np.ndarray:
    """Which rows have an element that is 0, on the host."""
    if is_cupy(parts[0]):
        return _last_places_device(parts)[1].get() != 0
    return np.any([(x == 0).any(axis=1) for x in parts], axis=0)


_BAD = -(1 << 20)
"""What stands for the last place of an Inf or NaN: below all others."""

_LAST_PLACES = Kernel(
    "last_places",
    TILES_SOURCE
    + r"""
extern "C" __global__ void __launch_bounds__(THREADS)
last_places(const REAL *x0, const REAL *x1, i64 row_stride, i64 column_stride, int rows, int columns,
            int *lowest, int *zeros) {
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
    if (zero[threadIdx.x]) zeros[row] = 1;
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


def _last_places_device(parts: list[Array]) -> tuple[Array, Array]:
    """The lowest last place of each row, NONFINITE for a row of zeros, and whether it has a zero."""
    xp = namespace(parts[0])
    rows, columns = parts[0].shape
    strides, layout = operand_layout(parts[0])
    constants: dict[str, Any] = {"NONFINITE": NONFINITE, "BAD": _BAD, **layout, "PARTS": len(parts)}
    constants |= {"RUN": 16 // len(parts), "LANES": 32}
    lowest, zeros = xp.full(rows, NONFINITE, xp.int32), xp.zeros(rows, xp.int32)
    sizes = (*map(np.int64, strides), np.int32(rows), np.int32(columns))
    arguments = (parts[0], parts[-1], *sizes, lowest, zeros)
    _LAST_PLACES((tile_count(constants, rows, columns),), (256,), arguments, **constants)
    return lowest, zeros
