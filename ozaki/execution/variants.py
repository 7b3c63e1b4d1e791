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
from ozaki.product.pair import Pair
from ozaki.product.panels import choose_panels
from ozaki.schemes import Scheme
from ozaki.tuning import CALLS_WITHOUT_MEMORY

V = TypeVar("V")
A = TypeVar("A")


class Waiting:
    """The state of what found no memory: others may give some back, so it is tried again, ever more rarely.

    >>> waiting = Waiting(calls=2)
    >>> [waiting.is_over() for _ in range(6)]
    [False, True, False, False, False, True]
    """

    def __init__(self, calls: int = CALLS_WITHOUT_MEMORY) -> None:
        self._calls = self._left = calls

    def is_over(self) -> bool:
        """Count a call; return whether it is the one to try again, after twice as many calls as before."""
        self._left -= 1
        if self._left > 0:
            return False
        self._calls = self._left = 2 * self._calls
        return True


def disturbances() -> tuple[type[BaseException], ...]:
    """Return the exceptions that may end a capture by chance: another thread synchronizes the device, say.

    The product can then be launched kernel by kernel, and captured at the next call.
    """
    cuda = import_cupy().cuda
    return CudaError, CublasError, cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError


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

    def __init__(self, room: Room, pair: Pair, first: V) -> None:
        # Before what they read: a graph that runs is waited for.
        self._graphs: dict[V, Call[V, A] | Waiting | None] = {}
        self._room, self._request, self._expected = room, pair.request, first
        self._prepared: list[Factor] = []  # whose memory the graphs read
        self._graphs[first] = self._capture(first, pair, self._result(pair))

    @property
    def memory(self) -> Recorder:
        """What its graphs work in."""
        return self._room.memory

    @property
    def empty(self) -> bool:
        """Whether it has no graph at all."""
        return not any(isinstance(x, Call) for x in self._graphs.values())

    def _launch(self, variant: V, pair: Pair, out: Array) -> A:
        """Launch what the variant computes, and return its answers."""
        raise NotImplementedError

    def _fits(self, variant: V, pair: Pair) -> bool:
        """Return whether the variant takes no panels, not too much memory, and no slices, whose kernels are
        CuPy's own."""
        raise NotImplementedError

    def _result(self, pair: Pair) -> Array:
        return empty_result(pair.a.matrix, (pair.a.rows, pair.b.rows // pair.stack), pair.a.matrix.dtype)

    def _replay(self, variant: V, pair: Pair, out: Array) -> Call[V, A] | None:
        """Launch a graph, captured at its first use, and return its call; None where there is no graph."""
        call = self._graphs.get(variant)
        if variant not in self._graphs or (isinstance(call, Waiting) and call.is_over()):
            try:
                call = self._graphs[variant] = self._capture(variant, pair, out)
            except CaptureError:
                self._graphs[variant] = None
            except MemoryError:
                self._graphs[variant] = call or Waiting()
            except disturbances():
                return None
            self._room.taken()
            call = self._graphs[variant]
        if not isinstance(call, Call):
            self._expected = self._without(variant)
            return None
        matrices = pair.a.matrix, pair.b.matrix, out
        call.graph.replay(matrices, import_cupy().cuda.get_current_stream())
        self._last = call
        return call

    def _lacks(self, variant: V) -> bool:
        """Return whether a variant is known to have no graph, or not yet."""
        return variant in self._graphs and not isinstance(self._graphs[variant], Call)

    def _without(self, variant: V) -> V:
        """Return what to expect after a variant that has no graph."""
        return variant

    def _capture(self, variant: V, pair: Pair, out: Array) -> Call[V, A] | None:
        if not self._fits(variant, pair):
            return None
        a, b, graphs = pair.a, pair.b, list[Graph]()
        left, right = a.copy(), b.copy()
        with self.memory.warm():
            self._launch(variant, pair._replace(a=left, b=right), out)
        # Prepared factors have their statistics and words by now; the others' have to be in the graph.
        left, right = (x if x.prepared else y.copy() for x, y in ((left, a), (right, b)))
        self._prepared += [x for x in (left, right) if x.prepared]
        with self.memory.capture((a.matrix, b.matrix, out), graphs):
            answers = self._launch(variant, pair._replace(a=left, b=right), out)
        (graph,) = graphs
        return Call(variant, graph, answers)

    def _too_large(self, scheme: Scheme, stack: int) -> bool:
        panels = choose_panels(scheme, scheme.specification.shape, self._request.workspace)
        m, _, n = scheme.specification.shape
        bytes_needed, one_panel = stack * panels.bytes, panels.rows >= m and panels.columns >= n
        fits = bytes_needed <= min(self._request.workspace, self._room.limit)
        return scheme.name == "slices" or not (one_panel and fits)
