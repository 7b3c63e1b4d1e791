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
    sums: Sequence[np.ndarray], length: int, stack: int, columns: int, target: str, certified: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Return norm scales, widened as each product's counting bound asks, the integers' widths, and the bits.

    The sums are the exponent, total, square and counts of the rows of all left matrices of a stack, then of
    the columns of all right ones, `columns` to a product; the norm limit is that of a format. A product with
    -1 bits is left to other bounds, or has an Inf or NaN. Unless `certified`, nothing is widened.
    Returns None where there is no compiled code.
    """
    form = compiled(COMPILED_FORM)
    if form is None:
        return None
    rows, bits = len(sums[0]), np.empty(stack, np.int64)
    scale, width = np.empty(rows, np.int32), np.empty(rows, np.int32)
    limits, reached = counting_limits(target, length, certified), np.empty((2, OCTAVES))
    form.certified_scales(*sums, length, columns, limits, scale, width, bits, reached)
    return scale, width, bits


@lru_cache(256)
def counting_limits(target: str, length: int, certified: bool) -> np.ndarray:
    """Return the norm limit, the counting bound's tolerance, and the bits by which it may widen integers."""
    limit = norm_limit(FORMATS[target], length)
    if not certified:
        return np.array([limit.significand, limit.bits, ANYTHING, 0, 0])
    some, more = (bits for bits in limit.widenings if bits <= WIDENED_BY_COUNTING)
    tolerance = counting_tolerance(length, FORMATS[target])
    return np.array([limit.significand, limit.bits, tolerance, some, more])


ANYTHING = 2.0**900
"""A tolerance that every product passes."""
