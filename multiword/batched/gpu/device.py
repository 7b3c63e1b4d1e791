"""Batched products on a GPU: by the kernel of ours, or by cuBLAS, whichever was measured to be faster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import multiword.engines.libcublas as lib
from multiword.batched import host
from multiword.batched.gpu.kernels import FALLBACKS, kernel_launcher
from multiword.batched.gpu.plans import Case, Tuning, choose
from multiword.batched.gpu.storage import Call, Launcher, lay_out, result_array
from multiword.batched.problem import Problem
from multiword.engines.cublas import current_handle
from multiword.runtime.arrays import Array


def multiply(problem: Problem, tuning: Tuning | None = None) -> tuple[Array, tuple[Call, Launcher] | None]:
    """Return the result of `stored_shape`, in `problem.out` if that is given.

    With it come the call and what launched it, if one launch was all there was to do.
    """
    with problem.a.first.device:
        result = result_array(problem)
        launched = None
        if problem.alpha == 0 or problem.mnk[2] == 0:
            zero = problem.xp.zeros(problem.stored_shape, np.float32)
            result[...] = host.scaled(problem, zero).astype(problem.word)
        elif result.size:
            call = lay_out(problem, result)
            elsewhere = call.c is not None and call.c.address != call.out.address
            if elsewhere and by_cublas(call.case, tuning or choose(call.case)):
                call.out.owner[...] = call.problem.c  # cuBLAS adds to what is in the result
                call = replace(call, c=call.out)
            launch = launcher(call, tuning)
            launch(*call.addresses)
            launched = call, launch
        if problem.out is None or result is problem.out:
            return result, launched
        problem.out[...] = result
        return problem.out, None


def by_cublas(case: Case, tuning: Tuning) -> bool:
    """Return whether cuBLAS computes a batch: if it is the fastest, for real matrices that are not listed."""
    return tuning.kernel == "cublas" and not (case.complex or case.a.listed or case.b.listed)


def launcher(call: Call, tuning: Tuning | None = None) -> Launcher:
    """Return what launches a call, with this tuning or the one chosen from measurements."""
    chosen = tuning or choose(call.case)
    if by_cublas(call.case, chosen):
        return _cublas_launcher(call)
    if chosen.kernel == "cublas":
        chosen = FALLBACKS[-1]
    return kernel_launcher(call, chosen, () if tuning else FALLBACKS)


def _cublas_launcher(call: Call) -> Launcher:
    """Return what calls cuBLAS for a strided batch of real products; C, if it is read, is the result."""
    case = call.case
    word = lib.CUDA_R_16BF if case.bf16 else lib.CUDA_R_16F
    compute, scalar = (lib.COMPUTE_16F, np.float16) if case.acc16 else (lib.COMPUTE_32F, np.float32)
    alpha = np.array(call.problem.alpha, scalar)
    beta = np.array(call.problem.beta if call.c else 0.0, scalar)
    left, right, result = ((word, x.leading, x.stride) for x in (case.a, case.b, case.out))
    # Row-major C = A·B is column-major Cᵀ = Bᵀ·Aᵀ: B comes first, and rows are cuBLAS's columns.
    operations = [lib.OP_N if x.by_rows else lib.OP_T for x in (case.b, case.a)]
    sizes = (*operations, case.n, case.m, case.k)

    def launch(a: Any, b: Any, c: Any, out: Any) -> None:
        del c  # it is where the result goes
        a, b, out = (x if isinstance(x, int) else x.data.ptr for x in (a, b, out))
        lib.routine("cublasGemmStridedBatchedEx")(
            *(current_handle().pointer, *sizes, alpha.ctypes.data, b, *right, a, *left),
            *(beta.ctypes.data, out, *result, case.batch, compute, lib.GEMM_DEFAULT),
        )

    return launch
