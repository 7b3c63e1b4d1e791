"""Numbers that a GPU writes to the host's memory while it goes on with other work."""

from __future__ import annotations

from typing import Any

import numpy as np

from multiword.runtime.arrays import import_cupy
from multiword.runtime.forking import finalize
from multiword.runtime.graphs import record


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
