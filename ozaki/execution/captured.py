"""Products on a GPU that come again: captured as CUDA graphs, and replayed from then on.

What a product of accuracy "fp64" or "fp32" launches depends on the layout of its operands, on the integers
that the certificate asks for, most often those of norm scales, and on how far it has to look at the data for
that. So it is captured as one graph for each of those variants that occur. While the GPU multiplies, the
bounds of the operands travel to the host, which decides whether the width was enough. At n = 1024 and below
Python's own launches would take longer than the GPU's work. "normwise" has one variant, without bounds: the
host only queues its graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from multiword.engines.libcublas import CublasError
from multiword.runtime.arrays import Array, import_cupy
from multiword.runtime.graphs import CaptureError, Graph, Recorder, side_by_side
from multiword.runtime.libcuda import CudaError
from multiword.runtime.memory import empty_result
from ozaki.certificate.counting import PendingBounds
from ozaki.certificate.decision import WIDENED_IN_ALL, Certificate, certify_stack
from ozaki.certificate.pairwise import PairwiseBound
from ozaki.cost import is_costly
from ozaki.execution.panels import choose_panels
from ozaki.factor import Factor
from ozaki.nonfinite import overwrite_nonfinite
from ozaki.pipeline import (
    Request,
    ScaledProduct,
    bounded,
    bounds,
    choose_scheme,
    decide,
    execute,
    norm_scaled,
    norm_scheme,
    pairwise,
    row_limit,
    split_whole,
    wide_scales,
)
from ozaki.residues.scheme import Residues
from ozaki.scaling.equilibration import InnerExponents, inner_exponents
from ozaki.schemes import ProductSpecification

T = TypeVar("T")


SMALL = 1 << 22
"""Numbers in both operands whose norm scales are taken one after the other: the branches with which a graph
begins begin some 10 µs apart."""


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


COUNTED, GRADED, PAIRED = range(3)
"""How far a graph looks at the data: bounds from counts; whether the inner dimension is graded, too; the
pairwise bound, too."""


class _Variant(NamedTuple):
    """What a graph does.

    Attributes
    ----------
    bits : by which integers are wider than those of norm scales; None if none are multiplied. Beyond
        WIDENED_IN_ALL the graph takes the bounds of these integers.
    lossless : what is multiplied then, as such bounds have said; None if nothing is.
    looked : how far it looks at the data.
    """

    bits: int | None
    looked: int = COUNTED
    lossless: ProductSpecification | None = None

    @property
    def product(self) -> tuple[int, ProductSpecification | None] | None:
        """What it multiplies."""
        multiplies = self.bits is not None and (self.bits <= WIDENED_IN_ALL or self.lossless is not None)
        return (self.bits or 0, self.lossless) if multiplies else None


@dataclass(frozen=True)
class _Answers:
    """What the launches of a graph leave on the device, or on its way to the host: as far as it looks.

    Attributes
    ----------
    scales : the norm scales.
    bounds : those of the norm scales.
    exponents, pairwise_bound : for the certificate.
    wide : scales wider than by WIDENED_IN_ALL bits, and their bounds.
    """

    scales: tuple[Array, Array]
    bounds: PendingBounds | None = None
    exponents: InnerExponents | None = None
    pairwise_bound: Callable[[], PairwiseBound] | None = None
    wide: tuple[tuple[Array, Array], PendingBounds] | None = None


@dataclass(frozen=True)
class _Call:
    """A captured call."""

    variant: _Variant
    graph: Graph
    answers: _Answers


class _Look:
    """A further look at the data: that of a call, if it went so far, or of a graph that looks at it all."""

    def __init__(self, call: _Call, replay: Callable[[_Variant], _Call]) -> None:
        self._call, self._replay = call, replay

    def exponents(self) -> InnerExponents:
        """Those of the inner dimension."""
        return _there(self._as_far_as(GRADED).exponents)

    def pairwise_bound(self) -> PairwiseBound:
        """The bound, for which the GPU is waited for."""
        return _there(self._as_far_as(PAIRED).pairwise_bound)()

    def _as_far_as(self, far: int) -> _Answers:
        if self._call.variant.looked < far:
            self._call = self._replay(_Variant(None, PAIRED))
        return self._call.answers


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

        def replay(variant: _Variant) -> _Call:
            return self._replay(variant, a, b, out, captured)

        try:
            # What the last call's operands asked for will do for this one's: the GPU need not wait.
            call = replay(self._expected)
            if (pending := call.answers.bounds) is None:
                return out
            found, look = pending.wait(), _Look(call, replay)
            decided = decide(
                *(a, b, self._request, call.answers.scales, found), look.exponents, look.pairwise_bound
            )
            if not isinstance(decided, Certificate):
                self._expected = _Variant(None, GRADED)
                return multiply(*decided)
            self._expected = wanted = self._wanted(decided, call, replay, a, b)
            if wanted.product is None:
                return None
            if wanted != call.variant and wanted.product != call.variant.product:
                call = replay(wanted)
        except _NoGraph:
            return None
        if found.nonfinite:
            overwrite_nonfinite(a.parts, b.parts, call.answers.scales, out)
            self._recorder.done.record()  # the scales have been read
        return out

    def _wanted(
        self,
        certificate: Certificate,
        call: _Call,
        replay: Callable[[_Variant], _Call],
        a: Factor,
        b: Factor,
    ) -> _Variant:
        """The variant that a certificate asks for, which looks as far as that did.

        Integers that lose nothing have room, so that others take the same graph. Where they take many more
        products than usual, none are multiplied: that is done kernel by kernel.
        """
        wanted = _Variant(certificate.bits, PAIRED if certificate.pairwise else COUNTED)
        if certificate.bits <= WIDENED_IN_ALL:
            return wanted
        wide = call if call.variant.bits == certificate.bits else replay(wanted)
        scales, pending = _there(wide.answers.wide)
        scheme = bounded(a, b, self._request, scales, pending.wait()).scheme
        if is_costly(scheme, norm_scheme(a, b, self._request)) or not isinstance(scheme, Residues):
            return wanted
        return wanted._replace(lossless=scheme.roomy_specification)

    def products(self, a: Factor, b: Factor, captured: Callable[[], Any]) -> tuple[Array, np.ndarray] | None:
        """Those of a stack, one below the other, and which of them need wider integers: these are to be
        computed otherwise."""
        out = _result(a, b)
        try:
            call = self._replay(_Variant(0), a, b, out, captured)
        except _NoGraph:
            return None
        if call.answers.bounds is None:
            return out, np.zeros(a.stack, np.bool_)
        found = call.answers.bounds.wait_for_stack()
        if found[:, 0].any():  # an Inf or NaN
            overwrite_nonfinite(a.parts, b.parts, call.answers.scales, out, a.stack)
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
            self._expected = _Variant(None, variant.looked)  # the bounds say when another will do again
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
        return _Call(variant, graph, launched)

    def _launch(self, variant: _Variant, a: Factor, b: Factor, out: Array) -> _Answers:
        """The steps of the pipeline, what the host asks for beside the product: it decides meanwhile."""
        request = self._request
        if a.matrix.size + b.matrix.size <= SMALL:
            for x in (a, b):
                x.norm_scales(row_limit(a, request))
        scales = norm_scaled(a, b, request).scales
        if not request.certified:
            self._finish(self._begin(variant, scales, a, b), a, b, out)
            overwrite_nonfinite(a.parts, b.parts, scales, out, a.stack)
            return _Answers(scales)
        wide = None
        if variant.bits is not None and variant.bits > WIDENED_IN_ALL:
            scales_of_wide = wide_scales(a, b, request, variant.bits)
            wide = scales_of_wide, bounds(a, b, request, scales_of_wide)
        split_by = scales if wide is None else wide[0]
        if variant.looked > COUNTED:
            return replace(self._launch_looking(variant, scales, split_by, a, b, out), wide=wide)
        _, pending = side_by_side(
            lambda: self._finish(self._begin(variant, split_by, a, b), a, b, out),
            lambda: bounds(a, b, request, scales, a.stack),
        )
        return _Answers(scales, pending, wide=wide)

    def _launch_looking(
        self,
        variant: _Variant,
        scales: tuple[Array, Array],
        split_by: tuple[Array, Array],
        a: Factor,
        b: Factor,
        out: Array,
    ) -> _Answers:
        """Those after the scales, of a graph that looks further: before the products, for the host waits."""

        def begin() -> tuple[ScaledProduct | None, InnerExponents | None]:
            # First what the host waits for.
            exponents = None if a.equilibrated else inner_exponents(a, b, scales)
            return self._begin(variant, split_by, a, b), exponents

        def look() -> tuple[PendingBounds, Callable[[], PairwiseBound] | None]:
            pending = bounds(a, b, self._request, scales)
            taken = variant.looked >= PAIRED
            return pending, pairwise(a, b, self._request, pending) if taken else None

        (begun, exponents), (pending, pairwise_bound) = side_by_side(begin, look)
        self._finish(begun, a, b, out)
        return _Answers(scales, pending, exponents, pairwise_bound)

    def _begin(
        self, variant: _Variant, scales: tuple[Array, Array], a: Factor, b: Factor
    ) -> ScaledProduct | None:
        """The integers that a graph multiplies, split; None if there are none."""
        if variant.product is None:
            return None
        request, (bits, specification) = self._request, variant.product
        if specification is None:
            scaled = norm_scaled(a, b, request, bits)
        else:
            scaled = ScaledProduct(scales, choose_scheme(specification, request))
        if self._too_large(scaled.scheme, a.stack):
            raise Unfit
        split_whole(scaled, a, b, request)
        return scaled

    def _finish(self, scaled: ScaledProduct | None, a: Factor, b: Factor, out: Array) -> None:
        """Multiply and reconstruct."""
        if scaled is not None:
            execute(scaled, a, b, self._request, out)

    def _too_large(self, scheme: Any, stack: int) -> bool:
        panels = choose_panels(scheme, scheme.specification.shape, self._request.workspace)
        m, _, n = scheme.specification.shape
        whole = panels.rows >= m and panels.columns >= n and stack * panels.bytes <= self._request.workspace
        return scheme.name == "slices" or not whole or stack * panels.bytes > self._limit


def _result(a: Factor, b: Factor) -> Array:
    return empty_result(a.matrix, (a.rows, b.rows // b.stack), a.matrix.dtype)


def _there(answer: T | None) -> T:
    """An answer of a graph that has looked for it."""
    assert answer is not None
    return answer
