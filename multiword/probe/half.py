"""The GPU's half-precision mode, whose accumulator and result are fp16, for the probes alone."""

from __future__ import annotations

import numpy as np

from multiword.engines import libcublas as lib
from multiword.engines.cublas import Cublas, current_handle
from multiword.runtime.arrays import Array, import_cupy


class HalfCublas(Cublas):
    """`cublasGemmEx` with fp16 words, accumulation and results; plain matrices, no alpha or beta."""

    products = frozenset({"fp16"})

    def multiply(
        self,
        product: str,
        a: Array,
        bt: Array,
        *,
        out: Array | None = None,
        alpha: float = 1.0,
        beta: float = 0.0,
    ) -> Array:
        """A·Bᵀ as a float16 array; `a` and `bt` are contiguous CuPy matrices."""
        if product != "fp16" or out is not None or alpha != 1 or beta != 0:
            raise ValueError(f"only plain fp16 products, got {product!r} with {alpha=}, {beta=}")
        (m, k), n = a.shape, len(bt)
        result = import_cupy().empty((m, n), np.float16)
        one, zero = np.float16(1), np.float16(0)
        scale, keep = np.array(one), np.array(zero)
        lib.routine("cublasGemmEx")(
            *(current_handle().pointer, lib.OP_T, lib.OP_N, n, m, k, scale.ctypes.data),
            *(bt.data.ptr, lib.CUDA_R_16F, k, a.data.ptr, lib.CUDA_R_16F, k),
            *(keep.ctypes.data, result.data.ptr, lib.CUDA_R_16F, n, lib.COMPUTE_16F, lib.GEMM_DEFAULT),
        )
        return result
