"""A call on stacks as they lie in device memory, copied only if no layout describes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import gcd, prod
from typing import Any

import numpy as np

from multiword.batched.gpu.plans import Case
from multiword.batched.problem import Problem, Stack
from multiword.engines.layouts import Layout, Storage, describe, store_array
from multiword.runtime.arrays import Array, import_cupy, overlap

Launcher = Callable[[Any, Any, Any, Any], None]
"""Computes a batch, given the addresses of A, B, C (or anything) and the result."""


@dataclass(frozen=True)
class Call:
    """A problem on stacks as they lie in memory; `transposed`: with B before A, for a result by columns."""

    case: Case
    a: Storage
    b: Storage
    c: Storage | None
    out: Storage
    problem: Problem
    transposed: bool

    @property
    def addresses(self) -> tuple[int, int, int, int]:
        """Of A, B, C (or the result, if there is no C) and the result."""
        return self.a.address, self.b.address, (self.c or self.out).address, self.out.address


def lay_out(problem: Problem, result: Array) -> Call:
    """Return the call on the stacks as they lie; a result by columns is that of the transposed problem."""
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
    """Return C, stored by rows."""
    if problem.c is None:
        return None
    if (problem.c.data.ptr, problem.c.strides) == (result.data.ptr, result.strides):
        return Storage(out, result.data.ptr, result)
    stored = store_array(problem.c, problem.complex, problem.batch)
    if stored.layout.by_rows:
        return stored
    return store_array(problem.xp.ascontiguousarray(problem.c), problem.complex, problem.batch)


def result_array(problem: Problem) -> Array:
    """Return `out`, if it can be written to while the operands are read; otherwise a new array."""
    out, xp = problem.out, problem.xp
    if out is None:
        return xp.empty(problem.stored_shape, problem.word)
    read = [x for s in (problem.a, problem.b) for x in (s.arrays if s.listed else [s.arrays])]
    if problem.c is not None and (problem.c.data.ptr, problem.c.strides) != (out.data.ptr, out.strides):
        read.append(problem.c)
    layout = describe(out, problem.complex, problem.batch)
    distinct = layout is not None and (layout.stride > 0 or prod(problem.batch) == 1)
    if distinct and not any(overlap(x, out) for x in read):
        return out
    return xp.empty(problem.stored_shape, problem.word)


def store(stack: Stack, batch: tuple[int, ...]) -> Storage:
    """Return the stack as it lies, or a copy in rows where no layout describes it."""
    if stack.listed:
        listed = _store_list(stack.arrays, stack.complex) if batch == (len(stack.arrays),) else None
        return listed or store_array(import_cupy().stack(stack.arrays), stack.complex, batch)
    return store_array(stack.arrays, stack.complex, batch)


def _store_list(arrays: tuple[Array, ...], is_complex: bool) -> Storage | None:
    """Return separate matrices of one layout, or None if their layouts differ."""
    layouts = [layout for x in arrays if (layout := describe(x, is_complex, ()))]
    if len(layouts) < len(arrays) or len({(x.leading, x.by_rows) for x in layouts}) > 1:
        return None
    pointers = import_cupy().asarray(np.array([x.data.ptr for x in arrays], np.uint64))
    layout = replace(layouts[0], stride=0, listed=True, alignment=gcd(*(x.alignment for x in layouts)))
    return Storage(layout, pointers.data.ptr, (pointers, arrays))
