"""Sums of the rows of sparse products on a GPU: a kernel over rows and columns, and one for what it leaves.

A call waits for the device when it is the first with these indices, and raises an error if one is out of
range. Later ones do not: an index that has become so since gives NaN, and the next call raises the error.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache, lru_cache
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from multiword.engines.machine import multiprocessors
from multiword.formats import FORMATS
from multiword.runtime.arrays import Array, import_cupy, to_float64
from multiword.runtime.kernels import Instance, Kernel, Struct, members
from multiword.runtime.memory import empty_result
from multiword.runtime.readback import Readback
from ozaki.sparse.matrices import Matrix, out_of_range
from ozaki.sums.exact.extraction import TINY
from ozaki.sums.exact.fixed_point import FLAG_CONSTANTS, DigitRange

_THREADS, _EXACT_THREADS, _BLOCKS = 256, 128, 8
"""Of a block of each kernel, and blocks of the second for each multiprocessor."""

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


def _kinds(
    index: np.dtype, value: np.dtype, x: np.dtype, addend: np.dtype, result: np.dtype
) -> dict[str, Any]:
    return {
        "INDEX": _INDICES[index],
        "VALUE": _NUMBERS[value],
        "X": _NUMBERS[x],
        "ADDEND": _NUMBERS[addend],
        "RESULT": _NUMBERS[result],
        "PARTS": 2 if value.kind == "c" else 1,
    }


def _constants(lanes: int, wide: bool, vector: bool, kinds: Sequence[np.dtype]) -> dict[str, Any]:
    form = {"LANES": lanes, "OFFSET": "long long" if wide else "int", "VECTOR": int(vector)}
    return {**_kinds(*kinds), **form, **LIMITS}


def _exact_constants(kinds: Sequence[np.dtype]) -> dict[str, Any]:
    target = FORMATS["fp64" if _NUMBERS[kinds[-1]] == "double" else "fp32"]
    digits = {"DIGITS": _DIGITS.digits, "LOWEST": f"({_DIGITS.exponent})", "BELOW": 0, "ABOVE": 0}
    formats = {"RESULT_PRECISION": target.precision, "RESULT_SMALLEST": f"({target.last_place})"}
    flags = {**FLAG_CONSTANTS, "INVALID": "256u"}
    return {**_kinds(*kinds), **digits, **formats, **flags, "THREADS": _EXACT_THREADS}


class SparseSizes(Struct):
    """`sizes.cuh`."""

    _fields_ = (
        *members(ctypes.c_longlong, "rows", "width", "stored", "columns"),
        ("imaginary", ctypes.c_double),
    )


_INSTANCES = tuple(
    (_constants(lanes, wide, vector, dtypes), _exact_constants(dtypes))
    for lanes, wide, vector, kinds in (
        (1, False, True, "idddd"),
        (2, True, True, "lfddd"),
        (4, False, False, "iffff"),
        (8, True, False, "iDDDD"),
        (32, False, False, "ldDDD"),
        (1, False, False, "iFFFF"),
    )
    for dtypes in [tuple(map(np.dtype, kinds))]
)
_ADD_ROWS = Kernel(
    "add_sparse_rows",
    Path(__file__).with_name("rows.cu"),
    tuple(constants for constants, _ in _INSTANCES),
    (SparseSizes,),
    equals="ozaki.definition.sums.rounded_dot",
)
_ADD_EXACTLY = Kernel(
    "add_sparse_rows_exactly",
    Path(__file__).with_name("rows_exactly.cu"),
    tuple(constants for _, constants in _INSTANCES),
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


class _Operands(NamedTuple):
    """What both kernels read, as they read it; no addend is a null pointer."""

    pointers: Array
    indices: Array
    values: Array
    x: Array
    initial: Any


class _Launches(NamedTuple):
    """The kernels of a product, the grid of the first, and what both are told of it, as CuPy passes it."""

    add: Instance
    exactly: Instance
    grid: tuple[int]
    sizes: np.ndarray


def rows_on_device(matrix: Matrix, x: Array, addends: Sequence[Array], dtype: np.dtype) -> Array | None:
    """Return initial + A·x in a dtype, each element rounded once.

    None where entries do not lie row by row, or numbers are not of the kernel's dtypes.

    x : (n,) or (n, k). addends : nothing, or an array of the result's shape. dtype : one of the four of
        results. ValueError for an index out of range, in this call or in an earlier one.
    """
    if (operands := _operands(matrix, x, addends, dtype)) is None:
        return None
    pointers, indices, values, numbers, initial = operands
    device, tail = values.data.device_id, x.shape[1:]
    stored = min(len(indices), len(values))
    kinds = indices.dtype, values.dtype, numbers.dtype, (initial if addends else numbers).dtype, dtype
    add, exactly, grid, sizes = _prepared(matrix.shape, stored, tail, matrix.conjugate, kinds)
    out = empty_result(x, (matrix.shape[0], *tail), dtype)
    invalid = _invalid(device)
    _raise_invalid(invalid)
    add(grid, (_THREADS,), (*operands, out, sizes, invalid.address))
    exactly((_BLOCKS * multiprocessors(),), (_EXACT_THREADS,), (*operands, out, sizes))
    where = (device, pointers.data.ptr, indices.data.ptr, stored, matrix.shape, indices.dtype)
    if where not in _in_range:
        import_cupy().cuda.get_current_stream().synchronize()
        _raise_invalid(invalid)
        if where[1:3] == tuple([part.data.ptr for part in matrix.indices]):  # no copies, which are gone soon
            if len(_in_range) >= _REMEMBERED:
                _in_range.clear()
            _in_range.add(where)
    return out


def _operands(matrix: Matrix, x: Array, addends: Sequence[Array], dtype: np.dtype) -> _Operands | None:
    values, (pointers, indices) = matrix.values, matrix.indices
    if not matrix.row_by_row or values.dtype not in _NUMBERS:
        return None
    sides = [side for y in (x, *addends) if (side := _numbers(y, dtype)) is not None]
    if len(sides) < 1 + len(addends):
        return None
    if pointers.dtype != indices.dtype:
        pointers, indices = (part.astype(np.int64) for part in (pointers, indices))
    pointers, indices, values = map(import_cupy().ascontiguousarray, (pointers, indices, values))
    return _Operands(pointers, indices, values, sides[0], sides[1] if addends else np.uint64(0))


@lru_cache(1024)
def _prepared(
    shape: tuple[int, int],
    stored: int,
    tail: tuple[int, ...],
    conjugate: bool,
    kinds: tuple[np.dtype, ...],
) -> _Launches:
    """Return how a product is launched.

    tail : what comes after the rows in the result's shape. kinds : dtypes, as of `_kinds`.
    """
    k = prod(tail) * (2 if kinds[-1].kind == "c" else 1)
    lanes = _lanes(stored / max(1, shape[0]), shape[0], k)
    wide = max((2 if kinds[1].kind == "c" else 1) * stored, shape[1] * k) > _FURTHEST
    add = _ADD_ROWS.instance(**_constants(lanes, wide, k == 1, kinds))
    exactly = _ADD_EXACTLY.instance(**_exact_constants(kinds))
    sign = -1.0 if conjugate else 1.0
    sizes = SparseSizes(rows=shape[0], width=shape[1], stored=stored, columns=k, imaginary=sign)
    grid = (-(-shape[0] * k * lanes // _THREADS),)
    return _Launches(add, exactly, grid, sizes.value)


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
