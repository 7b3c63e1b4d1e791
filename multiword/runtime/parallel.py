"""Row blocks that fit in cache, shared out over the CPU's cores."""

from __future__ import annotations

import math
import os
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from queue import SimpleQueue
from typing import Any, TypeVar

import numpy as np

from multiword.runtime.arrays import Array, is_cupy, namespace
from multiword.runtime.cores import cores
from multiword.runtime.scoped import Scoped, Within
from multiword.runtime.tasks import Task, queue_for
from multiword.tuning import (
    ALONE_ELEMENTS,
    BLOCK_ELEMENTS,
    CACHED_BYTES,
    COMPILED_ELEMENTS,
    LARGE_BYTES,
    MOST_COMPILED_ELEMENTS,
    REUSED_BYTES,
)

T = TypeVar("T")


def over_rows(
    work: Callable[[slice], None],
    rows: int,
    row_elements: int,
    block_elements: int = BLOCK_ELEMENTS,
    alone_elements: int = 0,
) -> None:
    """Call work(block) for consecutive blocks of rows, on all cores unless that takes longer than one.

    The blocks write to disjoint rows, so neither their order nor their number can show in the
    result. NumPy releases the interpreter's lock inside each operation.
    """
    step = max(1, block_elements // max(1, row_elements))
    if rows <= step:
        if rows:
            work(slice(0, rows))
        return
    blocks = deque(slice(i, min(i + step, rows)) for i in range(0, rows, step))
    threads = thread_count()
    alone = threads == 1 or len(blocks) < 4 or rows * row_elements <= alone_elements
    if alone or _shared.value:
        for block in blocks:
            work(block)
        return

    def share() -> None:
        with _shared.within(True), np.errstate(all="ignore"):
            for block in taken(blocks):
                work(block)

    in_threads(share, threads - 1, blocks.clear)


def in_threads(share: Callable[[], None], others: int, stop: Callable[[], None]) -> None:
    """Call share here and in up to so many other threads; stop() leaves nothing for one that comes late.

    All have returned when this does, or raises. This thread does not wait for the others to begin: threads of
    the BLAS may be spinning where they could run.
    """
    tasks: list[Task[None]] = []
    try:
        for _ in range(others):
            tasks.append(Task(share))
            with suppress(RuntimeError):  # the process ends, and starts no more threads
                _pool().put(tasks[-1])
        try:
            share()
        finally:
            stop()
    finally:
        begun, interruption = list[Task[None]](), None
        while tasks:
            try:
                if not tasks[-1].cancelled():
                    tasks[-1].wait()
                    begun.append(tasks[-1])
                tasks.pop()
            except BaseException as error:  # a handler's: what a thread works on must not be given back now
                interruption = error
        if interruption is not None:
            raise interruption
    for task in begun:
        task.result()


def taken(blocks: deque[T]) -> Iterator[T]:
    """Yield the blocks that no other thread has taken."""
    while blocks:
        try:
            yield blocks.popleft()
        except IndexError:
            return


def compiled_block(elements: int) -> int:
    """Return the elements of a block of compiled code: all that one thread has, or four blocks a thread.

    Large blocks are faster: more neighbours of each row of a column-major matrix are read together.
    """
    if elements <= ALONE_ELEMENTS:
        return elements
    return min(max(COMPILED_ELEMENTS, elements // (4 * thread_count())), MOST_COMPILED_ELEMENTS)


def contiguous_rows(x: np.ndarray, block: slice, out: np.ndarray) -> np.ndarray:
    """Copy some rows of a matrix to `out`, an array whose rows are contiguous."""
    rows = x[block]
    if abs(rows.strides[0]) < abs(rows.strides[1]):
        # Numbers of a row that lie powers of two apart would drive one another out of the cache:
        # read along memory first, and turn what lies close together, an odd number apart where that is far.
        columns, count = rows.T.shape
        turned = scratch((columns, count | (count > 16)), out.dtype)[:, :count]
        np.copyto(turned, rows.T)
        rows = turned.T
    np.copyto(out, rows)
    return out


def as_rows(parts: list[np.ndarray], block: slice) -> np.ndarray:
    """Return some rows of all parts side by side as compiled code takes them: contiguous, aligned float64.

    A view where that is possible, or else a copy in scratch memory.
    """
    rows = parts[0][block]
    if len(parts) == 1 and rows.dtype == np.float64 and rows.flags.c_contiguous and rows.flags.aligned:
        return rows
    count, columns = rows.shape
    out = scratch((count, len(parts) * columns))
    for i, x in enumerate(parts):
        contiguous_rows(x, block, out[:, i * columns : (i + 1) * columns])
    return out


def scale_rows(x: np.ndarray, exponents: np.ndarray) -> None:
    """Multiply every row by a power of two, exactly where the results are no subnormal numbers."""
    if np.abs(exponents).max() < 1000:
        x *= np.ldexp(1.0, exponents)[:, None]
    else:  # two factors, because one alone would overflow for subnormal rows
        half = exponents >> 1
        x *= np.ldexp(1.0, half)[:, None]
        x *= np.ldexp(1.0, exponents - half)[:, None]


def empty_beside(x: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    """Return an empty array of the kind of `x`; on the host in scratch memory."""
    return namespace(x).empty(shape, dtype) if is_cupy(x) else scratch(shape, dtype)


def scratch(shape: tuple[int, ...], dtype: Any = np.float64) -> np.ndarray:
    """Return an empty array, in memory that an earlier one of its size has left.

    Memory that has just been allocated costs ten times what an operation on it does: each of its
    pages must be had from the system. The array and its views own the memory: whoever interrupts its user
    (a signal handler, a destructor) and asks for scratch memory gets other memory.
    """
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    if not REUSED_BYTES <= size <= CACHED_BYTES:
        return np.empty(shape, dtype)
    memory = _unused(size)
    array = np.frombuffer(memory, np.uint8)  # the base of all views of it
    if size + sum(n * len(loans) for n, loans in list(_loans.items())) > CACHED_BYTES:
        _loans.clear()
    _loans.setdefault(size, deque()).append((weakref.ref(array), memory))
    return array.view(dtype).reshape(shape)


def _unused(size: int) -> memoryview:
    """Return memory of that size in which no array is any more, or else new memory."""
    for memory in _given_back(_loans.get(size, deque())):
        return memory
    for other, loans in list(_loans.items()):
        if other >= LARGE_BYTES:  # unused memory must not add to what is needed
            deque(_given_back(loans), maxlen=0)
    return np.empty(size, np.uint8).data


def _given_back(loans: deque[Loan]) -> Iterator[memoryview]:
    """Yield the memory of loans whose arrays are gone, and take these away.

    Each loan is taken out, and put back if its array is still there: no two threads ever have the same one.
    """
    for _ in range(len(loans)):
        try:
            user, memory = loans.popleft()
        except IndexError:  # another thread has taken the last
            return
        if user() is None:
            yield memory
        else:
            loans.append((user, memory))


Loan = tuple["weakref.ref[np.ndarray]", memoryview]

_loans: dict[int, deque[Loan]] = {}
"""Scratch memory by its size in bytes, with the array that was made in it last, if that is still there."""

_shared = Scoped(False)
"""Whether a thread works on what another one has shared out: work that shares out its own would wait for a
thread of the pool."""

_most = Scoped(sys.maxsize)
"""How many threads a thread may hand work to, itself among them."""

THREAD_LIMITS = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"
"""What limits the threads of a BLAS: workers of joblib, Dask and others set some or all of these."""


def limit_of(variables: Mapping[str, str]) -> int:
    """Return how many threads these variables allow a BLAS."""
    limits = [variables.get(name, "").split(",")[0].strip() for name in THREAD_LIMITS]  # "4,2": nested ones
    return min((int(limit) for limit in limits if limit.isdecimal()), default=sys.maxsize)


_limit = limit_of(os.environ)
"""Read once, as a BLAS does: what is set later is meant for processes that start later, Dask's workers."""


def thread_count() -> int:
    """Return the cores of this process, or fewer where its variables or threadpoolctl limit NumPy's BLAS.

    Within `at_most`, no more than that.
    """
    limits = [_limit, cores(), _most.value]
    if "threadpoolctl" in sys.modules:  # else nothing has been limited with it
        limits += [library.num_threads or 1 for library in _blas()]
    return max(1, min(limits))


at_most: Callable[[int], Within[int]] = partial(Within, _most)
"""Return a context in which this thread hands work to no more than so many threads, itself among them."""


@cache
def _blas() -> list[Any]:
    """The libraries that threadpoolctl limits, NumPy's."""
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    libraries: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
    return [library for library in libraries if "numpy" in str(library.filepath)]


@cache
def _pool() -> SimpleQueue[Task[Any]]:
    return queue_for(cores())


if hasattr(os, "register_at_fork"):  # a child process has the queue, but none of its threads
    os.register_at_fork(after_in_child=_pool.cache_clear)
