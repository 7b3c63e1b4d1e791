"""Products on a GPU that come again: captured as CUDA graphs, and replayed from then on.

What a product of accuracy "fp64" or "fp32" launches depends on the layout of its operands, on the bits by
which the certificate widens its integers, most often none, and on whether that takes a pairwise bound. So it
is captured as one graph for each of those variants that occur. While the GPU multiplies, the bounds of the
operands travel to the host, which decides whether the width was enough. At n = 1024 and below
Python's own launches would take longer than the GPU's work. "normwise" has one variant, without bounds: the
host only queues its graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from multiword.engines.libcublas import CublasError
from multiword.runtime.arrays import Array, import_cupy
from multiword.runtime.graphs import CaptureError, Graph, Recorder, side_by_side
from multiword.runtime.libcuda import CudaError
from multiword.runtime.memory import empty_result
from ozaki.certificate.counting import PendingBounds
from ozaki.certificate.decision import WIDENED_IN_ALL, certify, certify_stack
from ozaki.certificate.pairwise import PairwiseBound
from ozaki.execution.panels import choose_panels
from ozaki.factor import Factor
from ozaki.nonfinite import overwrite_nonfinite
from ozaki.pipeline import (
    Request,
    ScaledProduct,
    bounds,
    equilibrated_factors,
    execute,
    norm_scaled,
    norm_scheme,
    pairwise,
    split_whole,
)


class Unfit(Exception):
    """The product takes panels, too much memory, or slices, whose kernels are CuPy's own."""


UNFIT: tuple[type[BaseException], ...] = (Unfit, CaptureError, MemoryError)
"""What says that a product is not to be captured."""


def disturbances() -> tuple[type[BaseException], ...]:
    """What a capture ends in when another thread synchronizes the device, for one; next time may go well.

    Whatever it was, the product can be launched kernel by kernel.
    """
    cuda = import_cupy().cuda
    return CudaError, CublasError, cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError


class _NoGraph(Exception):
    """There is none of the variant, and the product is to be launched kernel by kernel."""


@dataclass(frozen=True)
class _Variant:
    """What a graph does: multiply integers wider by some bits, or none; bound pairs, or not."""

    bits: int | None
    pairwise: bool = False


@dataclass(frozen=True)
class _Call:
    """A captured call: its graph, where that leaves the norm scales, and the bounds on their way, if any."""

    variant: _Variant
    graph: Graph
    scales: tuple[Array, Array]
    pending: PendingBounds | None
    pairwise_bound: Callable[[], PairwiseBound]


