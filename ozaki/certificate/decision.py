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
2. From exact products of magnitudes in seven bits, when that asks for many bits or cannot tell (few
   nonzero numbers, say): they bound |A||B| of each pair from below, most often to a factor of two.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from multiword.formats import Format
from ozaki.certificate.counting import Evidence
from ozaki.certificate.pairwise import QUICK, THOROUGH, Found
from ozaki.residues.system import residue_system
from ozaki.scaling.scales import NormLimit, norm_limit

EASILY, WIDEST = 7, 54
"""Bits by which the first stage may widen all integers, for more cost more than a look at the pairs, and bits
by which that may."""


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


@dataclass(frozen=True)
class Verdict:
    """What the certificate asks for.

    Attributes
    ----------
    bits : by which all integers must grow; beyond WIDEST, none needs more than it takes to lose nothing.
    bound : of max |C - AB| / |A||B| then, the rounding of C itself apart.
    depths : of the last look at the pairs; empty if the first stage was enough.
    """

    bits: int
    bound: float
    depths: tuple[int, ...] = ()


def verdict(evidence: Evidence, target: Format, look: Callable[[tuple[int, ...]], Found]) -> Verdict:
    """The verdict of both stages; look(depths) looks at all pairs."""
    first = first_verdict(evidence, target)
    if first.bits <= EASILY:
        return first
    limit = norm_limit(target, evidence.length)
    for depths in (QUICK, THOROUGH):
        error, ratio = look(depths)
        bits = _widening(ratio / target.unit_roundoff, limit)
        if min(bits, first.bits) <= WIDEST:
            break
    if first.bits < bits:  # few numbers that are much larger than the others
        return replace(first, depths=depths)
    return Verdict(bits, math.ldexp(error, -bits) if math.isfinite(error) else 0.0, depths)


def first_verdict(evidence: Evidence, target: Format) -> Verdict:
    """The verdict of the first stage alone."""
    bound, tolerance = first_stage(evidence, target), first_tolerance(evidence.length, target)
    bits = _widening(bound / tolerance, norm_limit(target, evidence.length))
    return Verdict(bits, math.ldexp(bound, -bits) if math.isfinite(bound) else 0.0)


def _widening(excess: float, limit: NormLimit) -> int:
    """The bits that make an error smaller by a factor, or a few more; very many if that is infinite."""
    if excess <= 1:
        return 0
    if excess == math.inf:
        return 1 << 20
    least = math.frexp(excess)[1]  # which is, unlike a logarithm, the same on every machine
    return next((bits for bits in _steps(limit) if bits >= least), least)


@cache
def _steps(limit: NormLimit) -> tuple[int, ...]:
    """By how many bits integers may grow: as far as int8 moduli go, then as far as one more goes, ….

    So no modulus is wasted, and few widths mean few kernels to compile.
    """

    def moduli(bits: int) -> int:
        return len(residue_system("int8", limit.log2 + 2 * bits + 2.0**-20, 1).moduli)

    return tuple(bits for bits in range(WIDEST + 1) if moduli(bits) < moduli(bits + 1))
