"""A stand-in for CuPy and the CUDA driver: streams, events, memory and graphs, on the host's memory.

Kernels are Python functions of the bytes of their arguments. Launched on a stream that is captured they
become nodes of a graph; otherwise they run at once. A graph runs what was captured last as soon as it may, so
that nodes that should wait for one another, and do not, come in the wrong order. Addresses are the host's.
"""

import ctypes
import itertools
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from ctypes import POINTER, c_void_p
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace

import numpy as np

from multiword.engines import libcublas
from multiword.runtime import graphs
from multiword.runtime.libcuda import CudaError


@dataclass
class Address:
    """Where an array lies, on the only device."""

    ptr: int

    @property
    def device_id(self):
        return sys.modules["cupy"].cuda.runtime.getDevice()


class DeviceArray(np.ndarray):
    """An array that is taken for one on a GPU."""

    @property
    def data(self):
        return Address(self.__array_interface__["data"][0])

    @property
    def device(self):
        return sys.modules["cupy"].cuda.Device(self.data.device_id)


class Device(nullcontext):
    """The only one of a library that reaches it."""

    def __init__(self, gpu, number):
        assert number == gpu.number
        super().__init__()
        self.id, self.compute_capability = number, gpu.capability
        self.attributes = {
            "MultiProcessorCount": gpu.multiprocessors,
            "MaxSharedMemoryPerBlockOptin": 227 << 10,
        }


class PinnedMemory(bytearray):
    """Memory of the host that kernels write to."""

    @property
    def ptr(self):
        return ctypes.addressof(ctypes.c_char.from_buffer(self))


@dataclass(eq=False)
class Node:
    """A node of a graph: what runs, on which bytes, and after which others."""

    run: Callable[..., None]
    arguments: list[bytes]
    after: set["Node"]
    held: list = field(default_factory=list)
    """What the addresses that the driver hands out lie in."""


@dataclass(eq=False)
class Capture:
    """A capture under way, and then the graph that it has become."""

    nodes: list[Node] = field(default_factory=list)
    broken: bool = False
    number: int = 0
    ends: list[Callable[[], None]] = field(default_factory=list)
    """What is called when the graph and its instances are gone."""


class Stream:
    """A stream, with the nodes that what is captured on it next comes after."""

    def __init__(self, gpu, **_):
        self.gpu, self.ptr = gpu, gpu.handle(self)
        self.capture, self.last = None, set()

    def __enter__(self):
        self.gpu.streams.append(self)
        return self

    def __exit__(self, *_):
        assert self.gpu.streams.pop() is self

    def synchronize(self):
        assert self.capture is None, "a stream that is captured cannot be waited for"
        self.gpu.synchronized += 1

    def is_capturing(self):
        return self.capture is not None

    def wait_event(self, event):
        self.gpu.log.append(("wait", event, self))
        if event.capture is not None:
            assert self.capture in (None, event.capture)
            self.capture, self.last = event.capture, self.last | event.last


class Event:
    """An event; `recorded` counts how often."""

    def __init__(self, gpu, **_):
        self.gpu, self.ptr = gpu, gpu.handle(self)
        self.capture, self.last, self.recorded = None, set(), 0

    def record(self, stream=None):
        stream = stream or self.gpu.current_stream()
        self.gpu.log.append(("record", self, stream))
        self.capture, self.last = stream.capture, set(stream.last)
        self.recorded += stream.capture is None

    def synchronize(self):
        assert self.capture is None, "an event of a capture cannot be waited for"
        self.gpu.waits += 1


class MemoryPool:
    """Memory that is never given back: what is captured may use it as long as the pool lives."""

    def __init__(self, allocator=None):
        self.blocks = []

    def malloc(self, size):
        self.blocks.append(np.full(size, 0x3F, np.uint8))
        return self.blocks[-1]

    def total_bytes(self):
        return sum(block.nbytes for block in self.blocks)


NUMBERS = itertools.count(1 << 16)
"""Of devices: what is cached for one is not found for another, nor for a real GPU."""


