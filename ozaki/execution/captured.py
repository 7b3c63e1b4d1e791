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
from ozaki.execution.contract import DONE, UNCOUNTED, Declined, Outcome
from ozaki.execution.variants import Call, Captured, Room
from ozaki.product import steps
from ozaki.product.pair import Pair
from ozaki.product.steps import ScaledProduct
from ozaki.scaling.equilibration import InnerExponents
from ozaki.schemes import ProductSpecification, Scheme
from ozaki.tuning import FEWEST_HARD

T = TypeVar("T")


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
    """The numbers that a graph computes for the host, on the device or on their way; unused ones are None.

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
    """The pair of a call, which answers a decision's questions from the replays of graphs; None without one.

    Attributes
    ----------
    bounds : those of the factors, once the decision has asked for them.
    equilibrated : A·D and D⁻¹·B, once the decision has asked for them, and they are to be multiplied instead.
    """

    bounds: Bounds
    equilibrated: Pair | None = None

    def __init__(self, pair: Pair, call: _Replayed, replay: Callable[[_Variant], _Replayed | None]) -> None:
        self._pair, self._replay = pair, replay
        self._first = call.answers
        self._answers: dict[int, _Answers | None] = {call.variant.evidence: call.answers}

    def answer(self, question: Ask) -> Any:
        """Wait for the GPU, and return the answer."""
        if question is Ask.COUNTS:
            self.bounds = _computed(self._first.bounds).wait()
            return self.bounds
        if question is Ask.PAIRS:
            paired = self._answers_with(PAIRED)
            return paired and _computed(paired.pairwise_bound)()
        if self._pair.equilibrated:
            return False
        if GRADED not in self._answers:
            paired = self._answers_with(PAIRED)
            if paired is None or _computed(paired.level)():
                return None if paired is None else False
        answers = self._answers_with(GRADED)
        if answers is None:
            return None
        equilibrated = steps.equilibrated(self._pair, answers.scales, _computed(answers.exponents))
        if equilibrated is None:
            return False
        self.equilibrated = equilibrated[1]
        return None

    def _answers_with(self, evidence: int) -> _Answers | None:
        if evidence not in self._answers:
            call = self._replay(_Variant(None, evidence))
            self._answers[evidence] = None if call is None else call.answers
        return self._answers[evidence]


NO_GRAPH = "what these numbers take has no graph"


class CapturedProduct(Captured[_Variant, _Answers]):
    """One kind of product of accuracy "fp64", "fp32" or "normwise", or of a stack of them."""

    def __init__(self, room: Room, pair: Pair) -> None:
        self._may_be_decided = pair.request.certified and steps.may_be_decided(pair)
        super().__init__(room, pair, USUAL)

    def run(self, pair: Pair, out: Array) -> Outcome:
        """Write the product to `out`, or those of a stack, one below the other."""
        if self.memory.busy:  # this call interrupts another, whose graphs' memory it must not touch
            return Declined(pair, "another call of this thread works in the memory of its graphs")
        self.memory.busy = True
        try:
            return (self._run_one if pair.stack == 1 else self._run_stack)(pair, out)
        finally:
            self.memory.busy = False

    def _run_one(self, pair: Pair, out: Array) -> Outcome:
        def replay(variant: _Variant) -> _Replayed | None:
            return self._replay(variant, pair, out)

        # Most often this call's operands need what the last one's did: the GPU need not wait for the host.
        call = replay(self._expected)
        if call is not None and call.variant in (USUAL, DECIDING):
            call, settled = self._settled(call, pair, out)
            if settled:
                return DONE
        if call is None:
            return Declined(pair, NO_GRAPH)
        data = _Data(pair, call, replay)
        certificate = answered(decide(self._request.limits), data.answer)
        if data.equilibrated is not None:
            self.memory.done.record()  # answers have been read
            self._expected = _Variant(None, GRADED)
            return Declined(data.equilibrated, "the inner dimension is graded")
        wanted = certificate and self._wanted(certificate, call, replay, pair)
        if wanted is None:
            return Declined(pair, NO_GRAPH)
        self._expected = wanted
        if wanted.product is None:
            return Declined(pair, "the numbers take many more products than usual")
        if wanted != call.variant and wanted.product != call.variant.product and replay(wanted) is None:
            return Declined(pair, NO_GRAPH)
        if data.bounds.nonfinite:
            steps.overwrite_nonfinite(pair.a.parts, pair.b.parts, self._last.answers.scales, out)
            self.memory.done.record()  # the scales have been read
        return DONE

    def _wanted(
        self,
        certificate: Certificate,
        call: _Replayed,
        replay: Callable[[_Variant], _Replayed | None],
        pair: Pair,
    ) -> _Variant | None:
        """Return the variant that a certificate asks for, with the evidence that it took.

        None if the bounds that this depends on have no graph.

        Integers that lose nothing are given spare bits, so that others take the same graph. Where they take
        many more products than usual, none are multiplied: that is done kernel by kernel.
        """
        wanted = _Variant(certificate.bits, PAIRED if certificate.pairwise else COUNTED)
        if certificate.bits <= WIDENED_IN_ALL:
            return wanted
        wide = call if call.variant.bits == certificate.bits else replay(wanted)
        if wide is None:
            return None
        scales, pending = _computed(wide.answers.wide)
        scheme = steps.bounded(pair, scales, pending.wait()).scheme
        if steps.is_costly(scheme, steps.norm_scheme(pair)) or not isinstance(scheme, steps.Residues):
            return wanted
        return wanted._replace(lossless=scheme.roomy_specification)

    def _run_stack(self, pair: Pair, out: Array) -> Outcome:
        call, settled = self._replay(self._expected, pair, out), False
        if call is not None:
            call, settled = self._settled(call, pair, out)
        if call is None:
            return Declined(pair, NO_GRAPH)
        if settled:
            return DONE
        bounds = _computed(call.answers.bounds).wait_for_stack()
        hard, nonfinite = (bounds[:, 0] == state for state in (OPEN, NOT_FINITE))
        if nonfinite.any():
            of_factors = pair.a.parts, pair.b.parts
            steps.overwrite_nonfinite(*of_factors, self._last.answers.scales, out, pair.stack)
            self.memory.done.record()  # the scales have been read
            hard[nonfinite] = decide_stack(bounds[nonfinite], pair.length, self._request.limits) != 0
        left = np.flatnonzero(hard)
        return Declined(pair, UNCOUNTED, left, left.size < FEWEST_HARD) if left.size else DONE

    def _settled(self, call: _Replayed, pair: Pair, out: Array) -> tuple[_Replayed | None, bool]:
        """Return the call, or one by which the GPU decides, and whether nothing is left to the host.

        None in place of the call where that has no graph.
        """
        if call.answers.bounds is None:  # nothing is to be decided
            return call, True
        state = call.answers.bounds.settled()
        if state is None and call.variant == USUAL and self._may_be_decided and not self._lacks(DECIDING):
            deciding = self._replay(DECIDING, pair, out)
            if deciding is None:
                return None, False
            call, state = deciding, _computed(deciding.answers.bounds).settled()
        self._expected = USUAL if state == CERTIFIED else call.variant
        return call, state is not None

    def _without(self, variant: _Variant) -> _Variant:
        if variant == DECIDING:
            return USUAL
        return _Variant(None, variant.evidence)  # until the bounds call for another

    def _launch(self, variant: _Variant, pair: Pair, out: Array) -> _Answers:
        """Launch the steps of the product, and beside them the evidence by which the host decides."""
        bits, evidence, certified = variant.bits, variant.evidence, pair.request.certified
        if evidence == DECIDES:
            scales, decided = steps.decided_scales(pair)
            self._multiply(variant, scales, pair, out)
            return _Answers(scales, decided)
        at_once, wide = None, None
        if evidence == PAIRED and bits is not None and bits <= WIDENED_IN_ALL:
            at_once = steps.scales_at_once(pair, bits)
        elif variant == USUAL:
            at_once = steps.scales_at_once(pair)
        scales, counted = at_once or (steps.both_norm_scales(pair), None)
        if bits is not None and bits > WIDENED_IN_ALL:
            scales_of_wide = steps.wide_scales(pair, bits)
            wide = scales_of_wide, steps.bounds(pair, scales_of_wide)
        split_by = scales if wide is None else wide[0]
        if evidence == PAIRED:
            return replace(self._launch_pairs(variant, scales, split_by, counted, pair, out), wide=wide)
        if counted is not None or not certified:
            self._multiply(variant, scales, pair, out)
            if not certified:
                steps.overwrite_nonfinite(pair.a.parts, pair.b.parts, scales, out, pair.stack)
            return _Answers(scales, counted)
        exponents = steps.inner_exponents(pair, scales) if evidence == GRADED else None
        _, bounds = side_by_side(
            lambda: self._multiply(variant, split_by, pair, out),
            lambda: steps.bounds(pair, scales, pair.stack),
        )
        return _Answers(scales, bounds, exponents=exponents, wide=wide)

    def _launch_pairs(
        self,
        variant: _Variant,
        scales: tuple[Array, Array],
        split_by: tuple[Array, Array],
        counted: PendingNumbers | None,
        pair: Pair,
        out: Array,
    ) -> _Answers:
        """Launch the pairwise bound, for which the host waits, and then the product."""

        def bound_and_multiply() -> tuple[PendingBounds, Callable[[], PairwiseBound]]:
            bounds = counted if isinstance(counted, PendingBounds) else steps.bounds(pair, scales)
            scaled = self._scaled(variant, split_by, pair)
            if scaled is not None:
                steps.split_once(pair, scaled, bounds)
            pairwise_bound = steps.pairwise(pair, bounds)
            if scaled is not None:
                steps.execute(pair, scaled, out)
            return bounds, pairwise_bound

        def level() -> Callable[[], bool] | None:
            return None if pair.equilibrated else steps.is_level(pair, scales)

        (bounds, pairwise_bound), found = side_by_side(bound_and_multiply, level)
        return _Answers(scales, bounds, found, pairwise_bound)

    def _fits(self, variant: _Variant, pair: Pair) -> bool:
        if variant.product is None:
            return True
        scheme = self._scheme(variant, pair)
        limbs = steps.in_limbs(scheme.specification, self._request)
        if limbs is not None:
            return limbs.workspace <= self._room.limit
        # CuPy's own kernels copy panels across the diagonal.
        return not (self._too_large(scheme, pair.stack) or steps.is_in_half_its_panels(pair, scheme))

    def _scheme(self, variant: _Variant, pair: Pair) -> Scheme:
        """Return the scheme of the product, which depends on no data."""
        bits, specification = variant.product or (0, None)
        if variant == DECIDING:
            bits = steps.SPARE_BITS
        if specification is not None:
            return steps.choose_scheme(specification, self._request)
        return steps.norm_scheme(pair, bits)

    def _scaled(self, variant: _Variant, scales: tuple[Array, Array], pair: Pair) -> ScaledProduct | None:
        """Return the integers that a graph multiplies, None if there are none."""
        if variant.product is None:
            return None
        if variant != DECIDING and variant.lossless is None:
            scales = steps.both_norm_scales(pair, variant.bits or 0)
        return ScaledProduct(scales, self._scheme(variant, pair))

    def _multiply(self, variant: _Variant, scales: tuple[Array, Array], pair: Pair, out: Array) -> None:
        """Launch the product, if the graph multiplies any integers."""
        scaled = self._scaled(variant, scales, pair)
        if scaled is not None:
            steps.execute(pair, scaled, out)


def _computed(answer: T | None) -> T:
    """Return an answer of a graph whose evidence includes it."""
    assert answer is not None
    return answer
