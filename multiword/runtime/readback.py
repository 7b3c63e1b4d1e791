"""Numbers that a GPU writes to the host's memory while it goes on with other work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, import_cupy, is_cupy, namespace
from multiword.runtime.forking import finalize
from multiword.runtime.graphs import record, refuse_captures
from multiword.runtime.kernels import Kernel

_THREADS, _BYTES, _MOST_BLOCKS = 256, 1 << 12, 1 << 11
"""Threads of a block that reads a mask, the bytes it reads at least, and blocks."""

_ANYWHERE = Kernel("anywhere", Path(__file__).with_name("anywhere.cu"), equals="numpy.any")


class Readback:
    """Numbers, float64 unless said otherwise, on their way to the host; from a graph, at every replay.

    Attributes
    ----------
    address : where a kernel writes them.
    """

    def __init__(self, count: int, dtype: type = np.float64) -> None:
        cuda = import_cupy().cuda
        memory = cuda.alloc_pinned_memory(np.dtype(dtype).itemsize * count)
        self._numbers: np.ndarray = np.frombuffer(memory, dtype, count)
        self.address = np.uint64(memory.ptr)
        self._numbers[:] = 0
        self._written = cuda.Event(block=False, disable_timing=True)
        # Memory that is given back serves another: not before it has been written to.
        finalize(self, _wait_for, self._written, self._numbers)

    def send(self) -> None:
        """Mark the end of the launches that write the numbers, which `wait` waits for."""
        record(self._written)

    def look(self) -> np.ndarray:
        """Return the numbers, once they are there, in memory that the next launch writes to."""
        self._written.synchronize()
        return self._numbers

    def wait(self) -> np.ndarray:
        """Return a copy of the numbers, once they are there."""
        return self.look().copy()


def _wait_for(written: Any, memory: np.ndarray) -> None:
    del memory  # which lives as long as this has not been called
    written.synchronize()


def anywhere(mask: Array) -> bool:
    """Return whether a boolean array has a True: CuPy's, by a kernel that tells the host.

    Copying one number from a GPU takes longer than that kernel.

    >>> anywhere(np.array([False, True]))
    True
    """
    if not is_cupy(mask):
        return bool(mask.any())
    refuse_captures("what depends on an array's numbers")
    if not (mask.flags.c_contiguous or mask.flags.f_contiguous):
        mask = namespace(mask).ascontiguousarray(mask)
    told = Readback(1, np.int32)
    blocks = min(-(-mask.size // _BYTES), _MOST_BLOCKS)
    _ANYWHERE((blocks,), (_THREADS,), (mask, np.int64(mask.size), told.address))
    told.send()
    return bool(told.look()[0])
