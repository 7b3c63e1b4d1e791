"""Batches through cuBLAS: strided, behind lists of addresses, and half-complex as real."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import multiword.engines.libcublas as lib
from multiword.batched.gpu.plans import Case
from multiword.batched.gpu.storage import Call, Launcher, Storage, addresses, store_array
from multiword.engines.cublas import current_handle
from multiword.runtime.arrays import Array, import_cupy
from multiword.runtime.kernels import Kernel, Struct

EXPANDED_BYTES = 24 << 20
"""Expanded operands are made this much at a time, so that they stay in the L2 cache."""


class Expansion(Struct):
    """The parameters of `batched_expand`: strides of B, and matrices `first` to `first` + `count`."""

    _fields_: ClassVar[list] = [
        *(("b", ctypes.c_void_p), ("stride", ctypes.c_longlong), ("down", ctypes.c_int)),
        *(("across", ctypes.c_int), ("expanded", ctypes.c_void_p), ("first", ctypes.c_int)),
        *(("count", ctypes.c_int), ("k", ctypes.c_int), ("n", ctypes.c_int)),
    ]


EXPAND = Kernel(
    "batched_expand",
    Path(__file__).with_name("expand.cu"),
    instances=({"CONJUGATE": 0, "LISTED": 0}, {"CONJUGATE": 1, "LISTED": 1}),
    structs=(Expansion,),
)
"""B as a real matrix of twice its sizes. NumPy form: `multiword.batched.host.real_columns`."""


def launcher(call: Call) -> Launcher | None:
    """The one call of cuBLAS that a strided real batch takes, or None if there is more to do."""
    case, added = call.case, call.c
    stacks = (call.a, call.b, call.out)
    if case.complex or any(x.layout.listed for x in stacks) or (added and added.address != call.out.address):
        return None
    word, compute = _types(call)
    alpha, beta = _scalars(call)
    left, right, result = ((word, x.layout.leading, x.layout.stride) for x in stacks)
    sizes = (*_operations(call), case.n, case.m, case.k)

    def launch(a: Any, b: Any, c: Any, out: Any) -> None:
        del c  # it is where the result goes
        a, b, out = (x if isinstance(x, int) else x.data.ptr for x in (a, b, out))
        # Row-major C = A·B is column-major Cᵀ = Bᵀ·Aᵀ: B comes first.
        lib.routine("cublasGemmStridedBatchedEx")(
            *(current_handle().pointer, *sizes, alpha.ctypes.data, b, *right, a, *left),
            *(beta.ctypes.data, out, *result, case.batch, compute, lib.GEMM_DEFAULT),
        )

    return launch


def _operations(call: Call) -> list[int]:
    """For cuBLAS, rows are columns."""
    return [lib.OP_N if x.layout.by_rows else lib.OP_T for x in (call.b, call.a)]


def multiply(call: Call) -> None:
    """Write the result of a call to its place, through cuBLAS."""
    case = call.case
    if call.c is not None and call.c.address != call.out.address:
        call.out.owner[...] = call.problem.c
    if case.complex:
        _multiply_complex(call)
    elif any(x.layout.listed for x in (call.a, call.b, call.out)):
        _multiply_listed(call)
    else:
        launch = launcher(replace(call, c=call.c and call.out))
        assert launch is not None
        launch(*call.addresses)


def _scalars(call: Call) -> tuple[np.ndarray, np.ndarray]:
    """alpha and beta, both real, in the accumulation format."""
    kind = np.float16 if call.case.acc16 else np.float32
    return np.array(call.problem.alpha, kind), np.array(call.problem.beta if call.c else 0.0, kind)


def _types(call: Call) -> tuple[int, int]:
    word = lib.CUDA_R_16BF if call.case.bf16 else lib.CUDA_R_16F
    return word, lib.COMPUTE_16F if call.case.acc16 else lib.COMPUTE_32F


def _multiply_listed(call: Call) -> None:
    """Matrices behind lists of addresses."""
    case = call.case
    alpha, beta = _scalars(call)
    word, compute = _types(call)
    stacks = (call.b, call.a, call.out)
    lists = [addresses(x, (case.batch,), case.entry) for x in stacks]
    b, a, out = ((p.data.ptr, word, x.layout.leading) for p, x in zip(lists, stacks, strict=True))
    lib.routine("cublasGemmBatchedEx")(
        *(current_handle().pointer, *_operations(call), case.n, case.m, case.k, alpha.ctypes.data, *b, *a),
        *(beta.ctypes.data, *out, case.batch, compute, lib.GEMM_DEFAULT),
    )


def _multiply_complex(call: Call) -> None:
    """Expand B once into its real 2k×2n form; A and C stay interleaved (algorithms 5)."""
    case, cupy = call.case, import_cupy()
    m, n, k = case.m, case.n, case.k
    alpha, beta = _scalars(call)
    word, compute = _types(call)
    a = _interleaved_rows(call)
    shared = call.b.layout.stride == 0 and not call.b.layout.listed
    count = case.batch if shared else max(1, min(case.batch, EXPANDED_BYTES // (8 * k * n)))
    expanded = cupy.empty((1 if shared else count) * 4 * k * n, call.problem.word)
    for first in range(0, case.batch, count):
        here = min(count, case.batch - first)
        _expand(call.b, case, expanded, first, 1 if shared else here)
        lib.routine("cublasGemmStridedBatchedEx")(
            *(current_handle().pointer, lib.OP_N, lib.OP_N, 2 * n, m, 2 * k, alpha.ctypes.data),
            *(expanded.data.ptr, word, 2 * n, 0 if shared else 4 * k * n),
            *(a.address + first * a.layout.stride * 4, word, 2 * a.layout.leading, 2 * a.layout.stride),
            *(beta.ctypes.data, call.out.address + first * call.out.layout.stride * 4, word),
            *(2 * call.out.layout.leading, 2 * call.out.layout.stride, here, compute, lib.GEMM_DEFAULT),
        )


def _expand(b: Storage, case: Case, expanded: Array, first: int, count: int) -> None:
    x = b.layout
    down, across = (x.leading, 1) if x.by_rows else (1, x.leading)
    sizes = {"first": first, "count": count, "k": case.k, "n": case.n}
    with_b = Expansion(b=b.address, stride=x.stride, down=down, across=across, expanded=expanded, **sizes)
    grid = (-(-count * case.k * case.n // 256),)
    EXPAND(grid, (256,), (with_b,), CONJUGATE=int(case.conj_b), LISTED=int(x.listed))


def _interleaved_rows(call: Call) -> Storage:
    """A stored by rows and not to be conjugated: as it is, or a copy."""
    x = call.a.layout
    if x.by_rows and not x.listed and not call.case.conj_a:
        return call.a
    pairs = call.problem.xp.array(call.problem.a.stacked(call.problem.xp), order="C", copy=True)
    if call.case.conj_a:
        pairs[..., 1] *= -1
    return store_array(pairs, True, call.problem.batch)
