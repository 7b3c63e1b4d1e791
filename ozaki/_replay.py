"""Ordinary products on a GPU, captured when they come for the second time and replayed from then on.

What a product of accuracy "fp64" or "fp32" queues depends on the layout of its operands alone,
until the certificate refuses it. So it is captured as two graphs, one that measures the operands
and one that multiplies them; between the two the measurements set out for the host, which judges
them while the GPU multiplies. At 1024 and below Python's own launches would take longer than
the GPU's work.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from multiword._arrays import Array, import_cupy, is_cupy
from multiword._graphs import Graph, Recorder, overlap
from multiword.engines._cublas import Cublas
from ozaki._operand import Operand
from ozaki._plan import Options, Plan, certified_bound, ordinary_plan, split_whole
from ozaki._scales import NORM_LIMITS
from ozaki._schemes import exact_product
from ozaki._special import overwrite_nonfinite

SHARE = 16
"""What is captured may hold one part in this many of the device's memory."""

KINDS_KNOWN = 256
"""Kinds of call that are remembered."""

ONCE, NEVER = "seen once", "not to be captured"

_known: OrderedDict[tuple[Any, ...], Captured | str] = OrderedDict()
"""What is known of each kind of call, the one used last at the end."""

_lock = threading.Lock()


def product(a: Operand, b: Operand, options: Options) -> Array | None:
    """The product, replayed; None if it is not to be had so, or not certified."""
    if (
        not is_cupy(a.matrix)
        or options.accuracy not in NORM_LIMITS
        or not isinstance(options.engine, Cublas)
        or (a.prepared or b.prepared)
    ):
        return None
    key = _key(a.matrix, b.matrix, options)
    with _lock:
        known = _known.pop(key, None)
        _known[key] = known or ONCE  # the first time compiles the kernels and copies their tables
    if known == ONCE:
        known = _capture(a, b, options)
        _keep(key, known)
    return known.product(a, b) if isinstance(known, Captured) else None


def forget() -> None:
    """Give back the memory of all that was captured."""
    with _lock:
        _known.clear()


def _key(a: Array, b: Array, options: Options) -> tuple[Any, ...]:
    layouts = tuple((x.shape, x.strides, x.data.ptr % 16) for x in (a, b))
    # Memory that the operands share decides which addresses move together.
    shared = a.data.ptr - b.data.ptr if overlap(a, b) else None
    asked = (options.accuracy, options.scheme, options.word, options.workspace)
    return (threading.get_ident(), a.device.id, a.dtype, layouts, shared, asked)


def _keep(key: tuple[Any, ...], known: Captured | str) -> None:
    """Remember what is known of a kind of call, and forget the least recently used beyond the limits."""
    limit = _limit()
    with _lock:
        _known[key] = known
        held = sum(x.nbytes for x in _known.values() if isinstance(x, Captured))
        for other in list(_known)[:-1]:
            if held <= limit and len(_known) <= KINDS_KNOWN:
                break
            gone = _known[other]
            if isinstance(gone, Captured) or len(_known) > KINDS_KNOWN:
                held -= gone.nbytes if isinstance(gone, Captured) else 0
                del _known[other]


def _limit() -> int:
    return int(import_cupy().cuda.runtime.memGetInfo()[1]) // SHARE


def _capture(a: Operand, b: Operand, options: Options) -> Captured | str:
    try:
        captured = Captured(a, b, options)
    except (import_cupy().cuda.memory.OutOfMemoryError, _Unfit):
        return NEVER
    return captured if captured.nbytes <= _limit() else NEVER


class _Unfit(Exception):
    """The product takes panels, too much memory, or slices, whose kernels are CuPy's own."""


class Captured:
    """One kind of call: its graphs, and the memory that they work in."""

    def __init__(self, a: Operand, b: Operand, options: Options) -> None:
        matrices = a.matrix, b.matrix
        out = import_cupy().empty((a.rows, b.rows), a.matrix.dtype)
        recorder, graphs = Recorder(), list[Graph]()

        def fresh() -> tuple[Operand, Operand]:
            return Operand(a.matrix, 0), Operand(b.matrix, 1)

        def multiply(plan: Plan, left: Operand, right: Operand) -> None:
            split_whole(plan, left, right, options.engine)
            exact_product(plan.steps, left, right, plan.scales, options.engine, options.workspace, out)

        with recorder.warm():
            left, right = fresh()
            plan, _ = ordinary_plan(left, right, options)
            if plan.panels > 1 or plan.workspace > _limit() or plan.scheme == "slices":
                raise _Unfit
            multiply(plan, left, right)
            del left, right, plan
        left, right = fresh()
        with recorder.capture(matrices, graphs):
            self._plan, self._send = ordinary_plan(left, right, options)
        with recorder.capture((*matrices, out), graphs):
            multiply(self._plan, left, right)
        self._measure, self._multiply = graphs
        self._certified = True
        self.nbytes = recorder.nbytes

    def product(self, a: Operand, b: Operand) -> Array | None:
        """The product of operands of this kind; None if not certified."""
        cupy = import_cupy()
        stream = cupy.cuda.get_current_stream()
        matrices = a.matrix, b.matrix
        out = cupy.empty((a.rows, b.rows), a.matrix.dtype)
        self._measure.replay(matrices, stream)
        read = self._send()
        # Operands like those of the last call: what was certified then will be now.
        expected = self._certified
        if expected:
            self._multiply.replay((*matrices, out), stream)
        summaries = read()
        self._certified = certified_bound(summaries, self._plan.accuracy) is not None
        if not self._certified:
            return None
        if not expected:
            self._multiply.replay((*matrices, out), stream)
        if summaries[0].nonfinite or summaries[1].nonfinite:
            overwrite_nonfinite(a.double_parts, b.double_parts, self._plan.scales, out)
        return out
