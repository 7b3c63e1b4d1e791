"""Where the matrices of a call lie in device memory, in the terms that kernels and cuBLAS use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from math import gcd, prod
from typing import Any

import numpy as np

from multiword.batched.gpu.plans import Case, Layout
from multiword.batched.problem import Problem, Stack
from multiword.runtime.arrays import Array, import_cupy, overlap

Launcher = Callable[[Any, Any, Any, Any], None]
"""What computes a batch, given where A, B, C (or anything) and the result are."""


@dataclass(frozen=True)
class Storage:
    """A stack in device memory: its layout, its address, and what keeps it alive."""

    layout: Layout
    address: int
    owner: Any


@dataclass(frozen=True)
class Call:
    """A problem with every stack's place in memory known, and rows of the result contiguous.

    `transposed`: it is the transposed problem, B before A, because the result's columns were.
    """

    case: Case
    a: Storage
    b: Storage
    c: Storage | None
    out: Storage
    problem: Problem
    transposed: bool

    @property
    def addresses(self) -> tuple[int, int, int, int]:
        """Where A, B, C (or the result, if there is no C) and the result are."""
        return self.a.address, self.b.address, (self.c or self.out).address, self.out.address


def place(problem: Problem, result: Array) -> Call:
    """Place every stack; a result stored by columns is that of the transposed problem."""
    layout = describe(result, problem.complex, problem.batch)
    assert layout is not None  # `result_array` saw to it
    transposed = not layout.by_rows
    if transposed:
        axes = (-3, -2) if problem.complex else (-2, -1)
        c = None if problem.c is None else problem.c.swapaxes(*axes)
        problem = replace(problem, a=problem.b.T, b=problem.a.T, c=c, out=None)
        result = result.swapaxes(*axes)
        layout = replace(layout, by_rows=True)
    a, b = store(problem.a, problem.batch), store(problem.b, problem.batch)
    out, c = Storage(layout, result.data.ptr, result), _addend(problem, layout, result)
    m, n, k = problem.mnk
    case = Case(
        *(m, n, k, prod(problem.batch), problem.complex, problem.word != np.float16),
        *(problem.accumulate == "fp16", problem.a.conjugate, problem.b.conjugate),
        alpha=0 if problem.alpha == 1 else 1 if isinstance(problem.alpha, float) else 2,
        beta=0 if c is None else 1 if isinstance(problem.beta, float) else 2,
        a=a.layout,
        b=b.layout,
        c=None if c is None else c.layout,
        out=layout,
        in_phase=c is None or (c.address - out.address) % 16 == 0,
    )
    return Call(case, a, b, c, out, problem, transposed)


def _addend(problem: Problem, out: Layout, result: Array) -> Storage | None:
    """C, stored by rows."""
    if problem.c is None:
        return None
    if (problem.c.data.ptr, problem.c.strides) == (result.data.ptr, result.strides):
        return Storage(out, result.data.ptr, result)
    found = store_array(problem.c, problem.complex, problem.batch)
    if found.layout.by_rows:
        return found
    return store_array(problem.xp.ascontiguousarray(problem.c), problem.complex, problem.batch)


def result_array(problem: Problem) -> Array:
    """`out`, if it can be written to while the operands are still read; otherwise a new array."""
    out, xp = problem.out, problem.xp
    if out is None:
        return xp.empty(problem.stored_shape, problem.word)
    read = [
        y for s in (problem.a, problem.b) for y in (s.arrays if isinstance(s.arrays, tuple) else [s.arrays])
    ]
    if problem.c is not None and (problem.c.data.ptr, problem.c.strides) != (out.data.ptr, out.strides):
        read.append(problem.c)
    layout = describe(out, problem.complex, problem.batch)
    moves = layout is not None and (layout.stride > 0 or prod(problem.batch) == 1)
    if moves and not any(overlap(x, out) for x in read):
        return out
    return xp.empty(problem.stored_shape, problem.word)


def store(stack: Stack, batch: tuple[int, ...]) -> Storage:
    """Return the stack as it lies, or of a copy in rows where no layout describes it."""
    if isinstance(stack.arrays, tuple):
        listed = _store_list(stack.arrays, stack.complex) if batch == (len(stack.arrays),) else None
        return listed or store_array(import_cupy().stack(stack.arrays), stack.complex, batch)
    return store_array(stack.arrays, stack.complex, batch)


def store_array(x: Array, is_complex: bool, batch: tuple[int, ...]) -> Storage:
    """Return one array as a stack of `batch` matrices, copied only if it has to be."""
    found = describe(x, is_complex, batch)
    if found is None:
        x = x.copy(order="C")
        found = describe(x, is_complex, batch)
    if found is None:  # an irregular broadcast of the batch axes
        xp = import_cupy()
        x = xp.ascontiguousarray(xp.broadcast_to(x, (*batch, *x.shape[-2 - is_complex :])))
        found = describe(x, is_complex, batch)
    if found is None:
        raise ValueError(f"matrices must have rows of fewer than 2**31 entries, got shape {x.shape}")
    return Storage(found, x.data.ptr, x)


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
    """(leading dimension, by rows) of one matrix."""
    (rows, columns), (down, across) = shape, steps
    if (across == 1 or columns == 1) and (down >= columns or rows == 1):
        return (max(down, columns, 1) if rows > 1 else max(columns, 1)), True
    if (down == 1 or rows == 1) and (across >= rows or columns == 1):
        return (max(across, rows, 1) if columns > 1 else max(rows, 1)), False
    return None


def _merged(shape: tuple[int, ...], steps: list[int], batch: tuple[int, ...]) -> int | None:
    """The one stride that walks through all the batch's axes, 0 if none of them moves."""
    padded = [1] * (len(batch) - len(shape)) + list(shape)
    walked = [0] * (len(batch) - len(shape)) + list(steps)
    axes = [(n, 0 if own == 1 else s) for n, own, s in zip(batch, padded, walked, strict=True) if n != 1]
    if all(s == 0 for _, s in axes):
        return 0
    for (_, outer), (n, inner) in pairwise(axes):
        if outer != n * inner:
            return None
    return axes[-1][1]


def _store_list(arrays: tuple[Array, ...], is_complex: bool) -> Storage | None:
    """Separate matrices of one layout, or None if their layouts differ."""
    layouts = [describe(x, is_complex, ()) for x in arrays]
    first = layouts[0]
    if first is None or any(
        y is None or (y.leading, y.by_rows) != (first.leading, first.by_rows) for y in layouts
    ):
        return None
    alignment = gcd(*(y.alignment for y in layouts if y is not None))
    pointers = import_cupy().asarray(np.array([x.data.ptr for x in arrays], np.uint64))
    layout = Layout(0, first.leading, first.by_rows, True, alignment)
    return Storage(layout, pointers.data.ptr, (pointers, arrays))


def addresses(storage: Storage, batch: tuple[int, ...], entry_size: int) -> Any:
    """The address of every matrix, a uint64 array on the device."""
    if storage.layout.listed:
        return storage.owner[0]
    steps = import_cupy().arange(prod(batch), dtype=np.uint64)
    return steps * np.uint64(storage.layout.stride * entry_size) + np.uint64(storage.address)
