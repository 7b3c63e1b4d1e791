"""Norm scales and the counting bound in one compiled step, which decides most products on a CPU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from multiword.formats import FORMATS
from multiword.runtime.compiled import compiled
from ozaki.certificate.counting import counting_tolerance
from ozaki.definition.decision import OCTAVES, WIDENED_BY_COUNTING
from ozaki.scaling.scales import norm_limit

COMPILED_FORM = "ozaki.certificate.counting_numba"


def counted_scales(
    sums: Sequence[np.ndarray], length: int, columns: int, target: str
) -> tuple[np.ndarray, int] | None:
    """Return norm scales, widened as a product's counting bound asks, and by how many bits.

    The sums are the exponent, total, square and counts of the rows of A, then of the columns of B; the norm
    limit is that of a format. A product with -1 bits is left to other bounds, or has an Inf or NaN.
    Returns None where there is no compiled code.
    """
    form = compiled(COMPILED_FORM)
    if form is None:
        return None
    rows, bits = len(sums[0]), np.empty(1, np.int64)
    scale, width = np.empty(rows, np.int32), np.empty(rows, np.int32)
    limits, reached = counting_limits(target, length, True), np.empty((2, OCTAVES))
    form.certified_scales(*sums, length, columns, limits, scale, width, bits, reached)
    return scale, int(bits[0])


@lru_cache(256)
def counting_limits(target: str, length: int, certified: bool) -> np.ndarray:
    """Return the norm limit, the counting bound's tolerance, and the bits by which integers may be widened.

    The first two of these are those that the counting bound asks for.
    """
    limit = norm_limit(FORMATS[target], length)
    if not (certified and limit.widenings):
        return np.array([limit.significand, limit.bits, ANYTHING, 0, 0])
    assert sum(bits <= WIDENED_BY_COUNTING for bits in limit.widenings) == 2
    tolerance = counting_tolerance(length, FORMATS[target])
    return np.array([limit.significand, limit.bits, tolerance, *limit.widenings])


ANYTHING = 2.0**900
"""A tolerance that every product passes."""
