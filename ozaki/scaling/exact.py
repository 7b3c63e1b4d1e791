"""The scales of exact products: the last places of an operand's rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, is_cupy, namespace
from multiword.runtime.kernels import Kernel
from multiword.runtime.parallel import contiguous_rows, over_rows, scratch
from multiword.runtime.tiles import StridedParts, extent, strided_parts, tile_count, tile_instances
from ozaki.scaling.statistics import NONFINITE_ROW


def exact_scales(parts: list[Array]) -> Array:
    """Return the (r,) int32 scales, the smallest for which no element of a row is rounded.

    The operand comes as (r, k) float32 or float64 parts. Zero rows have 0, rows that are not finite
    NONFINITE_ROW.
    """
    xp = namespace(parts[0])
    lowest = (_lowest_device if is_cupy(parts[0]) else _lowest_host)(parts)
    return xp.where(lowest != _BAD, xp.where(lowest < _ZERO, -lowest, 0), NONFINITE_ROW).astype(xp.int32)


def _lowest_host(parts: list[np.ndarray]) -> np.ndarray:
    """Return the exponent of the last place of every row; _ZERO for zero rows, _BAD for an Inf or NaN."""
    rows, columns = parts[0].shape
    lowest = np.full(rows, _ZERO, np.int32)

    def work(block: slice) -> None:
        for x in parts:
            y = contiguous_rows(x, block, scratch((block.stop - block.start, columns)))
            significand = y.view(np.int64)
            exponent = significand >> 52 & 0x7FF
            significand &= (1 << 52) - 1
            significand |= np.where(exponent == 0, 0, 1 << 52)
            last = (significand & -significand).astype(np.float64).view(np.int64) >> 52
            last_place = np.maximum(exponent, 1) - 1075 + (last - 1023)
            last_place[significand == 0] = _ZERO
            last_place[exponent == 0x7FF] = _BAD
            np.minimum(lowest[block], last_place.min(axis=1), out=lowest[block], casting="unsafe")

    over_rows(work, rows, columns)
    return lowest


_ZERO, _BAD = 1 << 14, -(1 << 20)
"""What stands for the last place of a zero, above all others, and of an Inf or NaN, below them."""

_CONSTANTS: dict[str, Any] = {"NOTHING": _ZERO, "BAD": _BAD, "LANES": 32}
_RUN = 16
"""Numbers to a thread in a tile, of both parts together."""

_LAST_PLACES = Kernel(
    "last_places",
    Path(__file__).with_suffix(".cu"),
    tile_instances(_CONSTANTS, _RUN),
    (StridedParts,),
)


def _lowest_device(parts: list[Array]) -> Array:
    xp = namespace(parts[0])
    rows, columns = extent(parts)
    operand, layout = strided_parts(parts)
    constants = {**_CONSTANTS, **layout, "PARTS": len(parts), "RUN": _RUN // len(parts)}
    lowest = xp.full(rows, _ZERO, xp.int32)
    _LAST_PLACES((tile_count(constants, rows, columns),), (256,), (operand, lowest), **constants)
    return lowest
