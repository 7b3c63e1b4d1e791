"""Dot products and sums of real vectors on a GPU, in one launch each."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, import_cupy
from multiword.runtime.kernels import Kernel, pointers
from multiword.runtime.memory import taken
from multiword.runtime.readback import Readback
from ozaki.sparse.products_cuda import LIMITS

_THREADS = 256
_BLOCKS = 512
"""At most so many blocks, which is enough for any GPU: the last one adds up what all have left."""

_FILE = Path(__file__).with_name("vectors.cu")
_CONSTANTS: dict[str, Any] = {"THREADS": _THREADS, **LIMITS}

_DOTS = Kernel("enclosed_dots", _FILE, (_CONSTANTS,), equals="ozaki.definition.sums.rounded_dot")
_ADD = Kernel("add_scaled", _FILE, (_CONSTANTS,), equals="ozaki.sparse.linalg.vectors.added")
_dots, _add = (kernel.instance(**_CONSTANTS) for kernel in (_DOTS, _ADD))


class _Room:
    """Memory that a call works in: sums of blocks, the ticket, and the results on their way to the host."""

    def __init__(self) -> None:
        cupy = import_cupy()
        self.sums, self.ticket = cupy.empty((_BLOCKS, 2, 3)), cupy.zeros(1, np.uint32)
        self.results = Readback(3)


_rooms: defaultdict[int, list[_Room]] = defaultdict(list)
"""By device: memory of no call that is under way."""


def real_vectors(*vectors: Array) -> bool:
    """Return whether these are what the kernels take: contiguous CuPy vectors of float64, not empty."""
    return all(x.dtype == np.float64 and x.ndim == 1 and x.size and x.flags.c_contiguous for x in vectors)


def enclosed_dots(x: Array, y: Array, z: Array | None = None) -> list[float]:
    """Return RN(Σ x·y), RN(√Σ x·y) and RN(Σ x·z), NaN where that is undecided; wait for the GPU."""
    free = _rooms[x.data.device_id]
    room = taken(free, _Room)
    blocks = min(_BLOCKS, -(-x.size // _THREADS))
    (third,), n = pointers(z), np.int64(x.size)
    arguments = (x, y, third, n, room.sums, room.ticket, room.results.address)
    _dots((blocks,), (_THREADS,), arguments)
    room.results.send()
    found: list[float] = room.results.look().tolist()
    free.append(room)
    return found


def add_scaled(x: Array, a: Any, y: Array) -> Array:
    """Return x + a·y for a real number a, with two roundings."""
    out = import_cupy().ndarray(x.shape, np.float64)
    grid = (-(-x.size // _THREADS),)
    _add(grid, (_THREADS,), (x, np.float64(a), y, out, np.int64(x.size)))
    return out
