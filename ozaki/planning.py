"""The plan of a product, and the error that it certifies."""

from __future__ import annotations

import math

import numpy as np

from multiword.formats import FORMATS
from multiword.runtime.arrays import Array
from ozaki.certificate.counting import Bounds, PendingBounds
from ozaki.certificate.decision import counting_error
from ozaki.factor import Factor
from ozaki.pipeline import (
    NORMWISE,
    Request,
    bounded,
    bounds,
    given_scales,
    norm_scheme,
    pairwise,
    row_limit,
    scale,
)
from ozaki.plans import Plan
from ozaki.scaling.scales import normwise_error

LOOKED_FOR = 50
"""Bits up to which a given width's error is looked for: magnitudes are counted no further down."""


def plan_product(a: Factor, b: Factor, request: Request) -> Plan:
    """Return the plan for a product of factors, neither of them empty, with its certified error."""
    dtype = a.matrix.dtype.name
    if request.accuracy == NORMWISE:
        error = normwise_error(row_limit(a, request), a.length)
        return Plan.of(norm_scheme(a, b, request), dtype, request, error)
    with np.errstate(all="ignore"):  # divisions by empty sums are looked at, and meant
        if request.certified or request.accuracy == "exact":
            factors, scaled, certificate = scale(a, b, request)
            lossless = certificate is None or _lossless(*factors, scaled.scales)
            certified = 0.0 if certificate is None or lossless else certificate.bound
            return Plan.of(scaled.scheme, dtype, request, certified)
        scales = given_scales(a, b, request)
        pending = bounds(a, b, request, scales)
        scheme = bounded(a, b, request, scales, pending.wait()).scheme
        error = 0.0 if _lossless(a, b, scales) else _error_of_width(a, b, request, pending)
        return Plan.of(scheme, dtype, request, error)


def _error_of_width(a: Factor, b: Factor, request: Request, pending: PendingBounds) -> float:
    """The certified error of rows of so many bits."""
    excess = max(0, int(request.accuracy) - LOOKED_FOR)  # each bit beyond halves the error
    if excess:
        pending = bounds(a, b, request, (a.width_scales(LOOKED_FOR), b.width_scales(LOOKED_FOR)))
    found: Bounds = pending.wait()
    error = counting_error(found, FORMATS["fp64"])
    if error == math.inf:
        error, _ = pairwise(a, b, request, pending)()
    smallest = float(np.finfo(np.float64).smallest_subnormal)
    return error and max(math.ldexp(error, -excess), smallest)


def _lossless(a: Factor, b: Factor, scales: tuple[Array, Array]) -> bool:
    """Whether no number of either is rounded."""
    return all(bool((s >= x.exact_scales).all()) for s, x in zip(scales, (a, b), strict=True))
