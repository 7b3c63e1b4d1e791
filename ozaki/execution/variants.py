"""Calls that come again on a GPU: captured as CUDA graphs, one for each variant that data ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from multiword.engines.libcublas import CublasError
from multiword.runtime.arrays import Array, import_cupy
from multiword.runtime.graphs import CaptureError, Graph, Recorder
from multiword.runtime.libcuda import CudaError
from multiword.runtime.memory import empty_result
from ozaki.product.factor import Factor
from ozaki.product.panels import choose_panels
from ozaki.product.request import Request
from ozaki.schemes import Scheme

V = TypeVar("V")
A = TypeVar("A")


class Unfit(Exception):
    """The product takes panels, too much memory, or slices, whose kernels are CuPy's own."""


UNFIT: tuple[type[BaseException], ...] = (Unfit, CaptureError, MemoryError)
"""The exceptions of a product that cannot be captured."""


def disturbances() -> tuple[type[BaseException], ...]:
    """Return the exceptions that may end a capture by chance: another thread synchronizes the device, say.

    The product can then be launched kernel by kernel, and captured at the next call.
    """
    cuda = import_cupy().cuda
    return CudaError, CublasError, cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError


class NoGraph(Exception):
    """The variant has no graph: the product is to be launched kernel by kernel."""


@dataclass(frozen=True)
class Call(Generic[V, A]):
    """A captured call: what its graph computes, and what that answers to the host."""

    variant: V
    graph: Graph
    answers: A


class Room(NamedTuple):
    """What the graphs of a kind of call may have.

    Attributes
    ----------
    memory : what they work in, which other calls of the same thread share.
    limit : bytes that a product may take.
    taken : called when one more graph has been captured.
    """

    memory: Recorder
    limit: int
    taken: Callable[[], None]


class Captured(Generic[V, A]):
    """One kind of call: its graphs, one for each variant that data have needed so far.

    Subclasses say what a variant launches.

    Attributes
    ----------
    _last : what was replayed last, which may have written to what earlier calls have answered on the device.
    """

    _last: Call[V, A]

    def __init__(self, room: Room, a: Factor, b: Factor, request: Request, first: V) -> None:
        # Before what they read: a graph that runs is waited for.
        self._graphs: dict[V, Call[V, A] | None] = {}
        self._room, self._request, self._expected = room, request, first
        self._prepared: list[Factor] = []  # whose memory the graphs read
        self._graphs[first] = self._capture(first, a, b, self._result(a, b))

    @property
    def memory(self) -> Recorder:
        """What its graphs work in."""
        return self._room.memory

    def _launch(self, variant: V, a: Factor, b: Factor, out: Array) -> A:
        """Launch what the variant computes, and return its answers."""
        raise NotImplementedError

    def _result(self, a: Factor, b: Factor) -> Array:
        return empty_result(a.matrix, (a.rows, b.rows // b.stack), a.matrix.dtype)

    def _replay(self, variant: V, a: Factor, b: Factor, out: Array) -> Call[V, A]:
        """Launch a graph, captured at its first use."""
        if variant not in self._graphs:
            try:
                self._graphs[variant] = self._capture(variant, a, b, out)
            except UNFIT:
                self._graphs[variant] = None
            except disturbances():
                raise NoGraph from None
            self._room.taken()
        call = self._graphs[variant]
        if call is None:
            self._expected = self._without(variant)
            raise NoGraph
        call.graph.replay((a.matrix, b.matrix, out), import_cupy().cuda.get_current_stream())
        self._last = call
        return call

    def _lacks(self, variant: V) -> bool:
        """Return whether a variant is known to have no graph."""
        return self._graphs.get(variant, self) is None

    def _without(self, variant: V) -> V:
        """Return what to expect after a variant that has no graph."""
        return variant

    def _capture(self, variant: V, a: Factor, b: Factor, out: Array) -> Call[V, A]:
        left, right, graphs = a.copy(), b.copy(), list[Graph]()
        with self.memory.warm():
            self._launch(variant, left, right, out)
        # Prepared factors have their statistics and words by now; the others' have to be in the graph.
        left, right = (x if x.prepared else y.copy() for x, y in ((left, a), (right, b)))
        self._prepared += [x for x in (left, right) if x.prepared]
        with self.memory.capture((a.matrix, b.matrix, out), graphs):
            answers = self._launch(variant, left, right, out)
        (graph,) = graphs
        return Call(variant, graph, answers)

    def _too_large(self, scheme: Scheme, stack: int) -> bool:
        panels = choose_panels(scheme, scheme.specification.shape, self._request.workspace)
        m, _, n = scheme.specification.shape
        bytes_needed, one_panel = stack * panels.bytes, panels.rows >= m and panels.columns >= n
        fits = bytes_needed <= min(self._request.workspace, self._room.limit)
        return scheme.name == "slices" or not (one_panel and fits)
