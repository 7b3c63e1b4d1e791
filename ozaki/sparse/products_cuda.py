"""Sums of the rows of sparse products on a GPU: one kernel over rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, import_cupy
from multiword.runtime.kernels import Kernel
from ozaki.sparse.matrices import Matrix
from ozaki.sums.exact.extraction import TINY

_THREADS = 256
_INDICES = {"int32": "int", "int64": "long long"}
_VALUES = {"float32": "float", "float64": "double"}
_LANES = (1, 2, 4, 8, 32)

_CONSTANTS: list[dict[str, int | str]] = [
    {"INDEX": i, "VALUE": v, "PARTS": p, "LANES": n, "TINY": repr(TINY)}
    for i, v, p, n in product(_INDICES.values(), _VALUES.values(), (1, 2), _LANES)
]
_ADD_ROWS = Kernel(
    "add_sparse_rows",
    Path(__file__).with_name("rows.cu"),
    tuple(_CONSTANTS[::7]),
    equals="ozaki.definition.sums.rounded_dot",
)


def rows_on_device(
    matrix: Matrix, sides: Sequence[Sequence[Array]], shape: tuple[int, int], single: bool
) -> tuple[Array, int] | None:
    """Return the sums of rows as `products._enclosed` does; None where entries do not lie row by row.

    sides : arrays of real columns whose sum is X, and those of what is added, if anything is. None for more
        than one array of each. ValueError for an index out of range.
    """
    real = matrix.values.real.dtype.name
    if not matrix.row_by_row or real not in _VALUES or any(len(side) > 1 for side in sides):
        return None
    columns, *addends = (side[0] for side in sides)
    cupy = import_cupy()
    pointers, indices = (cupy.ascontiguousarray(x) for x in matrix.indices)
    values, out, noted = cupy.ascontiguousarray(matrix.values), cupy.empty(shape), cupy.zeros(2, np.uint32)
    initial: Any = addends[0] if addends else np.uint64(0)
    mean = matrix.entries / max(1, shape[0])
    lanes = 1 if shape[1] >= 8 else max(n for n in _LANES if n == 1 or n <= mean / 2)
    constants: dict[str, Any] = {
        "INDEX": _INDICES[indices.dtype.name],
        "VALUE": _VALUES[real],
        "PARTS": 2 if matrix.values.dtype.kind == "c" else 1,
        "LANES": lanes,
        "TINY": repr(TINY),
    }
    sizes = (np.int64(n) for n in (*matrix.shape, min(len(indices), len(values)), shape[1]))
    sign = np.float64(-1.0 if matrix.conjugate else 1.0)
    arguments = (pointers, indices, values, columns, initial, out, *sizes, sign, np.int32(single), noted)
    _ADD_ROWS((-(-out.size * lanes // _THREADS),), (_THREADS,), arguments, **constants)
    undecided, invalid = noted.get().tolist()
    if invalid:
        raise ValueError("a sparse matrix has an index out of range, or an indptr that decreases")
    return out, undecided
