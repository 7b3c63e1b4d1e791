"""PyTorch's tensors as NumPy's and CuPy's arrays and back: the same memory on the same device and stream."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import ml_dtypes
import numpy as np

from multiword.runtime.arrays import Array, import_cupy


def array_of(tensor: Any) -> Array:
    """A NumPy or CuPy array in a tensor's memory; conjugate and negative views are written out."""
    torch = sys.modules["torch"]
    if tensor.dtype is torch.bfloat16:
        return array_of(tensor.detach().resolve_neg().view(torch.int16)).view(ml_dtypes.bfloat16)
    if tensor.is_cpu:  # several times faster to ask than its device's type
        return tensor.numpy(force=True)  # "force" detaches and resolves; on a CPU it copies nothing else
    return _in_place(tensor.detach().resolve_conj().resolve_neg())


def _in_place(tensor: Any) -> Array:
    """A CuPy array in the memory of a tensor on a GPU; DLPack's way takes 15 µs longer."""
    cupy, dtype = import_cupy(), np.dtype(str(tensor.dtype).removeprefix("torch."))
    memory = cupy.cuda.UnownedMemory(tensor.data_ptr(), tensor.nbytes, tensor, tensor.device.index)
    strides = tuple([dtype.itemsize * s for s in tensor.stride()])
    return cupy.ndarray(tuple(tensor.shape), dtype, cupy.cuda.MemoryPointer(memory, 0), strides)


def tensor_of(array: Any) -> Any:
    """A tensor in the memory of a NumPy array or scalar; of a CuPy array a copy on the current stream.

    PyTorch's allocator waits for all streams that use a tensor before it gives the memory to another. It does
    not know CuPy's memory, and CuPy knows nothing of PyTorch's streams.
    """
    torch = sys.modules["torch"]
    if array.dtype == ml_dtypes.bfloat16:
        return tensor_of(array.view(np.int16)).view(torch.bfloat16)
    if isinstance(array, np.ndarray | np.generic):
        return torch.from_numpy(np.asarray(array))
    return torch.from_dlpack(array).clone()


def stream_of(tensor: Any) -> AbstractContextManager[Any]:
    """A context in which CuPy works on PyTorch's current stream of a tensor's GPU; nothing on a CPU.

    Raises RuntimeError while PyTorch captures a graph of that stream: its memory would not outlast the call.
    """
    return _current_stream(tensor.device.index) if tensor.is_cuda else _NOTHING


_NOTHING = nullcontext()


@contextmanager
def _current_stream(device: int) -> Iterator[None]:
    cuda, torch = import_cupy().cuda, sys.modules["torch"]
    with cuda.Device(device), cuda.ExternalStream(torch.cuda.current_stream(device).cuda_stream, device):
        if torch.cuda.is_current_stream_capturing():
            raise RuntimeError("products and sums of this library cannot be captured by torch.cuda.graph")
        yield
