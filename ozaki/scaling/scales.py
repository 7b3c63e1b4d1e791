"""The definition: which integers stand for the rows of A and the columns of B.

    A'_ih = RN(a_ih·2**s_i),   B'_hj = RN(b_hj·2**t_j),   C_ij = RN((A'B')_ij·2**(-s_i - t_j))

with the product A'B' exact in the integers. C depends on A, B and the scales s and t alone,
and the scales depend on the data and on the accuracy asked for alone. For accuracy "fp64"
(and "fp32") the scale of a row depends on that row only: it is the power of two that brings
the row's 2-norm just below a limit, whatever else the matrices contain, unless the
certificate (`_certificate`) demands more.

Why norms: by Cauchy and Schwarz |A'B'|_ij is at most the product of the norms, so the limit
alone says how many moduli hold the product, for any k; and every row gets the same relative
precision, which is what the error relative to |A||B| asks for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from multiword.formats import Format
from multiword.runtime.arrays import Array, namespace
from ozaki.rounding.digits import bit_length
from ozaki.scaling.segments import BITS, NONFINITE, ZERO

DISCARD = -(1 << 28)
"""The scale of a row with an Inf or NaN: the exact product takes it as zero (see `_special`)."""


@dataclass(frozen=True)
class NormLimit:
    """The squared 2-norm of a scaled row is at most thirtyseconds/32·2**bits."""

    thirtyseconds: int
    bits: int

    @property
    def log2(self) -> float:
        """log2 of the limit, and so of the product of two norms."""
        return self.bits + math.log2(self.thirtyseconds / 32)


# By target format: the limit for rows of up to so many elements, shortest first. Twice a limit is
# below the product of the first 17, 16, 15 and 14 int8 moduli (10, 9, 8 and 7 for "fp32"), 5 fp64
# moduli hold it for all but the shortest rows and HOST_DEPTH, and it is not a power of two, because
# rows of unit variance have a squared norm of about k, which often is one: rows on both sides of
# the limit would lose a bit for nothing. Short rows get more, because their errors do not average
# out, and their magnitudes tell less; without it their certificate would ask for a product.
NORM_LIMITS: dict[str, dict[int | float, NormLimit]] = {
    "fp64": {
        4: NormLimit(60, 131),
        16: NormLimit(40, 124),
        256: NormLimit(44, 116),
        math.inf: NormLimit(35, 109),
    },
    "fp32": {
        4: NormLimit(37, 78),
        16: NormLimit(42, 70),
        256: NormLimit(47, 62),
        math.inf: NormLimit(48, 54),
    },
}


def norm_limit(target: Format, length: int) -> NormLimit:
    """The limit for rows of that many elements (twice k for complex ones)."""
    return next(limit for longest, limit in NORM_LIMITS[target.name].items() if length <= longest)


def norm_scales(exponent: np.ndarray, square: np.ndarray, limit: NormLimit) -> np.ndarray:
    """Return the (r,) int32 scales that fill a norm limit, from a profile's exponents and squares.

    The largest s with Σ(|x|·2**s)² certainly below the limit. Zero rows get 0, rows that are
    not finite DISCARD.
    """
    bits = bit_length(square) - 1
    threshold = (np.int64(1) << bits) + (((limit.thirtyseconds - 32) * (np.int64(1) << bits)) >> 5)
    room = limit.bits - bits - (square > threshold)
    return _where_usable(exponent, (room >> 1) + BITS - exponent)


def widened(scale: Array, bits: int) -> Array:
    """Scales for integers of so many bits more; `DISCARD` stays."""
    xp = namespace(scale)
    return xp.where(scale == DISCARD, scale, scale + xp.int32(bits))


def zero_discarded(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Set the rows with the scale `DISCARD` to zero, and return scales that are 0 there."""
    kept = scale != DISCARD
    if kept.all():
        return scale
    x[~kept] = 0
    return np.where(kept, scale, 0)


def width_scales(exponent: Array, width: int) -> Array:
    """Return the (r,) int32 scales that make max |A'| at most 2**width in every row."""
    return _where_usable(exponent, width - exponent)


def _where_usable(exponent: Array, scale: Array) -> Array:
    xp = namespace(exponent)
    scale = xp.where(exponent == ZERO, 0, scale)
    return xp.where(exponent == NONFINITE, DISCARD, scale).astype(xp.int32)
