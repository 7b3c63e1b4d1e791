"""Launches captured once as CUDA graphs, and replayed on other arrays of the same layout.

A graph costs the host one call instead of one for every kernel. The arrays that a caller brings
lie elsewhere each time, so the addresses in the kernels' arguments are set anew before a replay;
everything between input and output stays in memory of the graph's own.
"""

from __future__ import annotations

import ctypes
import math
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from ctypes import byref, c_int, c_size_t, c_ulonglong, c_void_p
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np

from multiword.runtime import kernels
from multiword.runtime.arrays import Array, import_cupy, span
from multiword.runtime.forking import finalize
from multiword.runtime.kernels import Struct
from multiword.runtime.libcuda import (
    CAPTURE_RELAXED,
    EXTERNAL,
    MOVE,
    NO_DESTRUCTOR_SYNC,
    USE_NODE_PRIORITY,
    CudaError,
    KernelNode,
    routine,
)
from multiword.runtime.scoped import Scoped

S = TypeVar("S")
T = TypeVar("T")


class CaptureError(RuntimeError):
    """What was captured is not what replays need."""


class Graph:
    """A captured sequence of launches."""

    def __init__(
        self, recorder: Recorder, captured: c_void_p, launches: list[_Launch], arrays: Sequence[Array]
    ) -> None:
        self._recorder = recorder  # its memory is the launches'
        self.retained, self._events = recorder.retained, recorder.events  # which they refer to
        addresses = [x.data.ptr for x in arrays]
        # By array: the launches that it moves.
        self._launches = [[x for x in launches if x.takes(i)] for i in range(len(addresses))]
        self._addresses = addresses
        self._executable = c_void_p()
        try:
            routine("cuGraphInstantiateWithFlags")(byref(self._executable), captured, USE_NODE_PRIORITY)
        except BaseException:
            routine("cuGraphDestroy")(captured)
            raise
        finalize(self, _destroy, recorder.done, self._executable, captured)

    def replay(self, arrays: Sequence[Array], stream: Any) -> None:
        """Queue the launches on a CuPy stream, with these arrays instead of the captured ones."""
        for i, x in enumerate(arrays):
            address = x.data.ptr
            if address != self._addresses[i]:
                self._addresses[i] = 0  # of no array, should one of the moves fail
                for launch in self._launches[i]:
                    launch.move(self._executable, i, address)
                self._addresses[i] = address
        # Whatever works in the same memory takes its turn, on whichever stream it was queued.
        stream.wait_event(self._recorder.done)
        try:
            routine("cuGraphLaunch")(self._executable, stream.ptr)
        finally:
            self._recorder.done.record(stream)


def _destroy(done: Any, executable: c_void_p, captured: c_void_p) -> None:
    done.synchronize()
    routine("cuGraphExecDestroy")(executable)
    routine("cuGraphDestroy")(captured)


capture_lock = threading.RLock()
"""Held while work is captured, and while cuBLAS's handles are made or destroyed: that waits for the
device, which ends every capture on it."""

_recorder: Scoped[Recorder | None] = Scoped(None)
"""By which a thread captures, or warms up what it will capture."""

retaining: Scoped[Callable[[Any], None] | None] = Scoped(None)
"""What is called with all that launches of a thread take from a cache."""


def side_by_side(first: Callable[[], S], second: Callable[[], T]) -> tuple[S, T]:
    """Call both, the second before the first where this thread is capturing: their launches may run at
    the same time there."""
    recorder = _recorder.value
    return (first(), second()) if recorder is None else recorder.fork(first, second)


def capturing() -> bool:
    """Return whether CuPy's current stream is being captured, by whomever."""
    return bool(import_cupy().cuda.get_current_stream().is_capturing())


def refuse_captures(what: str) -> None:
    """Raise ValueError while CuPy's stream is captured: for calls that wait, or free memory at their end."""
    if capturing():
        raise ValueError(f"{what} cannot take part in a CUDA graph of your own: call them outside of it")


