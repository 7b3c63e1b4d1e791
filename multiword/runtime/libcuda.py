"""The CUDA driver's graphs through ctypes: what CuPy's own binding of them lacks."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping
from ctypes import POINTER, Structure, c_int, c_size_t, c_uint, c_ulonglong, c_void_p
from functools import cache
from typing import ClassVar

from multiword.runtime.status import StatusError, checked

CAPTURE_RELAXED = 2

EXTERNAL = 1
"""An event recorded so in a capture is recorded by every launch of the graph."""


class KernelNode(Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = [
        ("function", c_void_p),
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared_bytes", c_uint),
        ("arguments", POINTER(c_void_p)),
        ("extra", c_void_p),
        ("kernel", c_void_p),
        ("context", c_void_p),
    ]


USE_NODE_PRIORITY = 8
"""Kernels of a graph keep the priorities of the streams that they were captured on."""

NO_DESTRUCTOR_SYNC, MOVE = 1, 1
"""Nobody waits for the destructor of a user object; a graph takes over the reference to one."""

_SIGNATURES: dict[str, list] = {
    "cuStreamBeginCapture_v2": [c_void_p, c_int],
    "cuStreamEndCapture": [c_void_p, POINTER(c_void_p)],
    # (stream, status, id, graph, dependencies, how many of them)
    "cuStreamGetCaptureInfo_v2": [
        *(c_void_p, POINTER(c_int), POINTER(c_ulonglong)),
        *(POINTER(c_void_p), POINTER(POINTER(c_void_p)), POINTER(c_size_t)),
    ],
    "cuEventRecordWithFlags": [c_void_p, c_void_p, c_uint],
    "cuGraphInstantiateWithFlags": [POINTER(c_void_p), c_void_p, c_ulonglong],
    "cuGraphKernelNodeGetParams_v2": [c_void_p, POINTER(KernelNode)],
    "cuGraphExecKernelNodeSetParams_v2": [c_void_p, c_void_p, POINTER(KernelNode)],
    "cuGraphLaunch": [c_void_p, c_void_p],
    "cuGraphDestroy": [c_void_p],
    # (user object, what the destructor is given, destructor, references, flags)
    "cuUserObjectCreate": [POINTER(c_void_p), c_void_p, c_void_p, c_uint, c_uint],
    "cuGraphRetainUserObject": [c_void_p, c_void_p, c_uint, c_uint],
    "cuGraphExecDestroy": [c_void_p],
    # (map, type, dimensions, address, extents, strides, box, steps, and how copies are made)
    "cuTensorMapEncodeTiled": [
        *(c_void_p, c_int, c_uint, c_void_p),
        *(POINTER(c_ulonglong), POINTER(c_ulonglong), POINTER(c_uint), POINTER(c_uint)),
        *(c_int, c_int, c_int, c_int),
    ],
}


class CudaError(StatusError):
    """A routine of the CUDA driver returned a status other than success."""

    names: ClassVar[Mapping[int, str]] = {
        1: "CUDA_ERROR_INVALID_VALUE",
        2: "CUDA_ERROR_OUT_OF_MEMORY",
        900: "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
        901: "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
        904: "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
    }
    exhausted = 2


@cache
def routine(name: str) -> Callable[..., None]:
    """Return the driver's routine of that name, raising `CudaError` on any status but success."""
    driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    function = getattr(driver, name)
    function.argtypes, function.restype = _SIGNATURES[name], c_int
    return checked(function, name, CudaError)
