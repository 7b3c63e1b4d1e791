"""The kernels for batches of small matrices, and their launches.

Their NumPy form is `multiword.batched.host.multiply`; they agree with it within the bound that
`batched_matmul` states.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from multiword.batched.gpu.plans import Case, Launch, Tuning, resident_launch, tiled_launch
from multiword.batched.gpu.storage import Call, Launcher
from multiword.engines.machine import block_memory, multiprocessors
from multiword.runtime.arrays import import_cupy
from multiword.runtime.kernels import Kernel, Struct

FALLBACKS = (Tuning("resident"), Tuning("tiled", tile_m=2, tile_n=2))
"""For cases that the chosen tuning does not fit; the last one runs every case."""


class Parameters(Struct):
    """A kernel's arguments beside the addresses: `Parameters` in common.cuh."""

    _fields_: ClassVar[list] = [
        *((f"{name}_stride", ctypes.c_longlong) for name in ("a", "b", "c", "out")),
        *((f"{name}_ld", ctypes.c_int) for name in ("a", "b", "c", "out")),
        ("sizes", 4 * ctypes.c_int),
        ("scalars", 4 * ctypes.c_float),
    ]


def kernel_launcher(call: Call, tuning: Tuning, fallbacks: tuple[Tuning, ...] = FALLBACKS) -> Launcher:
    """Return what launches a kernel of ours for a call, with the first tuning that fits it."""
    for attempt in (tuning, replace(tuning, direct=False), *fallbacks):
        function, plan = compiled(call.case, attempt)
        if plan is not None:
            break
    else:
        raise ValueError(f"{tuning} does not fit m, n, k = {call.case.m}, {call.case.n}, {call.case.k}")
    kernel, parameters = function.kernel, _parameters(call, plan).value
    grid, threads, shared = (plan.grid,), (plan.threads,), plan.shared

    def launch(a: Any, b: Any, c: Any, out: Any) -> None:
        kernel(grid, threads, (a, b, c, out, parameters), shared)

    return launch


def _parameters(call: Call, plan: Launch) -> Parameters:
    kind = np.float16 if call.case.acc16 else np.float32
    scalars = [part for x in (call.problem.alpha, call.problem.beta) for part in (np.real(x), np.imag(x))]
    with np.errstate(all="ignore"):
        rounded = tuple(float(kind(x)) for x in scalars)
    stacks = {"a": call.a, "b": call.b, "c": call.c or call.out, "out": call.out}
    strides = {f"{name}_stride": x.layout.stride for name, x in stacks.items()}
    leading = {f"{name}_ld": x.layout.leading for name, x in stacks.items()}
    return Parameters(**strides, **leading, sizes=plan.sizes, scalars=rounded)


def compiled(case: Case, tuning: Tuning) -> tuple[Any, Launch | None]:
    """Return the kernel for a case on the current device, and its launch; None if it does not fit."""
    return _compiled(case, tuning, import_cupy().cuda.runtime.getDevice())


@lru_cache(maxsize=4096)
def _compiled(case: Case, tuning: Tuning, device: int) -> tuple[Any, Launch | None]:
    kernel, plan_for = (TILED, tiled_launch) if tuning.kernel == "tiled" else (RESIDENT, resident_launch)
    plan = plan_for(case, tuning, multiprocessors(), block_memory())
    if plan is None:
        return None, None
    return kernel.instance(**dict(plan.constants)).compiled(), plan


RESIDENT = Kernel(
    "batched_resident",
    Path(__file__).with_name("resident.cu"),
    structs=(Parameters,),
    equals="multiword.batched.host.multiply",
)
"""Copies the matrices of a group of products into shared memory and multiplies them there.

PLAIN: ordinary arithmetic, one row of C for each thread; otherwise tensor cores. DIRECT: nothing is
copied, operands are read from global memory. X_FLAT: the stack has no gaps and is moved at once; otherwise
rows in vectors of X_VEC bytes. X_LD and X_STRIDE are those in shared memory, X_ALIGN its alignment, all in
entries.
"""

TILED = Kernel(
    "batched_tiled",
    Path(__file__).with_name("tiled.cu"),
    structs=(Parameters,),
    equals="multiword.batched.host.multiply",
)
"""One tile of C for each block: WARPS_M × WARPS_N warps of TM × TN tensor-core tiles.

The inner dimension passes through shared memory in STAGES buffers of STEPS instructions each.
Sizes, leading dimensions and strides are free; X_VEC is the bytes of the largest aligned vectors.
"""
