"""The engine on the GPU: `cublasGemmEx` and `cublasGemmStridedBatchedEx`."""

from __future__ import annotations

import ctypes
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np

import multiword.engines.libcublas as lib
from multiword.engines.contract import CheckedEngine
from multiword.engines.machine import longest_reduced, multiprocessors, rates
from multiword.engines.residues import in_shares, multiply_residues, share_of_k
from multiword.engines.words import Word
from multiword.runtime.arrays import Array, import_cupy
from multiword.runtime.forking import finalize
from multiword.runtime.graphs import capture_lock, retained
from multiword.tuning import DEEP, FILLING_TILES, HANDLES_CACHED, STRIP, TILE, USUAL_MODULI, WIDE

WORKSPACE_BYTES = 32 << 20
"""NVIDIA's recommendation for Hopper; allocated here, so that calls can be captured in graphs."""

# word format -> (operand type, result type, compute type, scalar dtype)
_TYPES: dict[str, tuple[int, int, int, Any]] = {
    "fp16": (lib.CUDA_R_16F, lib.CUDA_R_32F, lib.COMPUTE_32F, np.float32),
    "bf16": (lib.CUDA_R_16BF, lib.CUDA_R_32F, lib.COMPUTE_32F, np.float32),
    "tf32": (lib.CUDA_R_32F, lib.CUDA_R_32F, lib.COMPUTE_32F_FAST_TF32, np.float32),
    "fp32": (lib.CUDA_R_32F, lib.CUDA_R_32F, lib.COMPUTE_32F_PEDANTIC, np.float32),
    "int8": (lib.CUDA_R_8I, lib.CUDA_R_32I, lib.COMPUTE_32I, np.int32),
    "fp64": (lib.CUDA_R_64F, lib.CUDA_R_64F, lib.COMPUTE_64F_PEDANTIC, np.float64),
}


class Handle:
    """A cuBLAS handle of one device, bound to one stream at a time, with a workspace of its own."""

    nbytes = WORKSPACE_BYTES

    def __init__(self) -> None:
        self.pointer = ctypes.c_void_p()
        with capture_lock:
            lib.routine("cublasCreate_v2")(ctypes.byref(self.pointer))
        finalize(self, _destroy, self.pointer)
        self._workspace: Any = None

    def bind(self, stream: int) -> None:
        """Work on a stream, in memory allocated now."""
        self._workspace = import_cupy().cuda.alloc(WORKSPACE_BYTES)
        lib.routine("cublasSetStream_v2")(self.pointer, stream)
        lib.routine("cublasSetWorkspace_v2")(self.pointer, self._workspace.ptr, WORKSPACE_BYTES)

    def unbind(self) -> None:
        """Give the memory back, before the handle is bound again."""
        self._workspace = None


def _destroy(pointer: ctypes.c_void_p) -> None:
    with capture_lock:
        lib.routine("cublasDestroy_v2")(pointer)


_local = threading.local()
"""The calling thread's cuBLAS handles, by device and stream."""


def current_handle() -> Handle:
    """Return this thread's handle for CuPy's current device and stream; graphs that use it own it as well.

    Two streams never share a workspace, nor two threads a handle.
    """
    handles, key = _handles(), _here()
    if key not in handles:
        while len(handles) >= HANDLES_CACHED:
            handles.popitem(last=False)
        handles[key] = Handle()
        handles[key].bind(key[1])
    handles.move_to_end(key)
    return retained(handles[key])


def _handles() -> OrderedDict[tuple[int, int], Handle]:
    """Return this thread's handles, by device and stream."""
    handles: OrderedDict[tuple[int, int], Handle] = _local.__dict__.setdefault("handles", OrderedDict())
    return handles


def _here() -> tuple[int, int]:
    """Return CuPy's current device and stream."""
    cuda = import_cupy().cuda
    return cuda.runtime.getDevice(), cuda.get_current_stream().ptr


def prepare_spare_handle(device: int) -> None:
    """Have a handle of this thread and a device for `spare_handle`: none can be made during a capture."""
    spares: dict[int, Handle] = _local.__dict__.setdefault("spares", {})
    if device not in spares:
        with import_cupy().cuda.Device(device):
            spares[device] = Handle()


@contextmanager
def spare_handle() -> Iterator[None]:
    """Within the context, products on the current stream, which is being captured, use a handle of its own.

    Its workspace is allocated within the context and so belongs to the graph, as that of the stream's usual
    handle does not: that may be given back earlier.
    """
    handles, (device, stream) = _handles(), _here()
    spare = _local.__dict__.get("spares", {}).get(device)
    if spare is None:
        raise RuntimeError(
            "call the product once in this thread before you capture it: during a capture no kernel can be "
            "compiled and no handle of cuBLAS made"
        )
    usual = handles.pop((device, stream), None)
    spare.bind(stream)
    handles[device, stream] = spare
    try:
        yield
    finally:
        del handles[device, stream]
        spare.unbind()
        if usual is not None:
            handles[device, stream] = usual


