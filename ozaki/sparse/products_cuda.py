"""Sums of the rows of sparse products on a GPU, by one kernel over rows and columns.

A call waits for the device when it is the first with these indices, and raises an error if one is out of
range. Later ones do not: an index that has become so since gives NaN, and the next call raises the error.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache, lru_cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from multiword.formats import FORMATS
from multiword.runtime.arrays import Array, import_cupy, to_float64
from multiword.runtime.kernels import Instance, Kernel, Struct, members
from multiword.runtime.readback import Readback
from ozaki.sparse.matrices import Matrix, out_of_range
from ozaki.sums.exact.extraction import TINY
from ozaki.sums.exact.fixed_point import FLAG_CONSTANTS, DigitRange

_THREADS, _BLOCKS = 256, (6, 5)
"""Of a block, and how many of these a multiprocessor has registers for, of real and of complex numbers: as
many as if there were no exact sums."""

_INDICES = {np.dtype(np.int32): "int", np.dtype(np.int64): "long long"}
_NUMBERS = {
    np.dtype(kind): "float" if kind in (np.float32, np.complex64) else "double"
    for kind in (np.float32, np.float64, np.complex64, np.complex128)
}
"""What the kernel reads, and the type of its parts."""

_LANES = (1, 2, 4, 8, 16, 32)
"""Threads that share an element."""

_EACH = 3.6
"""Entries of a row for each of them, where there are enough rows."""

_ENOUGH = 1 << 18
"""Threads that keep a GPU busy: below, rows of two entries more have another."""

_FURTHEST = (1 << 31) - (1 << 9)
"""Entries, and numbers of x, that kernels count in 32 bits: a thread looks a little beyond its row."""

_REMEMBERED = 4096
"""Matrices whose indices are known to have been in range."""

LIMITS = {"TINY": repr(TINY)}
"""The constant of `enclosure.cuh`."""

_DIGITS = DigitRange.of(FORMATS["fp64"])


def _constants(lanes: int, wide: bool, vector: bool, kinds: Sequence[np.dtype]) -> dict[str, Any]:
    """Return the kernel's constants. kinds : of indices, the matrix, x, addends and results."""
    index, value, _, _, result = kinds
    types = zip(("VALUE", "X", "ADDEND", "RESULT"), (_NUMBERS[kind] for kind in kinds[1:]), strict=True)
    complex_ = value.kind == "c"
    form = {"LANES": lanes, "OFFSET": "long long" if wide else "int", "VECTOR": int(vector), **LIMITS}
    blocks = {"THREADS": _THREADS, "BLOCKS": _BLOCKS[complex_], "PARTS": 1 + complex_}
    target = FORMATS["fp64" if _NUMBERS[result] == "double" else "fp32"]
    digits = {"DIGITS": _DIGITS.digits, "LOWEST": f"({_DIGITS.exponent})", "BELOW": 0, "ABOVE": 0}
    rounding = {"RESULT_PRECISION": target.precision, "RESULT_SMALLEST": f"({target.last_place})"}
    flags = {**FLAG_CONSTANTS, "INVALID": "256u"}
    return {"INDEX": _INDICES[index], **dict(types), **form, **blocks, **digits, **rounding, **flags}


class SparseSizes(Struct):
    """`sizes.cuh`."""

    _fields_ = (
        *members(ctypes.c_longlong, "rows", "width", "stored", "columns"),
        ("imaginary", ctypes.c_double),
    )


_ADD_ROWS = Kernel(
    "add_sparse_rows",
    Path(__file__).with_name("rows.cu"),
    tuple(
        _constants(lanes, wide, vector, tuple(map(np.dtype, kinds)))
        for lanes, wide, vector, kinds in (
            (1, False, True, "idddd"),
            (2, True, True, "lfddd"),
            (4, False, False, "iffff"),
            (8, True, False, "iDDDD"),
            (32, False, False, "ldDDD"),
            (1, False, False, "iFFFF"),
        )
    ),
    (SparseSizes,),
    equals="ozaki.definition.sums.rounded_dot",
)

_in_range: set[tuple[Any, ...]] = set()
"""Where indices lie, and of what matrices, that were in range when they were first read."""


@cache
def _invalid(device: int) -> Readback:
    """Return the number that all kernels on a device make 1 where an index is out of range."""
    return Readback(1, np.uint32)


