"""The scales of exact products: the last places of an operand's rows."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, import_cupy, is_cupy, namespace
from multiword.runtime.kernels import Kernel
from multiword.runtime.parallel import contiguous_rows, over_rows, scratch
from multiword.runtime.tiles import StridedParts, extent, strided_parts, tile_count, tile_rows
from ozaki.scaling.statistics import NONFINITE_ROW


def exact_scales(parts: list[Array]) -> Array:
    """Return the (r,) int32 scales, the smallest for which no element of a row is rounded.

    The operand comes as (r, k) float32 or float64 parts. Zero rows have 0, rows that are not finite
    NONFINITE_ROW.
    """
    if is_cupy(parts[0]):
        return _in_one_launch()(_lowest_device(parts), np.int32(NONFINITE_ROW))
    lowest = _lowest_host(parts)
    return np.where(lowest != _BAD, np.where(lowest < _ZERO, -lowest, 0), NONFINITE_ROW).astype(np.int32)


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


@cache
def _in_one_launch() -> Any:
    code = f"scale = lowest == {_BAD} ? nonfinite : lowest < {_ZERO} ? -lowest : 0"
    return import_cupy().ElementwiseKernel(
        "int32 lowest, int32 nonfinite", "int32 scale", code, "exact_scales"
    )


LAST_PLACE_CONSTANTS: dict[str, Any] = {"NOTHING": _ZERO, "BAD": _BAD}
_RUN = 16
"""Numbers to a thread in a tile, of both parts together."""


def _tile(parts: int, columns: int) -> dict[str, Any]:
    run = _RUN // parts
    return {**LAST_PLACE_CONSTANTS, **tile_rows(run, columns, 32), "PARTS": parts, "RUN": run}


_LAST_PLACES = Kernel(
    "last_places",
    Path(__file__).with_suffix(".cu"),
    tuple(
        {**_tile(parts, columns), "ALONG_K": along, "UNIT": 2 - parts, "REAL": t}
        for columns in (4096, 4)
        for along in (0, 1)
        for t in ("float", "double")
        for parts in (1, 2)
    ),
    (StridedParts,),
    equals="ozaki.definition.scales.exact_scale",
)


def _lowest_device(parts: list[Array]) -> Array:
    rows, columns = extent(parts)
    operand, layout = strided_parts(parts)
    constants = {**_tile(len(parts), columns), **layout}
    lowest = namespace(parts[0]).full(rows, _ZERO, np.int32)
    _LAST_PLACES((tile_count(constants, rows, columns),), (256,), (operand, lowest), **constants)
    return lowest
