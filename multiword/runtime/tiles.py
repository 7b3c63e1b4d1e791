"""Tiles of an operand, which its CUDA kernels read: how they lie, and what a thread reads of them."""

from __future__ import annotations

import ctypes
import math
from typing import Any

from multiword.runtime.arrays import Array
from multiword.runtime.kernels import Struct, members

THREADS, WARPS = 256, 8


class StridedParts(Struct):
    """The real parts of an operand, or a stack of them, where they lie; strides in elements."""

    _fields_ = (
        *members(ctypes.c_void_p, "part0", "part1"),
        *members(ctypes.c_longlong, "matrix_stride", "row_stride", "column_stride"),
        *members(ctypes.c_int, "rows_each", "rows", "columns"),
    )


def extent(parts: list[Array]) -> tuple[int, int]:
    """Return the rows and columns of (r, k) parts; of a stack, (s, r, k), the rows of all its matrices."""
    *rows, columns = parts[0].shape
    return math.prod(rows), columns


REALS = {"float64": "double", "float32": "float", "float16": "Float16", "bfloat16": "BFloat16"}
"""The types of the numbers in CUDA, by dtype."""

LARGEST = (1 << 31) - (1 << 16)
"""Rows or columns of an operand, at most: kernels count them, and a tile beyond, in 32-bit integers."""


def strided_parts(parts: list[Array]) -> tuple[StridedParts, dict[str, Any]]:
    """Return the (r, k) or (s, r, k) parts as kernels take them, and the constants that those are built with.

    ALONG_K: whether rows are the contiguous axis. UNIT: whether its numbers lie side by side.
    ValueError where there are more than `LARGEST` rows or columns.
    """
    x = parts[0]
    *of_stack, row_stride, column_stride = (stride // x.itemsize for stride in x.strides)
    rows, columns = extent(parts)
    if max(rows, columns) > LARGEST:
        raise ValueError(
            f"a GPU takes factors of up to {LARGEST} rows and columns, those of a stack together, "
            f"and this one has {rows} and {columns}"
        )
    along = abs(column_stride) <= abs(row_stride) or rows == 1
    operand = StridedParts(
        part0=x,
        part1=parts[-1],
        matrix_stride=sum(of_stack),
        row_stride=row_stride,
        column_stride=column_stride,
        rows_each=x.shape[-2],
        rows=rows,
        columns=columns,
    )
    return operand, {
        "ALONG_K": int(along),
        "UNIT": int((column_stride if along else row_stride) == 1),
        "REAL": REALS[x.dtype.name],
    }


def tile_rows(run: int, columns: int, lanes: int) -> dict[str, int]:
    """Return the constants for the rows of a tile: where they are short, more, for all threads to have some.

    `run` numbers fall to a thread; a tile of rows that lie side by side has `lanes` of them at least.
    """
    rows = WARPS
    while 2 * rows * max(columns, 32) <= THREADS * run:
        rows *= 2
    return {"ALONG_ROWS": rows, "LANES": max(rows, lanes)}


def tile_count(constants: dict[str, Any], rows: int, columns: int) -> int:
    """Return how many tiles cover an operand."""
    height = constants.get("ALONG_ROWS", WARPS) if constants["ALONG_K"] else constants["LANES"]
    return -(-rows // height) * -(-columns // (THREADS * constants["RUN"] // height))
