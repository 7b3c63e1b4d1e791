"""Batched products on a GPU: the result's place, the way that is chosen, the launch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, lru_cache
from math import prod
from typing import Any

import numpy as np

from multiword._arrays import Array, import_cupy
from multiword.batched import _gemm, _host
from multiword.batched._choices import choose
from multiword.batched._plans import Blocking, Case, Plan, plan_tiled, plan_whole
from multiword.batched._problem import Problem
from multiword.batched._storage import Layout, Storage, describe, overlap, store, store_array
from multiword.batched._tiled import TILED
from multiword.batched._whole import WHOLE

FALLBACKS = (Blocking("whole"), Blocking("tiled", tile_m=2, tile_n=2))
"""For cases that the chosen blocking does not fit; the last one runs every case."""


@dataclass(frozen=True)
class Call:
    """A problem with every stack's place in memory known, and rows of the result contiguous."""

    case: Case
    a: Storage
    b: Storage
    c: Storage | None
    out: Storage
    problem: Problem


def multiply(problem: Problem, blocking: Blocking | None = None) -> Array:
    """Return the result of `stored_shape`, in `problem.out` if that is given."""
    with problem.a.first.device:
        result = _result_array(problem)
        if problem.alpha == 0 or problem.mnk[2] == 0:
            zero = problem.xp.zeros(problem.stored_shape, np.float32)
            result[...] = _host.scaled(problem, zero).astype(problem.word)
        elif result.size:
            _run(place(problem, result), blocking)
        if problem.out is None or result is problem.out:
            return result
        problem.out[...] = result
        return problem.out


def _result_array(problem: Problem) -> Array:
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


def place(problem: Problem, result: Array) -> Call:
    """Place every stack; a result stored by columns is that of the transposed problem."""
    layout = describe(result, problem.complex, problem.batch)
    assert layout is not None  # `_result_array` saw to it
    if not layout.by_rows:
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
    return Call(case, a, b, c, out, problem)


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


def _run(call: Call, blocking: Blocking | None) -> None:
    """Compute a call in the way asked for, or chosen from measurements."""
    chosen = blocking or choose(call.case)
    if chosen.way == "cublas":
        _gemm.multiply(call)
        return
    attempts = (chosen,) if blocking else (chosen, *FALLBACKS)
    for attempt in attempts:
        function, plan = compiled(call.case, attempt)
        if plan is not None:
            function((plan.grid,), (plan.threads,), _arguments(call, plan), shared_mem=plan.shared)
            return
    raise ValueError(f"{chosen} does not fit m, n, k = {call.case.m}, {call.case.n}, {call.case.k}")


def compiled(case: Case, blocking: Blocking) -> tuple[Any, Plan | None]:
    """The kernel for a case on the current device, and its launch; None if it does not fit."""
    return _compiled(case, blocking, import_cupy().cuda.runtime.getDevice())


@lru_cache(maxsize=4096)
def _compiled(case: Case, blocking: Blocking, device: int) -> tuple[Any, Plan | None]:
    processors, limit = device_limits(device)
    if blocking.way == "tiled":
        kernel, plan = TILED, plan_tiled(case, blocking, limit)
    else:
        kernel, plan = WHOLE, plan_whole(case, blocking, processors, limit)
    if plan is None:
        return None, None
    function = kernel.compiled(**dict(plan.constants))
    # Plans share functions: the allowance only ever grows.
    if plan.shared > function.max_dynamic_shared_size_bytes:
        function.max_dynamic_shared_size_bytes = plan.shared
    return function, plan


@cache
def device_limits(device: int) -> tuple[int, int]:
    """(multiprocessors, bytes of shared memory that a block may have)"""
    attributes = import_cupy().cuda.Device(device).attributes
    return attributes["MultiProcessorCount"], attributes["MaxSharedMemoryPerBlockOptin"]


def _arguments(call: Call, plan: Plan) -> tuple[Any, ...]:
    case = call.case
    places: list[Any] = []
    for x in (call.a, call.b, call.c or call.out, call.out):
        places += [np.uint64(x.address), np.int64(x.layout.stride), np.int32(x.layout.leading)]
    kind = np.float16 if case.acc16 else np.float32
    scalars = [part for x in (call.problem.alpha, call.problem.beta) for part in (np.real(x), np.imag(x))]
    with np.errstate(over="ignore"):
        return (*places, *map(np.int32, plan.sizes), *(np.float32(kind(x)) for x in scalars))
