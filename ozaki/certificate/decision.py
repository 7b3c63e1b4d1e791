"""The certificate: how wide the integers must be for the requested error, proved from the data.

With scaled rows a' of A and columns b' of B, and every rounding at most one half,

    |C' - a'·b'| <= T = (Σ|a'| + Σ|b'|)/2 + k/4,

and the certificate is T <= tol·u·Σ|a'||b'| for every pair (row, column). Two bounds can prove it, both of
them in integers or in float64 operations of a fixed order, so that every engine decides alike.

1. The counting bound, from the row statistics alone. Numbers that spread over many octaves make its lower
   bound of Σ|a'||b'| small, and all integers are widened by as many bits as are missing.
   Where those are many and the inner dimension is graded, it is equilibrated, and the certificate begins anew
   (`ozaki.scaling.equilibration`).
2. The pairwise bound, from exact products of magnitudes in seven bits, where that asks for many bits or
   proves nothing (of rows with many zeros, say): it bounds |A||B| of each pair from below, most often to
   a factor of two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from enum import Enum
from typing import Any, NamedTuple, cast

import numpy as np

from multiword.formats import Format
from ozaki.certificate.counting import CERTIFIED, Bounds, counting_tolerance
from ozaki.certificate.pairwise import PairwiseBound
from ozaki.definition.decision import EVERYTHING, WIDENED_BY_COUNTING
from ozaki.definition.scales import NormLimit
from ozaki.scaling.scales import norm_limit


def log2_product(log2_squares: Any, length: int) -> Any:
    """Return an upper bound of log2 of |A'B'|, by Cauchy and Schwarz, from `Bounds.log2_squares`, or from
    (s, 2) of them for the s products of a stack.

    Rounding to integers adds at most sqrt(k)/2 to a norm. The margin of 2**-10 covers the
    rounding of the logarithms.
    """
    half = np.asarray(log2_squares) / 2
    norms = half + np.log2(1 + (math.sqrt(length) / 2 + 1) * np.exp2(-half))
    return norms.sum(axis=-1) + 2.0**-10


def counting_error(bounds: Bounds, target: Format) -> float:
    """Return the error that the counting bound certifies: a bound of max |C - AB| / |A||B|, or inf.

    The rounding of C itself, u·|C|, comes on top.
    """
    if 0 in bounds.totals:
        return 0.0
    top = norm_limit(target, bounds.length).bits // 2
    truncation = 0.5 * sum(bounds.totals) + 0.25 * bounds.length
    lower = math.ldexp(math.fsum(bounds.sums), 2 * (top - 1))
    return truncation / lower if lower > 0 else math.inf


class Certificate(NamedTuple):
    """The bits that an accuracy takes, and the error that they certify.

    Attributes
    ----------
    bits : by which all integers must grow; beyond WIDENED_IN_ALL, no further than until nothing is lost.
    bound : of max |C - AB| / |A||B| then, the rounding of C itself apart.
    pairwise : whether it takes the pairwise bound; else the counting bound was enough.
    """

    bits: int
    bound: float
    pairwise: bool = False

    @property
    def wide(self) -> bool:
        """Whether the bits are so many that a closer bound may save products."""
        return self.bits > WIDENED_BY_COUNTING


def certify_by_counting(bounds: Bounds, target: Format) -> Certificate:
    """Return the certificate of the counting bound alone."""
    error, tolerance = counting_error(bounds, target), counting_tolerance(bounds.length, target)
    if error <= tolerance:  # nearly always
        return Certificate(0, error)
    bits = _widening(error / tolerance, norm_limit(target, bounds.length))
    return Certificate(bits, math.ldexp(error, -bits) if math.isfinite(error) else 0.0)


def certify_by_pairs(counted: Certificate, pairs: PairwiseBound, length: int, target: Format) -> Certificate:
    """Return the better one of a counting certificate and of what a pairwise bound certifies."""
    error, ratio = pairs
    bits = _widening(ratio / target.unit_roundoff, norm_limit(target, length))
    if counted.bits < bits:  # some numbers are much larger than the others
        return counted._replace(pairwise=True)
    return Certificate(bits, math.ldexp(error, -bits) if math.isfinite(error) else 0.0, pairwise=True)


def _widening(excess: float, limit: NormLimit) -> int:
    """Return the bits that make an error smaller by a factor, or up to three more."""
    if excess <= 1:
        return 0
    if excess == math.inf:
        return EVERYTHING
    least = math.frexp(excess)[1]  # which is, unlike a logarithm, the same on every machine
    return next((bits for bits in limit.widenings if bits >= least), least)


class Ask(Enum):
    """What a decision asks about the data."""

    COUNTS = "the bounds of the scaled factors, from counts"
    EQUILIBRATE = "whether A·D and D⁻¹·B have replaced A and B, the inner dimension being graded"
    PAIRS = "the pairwise bound of the scaled factors"


Decision = Generator[Ask, Any, Certificate]
"""A decision in progress: it yields questions, is sent the answers, and returns the certificate."""


def decide(target: Format) -> Decision:
    """Decide what "fp64" and "fp32" take: yields questions about the data, is sent the answers."""
    bounds = yield Ask.COUNTS
    counted = certify_by_counting(bounds, target)
    if counted.wide and (yield Ask.EQUILIBRATE):
        bounds = yield Ask.COUNTS
        counted = certify_by_counting(bounds, target)
    if counted.wide:
        return certify_by_pairs(counted, (yield Ask.PAIRS), bounds.length, target)
    return counted


def answered(decision: Decision, answer: Callable[[Ask], Any]) -> Certificate | None:
    """Return the certificate of a decision, whose questions answer(question) answers at once.

    None as soon as an answer is None: the decision is left to others.
    """
    try:
        question = next(decision)
        while (reply := answer(question)) is not None:
            question = decision.send(reply)
    except StopIteration as end:
        return cast(Certificate, end.value)
    return None


def replayed(target: Format, answers: Sequence[Any]) -> Ask | Certificate:
    """Return the next question of a decision with these answers, or its certificate."""
    decision = decide(target)
    try:
        question = next(decision)
        for answer in answers:
            question = decision.send(answer)
        return question
    except StopIteration as end:
        return cast(Certificate, end.value)


UNDECIDED = -1
"""The bits of a product whose decision was not finished."""


def decide_stack(
    bounds: np.ndarray,
    length: int,
    target: Format,
    answer: Callable[[Ask, np.ndarray], Sequence[Any]] | None = None,
) -> np.ndarray:
    """Return the bits by which the integers of each product of a stack must grow, from rows of `Bounds`.

    The decisions advance in lockstep: answer(question, products) answers all that ask the same. Without it,
    a product whose counting bound is not enough stays `UNDECIDED`.
    """
    bits = np.zeros(len(bounds), np.int64)
    left = np.flatnonzero(bounds[:, 0] != CERTIFIED)
    decisions = {i: decide(target) for i in left.tolist()}
    questions = {i: next(decision) for i, decision in decisions.items()}
    answers: Iterable[Any] = (Bounds.of(numbers, length) for numbers in bounds[left].tolist())
    asking = left
    while asking.size:
        for i, reply in zip(asking.tolist(), answers, strict=True):
            try:
                questions[i] = decisions[i].send(reply)
            except StopIteration as end:
                bits[i] = end.value.bits
                del questions[i]
        if answer is None:
            bits[list(questions)] = UNDECIDED
            break
        first = next((x for x in Ask if x in questions.values()), None)
        asking = np.array([i for i, question in questions.items() if question is first], np.int64)
        answers = answer(first, asking) if first is not None else ()
    return bits