class Gpu:
    """One GPU, and the library that reaches it: `cupy` is the module, `routine` the driver's and cuBLAS's.

    Attributes
    ----------
    captures, launches, moves, waits, synchronized, executables : graphs captured and replayed, kernels of
        graphs given other arguments, events and streams waited for, and graphs that are there now.
    log : what was asked of streams, in order.
    failing : errors that the next calls of a routine of the driver raise, by its name.
    number, memory, multiprocessors, capability : of the device; bytes in all.
    of_graphs : memory allocated by nodes of graphs.
    """

    def __init__(
        self,
        memory: int = 1 << 40,
        name: str = "a stand-in",
        multiprocessors: int = 1,
        capability: str = "90",
    ) -> None:
        self.memory, self.multiprocessors, self.number = memory, multiprocessors, next(NUMBERS)
        self.capability = capability
        self.handles, self.log, self.failing = {}, [], {}
        self.captures = self.launches = self.moves = self.waits = self.synchronized = 0
        self.called, self.executables = Counter(), {}
        self.allocator = MemoryPool().malloc
        self.of_graphs = MemoryPool()
        self.streams = [Stream(self)]
        runtime = SimpleNamespace(
            CUDARuntimeError=type("CUDARuntimeError", (RuntimeError,), {}),
            getDevice=lambda: self.number,
            getDeviceProperties=lambda number: {"name": name.encode()},
            memGetInfo=lambda: (self.memory, self.memory),
        )
        self.cupy = SimpleNamespace(
            ndarray=DeviceArray,
            empty=self.empty,
            int32=np.int32,
            int64=np.int64,
            cuda=SimpleNamespace(
                Stream=partial(Stream, self),
                Event=partial(Event, self),
                MemoryPool=MemoryPool,
                malloc_async=self.of_graphs.malloc,
                Device=partial(Device, self),
                alloc=lambda size: SimpleNamespace(ptr=self.allocator(size).ctypes.data),
                alloc_pinned_memory=PinnedMemory,
                get_current_stream=self.current_stream,
                using_allocator=self.using_allocator,
                runtime=runtime,
                driver=SimpleNamespace(CUDADriverError=type("CUDADriverError", (RuntimeError,), {})),
            ),
        )

    def install(self, monkeypatch) -> None:
        """Take the place of CuPy, the driver and cuBLAS."""
        monkeypatch.setitem(sys.modules, "cupy", self.cupy)
        for module in (graphs, libcublas):
            monkeypatch.setattr(module, "routine", self.routine)

    def handle(self, thing: object) -> int:
        """A number that stands for a thing, and for no stream of a real GPU."""
        self.handles[number := len(self.handles) + (1 << 56)] = thing
        return number

    def current_stream(self) -> Stream:
        return self.streams[-1]

    @contextmanager
    def using_allocator(self, allocator):
        before, self.allocator = self.allocator, allocator
        try:
            yield
        finally:
            self.allocator = before

    def empty(self, shape, dtype=np.float64):
        memory = self.allocator(int(np.prod(shape)) * np.dtype(dtype).itemsize)
        return memory.view(dtype).reshape(shape).view(DeviceArray)

    def asarray(self, x):
        """A copy of an array on the GPU."""
        result = np.array(x).view(DeviceArray)
        result.setflags(write=True)
        return result

    def launch(self, run: Callable[..., None], arguments: list[bytes]) -> None:
        """Launch a kernel on the current stream."""
        stream = self.current_stream()
        if stream.capture is None:
            run(*arguments)
        else:
            node = Node(run, arguments, set(stream.last))
            stream.capture.nodes.append(node)
            stream.last = {node}

    # The routines of the driver -----------------------------------------------------------------------

    def routine(self, name: str) -> Callable[..., None]:
        def call(*arguments):
            self.called[name] += 1
            error = self.failing[name].pop(0) if self.failing.get(name) else None
            if error is None or name == "cuStreamEndCapture":  # a capture ends however it went
                getattr(self, name)(*arguments)
            if error is not None:
                raise error

        return call

    def cuStreamBeginCapture_v2(self, stream, mode):
        stream = self.handles[stream]
        assert stream.capture is None
        stream.capture, stream.last = Capture(), set()
        stream.capture.number = self.handle(stream.capture)

    def cuStreamEndCapture(self, stream, graph):
        """All streams that have joined leave the capture; what has not come back to this one breaks it."""
        origin = self.handles[stream]
        capture, reached = origin.capture, _before(origin.last)
        for x in list(self.handles.values()):
            if isinstance(x, Stream | Event) and x.capture is capture:
                x.capture, x.last = None, set()
        if not set(capture.nodes) <= reached:
            raise CudaError("cuStreamEndCapture", 904)
        graph._obj.value = capture.number
        self.captures += 1

    def cuStreamGetCaptureInfo_v2(self, stream, status, number, graph, nodes, count):
        graph._obj.value = self.handles[stream].capture.number
        last = list(self.handles[stream].last)
        count._obj.value = len(last)
        nodes._obj.contents = c_void_p(self.handle(last[0]) if last else None)

    def cuEventRecordWithFlags(self, event, stream, flags):
        event = self.handles[event]
        assert self.handles[stream].capture is not None, "the flag is for captures"

        def record():
            event.recorded += 1

        with self.handles[stream]:
            self.launch(record, [])

    def cuGraphInstantiateWithFlags(self, executable, graph, flags):
        capture = self.handles[graph.value]
        arguments = {node: list(node.arguments) for node in capture.nodes}
        executable._obj.value = self.handle(None)
        self.executables[executable._obj.value] = capture, arguments

    def cuGraphKernelNodeGetParams_v2(self, node, parameters):
        node = self.handles[node.value]
        values = [ctypes.create_string_buffer(x, len(x)) for x in node.arguments]
        addresses = (c_void_p * len(values))(*map(ctypes.addressof, values))
        node.held = [values, addresses]
        parameters._obj.arguments = ctypes.cast(addresses, POINTER(c_void_p))

    def cuGraphExecKernelNodeSetParams_v2(self, executable, node, parameters):
        node, (_, arguments) = self.handles[node.value], self.executables[executable.value]
        places = parameters._obj.arguments[: len(node.arguments)]
        arguments[node] = [ctypes.string_at(p, len(x)) for p, x in zip(places, node.arguments, strict=True)]
        self.moves += 1

    def cuGraphLaunch(self, executable, stream):
        self.log.append(("launch", executable.value, self.handles[stream]))
        self.launches += 1
        capture, arguments = self.executables[executable.value]
        waiting, done = list(capture.nodes), set()
        while waiting:
            node = next(x for x in reversed(waiting) if x.after <= done)
            node.run(*arguments[node])
            waiting.remove(node)
            done.add(node)

    def cuGraphExecDestroy(self, executable):
        # graphs of a real GPU may be collected meanwhile
        capture, _ = self.executables.pop(executable.value, (None, None))
        self._end(capture)

    def cuGraphDestroy(self, graph):
        capture, self.handles[graph.value] = self.handles.get(graph.value), None
        self._end(capture)

    def _end(self, capture):
        left = [*self.handles.values(), *(x for x, _ in self.executables.values())]
        if capture is not None and not any(x is capture for x in left):
            while capture.ends:
                capture.ends.pop()()

    def cuUserObjectCreate(self, owned, given, destructor, references, flags):
        assert (references, flags) == (1, 1)
        call = ctypes.CFUNCTYPE(None, c_void_p)(destructor.value)
        owned._obj.value = self.handle(partial(call, given.value))

    def cuGraphRetainUserObject(self, graph, owned, references, flags):
        assert (references, flags) == (1, 1)
        self.handles[graph.value].ends.append(self.handles[owned.value])

    # Those of cuBLAS ----------------------------------------------------------------------------------

    def cublasCreate_v2(self, handle):
        handle._obj.value = self.handle(None)

    def cublasDestroy_v2(self, handle):
        self.handles.pop(handle.value, None)  # those of a real GPU may be collected meanwhile

    def cublasSetStream_v2(self, handle, stream):
        assert handle.value in self.handles

    def cublasSetWorkspace_v2(self, handle, workspace, size):
        assert handle.value in self.handles


def _before(nodes: set[Node]) -> set[Node]:
    """These nodes and all that they come after."""
    found, more = set(), list(nodes)
    while more:
        node = more.pop()
        if node not in found:
            found.add(node)
            more += node.after
    return found
