"""Products on a GPU that come again: captured as CUDA graphs, and replayed from then on.

What a product of accuracy "fp64" or "fp32" launches depends on the layout of its operands, on the integers
that the certificate asks for, most often those of norm scales, and on the evidence that it takes to decide.
So it is captured as one graph for each of those variants that occur. While the GPU multiplies, the bounds of
the operands travel to the host, which decides whether the width was enough. At n = 1024 and below Python's
own launches would take longer than the GPU's work. "normwise" has one variant, without bounds: the host only
queues its graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from multiword.runtime.arrays import Array
from multiword.runtime.graphs import side_by_side
from ozaki.certificate.counting import CERTIFIED, NOT_FINITE, OPEN, Bounds, PendingBounds, PendingNumbers
from ozaki.certificate.decision import Ask, Certificate, answered, decide, decide_stack
from ozaki.certificate.pairwise import PairwiseBound
from ozaki.definition.decision import WIDENED_IN_ALL
from ozaki.execution.variants import Call, Captured, NoGraph, Room, Unfit
from ozaki.product import steps
from ozaki.product.factor import Factor
from ozaki.product.request import Request
from ozaki.product.steps import ScaledProduct
from ozaki.scaling.equilibration import InnerExponents
from ozaki.schemes import ProductSpecification

T = TypeVar("T")


class _Equilibrated(Exception):
    """The factors of the call are to be replaced by A·D and D⁻¹·B."""

    def __init__(self, a: Factor, b: Factor) -> None:
        super().__init__()
        self.factors = a, b


COUNTED, PAIRED, GRADED, DECIDES = range(4)
"""The evidence that a graph computes: bounds from counts; also the pairwise bound, and whether a few rows
prove that the inner dimension is not graded; or else, where they do not, what it is equilibrated by. Or all
of it, where the graph itself decides."""


class _Variant(NamedTuple):
    """What a graph does.

    Attributes
    ----------
    bits : by which integers are wider than those of norm scales; None if none are multiplied. Beyond
        WIDENED_IN_ALL the graph takes the bounds of these integers.
    lossless : the product for these bounds, of integers that lose nothing; None if none is multiplied.
    evidence : what it computes for the certificate.
    """

    bits: int | None
    evidence: int = COUNTED
    lossless: ProductSpecification | None = None

    @property
    def product(self) -> tuple[int, ProductSpecification | None] | None:
        """The bits and the specification of its product; None if it multiplies nothing."""
        multiplies = self.bits is not None and (self.bits <= WIDENED_IN_ALL or self.lossless is not None)
        return (self.bits or 0, self.lossless) if multiplies else None


USUAL = _Variant(0)
"""Of integers of norm scales, which counts prove to be wide enough."""

DECIDING = _Variant(0, DECIDES)
"""The same, with room for integers that are wider by some bits, or lose nothing: the GPU decides."""


@dataclass(frozen=True)
class _Answers:
    """What a graph computes for the host, on the device or on its way: as much as its evidence takes.

    Attributes
    ----------
    scales : the norm scales.
    bounds : those of the norm scales.
    level, pairwise_bound, exponents : for the certificate, with more evidence than counts.
    wide : scales wider than by WIDENED_IN_ALL bits, and their bounds.
    """

    scales: tuple[Array, Array]
    bounds: PendingNumbers | None = None
    level: Callable[[], bool] | None = None
    pairwise_bound: Callable[[], PairwiseBound] | None = None
    exponents: InnerExponents | None = None
    wide: tuple[tuple[Array, Array], PendingBounds] | None = None


_Replayed = Call[_Variant, _Answers]


class _Data:
    """The factors of a call, which answer a decision's questions from the replays of graphs.

    Attributes
    ----------
    bounds : those of the factors, once the decision has asked for them.
    """

    bounds: Bounds

    def __init__(
        self, a: Factor, b: Factor, request: Request, call: _Replayed, replay: Callable[[_Variant], _Replayed]
    ) -> None:
        self._factors, self._request, self._replay = (a, b), request, replay
        self._first, self._answers = call.answers, {call.variant.evidence: call.answers}

    def answer(self, question: Ask) -> Any:
        """Wait for the GPU, and return the answer."""
        if question is Ask.COUNTS:
            self.bounds = _computed(self._first.bounds).wait()
            return self.bounds
        if question is Ask.PAIRS:
            return _computed(self._answers_with(PAIRED).pairwise_bound)()
        a, b = self._factors
        if a.equilibrated or (GRADED not in self._answers and _computed(self._answers_with(PAIRED).level)()):
            return False
        answers = self._answers_with(GRADED)
        factors = steps.equilibrated(a, b, self._request, answers.scales, _computed(answers.exponents))
        if factors is not None:
            raise _Equilibrated(*factors[1:])
        return False

    def _answers_with(self, evidence: int) -> _Answers:
        if evidence not in self._answers:
            self._answers[evidence] = self._replay(_Variant(None, evidence)).answers
        return self._answers[evidence]


class CapturedProduct(Captured[_Variant, _Answers]):
    """One kind of product of accuracy "fp64", "fp32" or "normwise", or of a stack of them."""

    def __init__(self, room: Room, a: Factor, b: Factor, request: Request) -> None:
        self._may_be_decided = request.certified and steps.may_be_decided(a, b)
        super().__init__(room, a, b, request, USUAL)

    def product(self, a: Factor, b: Factor, multiply: Callable[[Factor, Factor], Array]) -> Array | None:
        """Return the product of such factors, or multiply(a, b) of those that they are equilibrated to; None
        if it has no graph."""
        if self.memory.busy:  # this call interrupts another, whose graphs' memory it must not touch
            return None
        out, self.memory.busy = self._result(a, b), True
        try:
            return self._product(a, b, out)
        except _Equilibrated as other:
            self.memory.done.record()  # answers have been read
            self._expected, factors = _Variant(None, GRADED), other.factors
        except NoGraph:
            return None
        finally:
            self.memory.busy = False
        return multiply(*factors)

    def _product(self, a: Factor, b: Factor, out: Array) -> Array | None:
        def replay(variant: _Variant) -> _Replayed:
            return self._replay(variant, a, b, out)

        # Most often this call's operands need what the last one's did: the GPU need not wait for the host.
        call = replay(self._expected)
        if call.variant in (USUAL, DECIDING):
            call, settled = self._settled(call, a, b, out)
            if settled:
                return out
        data = _Data(a, b, self._request, call, replay)
        certificate = answered(decide(self._request.limits), data.answer)
        self._expected = wanted = self._wanted(certificate, call, replay, a, b)
        if wanted.product is None:
            return None
        if wanted != call.variant and wanted.product != call.variant.product:
            call = replay(wanted)
        if data.bounds.nonfinite:
            steps.overwrite_nonfinite(a.parts, b.parts, self._last.answers.scales, out)
            self.memory.done.record()  # the scales have been read
        return out

    def _wanted(
        self,
        certificate: Certificate,
        call: _Replayed,
        replay: Callable[[_Variant], _Replayed],
        a: Factor,
        b: Factor,
    ) -> _Variant:
        """Return the variant that a certificate asks for, with the evidence that it took.

        Integers that lose nothing are given spare bits, so that others take the same graph. Where they take
        many more products than usual, none are multiplied: that is done kernel by kernel.
        """
        wanted = _Variant(certificate.bits, PAIRED if certificate.pairwise else COUNTED)
        if certificate.bits <= WIDENED_IN_ALL:
            return wanted
        wide = call if call.variant.bits == certificate.bits else replay(wanted)
        scales, pending = _computed(wide.answers.wide)
        scheme = steps.bounded(a, b, self._request, scales, pending.wait()).scheme
        if steps.is_costly(scheme, steps.norm_scheme(a, b, self._request)) or not isinstance(
            scheme, steps.Residues
        ):
            return wanted
        return wanted._replace(lossless=scheme.roomy_specification)

    def products(self, a: Factor, b: Factor) -> tuple[Array, np.ndarray] | None:
        """Return the products of a stack, one below the other, and which of them need wider integers."""
        if self.memory.busy:
            return None
        out, self.memory.busy = self._result(a, b), True
        try:
            call, settled = self._settled(self._replay(self._expected, a, b, out), a, b, out)
            if settled:
                return out, np.zeros(a.stack, np.bool_)
            bounds = _computed(call.answers.bounds).wait_for_stack()
            hard, nonfinite = (bounds[:, 0] == state for state in (OPEN, NOT_FINITE))
            if nonfinite.any():
                steps.overwrite_nonfinite(a.parts, b.parts, self._last.answers.scales, out, a.stack)
                self.memory.done.record()  # the scales have been read
                hard[nonfinite] = decide_stack(bounds[nonfinite], a.length, self._request.limits) != 0
            return out, hard
        except NoGraph:
            return None
        finally:
            self.memory.busy = False

    def _settled(self, call: _Replayed, a: Factor, b: Factor, out: Array) -> tuple[_Replayed, bool]:
        """Return the call, or one by which the GPU decides, and whether nothing is left to the host."""
        if call.answers.bounds is None:  # nothing is to be decided
            return call, True
        state = call.answers.bounds.settled()
        if state is None and call.variant == USUAL and self._may_be_decided and not self._lacks(DECIDING):
            call = self._replay(DECIDING, a, b, out)
            state = _computed(call.answers.bounds).settled()
        self._expected = USUAL if state == CERTIFIED else call.variant
        return call, state is not None

    def _without(self, variant: _Variant) -> _Variant:
        if variant == DECIDING:
            return USUAL
        return _Variant(None, variant.evidence)  # until the bounds call for another

    def _launch(self, variant: _Variant, a: Factor, b: Factor, out: Array) -> _Answers:
        """Launch the steps of the product, and beside them the evidence by which the host decides."""
        request, bits, evidence = self._request, variant.bits, variant.evidence
        if evidence == DECIDES:
            scales, decided = steps.decided_scales(a, b, request)
            self._multiply(variant, scales, a, b, out)
            return _Answers(scales, decided)
        at_once, wide = None, None
        if evidence == PAIRED and bits is not None and bits <= WIDENED_IN_ALL:
            at_once = steps.scales_at_once(a, b, request, bits)
        elif variant == USUAL:
            at_once = steps.scales_at_once(a, b, request)
        scales, counted = at_once or (steps.both_norm_scales(a, b, request), None)
        if bits is not None and bits > WIDENED_IN_ALL:
            scales_of_wide = steps.wide_scales(a, b, request, bits)
            wide = scales_of_wide, steps.bounds(a, b, request, scales_of_wide)
        split_by = scales if wide is None else wide[0]
        if evidence == PAIRED:
            return replace(self._launch_pairs(variant, scales, split_by, counted, a, b, out), wide=wide)
        if counted is not None or not request.certified:
            self._multiply(variant, scales, a, b, out)
            if not request.certified:
                steps.overwrite_nonfinite(a.parts, b.parts, scales, out, a.stack)
            return _Answers(scales, counted)
        exponents = steps.inner_exponents(a, b, scales) if evidence == GRADED else None
        _, bounds = side_by_side(
            lambda: self._multiply(variant, split_by, a, b, out),
            lambda: steps.bounds(a, b, request, scales, a.stack),
        )
        return _Answers(scales, bounds, exponents=exponents, wide=wide)

    def _launch_pairs(
        self,
        variant: _Variant,
        scales: tuple[Array, Array],
        split_by: tuple[Array, Array],
        counted: PendingNumbers | None,
        a: Factor,
        b: Factor,
        out: Array,
    ) -> _Answers:
        """Launch the pairwise bound, for which the host waits, and then the product."""
        request = self._request

        def bound_and_multiply() -> tuple[PendingBounds, Callable[[], PairwiseBound]]:
            bounds = counted if isinstance(counted, PendingBounds) else steps.bounds(a, b, request, scales)
            scaled = self._scaled(variant, split_by, a, b)
            if scaled is not None:
                steps.split_once(scaled, a, b, request, bounds)
            pairwise_bound = steps.pairwise(a, b, request, bounds)
            if scaled is not None:
                steps.execute(scaled, a, b, request, out)
            return bounds, pairwise_bound

        def level() -> Callable[[], bool] | None:
            return None if a.equilibrated else steps.is_level(a, b, request, scales)

        (bounds, pairwise_bound), found = side_by_side(bound_and_multiply, level)
        return _Answers(scales, bounds, found, pairwise_bound)

    def _scaled(
        self, variant: _Variant, scales: tuple[Array, Array], a: Factor, b: Factor
    ) -> ScaledProduct | None:
        """Return the integers that a graph multiplies, None if there are none, or raise `Unfit`."""
        if variant.product is None:
            return None
        request, (bits, specification) = self._request, variant.product
        if variant == DECIDING:
            scaled = ScaledProduct(scales, steps.norm_scheme(a, b, request, steps.SPARE_BITS))
        elif specification is None:
            scaled = steps.norm_scaled(a, b, request, bits)
        else:
            scaled = ScaledProduct(scales, steps.choose_scheme(specification, request))
        limbs = steps.in_limbs(scaled.scheme.specification, request)
        if limbs is not None:
            unfit = limbs.workspace > self._room.limit
        else:  # CuPy's own kernels copy panels across the diagonal
            unfit = self._too_large(scaled.scheme, a.stack) or steps.halved(scaled, a, request)[1]
        if unfit:
            raise Unfit
        return scaled

    def _multiply(
        self, variant: _Variant, scales: tuple[Array, Array], a: Factor, b: Factor, out: Array
    ) -> None:
        """Launch the product, if the graph multiplies any integers."""
        scaled = self._scaled(variant, scales, a, b)
        if scaled is not None:
            steps.execute(scaled, a, b, self._request, out)


def _computed(answer: T | None) -> T:
    """Return an answer of a graph whose evidence includes it."""
    assert answer is not None
    return answer
