"""What is made of pairs of entries: products of two sparse matrices, and squares of elements in parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, check_same_device, is_cupy, namespace
from ozaki.arguments import result_dtype
from ozaki.sparse.matrices import PIECE, Matrix, Piece
from ozaki.sparse.products import check_indices
from ozaki.sums.groups import group_dot, group_sum


def sparse_product(a: Any, b: Any) -> Any:
    """Return AB with the entries that SciPy's or CuPy's product has, each the exact value rounded once."""
    left, right = Matrix.of(a, "a"), Matrix.of(b, "b")
    check_same_device(a=left.values, b=right.values)
    if left.shape[1] != right.shape[0]:
        raise ValueError(f"inner dimensions differ: a is {left.shape}, b is {right.shape}")
    xp, dtype = namespace(left.values), result_dtype(left.values, right.values)
    of_left, of_right = left.together(), right.together()
    for piece, shape in ((of_left, left.shape), (of_right, right.shape)):
        check_indices(piece.rows, shape[0])
        check_indices(piece.columns, shape[1])
    pattern = a @ b if a.format == b.format == "csc" else a.tocsr() @ b.tocsr()
    result = Matrix.of(pattern.astype(dtype), "product").together()
    keys = result.rows * right.shape[1] + result.columns
    order = xp.argsort(keys)
    rows_of_right = xp.argsort(of_right.rows, kind="stable")
    of_right = Piece(*(x[rows_of_right] for x in of_right))
    counts = xp.bincount(of_right.rows, minlength=right.shape[0])
    pointers = xp.concatenate([xp.zeros(1, np.int64), xp.cumsum(counts)])
    by_row = xp.argsort(of_left.rows, kind="stable")
    of_left = Piece(*(x[by_row] for x in of_left))
    data = xp.zeros(len(keys), dtype)
    ends = xp.cumsum(counts[of_left.columns])
    start = 0
    while start < len(ends):
        done = int(ends[start - 1]) if start else 0
        end = max(start + 1, int(xp.searchsorted(ends, done + 8 * PIECE, side="right")))
        if end < len(ends):  # whole rows: each element's products are added together
            end = int(xp.searchsorted(of_left.rows, of_left.rows[end - 1], side="right"))
        some = Piece(*(x[start:end] for x in of_left))
        first, second = _pairs(counts[some.columns], pointers[some.columns])
        labels = some.rows[first] * right.shape[1] + of_right.columns[second]
        places, labels = xp.unique(labels, return_inverse=True)
        values = group_dot(some.values[first], of_right.values[second], labels, len(places), dtype)
        at = order[xp.searchsorted(keys[order], places)] if len(places) else places
        data[at] = values + dtype.type(0)
        start = end
    pattern = pattern.astype(dtype)
    pattern.data[: len(data)] = data
    return pattern


def real_entries(matrix: Matrix) -> tuple[Array, Array, Array]:
    """Return `sorted_entries` of a real matrix. TypeError for complex numbers."""
    if matrix.dtype.kind == "c":
        raise TypeError("A must be real, got a complex matrix")
    return sorted_entries(matrix)


def sorted_entries(matrix: Matrix) -> tuple[Array, Array, Array]:
    """Return pointers, columns and values of the CSR of a matrix: sorted, without duplicates.

    Each value, of float64 or complex128, is that of the element, rounded once.
    """
    rows, columns, values = matrix.together()
    check_indices(rows, matrix.shape[0])
    check_indices(columns, matrix.shape[1])
    xp, (height, width) = namespace(values), matrix.shape
    keys, labels = xp.unique(rows * width + columns, return_inverse=True)
    pointers = xp.searchsorted(keys, xp.arange(height + 1) * width)
    dtype = np.result_type(values.dtype, np.float64)
    return pointers, keys % max(1, width), group_sum(values, labels, len(keys), dtype)


def pairs_of_duplicates(matrix: Matrix) -> tuple[Array, Array]:
    """Return factors whose products add up to the squares of elements, which may lie in several entries."""
    rows, columns, values = matrix.together()
    xp, keys = namespace(values), rows * matrix.shape[1] + columns
    order = xp.argsort(keys)
    places, counts = xp.unique(keys, return_counts=True)
    if len(places) == len(keys):
        return values, values
    ends = xp.cumsum(counts)
    number = xp.searchsorted(places, keys[order])
    first, second = _pairs(counts[number], (ends - counts)[number])
    return values[order][first], values[order][second]


def _pairs(counts: Array, starts: Array) -> tuple[Array, Array]:
    """Return each index as often as its count says, and the numbers from its start on beside it."""
    xp = namespace(counts)
    ends = xp.cumsum(counts)
    every = xp.arange(int(ends[-1]) if len(ends) else 0)
    if is_cupy(counts):
        first = xp.searchsorted(ends, every, side="right")
    else:
        first = np.repeat(np.arange(len(counts)), counts)
    return first, starts[first] + (every - (ends - counts)[first])
