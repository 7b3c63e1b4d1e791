"""The certificate's rule on plain numbers: what it asks, and what it makes of the answers."""

import math

import numpy as np
import pytest

from multiword.formats import FORMATS
from ozaki.certificate.counting import Bounds, counting_tolerance
from ozaki.certificate.decision import (
    UNDECIDED,
    Ask,
    answered,
    certify_by_counting,
    certify_by_pairs,
    decide,
    decide_stack,
    replayed,
)
from ozaki.definition.decision import WIDENED_BY_COUNTING
from ozaki.scaling.scales import norm_limit

LENGTH, TARGET = 1000, FORMATS["fp64"]


def bounds(excess):
    """Bounds that exceed the tolerance of the counting bound by this factor; 0: of a zero operand."""
    total = 0.0 if excess == 0 else 2.0**60
    top = norm_limit(TARGET, LENGTH).bits // 2
    truncation = total + LENGTH / 4
    lower = truncation / (excess * counting_tolerance(LENGTH, TARGET)) if excess else 0.0
    return Bounds(False, (total, total), (100.0, 100.0), [math.ldexp(lower, -2 * (top - 1))], LENGTH)


ENOUGH, WIDER, WIDE = bounds(0.9), bounds(100.0), bounds(2.0**20)
PAIRS = 2.0**-50, 0.5 * TARGET.unit_roundoff


@pytest.mark.parametrize(
    ("answers", "asked", "bits"),
    [
        ((), Ask.COUNTS, None),
        ((bounds(0),), None, 0),
        ((ENOUGH,), None, 0),
        ((WIDER,), None, 7),
        ((WIDE,), Ask.EQUILIBRATE, None),
        ((bounds(math.inf),), Ask.EQUILIBRATE, None),
        ((WIDE, False), Ask.PAIRS, None),
        ((WIDE, False, PAIRS), None, 0),
        ((WIDE, False, (math.inf, math.inf)), None, 22),
        ((WIDE, False, (1e-3, 2.0**30 * TARGET.unit_roundoff)), None, 22),
        ((WIDE, True), Ask.COUNTS, None),
        ((WIDE, True, ENOUGH), None, 0),
        ((WIDE, True, WIDE), Ask.PAIRS, None),
        ((WIDE, True, WIDE, PAIRS), None, 0),
    ],
    ids=str,
)
def test_what_is_asked_and_what_is_decided(answers, asked, bits):
    outcome = replayed(TARGET, answers)
    if asked is not None:
        assert outcome is asked
        return
    assert outcome.bits == bits
    remaining = list(answers)
    assert answered(decide(TARGET), lambda _: remaining.pop(0)) == outcome


def test_the_certificate_is_that_of_the_last_bounds():
    assert replayed(TARGET, (WIDER,)) == certify_by_counting(WIDER, TARGET)
    counted = certify_by_counting(WIDE, TARGET)
    assert counted.bits > WIDENED_BY_COUNTING
    assert replayed(TARGET, (WIDE, False, PAIRS)) == certify_by_pairs(counted, PAIRS, LENGTH, TARGET)


def row(x):
    return [float(x.nonfinite), *x.totals, *x.log2_squares, *x.sums]


def test_decisions_of_a_stack_advance_together():
    kinds = [ENOUGH, WIDE, WIDER, WIDE, WIDE, bounds(math.inf)]
    helped, asked = {3, 5}, []

    def answer(question, products):
        asked.append((question, products.tolist()))
        if question is Ask.EQUILIBRATE:
            return [i in helped for i in products.tolist()]
        if question is Ask.COUNTS:
            return [ENOUGH if i == 3 else WIDE for i in products.tolist()]
        return [PAIRS if i == 1 else (1e-3, 2.0**40) for i in products.tolist()]

    numbers = np.array([row(x) for x in kinds])
    bits = decide_stack(numbers, LENGTH, TARGET, answer)
    assert asked == [
        (Ask.EQUILIBRATE, [1, 3, 4, 5]),
        (Ask.COUNTS, [3, 5]),
        (Ask.PAIRS, [1, 4, 5]),
    ]
    alone = [
        replayed(TARGET, x).bits
        for x in (
            (ENOUGH,),
            (WIDE, False, PAIRS),
            (WIDER,),
            (WIDE, True, ENOUGH),
            (WIDE, False, (1e-3, 2.0**40)),
            (bounds(math.inf), True, WIDE, (1e-3, 2.0**40)),
        )
    ]
    assert bits.tolist() == alone
    left = decide_stack(numbers, LENGTH, TARGET).tolist()
    assert left == [0, UNDECIDED, 7, UNDECIDED, UNDECIDED, UNDECIDED]