def _raise_invalid(invalid: Readback) -> None:
    if (seen := invalid.glance())[0]:
        seen[0] = 0
        raise out_of_range()


def rows_on_device(matrix: Matrix, x: Array, addends: Sequence[Array], dtype: np.dtype) -> Array | None:
    """Return initial + A·x in a dtype, each element rounded once.

    None where entries do not lie row by row, or numbers are not of the kernel's dtypes.

    x : (n,) or (n, k). addends : nothing, or an array of the result's shape. dtype : one of the four of
        results. ValueError for an index out of range, in this call or in an earlier one.
    """
    values, (pointers, indices) = matrix.values, matrix.indices
    if not matrix.row_by_row or values.dtype not in _NUMBERS:
        return None
    sides = [side for y in (x, *addends) if (side := _numbers(y, dtype)) is not None]
    if len(sides) < 1 + len(addends):
        return None
    cupy = import_cupy()
    if pointers.dtype != indices.dtype:
        pointers, indices = (part.astype(np.int64) for part in (pointers, indices))
    pointers, indices, values = map(cupy.ascontiguousarray, (pointers, indices, values))
    stored, tail = min(len(indices), len(values)), x.shape[1:]
    kinds = indices.dtype, values.dtype, sides[0].dtype, sides[-1].dtype, dtype
    launch, grid, sizes = _prepared(matrix.shape, stored, tail, matrix.conjugate, kinds)
    out = cupy.ndarray((matrix.shape[0], *tail), dtype)
    invalid = _invalid(out.data.device_id)
    _raise_invalid(invalid)
    initial = sides[1] if addends else np.uint64(0)
    launch(grid, (_THREADS,), (pointers, indices, values, sides[0], initial, out, sizes, invalid.address))
    where = (out.data.device_id, pointers.data.ptr, indices.data.ptr, stored, matrix.shape, indices.dtype)
    if where not in _in_range:
        cupy.cuda.get_current_stream().synchronize()
        _raise_invalid(invalid)
        if where[1:3] == tuple([part.data.ptr for part in matrix.indices]):  # no copies, which are gone soon
            if len(_in_range) >= _REMEMBERED:
                _in_range.clear()
            _in_range.add(where)
    return out


@lru_cache(1024)
def _prepared(
    shape: tuple[int, int], stored: int, tail: tuple[int, ...], conjugate: bool, kinds: tuple[np.dtype, ...]
) -> tuple[Instance, tuple[int], SparseSizes]:
    """Return the kernel of a product, its grid, and what it is told of it.

    tail : what comes after the rows in the result's shape. kinds : dtypes, as of `_constants`.
    """
    k = prod(tail) * (2 if kinds[-1].kind == "c" else 1)
    lanes = _lanes(stored / max(1, shape[0]), shape[0], k)
    wide = max((2 if kinds[1].kind == "c" else 1) * stored, shape[1] * k) > _FURTHEST
    launch = _ADD_ROWS.instance(**_constants(lanes, wide, k == 1, kinds))
    sign = -1.0 if conjugate else 1.0
    sizes = SparseSizes(rows=shape[0], width=shape[1], stored=stored, columns=k, imaginary=sign)
    grid = (-(-shape[0] * k * lanes // _THREADS),)
    return launch, grid, sizes


def _lanes(mean: float, rows: int, k: int) -> int:
    """Return how many threads share an element, of rows of so many entries on average."""
    if k >= 8:  # neighbouring threads have neighbouring columns
        return 1
    most = min(mean / _EACH, 16) if rows * k * 8 >= _ENOUGH else mean / 2
    return max(n for n in _LANES if n == 1 or n <= most)


def _numbers(x: Array, dtype: np.dtype) -> Array | None:
    """Return numbers as the kernel reads them; with both parts if the result has two. None if they are wider.

    dtype : of the result.
    """
    if x.dtype not in _NUMBERS:
        if x.dtype.kind in "iu" and x.dtype.itemsize == 8:
            return None
        x = to_float64(x)
    cupy = import_cupy()
    if dtype.kind == "c" and x.dtype.kind != "c":
        both = cupy.zeros((*x.shape, 2), x.dtype)
        both[..., 0] = x
        return both
    return cupy.ascontiguousarray(x)
