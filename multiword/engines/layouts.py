"""How stacks of matrices lie in device memory, in the terms that cuBLAS and the batched kernels take."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import gcd
from typing import Any

from multiword.runtime.arrays import Array, import_cupy


@dataclass(frozen=True)
class Layout:
    """How a stack of matrices is stored; counts are of entries (pairs, if complex).

    Attributes
    ----------
    stride : from one matrix to the next; 0 if all share one.
    leading : from one stored row (or column) to the next.
    by_rows : whether rows are contiguous, rather than columns.
    listed : whether the matrices lie anywhere, behind a list of addresses.
    alignment : the largest power of two up to 16 that divides the address of the first matrix,
        or of every listed one, in bytes.
    """

    stride: int
    leading: int
    by_rows: bool
    listed: bool
    alignment: int


@dataclass(frozen=True)
class Storage:
    """A stack in device memory: its layout and address, and the arrays that own it."""

    layout: Layout
    address: int
    owner: Any


def store_array(x: Array, is_complex: bool, batch: tuple[int, ...]) -> Storage:
    """Return one array as a stack of `batch` matrices, copied only if it has to be."""
    layout = describe(x, is_complex, batch)
    if layout is None:
        x = x.copy(order="C")
        layout = describe(x, is_complex, batch)
    if layout is None:  # an irregular broadcast of the batch axes
        xp = import_cupy()
        x = xp.ascontiguousarray(xp.broadcast_to(x, (*batch, *x.shape[-2 - is_complex :])))
        layout = describe(x, is_complex, batch)
    if layout is None:
        raise ValueError(f"matrices must have rows of fewer than 2**31 entries, got shape {x.shape}")
    return Storage(layout, x.data.ptr, x)


def describe(x: Array, is_complex: bool, batch: tuple[int, ...]) -> Layout | None:
    """Return the layout of an array without copying it, or None if it has none."""
    size = x.itemsize * (1 + is_complex)
    strides = x.strides[:-1] if is_complex else x.strides
    shape = x.shape[:-1] if is_complex else x.shape
    if any(s % size or s < 0 for s in strides) or x.data.ptr % size:
        return None
    if is_complex and x.strides[-1] != x.itemsize:
        return None
    steps = [s // size for s in strides]
    stride = _merged(shape[:-2], steps[:-2], batch)
    plane = _plane(shape[-2:], steps[-2:])
    if stride is None or plane is None or plane[0] >= 2**31:  # kernels and cuBLAS take an int
        return None
    return Layout(stride, *plane, False, gcd(16, x.data.ptr))


def _plane(shape: tuple[int, ...], steps: list[int]) -> tuple[int, bool] | None:
    """Return the leading dimension of a matrix, and whether it is stored by rows; None for other strides."""
    (rows, columns), (down, across) = shape, steps
    if (across == 1 or columns == 1) and (down >= columns or rows == 1):
        return (max(down, columns, 1) if rows > 1 else max(columns, 1)), True
    if (down == 1 or rows == 1) and (across >= rows or columns == 1):
        return (max(across, rows, 1) if columns > 1 else max(rows, 1)), False
    return None


def _merged(shape: tuple[int, ...], steps: list[int], batch: tuple[int, ...]) -> int | None:
    """Return the one stride of all the batch's axes, 0 if one matrix serves all; None if there is none."""
    missing = len(batch) - len(shape)
    own = zip([1] * missing + list(shape), [0] * missing + list(steps), strict=True)
    axes = [(n, 0 if size == 1 else step) for n, (size, step) in zip(batch, own, strict=True) if n != 1]
    if all(s == 0 for _, s in axes):
        return 0
    for (_, outer), (n, inner) in pairwise(axes):
        if outer != n * inner:
            return None
    return axes[-1][1]
