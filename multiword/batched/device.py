"""Batched products on a GPU: the result's place, the way that is chosen, the launch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from math import prod
from typing import Any

import numpy as np

from multiword.batched import gemm, host
from multiword.batched.choices import choose
from multiword.batched.plans import PARAMETERS, Blocking, Case, Plan, plan_tiled, plan_whole
from multiword.batched.problem import Problem
from multiword.batched.storage import Layout, Storage, describe, overlap, store, store_array
from multiword.batched.tiled import TILED
from multiword.batched.whole import WHOLE
from multiword.runtime.arrays import Array, import_cupy

FALLBACKS = (Blocking("whole"), Blocking("tiled", tile_m=2, tile_n=2))
"""For cases that the chosen blocking does not fit; the last one runs every case."""

Launch = Callable[[Any, Any, Any, Any], None]
"""What computes a batch, given where A, B, C (or anything) and the result are."""


@dataclass(frozen=True)
class Call:
    """A problem with every stack's place in memory known, and rows of the result contiguous."""

    case: Case
    a: Storage
    b: Storage
    c: Storage | None
    out: Storage
    problem: Problem

    @property
    def addresses(self) -> tuple[int, int, int, int]:
        """Where A, B, C (or the result, if there is no C) and the result are."""
        return self.a.address, self.b.address, (self.c or self.out).address, self.out.address


def multiply(problem: Problem, blocking: Blocking | None = None) -> tuple[Array, Call | None, Launch | None]:
    """Return the result of `stored_shape`, in `problem.out` if that is given.

    With it come the call and the launch that computed it, if one launch was all there was to do.
    """
    with problem.a.first.device:
        result = _result_array(problem)
        call = launch = None
        if problem.alpha == 0 or problem.mnk[2] == 0:
            zero = problem.xp.zeros(problem.stored_shape, np.float32)
            result[...] = host.scaled(problem, zero).astype(problem.word)
        elif result.size:
            call = place(problem, result)
            launch = launch_of(call, blocking)
            if launch is None:
                gemm.multiply(call)
            else:
                launch(*call.addresses)
        if problem.out is None or result is problem.out:
            return result, call, launch
        problem.out[...] = result
        return problem.out, None, None


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


def launch_of(call: Call, blocking: Blocking | None = None) -> Launch | None:
    """The launch for a call, in the way asked for or chosen from measurements; None: not by one launch."""
    chosen = blocking or choose(call.case)
    if chosen.way == "cublas":
        return gemm.launch_of(call)
    attempts = (chosen, replace(chosen, direct=False), *(() if blocking else FALLBACKS))
    for attempt in attempts:
        function, plan = compiled(call.case, attempt)
        if plan is not None:
            return _kernel_launch(function, plan, parameters(call, plan))
    raise ValueError(f"{chosen} does not fit m, n, k = {call.case.m}, {call.case.n}, {call.case.k}")


def _kernel_launch(function: Any, plan: Plan, parameters: np.ndarray) -> Launch:
    grid, threads, kernel = (plan.grid,), (plan.threads,), function.kernel

    def launch(a: Any, b: Any, c: Any, out: Any) -> None:
        kernel(grid, threads, (a, b, c, out, parameters), plan.shared)

    return launch


def compiled(case: Case, blocking: Blocking) -> tuple[Any, Plan | None]:
    """The kernel for a case on the current device, and its launch; None if it does not fit."""
    return _compiled(case, blocking, import_cupy().cuda.runtime.getDevice())


@lru_cache(maxsize=4096)
def _compiled(case: Case, blocking: Blocking, device: int) -> tuple[Any, Plan | None]:
    processors, limit = device_limits(device)
    if blocking.way == "tiled":
        kernel, plan = TILED, plan_tiled(case, blocking, processors, limit)
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


def parameters(call: Call, plan: Plan) -> np.ndarray:
    """What the kernels are passed by value: an array of one element, the C structure."""
    places = [x.layout for x in (call.a, call.b, call.c or call.out, call.out)]
    kind = np.float16 if call.case.acc16 else np.float32
    scalars = [part for x in (call.problem.alpha, call.problem.beta) for part in (np.real(x), np.imag(x))]
    sizes = (*plan.sizes, *[0] * (4 - len(plan.sizes)))
    with np.errstate(over="ignore"):
        rounded = [kind(x) for x in scalars]
    fields = ([x.stride for x in places], [x.leading for x in places], sizes, rounded)
    # As plain bytes: CuPy asks for an argument's description at every launch.
    return np.array([fields], PARAMETERS).view(np.dtype((np.void, PARAMETERS.itemsize)))
