"""Ordinary products on a GPU, captured when they come for the second time and replayed from then on.

What a product of accuracy "fp64" or "fp32" queues depends on the layout of its operands, and
on the bits by which the certificate widens its integers, most often none. So it is captured as two
graphs, one that measures the operands and one that multiplies them; between the two the
measurements set out for the host, which judges them while the GPU multiplies. At 1024 and below
Python's own launches would take longer than the GPU's work.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from typing import Any

from multiword._arrays import Array, import_cupy, is_cupy
from multiword._graphs import CaptureError, Graph, Recorder, overlap
from multiword._libcuda import CudaError
from multiword.engines._cublas import Cublas
from multiword.engines._libcublas import CublasError
from multiword.formats import FORMATS
from ozaki import _certificate as certificate
from ozaki._operand import Operand
from ozaki._plan import Options, Plan, ordinary_plan, split_whole, widened_plan
from ozaki._scales import NORM_LIMITS
from ozaki._schemes import exact_product
from ozaki._special import overwrite_nonfinite

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
    if any(x.prepared and (str(options.accuracy), 0) not in x.norm_scales for x in (a, b)):
        return ONCE  # the first product was broken off: its scales are not there to split by
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


class _Unfit(Exception):
    """The product takes panels, too much memory, or slices, whose kernels are CuPy's own."""


_UNFIT: tuple[type[BaseException], ...] = (_Unfit, CaptureError, MemoryError)
"""What says that a kind of call is not to be captured."""


class Captured:
    """One kind of call: its graphs, and the memory that they work in.

    There is one graph that measures, and one that multiplies for every width of the integers
    that the data have asked for.
    """

    def __init__(self, a: Operand, b: Operand, options: Options) -> None:
        self._recorder, self._options = Recorder(), options
        self._multiply: dict[int, Graph] = {}
        self._expected: int | None = 0
        graphs: list[Graph] = []
        with self._recorder.warm():
            plan, _ = ordinary_plan(a.copy(), b.copy(), options)
            if plan.scheme == "slices" or _too_large(plan):
                raise _Unfit
        left, right = a.copy(), b.copy()
        with self._recorder.capture((a.matrix, b.matrix), graphs):
            plan, self._reading = ordinary_plan(left, right, options)
        (self._measure,), self._scales = graphs, plan.scales
        # What the product is warmed up with must be scales: kernels index their tables by them.
        self._measure.replay((a.matrix, b.matrix), import_cupy().cuda.get_current_stream())
        self._held = [x for x in (left, right) if x.prepared]  # their memory is the graphs' too
        self._capture_product(0, a, b, import_cupy().empty((a.rows, b.rows), a.matrix.dtype))

    @property
    def nbytes(self) -> int:
        """Bytes of device memory held."""
        return self._recorder.nbytes

    def product(self, a: Operand, b: Operand) -> Array | None:
        """The product of operands of this kind; None if the first stage does not certify it."""
        cupy = import_cupy()
        stream = cupy.cuda.get_current_stream()
        arrays = a.matrix, b.matrix, cupy.empty((a.rows, b.rows), a.matrix.dtype)
        self._measure.replay(arrays[:2], stream)
        self._reading.mark()
        # What the last call's operands asked for will do for this one's: the GPU need not wait.
        expected = self._expected
        if expected is not None:
            self._multiply[expected].replay(arrays, stream)
        evidence = self._reading.wait()
        found = certificate.widening(evidence, FORMATS[str(self._options.accuracy)])
        needed = self._expected = None if found is None else found[0]
        if needed is None:
            return None
        if needed != expected:
            if needed not in self._multiply:
                try:
                    self._capture_product(needed, a, b, arrays[2])
                except (*_UNFIT, *_disturbances()):
                    self._expected = None
                    return None
                _forget_the_oldest()
            self._multiply[needed].replay(arrays, stream)
        if evidence.nonfinite:
            overwrite_nonfinite(a.double_parts, b.double_parts, self._scales, arrays[2])
        return arrays[2]

    def _capture_product(self, bits: int, a: Operand, b: Operand, out: Array) -> None:
        """Capture the product with integers widened by some bits."""
        graphs: list[Graph] = []
        left, right = self._measured(a), self._measured(b)
        with self._recorder.warm():
            self._queue_product(bits, left, right, out)
        # Prepared operands are split by now; the others have to be split in the graph.
        left, right = (x if x.prepared else self._measured(x) for x in (left, right))
        self._held += [x for x in (left, right) if x.prepared]
        with self._recorder.capture((a.matrix, b.matrix, out), graphs):
            self._queue_product(bits, left, right, out)
        (self._multiply[bits],) = graphs

    def _measured(self, x: Operand) -> Operand:
        """A copy of an operand with the scales that measuring it makes."""
        copy = x.copy()
        copy.norm_scales[str(self._options.accuracy), 0] = self._scales[x.side]
        return copy

    def _queue_product(self, bits: int, a: Operand, b: Operand, out: Array) -> None:
        options = self._options
        plan = widened_plan(a, b, options, bits)
        if _too_large(plan):
            raise _Unfit
        split_whole(plan, a, b, options)
        exact_product(plan.steps, a, b, plan.scales, options.engine, options.workspace, out)
