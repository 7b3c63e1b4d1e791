"""A product computed now, kernel by kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array
from multiword.runtime.memory import empty_result
from ozaki.certificate.counted import counted_scales
from ozaki.certificate.counting import Bounds, PendingBounds
from ozaki.certificate.decision import Ask, Certificate, answered, decide
from ozaki.definition.decision import WIDENED_IN_ALL
from ozaki.product import steps
from ozaki.product.cost import warn_of_cost
from ozaki.product.factor import Factor
from ozaki.product.request import NORMWISE, Request
from ozaki.product.steps import ScaledProduct

Factors = tuple[Factor, Factor]


def product(a: Factor, b: Factor, request: Request) -> Array:
    """Return RN(AB) to the request's accuracy in a new (m, n) array; of a stack, one below the other."""
    scaled = scaled_by_counting(a, b, request)
    if scaled is None:
        (a, b), scaled, _ = scale(a, b, request)
        if isinstance(request.accuracy, str):
            warn_of_cost(scaled.scheme, steps.norm_scheme(a, b, request), request.accuracy)
    out = empty_result(a.matrix, (a.rows, b.rows // b.stack), a.matrix.dtype)
    steps.execute(scaled, a, b, request, out)
    if scaled.nonfinite:
        steps.overwrite_nonfinite(a.parts, b.parts, scaled.scales, out)
    return out


def scaled_by_counting(a: Factor, b: Factor, request: Request) -> ScaledProduct | None:
    """Return the integers of `scale` by compiled code; None on a GPU, or where the counting bound fails."""
    bits = counted_bits(a, b, request)
    return None if bits < 0 else steps.norm_scaled(a, b, request, bits)


def counted_bits(a: Factor, b: Factor, request: Request) -> int:
    """Return the bits by which compiled code says that integers of norm scales grow, and cache those scales.

    -1 on a GPU, or where the counting bound fails.
    """
    if not request.certified or a.stack > 1 or a.on_gpu:
        return -1
    if request.symmetric:
        b.statistics = a.statistics  # of magnitudes
    of_both = [(x.exponent, x.total, x.square, x.counts) for x in (a.statistics, b.statistics)]
    sums = [np.concatenate(pair, axis=-1) for pair in zip(*of_both, strict=True)]
    counted = counted_scales(sums, a.length, 1, b.rows, str(request.accuracy))
    if counted is None or counted[2][0] < 0:
        return -1
    limit, bits = steps.row_limit(a, request), int(counted[2][0])
    a.cached_norm_scales(limit, bits, counted[0][: a.rows])
    b.cached_norm_scales(limit, bits, counted[0][a.rows :])
    return bits


def scale(a: Factor, b: Factor, request: Request) -> tuple[Factors, ScaledProduct, Certificate | None]:
    """Return the factors, equilibrated or as they came, their integers, and the certificate if there is one.

    A device is waited for, unless the accuracy is "normwise".
    """
    if request.accuracy == NORMWISE:
        return (a, b), replace(steps.norm_scaled(a, b, request), nonfinite=True), None
    if not request.certified:
        return *_scale_given(a, b, request), None
    data = Data(a, b, request)
    certificate = answered(decide(request.limits), data.answer)
    scaled = steps.widened_product(*data.factors, request, certificate.bits)
    return data.factors, replace(scaled, nonfinite=data.bounds.nonfinite), certificate


class Data:
    """Two factors that answer a decision's questions about them.

    Attributes
    ----------
    factors : A and B, or A·D and D⁻¹·B once they have been equilibrated.
    bounds : those of the factors, once the decision has asked for them.
    """

    bounds: Bounds
    _pending: PendingBounds

    def __init__(self, a: Factor, b: Factor, request: Request) -> None:
        self.factors = a, b
        self._request = request

    def answer(self, question: Ask) -> Any:
        """Compute the answer now."""
        a, b = self.factors
        scales = steps.both_norm_scales(a, b, self._request)
        if question is Ask.PAIRS:
            return steps.pairwise(a, b, self._request, self._pending)()
        if question is Ask.COUNTS:
            self._pending = steps.bounds(a, b, self._request, scales)
            self.bounds = self._pending.wait()
            return self.bounds
        factors = _equilibrated(a, b, self._request)
        self.factors = factors or self.factors
        return factors is not None


class _Unlevel(Exception):
    """The data have an Inf or NaN, or may be graded."""


class LevelData(Data):
    """Two factors whose inner dimension is not equilibrated."""

    def answer(self, question: Ask) -> Any:
        """Compute the answer now; raise `_Unlevel` where the factors might have to be replaced."""
        if question is not Ask.EQUILIBRATE:
            answer = super().answer(question)
            if self.bounds.nonfinite:
                raise _Unlevel
            return answer
        scales = steps.both_norm_scales(*self.factors, self._request)
        if not steps.is_level(*self.factors, self._request, scales)():
            raise _Unlevel
        return False


def bits_of_level_factors(
    a: Factor,
    b: Factor,
    request: Request,
    most: int = WIDENED_IN_ALL,
    data: LevelData | None = None,
) -> int:
    """Return the bits by which the integers of norm scales grow; -1 if that is not all that they take, or if
    they are more than `most`. `data` are those of the factors, if something is known of them."""
    try:
        bits = answered(decide(request.limits), (data or LevelData(a, b, request)).answer).bits
    except _Unlevel:
        return -1
    return bits if bits <= most else -1


def _equilibrated(a: Factor, b: Factor, request: Request) -> Factors | None:
    """Return A·D and D⁻¹·B, if their product is proved to take narrower integers."""
    if a.equilibrated:
        return None
    scales = steps.both_norm_scales(a, b, request)
    if not a.on_gpu and steps.is_level(a, b, request, scales)():
        return None
    equilibration = steps.equilibrated(a, b, request, scales, steps.inner_exponents(a, b, scales))
    return equilibration and equilibration[1:]


def _scale_given(a: Factor, b: Factor, request: Request) -> tuple[Factors, ScaledProduct]:
    """Return the factors and their integers for an accuracy that fixes these.

    "exact" is the same of any factors that have the product: equilibrated ones, where that takes much less.
    """
    scales = steps.given_scales(a, b, request)
    scaled = steps.bounded(a, b, request, scales, steps.bounds(a, b, request, scales).wait())
    if request.accuracy == "exact" and steps.is_costly(scaled.scheme, steps.norm_scheme(a, b, request)):
        factors = _equilibrated(a, b, request)
        if factors is not None:
            others, other = _scale_given(*factors, request)
            if other.scheme.products < scaled.scheme.products:
                return others, other
    return (a, b), scaled
