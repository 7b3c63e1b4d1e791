"""Where the memory of a result comes from, how much a product may use besides, and how small panels get."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from math import prod
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

from multiword.runtime.arrays import Array, import_cupy, is_cupy, namespace, overlap
from multiword.runtime.scoped import Scoped, Within

T = TypeVar("T")
Allocate = Callable[[tuple[int, ...], Any], Array]

SMALLEST_PANEL = 16
"""Panels are not made smaller than this in any direction: MemoryError instead."""


class WorkspaceTooSmall(MemoryError):
    """Not even the smallest panels fit the workspace."""


class ResultTooLarge(MemoryError):
    """The result itself does not fit, however small the panels are."""


CERTAINLY_SMALL = 1 << 28
"""Bytes of a result that are not tried before it is computed."""

ALIGNED = 256
"""Bytes to a multiple of which new memory of a GPU is aligned."""

_allocate: Scoped[Allocate | None] = Scoped(None)


def results_from(allocate: Allocate) -> Within[Allocate | None]:
    """Return a context in which allocate(shape, dtype) makes the CuPy arrays for this thread's results.

    Temporary arrays, and the memory of captured graphs, remain CuPy's own.
    """
    return _allocate.within(allocate)


def empty_result(like: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    """Return an uninitialized array for a result, of the kind of `like`.

    >>> import numpy as np
    >>> empty_result(np.ones(1), (2, 3), float).shape
    (2, 3)
    """
    return empty_result_in(np if type(like) is np.ndarray else namespace(like), shape, dtype)


def empty_result_in(xp: ModuleType, shape: tuple[int, ...], dtype: Any) -> Array:
    """Return an uninitialized array for a result, of NumPy or on CuPy's current device.

    >>> empty_result_in(np, (2, 3), float).shape
    (2, 3)
    """
    try:
        if xp is np:
            return np.empty(shape, dtype)
        if (allocate := _allocate.value) is None:
            return xp.ndarray(shape, dtype)  # CuPy's empty takes longer
        return allocate(shape, dtype)
    except (MemoryError, ValueError) as error:  # NumPy's ValueError is of sizes beyond 2**63
        raise ResultTooLarge(_too_large(shape, dtype)) from error


def check_room(like: Array, shape: tuple[int, ...], dtype: Any) -> None:
    """Raise ResultTooLarge, with the sizes, for a result that cannot fit, before anything is computed.

    >>> import numpy as np
    >>> check_room(np.ones(1), (10**9, 10**8), float)
    Traceback (most recent call last):
    multiword.runtime.memory.ResultTooLarge: the result, float64 of shape (1000000000, 100000000), takes
    800000000000000000 bytes, which are not there
    """
    size = prod(shape) * np.dtype(dtype).itemsize
    if size <= CERTAINLY_SMALL:
        return
    if not is_cupy(like):
        empty_result(like, shape, dtype)  # pages that nobody writes to take no memory
    elif size > _device_memory(like.data.device_id):
        raise ResultTooLarge(_too_large(shape, dtype))


def _too_large(shape: tuple[int, ...], dtype: Any) -> str:
    dtype = np.dtype(dtype)
    size = prod(shape) * dtype.itemsize
    return f"the result, {dtype} of shape {shape}, takes {size} bytes, which are not there"


def result_in(out: Array | None, *operands: Array) -> AbstractContextManager[Any]:
    """Return a context in which `out`, of a result's dtype and shape, is where a GPU computes it at once.

    That takes memory like a new array's, which no operand shares; else the context changes nothing. Whatever
    is computed is to be `delivered`.
    """
    if out is None:
        return _ELSEWHERE
    if not is_cupy(out) or not _is_like_new(out) or any(x.size and overlap(x, out) for x in operands):
        return _ELSEWHERE
    return results_from(lambda *_: out)


_ELSEWHERE: AbstractContextManager[None] = nullcontext()


def _is_like_new(x: Array) -> bool:
    return bool(x.size and x.flags.c_contiguous and x.dtype.isnative) and x.data.ptr % ALIGNED == 0


def delivered(result: Array, out: Array | None) -> Array:
    """Return a result in `out`, if it is given."""
    if out is None or out is result:
        return result
    out[...] = result
    return out


def taken(free: list[T], make: Callable[[], T]) -> T:
    """Return the last of what is free, taken from there, or what is made: threads may ask at the same time.

    >>> taken([], dict), taken([1, 2], dict)
    ({}, 2)
    """
    try:
        return free.pop()
    except IndexError:
        return make()


def padded(size: int, multiple: int) -> int:
    """Return a size, rounded up to a multiple.

    >>> padded(100, 16), padded(16, 16), padded(0, 16)
    (112, 16, 0)
    """
    return -(-size // multiple) * multiple


def halved(size: int) -> int:
    """Return half of a size, rounded up to a multiple of `SMALLEST_PANEL`, which engines like.

    >>> halved(100), halved(16)
    (64, 16)
    """
    return max(SMALLEST_PANEL, padded(size, 2 * SMALLEST_PANEL) // 2)


def default_workspace(like: Array) -> int:
    """Return the bytes of workspace used by default: 2 GiB, or 2/5 of a GPU's memory."""
    return _device_memory(like.data.device_id) * 2 // 5 if is_cupy(like) else 2 << 30


@cache
def _device_memory(device: int) -> int:
    return int(import_cupy().cuda.Device(device).mem_info[1])


def in_less_memory(work: Callable[[int], T], workspace: int, release: Callable[[], None]) -> T:
    """Call work(workspace); where that memory is not there, release() what can be given, and try with half.

    Raises MemoryError if nothing is left to halve, WorkspaceTooSmall where `work` does, and ResultTooLarge
    where `work` does again after a release.

    >>> def work(limit):
    ...     if limit > 30:
    ...         raise MemoryError
    ...     return limit
    >>> in_less_memory(work, 100, lambda: None)
    25
    """
    released = False
    while True:
        try:
            return work(workspace)
        except WorkspaceTooSmall:
            raise
        except ResultTooLarge:
            if released:
                raise
        except MemoryError:  # CuPy's is one, too
            if workspace <= 0:
                raise
            workspace //= 2
        release()
        released = True
