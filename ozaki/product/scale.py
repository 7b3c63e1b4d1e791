"""Which integers stand for A and B: the decision for one product, asked of its factors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ozaki.certificate.counted import counted_scales
from ozaki.certificate.counting import Bounds, PendingBounds
from ozaki.certificate.decision import Ask, Certificate, answered, decide
from ozaki.product import steps
from ozaki.product.pair import Pair
from ozaki.product.request import NORMWISE
from ozaki.product.steps import ScaledProduct


def scaled_by_counting(pair: Pair) -> ScaledProduct | None:
    """Return the integers of `scale` by compiled code; None on a GPU, or where the counting bound fails."""
    bits = counted_bits(pair)
    return None if bits < 0 else steps.norm_scaled(pair, bits)


def counted_bits(pair: Pair) -> int:
    """Return the bits by which compiled code says that integers of norm scales grow, and cache those scales.

    -1 on a GPU, or where the counting bound fails.
    """
    a, b, request = pair.a, pair.b, pair.request
    if not request.certified or pair.stack > 1 or a.on_gpu:
        return -1
    if pair.symmetric:
        b.statistics = a.statistics  # of magnitudes
    of_both = [(x.exponent, x.total, x.square, x.counts) for x in (a.statistics, b.statistics)]
    sums = [np.concatenate(both, axis=-1) for both in zip(*of_both, strict=True)]
    counted = counted_scales(sums, a.length, b.rows, str(request.accuracy))
    if counted is None or counted[1] < 0:
        return -1
    limit, (scales, bits) = steps.row_limit(pair), counted
    a.cached_norm_scales(limit, bits, scales[: a.rows])
    b.cached_norm_scales(limit, bits, scales[a.rows :])
    return bits


def scale(pair: Pair) -> tuple[Pair, ScaledProduct, Certificate | None]:
    """Return the pair, equilibrated or as it came, its integers, and the certificate if there is one.

    A device is waited for, unless the accuracy is "normwise".
    """
    if pair.request.accuracy == NORMWISE:
        return pair, replace(steps.norm_scaled(pair), nonfinite=True), None
    if not pair.request.certified:
        return *_scale_given(pair), None
    data = Data(pair)
    certificate = answered(decide(pair.request.limits), data.answer)
    assert certificate is not None  # all questions are answered
    scaled = steps.widened_product(data.pair, certificate.bits)
    return data.pair, replace(scaled, nonfinite=data.bounds.nonfinite), certificate


class Data:
    """Two factors that answer a decision's questions about them.

    Attributes
    ----------
    pair : A and B, or A·D and D⁻¹·B once they have been equilibrated.
    bounds : those of the factors, once the decision has asked for them.
    """

    bounds: Bounds
    _pending: PendingBounds

    def __init__(self, pair: Pair) -> None:
        self.pair = pair

    def answer(self, question: Ask) -> Any:
        """Compute the answer now."""
        if question is Ask.PAIRS:
            return steps.pairwise(self.pair, self._pending)()
        if question is Ask.COUNTS:
            self._pending = steps.bounds(self.pair, steps.both_norm_scales(self.pair))
            self.bounds = self._pending.wait()
            return self.bounds
        equilibrated = _equilibrated(self.pair)
        self.pair = equilibrated or self.pair
        return equilibrated is not None


class LevelData(Data):
    """Two factors that have no answer where they have an Inf or NaN, or may have to be equilibrated."""

    def answer(self, question: Ask) -> Any:
        """Compute the answer now, or return None."""
        if question is Ask.EQUILIBRATE:
            return False if steps.is_level(self.pair, steps.both_norm_scales(self.pair))() else None
        answer = super().answer(question)
        return None if self.bounds.nonfinite else answer


def bits_of_level_factors(pair: Pair, data: LevelData | None = None) -> int:
    """Return the bits by which the integers of norm scales grow.

    -1 where there is an Inf or NaN, or the inner dimension may be graded. An earlier executor's answer is
    taken as it is. `data` are those of the pair, if some are measured.
    """
    if pair.bits is not None:
        return pair.bits
    certificate = answered(decide(pair.request.limits), (data or LevelData(pair)).answer)
    return -1 if certificate is None else certificate.bits


def _equilibrated(pair: Pair) -> Pair | None:
    """Return A·D and D⁻¹·B, if their product is proved to take narrower integers."""
    if pair.equilibrated:
        return None
    scales = steps.both_norm_scales(pair)
    if not pair.a.on_gpu and steps.is_level(pair, scales)():
        return None
    equilibration = steps.equilibrated(pair, scales, steps.inner_exponents(pair, scales))
    return equilibration and equilibration[1]


def _scale_given(pair: Pair) -> tuple[Pair, ScaledProduct]:
    """Return the pair and its integers for an accuracy that fixes these.

    "exact" is the same of any factors that have the product: equilibrated ones, where that takes much less.
    """
    scales = steps.given_scales(pair)
    scaled = steps.bounded(pair, scales, steps.bounds(pair, scales).wait())
    if pair.request.accuracy == "exact" and steps.is_costly(scaled.scheme, steps.norm_scheme(pair)):
        equilibrated = _equilibrated(pair)
        if equilibrated is not None:
            others, other = _scale_given(equilibrated)
            if other.scheme.products < scaled.scheme.products:
                return others, other
    return pair, scaled
