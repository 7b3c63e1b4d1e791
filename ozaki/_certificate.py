"""The certificate: how wide the integers must be for the error asked for, proved from the data.

With scaled rows a' of A and columns b' of B, and every rounding at most one half,

    |C' - a'·b'| <= T = (Σ|a'| + Σ|b'|)/2 + k/4,

and the certificate is T <= tol·u·Σ|a'||b'| for every pair (row, column). It comes in two
stages, both of them in integers or in float64 operations of a fixed order on the host, so
that every engine reaches the same verdict.

1. From the profiles alone, for all pairs at once: if N elements of a row are at least x, and
   M elements of a column at least y, at least N + M - k products are at least x·y, whatever
   their order. Numbers that spread over many octaves make that a small sum, and all integers
   are widened by as many bits as are missing.
2. From a product of truncated magnitudes, exact, when the first stage cannot tell (few nonzero
   numbers, say): the sum |A||B| of each pair to 24 bits, and the number of its nonzero terms.
"""

from __future__ import annotations

import math

from multiword._arrays import Array, namespace
from multiword.formats import Format
from ozaki._evidence import Evidence
from ozaki._operand import Operand
from ozaki._pairs import ExactSums, pair_errors
from ozaki._scales import norm_limit

WIDEST, WIDENING = 54, 3
"""Bits by which the first stage may widen all integers (data that ask for more see the second), and
the step in which it does: moduli come in such steps, and few widths mean few kernels to compile."""


def log2_norms(evidence: Evidence) -> float:
    """Upper bound of log2 of |A'B'|, by Cauchy and Schwarz.

    Rounding to integers adds at most sqrt(k)/2 to a norm. The margin of 2**-10 covers the
    rounding of the logarithms.
    """

    def log2_norm(log2_square: float) -> float:
        half = log2_square / 2
        return half + math.log2(1 + (math.sqrt(evidence.length) / 2 + 1) * 2.0**-half)

    return sum(map(log2_norm, evidence.log2_squares)) + 2.0**-10


def first_stage(evidence: Evidence, target: Format) -> float:
    """The certified error of the norm scales: a bound of max |C - AB| / |A||B|, or inf.

    The rounding of C itself, u·|C|, comes on top.
    """
    if 0 in evidence.totals:
        return 0.0
    top = norm_limit(target, evidence.length).bits // 2
    truncation = 0.5 * sum(evidence.totals) + 0.25 * evidence.length
    lower = math.ldexp(math.fsum(evidence.sums), 2 * (top - 1))
    return truncation / lower if lower > 0 else math.inf


def first_tolerance(length: int, target: Format) -> float:
    """What the first stage must certify: at most k/2·u, and at most 12·sqrt(k)·u.

    The counting bound is four to ten times too small for data without structure, for which
    what this accepts means an error of about sqrt(k)·u at the very worst.
    """
    return min(length / 2, 12 * math.sqrt(length)) * target.unit_roundoff


def widening(evidence: Evidence, target: Format) -> tuple[int, float] | None:
    """The bits by which all integers must grow, and the bound of max |C - AB| / |A||B| then.

    None where the first stage cannot tell, or asks for more than WIDEST.
    """
    bound, tolerance = first_stage(evidence, target), first_tolerance(evidence.length, target)
    if bound <= tolerance:
        return 0, bound
    if bound > tolerance * 2.0**WIDEST:
        return None
    # The exponent of a quotient, unlike its logarithm, is the same on every machine.
    bits = WIDENING * -(-math.frexp(bound / tolerance)[1] // WIDENING)
    return bits, bound * 2.0**-bits


def second_stage(
    a: Operand, b: Operand, scales: tuple[Array, Array], target: Format, sums: ExactSums
) -> tuple[tuple[Array, Array], float]:
    """Widen the scales until the certificate holds for every pair.

    The tolerance is sqrt(terms)/2·u of |A||B|, with `terms` the number of nonzero terms of
    the pair; no row becomes wider than it takes to lose nothing.

    Returns the scales and the certified bound of max |C - AB| / |A||B|.
    """
    xp = namespace(a.matrix)
    error, ratio = pair_errors(a, b, scales, sums)
    needed = ratio / target.unit_roundoff
    if not math.isfinite(needed):
        return (a.last_places.scales, b.last_places.scales), 0.0
    widening = max(0, math.frexp(needed)[1]) if needed > 1 else 0
    widened = [xp.minimum(s + widening, x.last_places.scales) for s, x in zip(scales, (a, b), strict=True)]
    return (widened[0], widened[1]), error * 2.0**-widening
