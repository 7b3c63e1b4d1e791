"""The kernels for batches of small matrices, and their launches.

Their NumPy form is `multiword.batched.host.multiply`; they agree with it within the bound that
`batched_matmul` states.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from multiword.batched.gpu.plans import Case, Launch, Tuning, resident_launch, tiled_launch
from multiword.batched.gpu.storage import Call, Launcher
from multiword.engines.layouts import Layout
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
    with np.errstate(over="ignore"):
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
    plan = plan_for(case, tuning, *device_limits(device))
    if plan is None:
        return None, None
    function = kernel.compiled(**dict(plan.constants))
    # Launches share functions: the allowance only ever grows.
    if plan.shared > function.max_dynamic_shared_size_bytes:
        function.max_dynamic_shared_size_bytes = plan.shared
    return function, plan


@cache
def device_limits(device: int) -> tuple[int, int]:
    """Return the number of multiprocessors, and the bytes of shared memory that a block may have."""
    attributes = import_cupy().cuda.Device(device).attributes
    return attributes["MultiProcessorCount"], attributes["MaxSharedMemoryPerBlockOptin"]


def sample_case(m: int, n: int, k: int, **changes: Any) -> Case:
    """Return a case with packed, aligned stacks and every option off, but for the changes."""
    case: dict[str, Any] = dict.fromkeys(("complex", "bf16", "acc16", "conj_a", "conj_b"), False)
    case |= {"alpha": 0, "beta": 0, "c": None, "in_phase": True}
    case |= {"a": _rows(m * k, k, 16), "b": _rows(k * n, n, 16), "out": _rows(m * n, n, 16)}
    return Case(m, n, k, 1000, **(case | changes))


def _rows(stride: int, leading: int, alignment: int, listed: bool = False) -> Layout:
    return Layout(stride, leading, True, listed, alignment)


def _columns(stride: int, leading: int, alignment: int) -> Layout:
    return Layout(stride, leading, False, False, alignment)


_LISTED = _rows(0, 20, 2, listed=True)
_PAIRS = {"complex": True, "conj_a": True, "conj_b": True}
_REAL, _COMPLEX = {"alpha": 1, "beta": 1}, {**_PAIRS, "alpha": 2, "beta": 2}
_PLAIN = Tuning("plain", threads=64)
_RESIDENT, _DIRECT, _TILED = Tuning("resident"), Tuning("resident", direct=True), Tuning("tiled")

_RESIDENT_CASES = (
    (_RESIDENT, sample_case(16, 16, 16)),
    (
        replace(_RESIDENT, tile_m=2, tile_n=2),
        sample_case(32, 32, 32, bf16=True, alpha=1, a=_columns(1024, 32, 16)),
    ),
    (_RESIDENT, sample_case(20, 12, 20, acc16=True, beta=1, c=_rows(240, 12, 8), a=_LISTED)),
    (_RESIDENT, sample_case(7, 9, 11, **_REAL, c=_rows(63, 9, 2), b=_rows(0, 9, 2))),
    (_RESIDENT, sample_case(16, 16, 16, **_COMPLEX, c=_rows(0, 16, 16))),
    (_RESIDENT, sample_case(7, 9, 11, **_PAIRS, a=_columns(80, 7, 4), b=_columns(99, 11, 4))),
    (_RESIDENT, sample_case(8, 8, 8, acc16=True)),
    (_RESIDENT, sample_case(5, 5, 5)),
    (_RESIDENT, sample_case(4, 4, 4, **_PAIRS)),
    (_DIRECT, sample_case(16, 16, 16)),
    (_DIRECT, sample_case(7, 8, 8, **_REAL, bf16=True, c=_rows(56, 8, 16))),
    (_DIRECT, sample_case(20, 12, 20, a=_LISTED)),
    (_DIRECT, sample_case(4, 4, 4, **_PAIRS)),
    (_DIRECT, sample_case(9, 11, 5, **_PAIRS, a=_columns(45, 9, 4))),
    (replace(_PLAIN, direct=True), sample_case(4, 4, 4)),
    (replace(_PLAIN, direct=True), sample_case(3, 3, 3, **_PAIRS)),
    (_PLAIN, sample_case(8, 8, 8)),
    (_PLAIN, sample_case(3, 5, 7, **_REAL, bf16=True, c=_rows(15, 5, 2))),
    (_PLAIN, sample_case(6, 6, 6, acc16=True, a=_columns(36, 6, 4), b=_columns(40, 6, 4))),
    (_PLAIN, sample_case(4, 4, 4, **_PAIRS)),
    (_PLAIN, sample_case(5, 3, 2, **_COMPLEX, acc16=True, c=_rows(15, 3, 4))),
)

RESIDENT = Kernel(
    "batched_resident",
    Path(__file__).with_name("resident.cu"),
    instances=tuple(dict(x.constants) for t, c in _RESIDENT_CASES if (x := resident_launch(c, t, 132))),
    structs=(Parameters,),
)
"""Copies the matrices of a group of products into shared memory and multiplies them there.

PLAIN: ordinary arithmetic, one row of C for each thread; otherwise tensor cores. DIRECT: nothing is
copied, operands are read from global memory. X_FLAT: the stack has no gaps and is moved at once; otherwise
rows in vectors of X_VEC bytes. X_LD and X_STRIDE are those in shared memory, X_ALIGN its alignment, all in
entries.
"""

_ANYWHERE = _rows(10000, 100, 8, listed=True)
_TILED_CASES = (
    (_TILED, sample_case(64, 64, 64)),
    (_TILED, sample_case(65, 67, 63, **_REAL, c=_rows(4355, 67, 2))),
    (
        replace(_TILED, tile_m=4, tile_n=4, stages=2),
        sample_case(100, 100, 100, acc16=True, a=_ANYWHERE, b=_ANYWHERE),
    ),
    (replace(_TILED, tile_m=4, tile_n=4, warps_n=4, stages=4, persistent=1), sample_case(256, 256, 256)),
    (replace(_TILED, tile_n=5, warps_m=7, warps_n=1), sample_case(64, 62, 66, bf16=True)),
    (_TILED, sample_case(64, 64, 64, a=_columns(4096, 64, 16))),
    (_TILED, sample_case(64, 64, 64, **_COMPLEX, c=_rows(0, 64, 16))),
    (_TILED, sample_case(65, 65, 65, **_PAIRS, a=_columns(4225, 65, 4), b=_columns(4225, 65, 4))),
)

TILED = Kernel(
    "batched_tiled",
    Path(__file__).with_name("tiled.cu"),
    instances=tuple(dict(x.constants) for t, c in _TILED_CASES if (x := tiled_launch(c, t))),
    structs=(Parameters,),
)
"""One tile of C for each block: WARPS_M × WARPS_N warps of TM × TN tensor-core tiles.

The inner dimension passes through shared memory in STAGES buffers of STEPS instructions each.
Sizes, leading dimensions and strides are free; X_VEC is the bytes of the largest aligned vectors.
"""
