"""cuBLAS through ctypes: the library, its types, and status codes turned into exceptions."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import POINTER, byref, c_int, c_longlong, c_size_t, c_void_p
from functools import cache

from multiword.runtime.install import missing
from multiword.runtime.status import StatusError, checked

Status = c_int

STATUS_NAMES = {
    1: "CUBLAS_STATUS_NOT_INITIALIZED",
    3: "CUBLAS_STATUS_ALLOC_FAILED",
    7: "CUBLAS_STATUS_INVALID_VALUE",
    8: "CUBLAS_STATUS_ARCH_MISMATCH",
    11: "CUBLAS_STATUS_MAPPING_ERROR",
    13: "CUBLAS_STATUS_EXECUTION_FAILED",
    14: "CUBLAS_STATUS_INTERNAL_ERROR",
    15: "CUBLAS_STATUS_NOT_SUPPORTED",
    16: "CUBLAS_STATUS_LICENSE_ERROR",
}

# cudaDataType_t and cublasComputeType_t (library_types.h, cublas_api.h)
CUDA_R_32F, CUDA_R_64F, CUDA_R_16F, CUDA_R_8I, CUDA_R_32I, CUDA_R_16BF = 0, 1, 2, 3, 10, 14
COMPUTE_16F, COMPUTE_32F, COMPUTE_32F_FAST_TF32, COMPUTE_32I = 64, 68, 77, 72
COMPUTE_32F_PEDANTIC, COMPUTE_64F_PEDANTIC = 69, 71
# Pedantic: cuBLAS's environment variables may replace the others' arithmetic by an emulation of it.
OP_N, OP_T = 0, 1
GEMM_DEFAULT = -1

_GEMM_HEAD = [c_void_p, c_int, c_int, c_int, c_int, c_int, c_void_p]
_SIGNATURES: dict[str, list] = {
    "cublasCreate_v2": [POINTER(c_void_p)],
    "cublasDestroy_v2": [c_void_p],
    "cublasSetStream_v2": [c_void_p, c_void_p],
    "cublasSetWorkspace_v2": [c_void_p, c_void_p, c_size_t],
    "cublasGetVersion_v2": [c_void_p, POINTER(c_int)],
    # (handle, op, op, m, n, k, alpha, A, type, ld, B, type, ld, beta, C, type, ld, compute, algorithm)
    "cublasGemmEx": [
        *_GEMM_HEAD,
        *(c_void_p, c_int, c_int),
        *(c_void_p, c_int, c_int),
        *(c_void_p, c_void_p, c_int, c_int),
        *(c_int, c_int),
    ],
    # the same with a stride after each leading dimension, and the batch count
    "cublasGemmStridedBatchedEx": [
        *_GEMM_HEAD,
        *(c_void_p, c_int, c_int, c_longlong),
        *(c_void_p, c_int, c_int, c_longlong),
        *(c_void_p, c_void_p, c_int, c_int, c_longlong),
        *(c_int, c_int, c_int),
    ],
}


class CublasError(StatusError):
    """A cuBLAS routine returned a status other than success."""

    names = STATUS_NAMES
    exhausted = 3


@cache
def library() -> ctypes.CDLL:
    """Return the cuBLAS that the wheels of CUDA 12 or CUDA 13 brought, with its types declared.

    Raises ImportError, naming the extra to install, if there is none.
    """
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        path = load_nvidia_dynamic_lib("cublas").abs_path
    except (ImportError, RuntimeError) as error:
        raise missing("no cuBLAS was found", "cuda13") from error
    cublas = ctypes.CDLL(path)
    for routine, types in _SIGNATURES.items():
        function = getattr(cublas, routine)
        function.argtypes, function.restype = types, Status
    return cublas


@cache
def routine(name: str) -> Callable[..., None]:
    """Return the cuBLAS routine of that name, raising `CublasError` on any status but success."""
    return checked(getattr(library(), name), name, CublasError)


def version() -> int:
    """Return the library's version: 13.1.0 as 130100."""
    number = c_int()
    routine("cublasGetVersion_v2")(None, byref(number))
    return number.value