class CapturedProduct:
    """One kind of product: its graphs, and the memory that they work in.

    There is a graph for every variant that the data have asked for. All take the operands' bounds.
    """

    def __init__(self, a: Factor, b: Factor, request: Request, limit: int) -> None:
        self._recorder, self._request, self._limit = Recorder(), request, limit
        self._expected = _Variant(0)
        self._held: list[Factor] = []  # prepared ones, whose memory is the graphs' too
        out = _result(a, b)
        self._graphs: dict[_Variant, _Call | None] = {
            self._expected: self._capture(self._expected, a, b, out)
        }

    @property
    def nbytes(self) -> int:
        """Bytes of device memory held."""
        return self._recorder.nbytes

    def product(
        self, a: Factor, b: Factor, captured: Callable[[], Any], multiply: Callable[[Factor, Factor], Array]
    ) -> Array | None:
        """The product of such factors; None if no graph will do.

        captured() is called after a new capture, multiply(a, b) for the factors that these are equilibrated
        to.
        """
        out = _result(a, b)
        try:
            # What the last call's operands asked for will do for this one's: the GPU need not wait.
            call = self._replay(self._expected, a, b, out, captured)
            if call.pending is None:
                return out
            found = call.pending.wait()
            if (factors := equilibrated_factors(a, b, self._request, call.scales, found)) is not None:
                self._expected = _Variant(None)
                return multiply(*factors)

            def pairwise_bound() -> PairwiseBound:
                if call.variant.pairwise:
                    return call.pairwise_bound()
                return self._replay(_Variant(None, True), a, b, out, captured).pairwise_bound()

            certificate = certify(found, self._request.limits, pairwise_bound)
            bits = certificate.bits if certificate.bits <= WIDENED_IN_ALL else None
            self._expected = _Variant(bits, certificate.pairwise)
            if bits is None:
                return None
            if bits != call.variant.bits:
                call = self._replay(self._expected, a, b, out, captured)
        except _NoGraph:
            return None
        if found.nonfinite:
            overwrite_nonfinite(a.parts, b.parts, call.scales, out)
            self._recorder.done.record()  # the scales have been read
        return out

    def products(self, a: Factor, b: Factor, captured: Callable[[], Any]) -> tuple[Array, np.ndarray] | None:
        """Those of a stack, one below the other, and which of them need wider integers: these are to be
        computed otherwise."""
        out = _result(a, b)
        try:
            call = self._replay(_Variant(0), a, b, out, captured)
        except _NoGraph:
            return None
        if call.pending is None:
            return out, np.zeros(a.stack, np.bool_)
        found = call.pending.wait_for_stack()
        if found[:, 0].any():  # an Inf or NaN
            overwrite_nonfinite(a.parts, b.parts, call.scales, out, a.stack)
            self._recorder.done.record()  # the scales have been read
        return out, certify_stack(found, a.length, self._request.limits, None) > 0

    def _replay(
        self, variant: _Variant, a: Factor, b: Factor, out: Array, captured: Callable[[], Any]
    ) -> _Call:
        """Launch a graph, captured the first time that it is asked for."""
        if variant not in self._graphs:
            try:
                self._graphs[variant] = self._capture(variant, a, b, out)
            except UNFIT:
                self._graphs[variant] = None
            except disturbances():
                raise _NoGraph from None
            captured()
        call = self._graphs[variant]
        if call is None:
            self._expected = _Variant(None, variant.pairwise)  # the bounds say when another will do again
            raise _NoGraph
        call.graph.replay((a.matrix, b.matrix, out), import_cupy().cuda.get_current_stream())
        return call

    def _capture(self, variant: _Variant, a: Factor, b: Factor, out: Array) -> _Call:
        left, right, graphs = a.copy(), b.copy(), list[Graph]()
        with self._recorder.warm():
            self._launch(variant, left, right, out)
        # Prepared factors have their statistics and words by now; the others' have to be in the graph.
        left, right = (x if x.prepared else y.copy() for x, y in ((left, a), (right, b)))
        self._held += [x for x in (left, right) if x.prepared]
        with self._recorder.capture((a.matrix, b.matrix, out), graphs):
            launched = self._launch(variant, left, right, out)
        (graph,) = graphs
        return _Call(variant, graph, *launched)

    def _launch(
        self, variant: _Variant, a: Factor, b: Factor, out: Array
    ) -> tuple[tuple[Array, Array], PendingBounds | None, Callable[[], PairwiseBound]]:
        """The steps of the pipeline, the bounds beside the product: the host decides meanwhile."""
        request = self._request
        side_by_side(lambda: a.statistics, lambda: b.statistics)
        scales = norm_scaled(a, b, request).scales

        def begin() -> ScaledProduct | None:
            if variant.bits is None:
                return None
            if self._too_large(norm_scheme(a, b, request, variant.bits), a.stack):
                raise Unfit
            scaled = norm_scaled(a, b, request, variant.bits)
            split_whole(scaled, a, b, request)
            return scaled

        def finish(scaled: ScaledProduct | None) -> tuple[Array, Array]:
            if scaled is not None:
                execute(scaled, a, b, request, out)
            return scales

        def bound() -> tuple[PendingBounds, Callable[[], PairwiseBound]]:
            pending = bounds(a, b, request, scales, a.stack)
            return pending, pairwise(a, b, request, pending) if variant.pairwise else _not_taken

        if not request.certified:
            done = finish(begin())
            overwrite_nonfinite(a.parts, b.parts, done, out, a.stack)
            return done, None, _not_taken
        if (
            variant.pairwise
        ):  # beside the products a pairwise bound would come too late: the host waits for it
            begun, taken = side_by_side(begin, bound)
            return finish(begun), *taken
        done, taken = side_by_side(lambda: finish(begin()), bound)
        return done, *taken

    def _too_large(self, scheme: Any, stack: int) -> bool:
        panels = choose_panels(scheme, scheme.specification.shape, self._request.workspace)
        m, _, n = scheme.specification.shape
        whole = panels.rows >= m and panels.columns >= n and stack * panels.bytes <= self._request.workspace
        return scheme.name == "slices" or not whole or stack * panels.bytes > self._limit


def _result(a: Factor, b: Factor) -> Array:
    return empty_result(a.matrix, (a.rows, b.rows // b.stack), a.matrix.dtype)


def _not_taken() -> PairwiseBound:
    raise AssertionError("this graph takes no pairwise bound")
