"""The GPU's half-precision mode, whose accumulator is fp16, for the probes alone."""

from __future__ import annotations

import numpy as np

import multiword.engines.libcublas as lib
from multiword.engines.contract import Product
from multiword.engines.cublas import Cublas, current_handle
from multiword.runtime.arrays import Array, import_cupy


class HalfCublas(Cublas):
    """`cublasGemmEx` with fp16 words, accumulation and results, which come widened to float32.

    For contiguous matrices, without alpha and beta.
    """

    products = frozenset({"fp16"})

    def _compute(self, kind: Product, a: Array, bt: Array, out: Array, alpha: float, beta: float) -> None:
        if a.ndim != 2 or alpha != 1 or beta != 0:
            raise ValueError(f"only plain products of two matrices, got {a.ndim} axes, {alpha=}, {beta=}")
        (m, k), n = a.shape, len(bt)
        result = import_cupy().empty((m, n), np.float16)
        one, zero = np.array(1, np.float16), np.array(0, np.float16)
        lib.routine("cublasGemmEx")(
            *(current_handle().pointer, lib.OP_T, lib.OP_N, n, m, k, one.ctypes.data),
            *(bt.data.ptr, lib.CUDA_R_16F, k, a.data.ptr, lib.CUDA_R_16F, k),
            *(zero.ctypes.data, result.data.ptr, lib.CUDA_R_16F, n, lib.COMPUTE_16F, lib.GEMM_DEFAULT),
        )
        out[...] = result