def record(event: Any) -> None:
    """Record a CuPy event on the current stream; where this thread is capturing, at every replay."""
    recorder = _recorder.value
    if recorder is None or not recorder.capturing:
        event.record()
    else:
        recorder.record(event)


def kept_zeros(shape: tuple[int, ...], dtype: Any) -> Array:
    """Return zeros for launches that leave zeros behind: a graph does not fill them at every replay."""
    recorder = _recorder.value
    if recorder is None or not recorder.capturing:
        return import_cupy().zeros(shape, dtype)
    return recorder.kept_zeros(shape, dtype)


def retained(x: T) -> T:
    """Return what a cache has and may give up, as a table; graphs that this thread captures own it, too."""
    if retaining.value is not None:
        retaining.value(x)
    return x


@dataclass(frozen=True)
class _Pointer:
    """A pointer among a kernel's arguments: the argument and the array, and byte offsets in both."""

    argument: int
    position: int
    array: int
    offset: int


class _Launch:
    """A kernel of a graph with arguments that point into the caller's arrays."""

    def __init__(self, node: c_void_p, sizes: list[int], pointers: list[_Pointer]) -> None:
        self._node = node
        self._pointers = pointers
        self._parameters = KernelNode()
        routine("cuGraphKernelNodeGetParams_v2")(node, byref(self._parameters))
        # The captured values stay where the graph keeps them; only those with addresses become ours.
        self._arguments = (c_void_p * len(sizes))(*self._parameters.arguments[: len(sizes)])
        self._values = {p.argument: ctypes.create_string_buffer(sizes[p.argument]) for p in pointers}
        for argument, value in self._values.items():
            ctypes.memmove(value, self._arguments[argument] or 0, sizes[argument])
            self._arguments[argument] = ctypes.addressof(value)
        self._parameters.arguments = ctypes.cast(self._arguments, ctypes.POINTER(c_void_p))

    def takes(self, array: int) -> bool:
        """Return whether there are pointers into one of the arrays among the arguments."""
        return any(p.array == array for p in self._pointers)

    def move(self, executable: c_void_p, array: int, address: int) -> None:
        """Put one of the arrays elsewhere."""
        for p in self._pointers:
            if p.array == array:
                c_ulonglong.from_buffer(self._values[p.argument], p.position).value = address + p.offset
        routine("cuGraphExecKernelNodeSetParams_v2")(executable, self._node, byref(self._parameters))


def _addresses(argument: object) -> list[tuple[int, int]]:
    """(byte offset, address) of the pointers in a kernel's argument."""
    if isinstance(argument, Struct):
        return argument.pointers
    pointer = getattr(getattr(argument, "data", None), "ptr", None)
    return [] if pointer is None else [(0, pointer)]


