"""Ordinary products on a GPU, captured when they come for the second time and replayed from then on.

What a product of accuracy "fp64" or "fp32" queues depends on the layout of its operands, on the bits by which
the certificate widens its integers, most often none, and on whether that takes a look at the pairs. So it is
captured as one graph for each of those that occur. While the GPU multiplies, what it has measured of the
operands sets out for the host, which judges by it whether the width was enough. At 1024 and below
Python's own launches would take longer than the GPU's work.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from multiword.engines.cublas import Cublas
from multiword.engines.libcublas import CublasError
from multiword.formats import FORMATS
from multiword.runtime.arrays import Array, import_cupy, is_cupy
from multiword.runtime.graphs import CaptureError, Graph, Recorder, overlap, side_by_side
from multiword.runtime.libcuda import CudaError
from ozaki.certificate import decision as certificate
from ozaki.certificate.counting import Reading
from ozaki.certificate.pairwise import Found
from ozaki.nonfinite import overwrite_nonfinite
from ozaki.operand import Operand
from ozaki.plans import Options, Plan, carry_out, looked_at, measured, norm_plan, split_whole
from ozaki.scaling.scales import NORM_LIMITS

SHARE, SHARE_OF_ONE = 16, 64
"""What is captured may hold one part in this many of the device's memory, and one product use one in so
many: larger ones keep a GPU busy for longer than their launches take."""

KINDS_KNOWN = 256
"""Kinds of call that are remembered."""

ONCE, NEVER = "seen once", "not to be captured"

_known: OrderedDict[tuple[Any, ...], Captured | str] = OrderedDict()
"""What is known of each kind of call, the one used last at the end."""

_lock = threading.RLock()  # what is forgotten may take prepared operands along, which are then forgotten too


def product(a: Operand, b: Operand, options: Options) -> Array | None:
    """The product, replayed; None if it is not to be had so, or not certified."""
    if not is_cupy(a.matrix) or options.accuracy not in NORM_LIMITS or not isinstance(options.engine, Cublas):
        return None
    key = _key(a, b, options)
    with _lock:
        known = _known.pop(key, None)
        if known is None:
            for x in (a, b):
                if x.prepared:
                    weakref.finalize(x, _forget_prepared, id(x)).atexit = False
        _known[key] = known or ONCE  # the first time compiles the kernels and copies their tables
    if known == ONCE:
        known = _capture(a, b, options)
        _keep(key, known)
    return known.product(a, b) if isinstance(known, Captured) else None


def forget() -> None:
    """Give back the memory of all that was captured."""
    _drop(list(_known))


def _key(a: Operand, b: Operand, options: Options) -> tuple[Any, ...]:
    x, y = a.matrix, b.matrix
    layouts = tuple((z.shape, z.strides, z.data.ptr % 16) for z in (x, y))
    # Memory that the operands share decides which addresses move together.
    shared = x.data.ptr - y.data.ptr if overlap(x, y) else None
    asked = (options.accuracy, options.scheme, options.word, options.workspace)
    prepared = tuple(id(z) for z in (a, b) if z.prepared)
    return (threading.get_ident(), x.device.id, x.dtype, layouts, shared, asked, prepared)


def _forget_prepared(number: int) -> None:
    """Forget what was captured for a prepared operand, which is gone, and its id free for another."""
    with _lock:
        _drop([key for key in _known if number in key[-1]])


def _keep(key: tuple[Any, ...], known: Captured | str) -> None:
    """Remember what is known of a kind of call."""
    with _lock:
        _known[key] = known
    _forget_the_oldest()


def _forget_the_oldest() -> None:
    """Forget what was used least recently beyond the limits; never what was used last.

    What has to make room for others is not captured again: where two take turns, both would be
    at every call.
    """
    limit = _limit()
    dropped: list[tuple[Any, ...]] = []
    made_room: list[tuple[Any, ...]] = []
    with _lock:
        held = sum(x.nbytes for x in _known.values() if isinstance(x, Captured))
        for key, known in list(_known.items())[:-1]:
            size = known.nbytes if isinstance(known, Captured) else 0
            if len(_known) - len(dropped) > KINDS_KNOWN:
                held -= size
                dropped.append(key)
            elif size and held > limit:
                held -= size
                made_room.append(key)
    _drop(dropped)
    _drop(made_room, NEVER)


def _drop(keys: list[tuple[Any, ...]], instead: str | None = None) -> None:
    with _lock:
        gone = [_known.pop(key, None) for key in keys]
        if instead is not None:
            _known.update(dict.fromkeys(keys, instead))
            for key in keys:
                _known.move_to_end(key, last=False)
    del gone  # outside of the lock: a graph that is running is waited for


def _limit() -> int:
    return int(import_cupy().cuda.runtime.memGetInfo()[1]) // SHARE


def _too_large(plan: Plan) -> bool:
    return plan.panels > 1 or plan.workspace * SHARE_OF_ONE > _limit() * SHARE


def _capture(a: Operand, b: Operand, options: Options) -> Captured | str:
    try:
        captured = Captured(a, b, options)
    except _UNFIT:
        return NEVER
    except _disturbances():
        return ONCE
    return captured if captured.nbytes <= _limit() else NEVER


def _disturbances() -> tuple[type[BaseException], ...]:
    """What a capture ends in when another thread synchronizes the device, for one; next time may go well.

    Whatever it was, the product can be queued kernel by kernel.
    """
    cuda = import_cupy().cuda
    return CudaError, CublasError, cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError


class _NoGraph(Exception):
    """There is none of the kind, and the product is to be queued kernel by kernel."""


class _Unfit(Exception):
    """The product takes panels, too much memory, or slices, whose kernels are CuPy's own."""