class Cublas(CheckedEngine):
    """Low-precision products on an NVIDIA GPU through `cublasGemmEx`.

    Needs CuPy arrays; runs on CuPy's current stream. int8 operands must have k and both leading
    dimensions divisible by 4 and be aligned to 4 bytes (cuBLAS's own condition).

    Parameters
    ----------
    batch : whether batches go to `cublasGemmStridedBatchedEx` or to `cublasGemmEx`, one product
        after another; by default whichever was measured to be faster.
    fused : whether products of residues may be reduced in a kernel of our own where that was measured
        to be faster. `engine="auto"` does, `engine="cublas"` leaves everything to cuBLAS.
    """

    name = "cublas"
    padding = 16
    types: ClassVar = _TYPES
    products = frozenset(_TYPES)
    on_gpu = True
    default_words: ClassVar = {"residues": "int8", "slices": "int8"}
    fused = False
    mirrors: ClassVar[bool] = True

    def __init__(self, batch: bool | None = None, fused: bool = False) -> None:
        import_cupy()
        lib.library()
        self.batch = batch
        self.fused = fused

    def reduces(self, word: str, shape: tuple[int, int, int]) -> bool:
        """As `ResidueEngine.reduces`: to twice the inner dimension where the result is large, and to any
        where it is so small that k is shared out (split-K)."""
        m, k, n = shape
        if not self.fused or word != "int8":
            return False
        longest = longest_reduced(self.name) * (2 if 2 * min(m, n) >= k else 1)
        return k <= longest or (longest > 0 and share_of_k(m, k, n, USUAL_MODULI) > 0)

    def multiply_residues(self, a: Array, bt: Array, moduli: tuple[int, ...], **options: Any) -> Array:
        """As `ResidueEngine.multiply_residues`."""
        return multiply_residues(a, bt, moduli, **options)

    def _compute(self, kind: Word, a: Array, bt: Array, out: Array, alpha: float, beta: float) -> None:
        (m, k), n = a.shape[-2:], bt.shape[-2]
        if k == 0:
            # cuBLAS leaves the result alone where the inner dimension is empty.
            out[...] = 0 if beta == 0 else beta * out
        elif a.ndim == 3 and not self._together(kind.name, m, n, k):
            for left, right, target in zip(a, bt, out, strict=True):
                self._compute(kind, left, right, target, alpha, beta)
        elif a.ndim == 2 and kind.name == "int8" and (share := share_of_k(m, k, n, 1)):
            products, done = import_cupy().empty((k // share, m, n), out.dtype), k // share * share
            left, right = (in_shares(x[:, :done], share) for x in (a, bt))
            self._one_call(kind.name, left, right, products, alpha, 0.0)
            self._compute(kind, a[:, done:], bt[:, done:], out, alpha, beta)
            out += products.sum(axis=0, dtype=out.dtype)
        elif a.ndim == 2 and m >= 2 * STRIP and n >= WIDE and k >= DEEP:
            for i in range(0, m, STRIP):
                rows = slice(i, i + STRIP)
                self._one_call(kind.name, a[rows], bt, out[rows], alpha, beta)
        else:
            self._one_call(kind.name, a, bt, out, alpha, beta)

    def _one_call(self, product: str, a: Array, bt: Array, out: Array, alpha: float, beta: float) -> None:
        """Write a product by one call of cuBLAS."""
        (m, k), n = a.shape[-2:], bt.shape[-2]
        word, result, compute, scalar = self.types[product]
        scale, keep = np.array(alpha, scalar), np.array(beta, scalar)
        # Row-major C = A·Bᵀ is column-major Cᵀ = B·Aᵀ, and row-major storage is the
        # transpose of column-major: so bt comes first, transposed, and a second, plain.
        head = (current_handle().pointer, lib.OP_T, lib.OP_N, n, m, k, scale.ctypes.data)
        first, second = (bt.data.ptr, word, _leading(bt)), (a.data.ptr, word, _leading(a))
        third = (keep.ctypes.data, out.data.ptr, result, _leading(out))
        if a.ndim == 2:
            lib.routine("cublasGemmEx")(*head, *first, *second, *third, compute, lib.GEMM_DEFAULT)
        else:
            lib.routine("cublasGemmStridedBatchedEx")(
                *(*head, *first, _batch_stride(bt), *second, _batch_stride(a)),
                *(*third, _batch_stride(out), len(a), compute, lib.GEMM_DEFAULT),
            )

    def _together(self, product: str, m: int, n: int, k: int) -> bool:
        """Return whether a batch is one call: as measured on this device, or by an estimate."""
        if self.batch is not None:
            return self.batch
        measured = rates(self.name, product)
        return measured.batch(m * n * k) if measured else m * n < FILLING_TILES * TILE**2 * multiprocessors()


def _leading(x: Array) -> int:
    """Return the leading dimension of a matrix stored by rows, in elements."""
    return max(x.strides[-2] // x.itemsize, x.shape[-1]) if x.shape[-2] > 1 else max(1, x.shape[-1])


def _batch_stride(x: Array) -> int:
    return int(x.strides[0] // x.itemsize)
