"""Which integers stand for a row: A'_ih = RN(a_ih·2**s_i), and the scales s_i of each accuracy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from ozaki.definition.statistics import BITS, Statistics


@dataclass(frozen=True)
class NormLimit:
    """The squared 2-norm of a scaled row is at most significand/32·2**bits.

    The certificate may widen all integers by one of the `widenings`, in bits: these use up
    all bits of int8 moduli, and a short list of them means few kernels to compile.
    """

    significand: int
    bits: int
    widenings: tuple[int, ...]

    @property
    def log2(self) -> float:
        """log2 of the limit, and so of the product of two norms."""
        return self.bits + math.log2(self.significand / 32)


# By target format: the limit for rows of up to so many numbers, shortest first. Twice a limit is
# below the product of the first 17, 16, 15 and 14 int8 moduli (10, 9, 8 and 7 for "fp32"), 5 fp64
# moduli hold it for all but the shortest rows and k_blocks of 1024, and it is not a power of two, because
# rows of unit variance have a squared norm of about k, which often is one: rows on both sides of
# the limit would lose a bit for nothing. Short rows get more, because their errors do not average
# out, and their magnitudes tell less; without it their certificate would take a product.
NORM_LIMITS: dict[str, dict[int | float, NormLimit]] = {
    "fp64": {
        4: NormLimit(60, 131, (3, 7, 11, 14, 18, 22, 25, 29, 33, 36, 40, 43, 47, 50, 53)),
        16: NormLimit(40, 124, (3, 7, 11, 15, 18, 22, 26, 29, 33, 36, 40, 43, 47, 50, 54)),
        256: NormLimit(44, 116, (3, 7, 11, 15, 18, 22, 26, 29, 33, 37, 40, 44, 47, 51, 54)),
        math.inf: NormLimit(35, 109, (3, 7, 11, 15, 18, 22, 26, 29, 33, 37, 40, 44, 47, 51, 54)),
    },
    "fp32": {
        4: NormLimit(37, 78, (3, 7, 11, 15, 19, 23, 26, 30, 34, 38, 41, 45, 49, 52)),
        16: NormLimit(42, 70, (3, 7, 11, 15, 19, 23, 26, 30, 34, 38, 41, 45, 49, 53)),
        256: NormLimit(47, 62, (3, 7, 11, 15, 19, 23, 27, 30, 34, 38, 42, 45, 49, 53)),
        math.inf: NormLimit(48, 54, (3, 7, 11, 15, 19, 23, 27, 31, 34, 38, 42, 46, 49, 53)),
    },
    # For "normwise", which widens nothing: 5 and 4 int8 moduli. What rows lose is seldom more than what the
    # last rounding does.
    "fp16": {math.inf: NormLimit(56, 38, ())},
    "bf16": {math.inf: NormLimit(56, 30, ())},
}


def limit_of(target: str, length: int) -> NormLimit:
    """Return the norm limit of a format, for rows of `length` real numbers (twice k for complex ones).

    >>> limit_of("fp64", 300).bits
    109
    """
    return next(limit for longest, limit in NORM_LIMITS[target].items() if length <= longest)


def norm_scale(statistics: Statistics | None, limit: NormLimit) -> int:
    """Return the largest s for which the statistics prove Σ(|x|·2**s)² to be below the norm limit.

    With the squares in units of 4**(e - BITS) that is square·4**(s + e - BITS) <= significand/32·2**bits. 0
    for a row of zeros.
    """
    if statistics is None:
        return 0
    spare = statistics.square.bit_length()  # a quotient below 1 would be 0
    room = (limit.significand << limit.bits + 2 * spare) // (32 * statistics.square)
    return (room.bit_length() - 1) // 2 - spare + BITS - statistics.exponent


def exact_scale(row: Sequence[float]) -> int:
    """Return the smallest s for which every x·2**s of a row is an integer; 0 for a row of zeros.

    >>> exact_scale([0.75, 6.0]), exact_scale([8.0])
    (2, -3)
    """
    lowest_bits = [Fraction(x) for x in row if x]
    return max((_scale_of(x) for x in lowest_bits), default=0)


def _scale_of(x: Fraction) -> int:
    n, d = abs(x.numerator), x.denominator
    return d.bit_length() - (n & -n).bit_length()


def width_scale(statistics: Statistics | None, width: int) -> int:
    """Return the s for which no |x|·2**s of a row exceeds 2**width; 0 for a row of zeros."""
    return 0 if statistics is None else width - statistics.exponent
