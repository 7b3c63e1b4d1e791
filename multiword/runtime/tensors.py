"""PyTorch's tensors as NumPy's and CuPy's arrays and back: the same memory on the same device and stream."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache, lru_cache
from typing import Any

import ml_dtypes
import numpy as np

from multiword.runtime.arrays import Array, import_cupy
from multiword.runtime.memory import Allocate, results_from
from multiword.runtime.parallel import at_most


def array_of(tensor: Any) -> Array:
    """Return a NumPy or CuPy array in a tensor's memory; conjugate and negative views are written out."""
    if tensor.dtype is sys.modules["torch"].bfloat16:
        bits = tensor.detach().resolve_neg().view(sys.modules["torch"].int16)
        return array_of(bits).view(ml_dtypes.bfloat16)
    if tensor.is_cpu:  # several times faster to ask than its device's type
        return tensor.numpy(force=True)  # "force" detaches and resolves; on a CPU it copies nothing else
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.detach().resolve_conj().resolve_neg()
    return _in_place(tensor)


def address_of(tensor: Any) -> Any:
    """Return where a contiguous tensor lies, for a kernel (`kernels.pointers`), a tenth of an array's time.

    It is no negative view. Whoever asks keeps it until the kernel is queued.
    """
    return None if tensor is None else np.uint64(tensor.data_ptr())


def tensor_of(array: Any) -> Any:
    """Return a tensor in the memory of a NumPy array or scalar, or of a CuPy result that PyTorch allocated.

    Of any other CuPy array a copy on the current stream: PyTorch's allocator waits for all streams that use a
    tensor before it gives the memory to another. It does not know CuPy's memory, and CuPy knows nothing of
    PyTorch's streams.
    """
    torch = sys.modules["torch"]
    if array.itemsize == 2 and array.dtype == ml_dtypes.bfloat16:  # which takes a microsecond to compare
        return tensor_of(array.view(np.int16)).view(torch.bfloat16)
    if isinstance(array, np.ndarray):
        return torch.from_numpy(array)
    if isinstance(array, np.generic):
        return torch.from_numpy(np.asarray(array))
    dtype, memory = _torch_dtype(array.dtype), array.data.mem
    if not isinstance(memory, _result_memory()) or memory.tensor.dtype is not dtype:
        result = _allocated(array.shape, dtype, array.data.device_id)
        _in_place(result)[...] = array
        return result
    if array.shape == memory.tensor.shape and array.flags.c_contiguous:
        return memory.tensor
    first = (array.data.ptr - memory.ptr) // array.itemsize
    return memory.tensor.as_strided(array.shape, [s // array.itemsize for s in array.strides], first)


def stream_of(tensor: Any) -> AbstractContextManager[Any]:
    """Return a context in which CuPy works on PyTorch's current stream of a tensor's GPU.

    Results are in PyTorch's memory there. Raises RuntimeError while PyTorch captures a graph of that stream:
    its memory would not outlast the call. On a CPU work is handed to no more threads than PyTorch takes.
    """
    torch = sys.modules["torch"]
    if not tensor.is_cuda:
        return at_most(torch.get_num_threads())
    cuda, device = import_cupy().cuda, tensor.get_device()
    # A tenth of the time of torch.cuda.current_stream; the default stream is never captured.
    stream = torch._C._cuda_getCurrentRawStream(device)
    if stream and cuda.runtime.streamIsCapturing(stream):
        raise RuntimeError("products and sums of this library cannot be captured by torch.cuda.graph")
    if cuda.runtime.getDevice() == device and cuda.get_current_stream(device).ptr == stream:
        return results_from(_allocator(device))
    return _on_stream(stream, device)


@contextmanager
def _on_stream(stream: int, device: int) -> Iterator[None]:
    with import_cupy().cuda.Device(device), _stream(stream, device), results_from(_allocator(device)):
        yield


@lru_cache(64)  # CuPy warns at each that they are deprecated, which takes longer than everything else here
def _stream(address: int, device: int) -> Any:
    return import_cupy().cuda.ExternalStream(address, device)


@cache
def _allocator(device: int) -> Allocate:
    cupy = import_cupy()

    def result(shape: tuple[int, ...], dtype: Any) -> Array:
        tensor = _allocated(shape, _torch_dtype(np.dtype(dtype)), device)
        memory = _result_memory()(tensor.data_ptr(), tensor.nbytes, tensor, device)
        return cupy.ndarray(shape, dtype, cupy.cuda.MemoryPointer(memory, 0))

    return result


@cache
def _result_memory() -> Any:
    class ResultMemory(import_cupy().cuda.UnownedMemory):  # type: ignore[misc]
        """The memory of a tensor that was made for a result, and belongs to no one else."""

        def __init__(self, address: int, size: int, tensor: Any, device: int) -> None:
            super().__init__(address, size, tensor, device)
            self.tensor = tensor

    return ResultMemory


def _in_place(tensor: Any) -> Array:
    """Return a CuPy array in the memory of a tensor on a GPU; DLPack's way takes 15 µs longer."""
    cupy, dtype = import_cupy(), numpy_dtype(tensor.dtype)
    memory = cupy.cuda.UnownedMemory(tensor.data_ptr(), tensor.nbytes, tensor, tensor.get_device())
    strides = None
    if not tensor.is_contiguous():
        strides = tuple([dtype.itemsize * s for s in tensor.stride()])
    return cupy.ndarray(tuple(tensor.shape), dtype, cupy.cuda.MemoryPointer(memory, 0), strides)


def _allocated(shape: tuple[int, ...], dtype: Any, device: int) -> Any:
    """Return a new tensor on a GPU; MemoryError if there is no memory, even of what CuPy has free."""
    torch = sys.modules["torch"]
    try:
        return torch.empty(shape, dtype=dtype, device=device)
    except torch.OutOfMemoryError:
        import_cupy().get_default_memory_pool().free_all_blocks()
    try:
        return torch.empty(shape, dtype=dtype, device=device)
    except torch.OutOfMemoryError as error:
        raise MemoryError(str(error)) from error


@cache
def numpy_dtype(dtype: Any) -> np.dtype:
    return np.dtype(str(dtype).removeprefix("torch."))


@cache
def _torch_dtype(dtype: np.dtype) -> Any:
    return getattr(sys.modules["torch"], dtype.name)
