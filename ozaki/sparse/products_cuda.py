"""Sums of the rows of sparse products on a GPU: one kernel over rows and columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, import_cupy, to_float64
from multiword.runtime.kernels import Instance, Kernel
from multiword.runtime.readback import Readback
from ozaki.sparse.limits import LONGEST, UNDERFLOW
from ozaki.sparse.matrices import Matrix, out_of_range
from ozaki.sums.exact.extraction import TINY

_THREADS = 256
_INDICES = {np.dtype(np.int32): "int", np.dtype(np.int64): "long long"}
_NUMBERS = {
    np.dtype(kind): "float" if kind in (np.float32, np.complex64) else "double"
    for kind in (np.float32, np.float64, np.complex64, np.complex128)
}
"""What the kernel reads, and the type of its parts."""

_LANES = (1, 2, 4, 8, 32)
_ENOUGH = 1 << 18
"""Threads that keep a GPU busy: with so many, each takes more entries, and there is less to merge."""


LIMITS = {"TINY": repr(TINY), "UNDERFLOW": repr(UNDERFLOW), "LONGEST": LONGEST}
"""Constants of `enclosure.cuh`."""


def _constants(
    lanes: int, index: np.dtype, value: np.dtype, x: np.dtype, addend: np.dtype, result: np.dtype
) -> dict[str, Any]:
    return {
        "INDEX": _INDICES[index],
        "VALUE": _NUMBERS[value],
        "X": _NUMBERS[x],
        "ADDEND": _NUMBERS[addend],
        "RESULT": _NUMBERS[result],
        "PARTS": 2 if value.kind == "c" else 1,
        "LANES": lanes,
        **LIMITS,
    }


_ADD_ROWS = Kernel(
    "add_sparse_rows",
    Path(__file__).with_name("rows.cu"),
    tuple(
        _constants(lanes, *map(np.dtype, kinds))
        for lanes, kinds in (
            (1, "idddd"),
            (2, "lfddd"),
            (4, "iffff"),
            (8, "iDDDD"),
            (32, "ldDDD"),
            (1, "iFFFF"),
        )
    ),
    equals="ozaki.definition.sums.rounded_dot",
)

_flags: defaultdict[int, list[Readback]] = defaultdict(list)
"""By device: zeros for the kernel's flags, of no call that is under way."""


def rows_on_device(
    matrix: Matrix, x: Array, addends: Sequence[Array], dtype: np.dtype
) -> tuple[Array, bool] | None:
    """Return initial + A·x in a dtype, NaN where that is undecided, and whether any of it is.

    None where entries do not lie row by row, or numbers are not of the kernel's dtypes.

    x : (n,) or (n, k). addends : nothing, or an array of the result's shape. dtype : one of the four of
        results. ValueError for an index out of range.
    """
    values, (pointers, indices) = matrix.values, matrix.indices
    if not matrix.row_by_row or values.dtype not in _NUMBERS:
        return None
    sides = [side for y in (x, *addends) if (side := _numbers(y, dtype)) is not None]
    if len(sides) < 1 + len(addends):
        return None
    cupy, addend = import_cupy(), sides[-1].dtype
    if pointers.dtype != indices.dtype:
        pointers, indices = (part.astype(np.int64) for part in (pointers, indices))
    pointers, indices, values = map(cupy.ascontiguousarray, (pointers, indices, values))
    stored, tail = min(len(indices), len(values)), x.shape[1:]
    kinds = indices.dtype, values.dtype, sides[0].dtype, addend, dtype
    launch, grid, numbers = _prepared(matrix.shape, stored, tail, matrix.conjugate, kinds)
    out = cupy.ndarray((matrix.shape[0], *tail), dtype)
    free = _flags[out.data.device_id]
    flags = free.pop() if free else Readback(2, np.uint32)
    initial = sides[1] if addends else np.uint64(0)
    launch(grid, (_THREADS,), (pointers, indices, values, sides[0], initial, out, *numbers, flags.address))
    flags.send()
    seen = flags.look()
    undecided, invalid = seen.tolist()
    seen[:] = 0
    free.append(flags)
    if invalid:
        raise out_of_range()
    return out, bool(undecided)


@lru_cache(1024)
def _prepared(
    shape: tuple[int, int], stored: int, tail: tuple[int, ...], conjugate: bool, kinds: tuple[np.dtype, ...]
) -> tuple[Instance, tuple[int], list[Any]]:
    """Return the kernel of a product, its grid, and the numbers among its arguments.

    tail : what comes after the rows in the result's shape. kinds : dtypes, as of `_constants`.
    """
    k = prod(tail) * (2 if kinds[-1].kind == "c" else 1)
    lanes = _lanes(stored, shape[0], k)
    sizes = [np.int64(n) for n in (*shape, stored, k)]
    instance = _ADD_ROWS.instance(**_constants(lanes, *kinds))
    return instance, (-(-shape[0] * k * lanes // _THREADS),), [*sizes, np.float64(-1.0 if conjugate else 1.0)]


def _lanes(entries: int, rows: int, k: int) -> int:
    """Return how many threads share an element."""
    if k >= 8:  # neighbouring threads have neighbouring columns
        return 1
    most = entries / max(1, rows) / 2
    if rows * k * 8 >= _ENOUGH:
        most = min(most, 8)
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