_UNFIT: tuple[type[BaseException], ...] = (_Unfit, CaptureError, MemoryError)
"""What says that a kind of call is not to be captured."""


@dataclass(frozen=True)
class _Kind:
    """What a graph does: multiply integers wider by some bits, or none; look at the pairs, at some depths."""

    bits: int | None
    depths: tuple[int, ...] = ()


class Captured:
    """One kind of call: its graphs, and the memory that they work in.

    There is a graph for every width, in bits beyond the norm scales', and every look at the pairs that the
    data have asked for. All measure the operands.
    """

    def __init__(self, a: Operand, b: Operand, options: Options) -> None:
        self._recorder, self._options = Recorder(), options
        self._expected = _Kind(0)
        self._held: list[Operand] = []  # prepared ones, whose memory is the graphs' too
        out = import_cupy().empty((a.rows, b.rows), a.matrix.dtype)
        self._graphs: dict[_Kind, _Call | None] = {self._expected: self._capture(self._expected, a, b, out)}

    @property
    def nbytes(self) -> int:
        """Bytes of device memory held."""
        return self._recorder.nbytes

    def product(self, a: Operand, b: Operand) -> Array | None:
        """The product of operands of this kind; None if no graph will do."""
        out = import_cupy().empty((a.rows, b.rows), a.matrix.dtype)
        try:
            # What the last call's operands asked for will do for this one's: the GPU need not wait.
            call = self._replay(self._expected, a, b, out)
            evidence = call.reading.wait()

            def look(depths: tuple[int, ...]) -> Found:
                looked = call if depths == call.kind.depths else self._replay(_Kind(None, depths), a, b, out)
                return looked.look()

            told = certificate.verdict(evidence, FORMATS[str(self._options.accuracy)], look)
            bits = told.bits if told.bits <= certificate.WIDEST else None
            self._expected = _Kind(bits, told.depths)
            if bits is None:
                return None
            if bits != call.kind.bits:
                call = self._replay(self._expected, a, b, out)
        except _NoGraph:
            return None
        if evidence.nonfinite and call.scales is not None:
            overwrite_nonfinite(a.double_parts, b.double_parts, call.scales, out)
            self._recorder.done.record()  # the scales have been read
        return out

    def _replay(self, kind: _Kind, a: Operand, b: Operand, out: Array) -> _Call:
        """Queue a graph, captured the first time that it is asked for."""
        if kind not in self._graphs:
            try:
                self._graphs[kind] = self._capture(kind, a, b, out)
            except _UNFIT:
                self._graphs[kind] = None
            except _disturbances():
                raise _NoGraph from None
            _forget_the_oldest()
        call = self._graphs[kind]
        if call is None:
            raise _NoGraph
        call.graph.replay((a.matrix, b.matrix, out), import_cupy().cuda.get_current_stream())
        return call

    def _capture(self, kind: _Kind, a: Operand, b: Operand, out: Array) -> _Call:
        left, right, graphs = a.copy(), b.copy(), list[Graph]()
        with self._recorder.warm():
            self._queue(kind, left, right, out)
        # Prepared operands are measured and split by now; the others have to be in the graph.
        left, right = (x if x.prepared else y.copy() for x, y in ((left, a), (right, b)))
        self._held += [x for x in (left, right) if x.prepared]
        with self._recorder.capture((a.matrix, b.matrix, out), graphs):
            queued = self._queue(kind, left, right, out)
        (graph,) = graphs
        return _Call(kind, graph, *queued)

    def _queue(
        self, kind: _Kind, a: Operand, b: Operand, out: Array
    ) -> tuple[tuple[Array, Array] | None, Reading, Callable[[], Found]]:
        """Measure, look, and multiply: what is measured and seen can be judged meanwhile."""
        options, name = self._options, str(self._options.accuracy)

        def begin() -> Plan | None:
            if kind.bits is None:
                return None
            side_by_side(lambda: a.norm_scales(name), lambda: b.norm_scales(name))
            plan = norm_plan(a, b, options, kind.bits)
            if plan.scheme == "slices" or _too_large(plan):
                raise _Unfit
            split_whole(plan, a, b, options)
            return plan

        def judge() -> tuple[Reading, Callable[[], Found]]:
            reading = measured(a, b, options)
            return reading, looked_at(a, b, reading, kind.depths, options) if kind.depths else _nothing

        def finish(plan: Plan | None) -> tuple[Array, Array] | None:
            if plan is None:
                return None
            carry_out(plan, a, b, options, out)
            return plan.scales

        side_by_side(lambda: a.profile, lambda: b.profile)
        if kind.depths:  # beside the products the look would come too late: the host waits for it
            plan, judged = side_by_side(begin, judge)
            return finish(plan), *judged
        scales, judged = side_by_side(lambda: finish(begin()), judge)
        return scales, *judged


@dataclass(frozen=True)
class _Call:
    """A captured call: its graph, where that leaves the scales, the evidence on its way, and what is seen."""

    kind: _Kind
    graph: Graph
    scales: tuple[Array, Array] | None
    reading: Reading
    look: Callable[[], Found]


def _nothing() -> Found:
    raise AssertionError("this graph does not look at the pairs")