class Recorder:
    """A stream to capture on, and the memory that what was captured works in.

    The launches to capture must be those of `kernels.Kernel`, of CuPy's own kernels, cuBLAS's and
    memory fills; only the first kind may touch the arrays that are replaced later. They must
    have run once before, within `warm`: compiling, loading and tables copied to the device
    cannot be captured. Whatever one graph keeps in this memory beyond its replay has to stay allocated;
    the rest is every other graph's, too, so that they take turns.

    Attributes
    ----------
    done : an event, recorded after every replay.
    busy : set while a replay's results are awaited: whoever interrupts that must replay nothing.
    retained, events : what the graph that is being captured takes from caches, by id (tables, and cuBLAS's
        handles with their workspace), and the events that it records.
    """

    def __init__(self) -> None:
        cupy = import_cupy()
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._sides: list[Any] = []  # streams, one for each fork of a capture
        self._forks = 0
        self.capturing = False
        self._pool = cupy.cuda.MemoryPool(lambda size: _reserved(size))
        self.done = cupy.cuda.Event(disable_timing=True)
        self.busy = False
        self.retained: dict[int, Any] = {}
        self.events: list[Any] = []
        self._zeros: list[Array] = []
        self._graphs: tuple[weakref.ref[Graph], ...] = ()  # replaced as one: other threads read it

    @property
    def nbytes(self) -> int:
        """Bytes of device memory that the graphs own."""
        graphs = [graph for reference in self._graphs if (graph := reference()) is not None]
        retained = {key: x for graph in graphs for key, x in graph.retained.items()}
        return int(self._pool.total_bytes()) + sum(x.nbytes for x in retained.values())

    @contextmanager
    def warm(self) -> Iterator[None]:
        """Run the launches once, in ordinary memory, one after another but on the streams of the capture.

        What is allocated here may stay, as tables do, and cuBLAS's handles for the streams; in the memory
        of the graphs it would be overwritten, for what one of them has given back another may use.
        """
        import_cupy().cuda.get_current_stream().synchronize()
        self._stream.wait_event(self.done)  # graphs on other streams use the same handles
        self.retained, self.events = {}, []  # those before are the last graph's
        try:
            with self._stream, self._forking():
                yield
        finally:
            for stream in (self._stream, *self._sides):
                stream.synchronize()

    @contextmanager
    def _forking(self) -> Iterator[None]:
        """Within the context, `side_by_side` forks."""
        self._forks = 0
        with _recorder.within(self), retaining.within(self._retain):
            yield

    def _retain(self, x: Any) -> None:
        self.retained[id(x)] = x

    @contextmanager
    def capture(self, arrays: Sequence[Array], graphs: list[Graph]) -> Iterator[None]:
        """Append to `graphs` the launches made within the context.

        `arrays` are those that replays will replace. Kernels find them by address, so no two of
        them may overlap, except that two may be the same.
        """
        launches: list[_Launch] = []
        self.retained, self.events, self._zeros = {}, [], []
        spans = [(at := x.data.ptr, *(at + end for end in span(x))) for x in arrays]

        def noted(arguments: tuple[object, ...]) -> None:
            pointers = [
                _Pointer(i, position, which, address - start)
                for i, argument in enumerate(arguments)
                for position, address in _addresses(argument)
                for which, (start, low, high) in enumerate(spans)
                if low <= address < high
            ]
            if pointers:
                node = _last_node(import_cupy().cuda.get_current_stream().ptr)
                sizes = [ctypes.sizeof(x) if isinstance(x, Struct) else 8 for x in arguments]
                launches.append(_Launch(node, sizes, pointers))

        with capture_lock, import_cupy().cuda.using_allocator(self._pool.malloc), self._stream:
            routine("cuStreamBeginCapture_v2")(self._stream.ptr, CAPTURE_RELAXED)
            captured, self.capturing = c_void_p(), True
            try:
                with kernels.noted.within(noted), self._forking():
                    yield
            except BaseException:
                with suppress(CudaError):  # the exception says what ended the capture
                    routine("cuStreamEndCapture")(self._stream.ptr, byref(captured))
                if captured:
                    routine("cuGraphDestroy")(captured)
                raise
            finally:
                self.capturing = False
            routine("cuStreamEndCapture")(self._stream.ptr, byref(captured))
            if self._zeros:
                for x in self._zeros:
                    x.fill(0)
                self._stream.synchronize()
        graph = Graph(self, captured, launches, arrays)
        self._graphs = (*(x for x in self._graphs if x() is not None), weakref.ref(graph))
        graphs.append(graph)

    def fork(self, first: Callable[[], S], second: Callable[[], T]) -> tuple[S, T]:
        """Call both, the second on a stream of its own that joins the current one afterwards.

        The second goes first where the GPU has not room for both. What it allocates is not used
        again in this graph. Either may fork again.
        """
        cuda = import_cupy().cuda
        if self._forks == len(self._sides):
            self._sides.append(cuda.Stream(non_blocking=True, priority=-1))
        stream, side = cuda.get_current_stream(), self._sides[self._forks]
        self._forks += 1
        start, end = (cuda.Event(disable_timing=True) for _ in range(2))
        self.events += [start, end]  # not to be destroyed while the capture lasts
        start.record(stream)
        side.wait_event(start)
        with side:
            b = second()
            end.record(side)
        if not self.capturing:
            stream.wait_event(end)
        a = first()
        if self.capturing:
            stream.wait_event(end)
        return a, b

    def kept_zeros(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Return memory of the graph's own, filled once: other graphs write to all of the pool's."""
        nbytes = math.prod(shape) * np.dtype(dtype).itemsize
        x = import_cupy().ndarray(shape, dtype, _reserved(nbytes))
        self.retained[id(x)] = x
        self._zeros.append(x)
        return x

    def record(self, event: Any) -> None:
        """Record an event on the current stream at every replay."""
        self.events.append(event)
        routine("cuEventRecordWithFlags")(event.ptr, import_cupy().cuda.get_current_stream().ptr, EXTERNAL)


def _reserved(size: int) -> Any:
    """Return new device memory for the pool of a recorder. MemoryError if there is none.

    After CuPy's own error the pool would give back what is not allocated, which its graphs work in.
    """
    cuda = import_cupy().cuda
    try:
        return cuda.MemoryPointer(cuda.Memory(size), 0)
    except cuda.runtime.CUDARuntimeError as error:
        raise MemoryError(f"no memory for {size} bytes of a graph: {error}") from error


def _capture_info(stream: int) -> tuple[c_void_p, list[int | None]]:
    """Return the graph that a stream is captured into, and the nodes that what comes next depends on."""
    status, number, graph = c_int(), c_ulonglong(), c_void_p()
    nodes, count = ctypes.POINTER(c_void_p)(), c_size_t()
    routine("cuStreamGetCaptureInfo_v2")(
        stream, byref(status), byref(number), byref(graph), byref(nodes), byref(count)
    )
    return graph, nodes[: count.value]


def _last_node(stream: int) -> c_void_p:
    """Return the node that was captured last."""
    _, nodes = _capture_info(stream)
    if len(nodes) != 1:
        raise CaptureError(f"the launch left {len(nodes)} nodes at the end of the captured stream, not one")
    return c_void_p(nodes[0])


class EndOfGraph:
    """The end of the graph that CuPy's current stream is captured into, and of all instances of that graph.

    The driver calls the C library's `sem_post`: it does so on a thread of its own, perhaps after Python has
    ended, where nothing of Python's may run. The memory of the semaphore is therefore the C library's, too.
    """

    def __init__(self) -> None:
        c = _c_library()
        self._semaphore = c_void_p(c.calloc(1, _SEMAPHORE))
        c.sem_init(self._semaphore, 0, 0)
        graph, owned = _capture_info(import_cupy().cuda.get_current_stream().ptr)[0], c_void_p()
        post = ctypes.cast(c.sem_post, c_void_p)
        routine("cuUserObjectCreate")(byref(owned), self._semaphore, post, 1, NO_DESTRUCTOR_SYNC)
        routine("cuGraphRetainUserObject")(graph, owned, 1, MOVE)

    def has_come(self) -> bool:
        """Return whether the driver has destroyed the graph; once: the semaphore goes with the answer yes."""
        if _c_library().sem_trywait(self._semaphore) != 0:
            return False
        _c_library().free(self._semaphore)
        return True


_SEMAPHORE = 64
"""Bytes: no C library's semaphore takes more."""


@cache
def _c_library() -> ctypes.CDLL:
    c = ctypes.CDLL(None)
    c.calloc.restype, c.calloc.argtypes = c_void_p, [c_size_t, c_size_t]
    c.sem_init.argtypes = [c_void_p, c_int, c_int]
    c.sem_trywait.argtypes = c.free.argtypes = [c_void_p]
    return c
