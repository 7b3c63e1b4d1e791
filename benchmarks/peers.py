"""Other libraries that do the same, measured beside ours where they are installed."""

from __future__ import annotations

import ctypes
import os
from ctypes import byref, c_int, c_size_t, c_void_p
from functools import cache

import numpy as np

GEMMUL8 = {"GEMMUL8_LIBRARY": "", "GEMMUL8_LIBRARY_WITHOUT_WAITS": ", no waits"}
"""Environment variables with the path of libgemmul8.so, which has to be compiled for the device: as it is,
and without the calls of cudaDeviceSynchronize for its own timings."""

# What the library takes over from cuBLAS, by dtype, and the moduli counts worth comparing with.
_ROUTINES = {
    "float64": ("cublasDgemm_v2", "D", (14, 15)),
    "float32": ("cublasSgemm_v2", "S", (7, 8)),
    "complex128": ("cublasZgemm_v2", "Z", (14, 15)),
    "complex64": ("cublasCgemm_v2", "C", (7, 8)),
}


def gemmul8(a, b):
    """The ways in which GEMMul8 (Ozaki scheme II in C++) multiplies these matrices: name to function.

    Its moduli count and its mode are set through the environment, as its manual has it; the variable
    GEMMUL8_VERSION says which version it is.
    """
    routine, letter, counts = _ROUTINES[a.dtype.name]

    def way(path, moduli, fast):
        def work():
            os.environ[f"GEMMUL8_NUM_MOD_{letter}"] = str(moduli)
            os.environ[f"GEMMUL8_FASTMODE_{letter}"] = str(int(fast))
            return _call(path, routine, a, b)

        return work

    library = f"GEMMul8 {os.environ.get('GEMMUL8_VERSION', '')}".rstrip()
    libraries = {os.environ[variable]: label for variable, label in GEMMUL8.items() if variable in os.environ}
    return {
        f"{library}, {moduli} moduli{', fast mode' * fast}{label}": way(path, moduli, fast)
        for path, label in libraries.items()
        for fast in (False, True)
        for moduli in counts
    }


@cache
def _library(path):
    return ctypes.CDLL(path)


def _call(path, routine, a, b):
    """C = A·B for matrices stored by rows: to a library of column-major ones, Cᵀ = Bᵀ·Aᵀ."""
    import cupy

    from multiword.engines.cublas import current_handle

    function = getattr(_library(path), routine)
    function.restype = c_int
    function.argtypes = [
        c_void_p,
        *[c_int] * 5,
        *[c_void_p, c_void_p, c_int, c_void_p, c_int],
        c_void_p,
        c_void_p,
        c_int,
    ]
    (m, k), n = a.shape, b.shape[1]
    c = cupy.empty((m, n), a.dtype)
    one, zero = np.ones(1, a.dtype), np.zeros(1, a.dtype)
    handle = current_handle().pointer
    left, right = (b.data.ptr, n), (a.data.ptr, k)
    status = function(
        *(handle, 0, 0, n, m, k, one.ctypes.data, *left, *right, zero.ctypes.data, c.data.ptr, n)
    )
    if status:
        raise RuntimeError(f"{routine} of GEMMul8 returned status {status}")
    return c


# cudaDataType_t; cublasComputeType_t, cublasMath_t, cudaEmulationStrategy_t, cudaEmulationMantissaControl_t
_DATA_TYPES = {"float64": 1, "complex128": 5}
_EMULATED_FIXEDPOINT, _EMULATED_MATH, _EAGER, _DYNAMIC, _FIXED = 79, 8, 2, 0, 1


def emulation(a, b):
    """cuBLAS's own FP64 emulation of these matrices' product: name to function; none before cuBLAS 13.0u2.

    On Hopper its default strategy falls back to the native product, so the eager one is set. Its default
    takes as many mantissa bits as the data ask for; as its users do, 55 bits are tried besides. It gets as
    much workspace as it can use.
    """
    from multiword.engines import libcublas

    library = libcublas.library()
    if a.dtype.name not in _DATA_TYPES or not hasattr(library, "cublasSetEmulationStrategy"):
        return {}
    controls = {"cuBLAS emulation, eager": (_DYNAMIC, 0), "cuBLAS emulation, 55 bits": (_FIXED, 55)}
    return {name: _emulated(library, a, b, *control) for name, control in controls.items()}


def _emulated(library, a, b, control, bits):
    import cupy

    handle = c_void_p()
    (m, k), n = a.shape, b.shape[1]
    most = cupy.cuda.runtime.memGetInfo()[0] // 2
    workspace = cupy.empty(min(48 * (m * k + k * n + m * n) + (1 << 28), most), "uint8")

    def call(routine, *arguments):
        status = getattr(library, routine)(*arguments)
        if status:
            raise RuntimeError(f"{routine} returned status {status}")

    call("cublasCreate_v2", byref(handle))
    call("cublasSetStream_v2", handle, cupy.cuda.get_current_stream().ptr)
    call("cublasSetWorkspace_v2", handle, c_void_p(workspace.data.ptr), c_size_t(workspace.nbytes))
    call("cublasSetMathMode", handle, _EMULATED_MATH)
    call("cublasSetEmulationStrategy", handle, _EAGER)
    call("cublasSetFixedPointEmulationMantissaControl", handle, control)
    if bits:
        call("cublasSetFixedPointEmulationMaxMantissaBitCount", handle, bits)
    one, zero, kind = np.ones(1, a.dtype), np.zeros(1, a.dtype), _DATA_TYPES[a.dtype.name]

    def work(kept=workspace):
        c = cupy.empty((m, n), a.dtype)
        left, right = (b.data.ptr, kind, n), (a.data.ptr, kind, k)  # Cᵀ = Bᵀ·Aᵀ, as above
        result = c.data.ptr, kind, n, _EMULATED_FIXEDPOINT, -1
        call(
            *("cublasGemmEx", handle, 0, 0, n, m, k, one.ctypes.data, *left, *right),
            *(zero.ctypes.data, *result),
        )
        return c

    return work
