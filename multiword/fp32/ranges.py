"""How much a product's a priori bound grows where numbers leave the range of words, or of float32.

`error_bound` counts roundings. A word, or a sum, that underflows has an absolute error. This module
bounds what such errors are relative to |A||B|, from statistics of the operands alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from multiword.formats import FORMATS
from multiword.fp32.measure import Vectors
from multiword.fp32.schemes import Scheme
from multiword.fp32.split import scaled_on_host, split_elements
from multiword.runtime.arrays import Array

UNDERFLOW, OVERFLOW = 2.0**-126, 2.0**127
"""The most that float32 loses by underflow, if it flushes to zero; and what its sums must not reach."""

_ELEMENTS_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class Magnitudes:
    """Statistics of an operand's vectors y of length k, scaled and centred as they are split.

    Attributes
    ----------
    lost : ε_0, …, ε_p: y without its first i words is at most u^i·|y| + ε_i in every element.
    norm : the largest 2-norm of a vector.
    inverse : 1/|y| of the smallest element that is not zero.
    inverse_common : 1/t of the vector with the smallest t, where `common` of k elements reach t.
    sums : the largest Σ|y|/t of a vector.
    """

    lost: tuple[float, ...]
    norm: float = 0.0
    inverse: float = 0.0
    inverse_common: float = 0.0
    sums: float = 0.0

    @classmethod
    def of(cls, y: Array, exact: Array, scheme: Scheme) -> Magnitudes:
        """Return the statistics of vectors, (vectors, k), but those of zeros alone or with Inf or NaN.

        exact : y before float32 lost what underflows.
        """
        some = np.isfinite(y).all(axis=1) & exact.any(axis=1)
        y, exact = y[some], exact[some]
        if not y.size:
            return cls((0.0,) * (scheme.words + 1))
        magnitude = np.abs(exact)
        common = np.partition(magnitude, -_common(y.shape[1]), axis=1)[:, -_common(y.shape[1])]
        with np.errstate(divide="ignore", over="ignore"):
            return cls(
                _lost(y, exact, scheme),
                float(np.sqrt((magnitude * magnitude).sum(axis=1)).max()),
                float(1 / magnitude[magnitude > 0].min()),
                float((1 / common).max()),
                float((magnitude.sum(axis=1) / common).max()),
            )

    def merged(self, other: Magnitudes) -> Magnitudes:
        """Return the statistics of the vectors of both."""
        fields = (self.norm, self.inverse, self.inverse_common, self.sums)
        others = (other.norm, other.inverse, other.inverse_common, other.sums)
        lost = tuple(max(pair) for pair in zip(self.lost, other.lost, strict=True))
        return Magnitudes(lost, *(max(pair) for pair in zip(fields, others, strict=True)))


def _common(k: int) -> int:
    """Return how many elements of each vector reach its t: three quarters, so two do at half of k."""
    return -(-3 * k // 4)


def _lost(y: Array, exact: Array, scheme: Scheme) -> tuple[float, ...]:
    """Return ε_0 to ε_p; infinite if a word overflows."""
    if scheme.plain:
        return 0.0, 0.0
    u = FORMATS[scheme.word].unit_roundoff * (2.0 if scheme.rounding == "RZ" else 1.0)
    rest, magnitude, lost = exact, np.abs(exact), [0.0]
    for i, word in enumerate(split_elements(y, scheme)):
        with np.errstate(invalid="ignore"):
            rest = rest - word.astype(np.float64) * scheme.step**-i
        if not np.isfinite(rest).all():
            return (0.0, *(math.inf,) * scheme.words)
        lost.append(max(0.0, float((np.abs(rest) - u ** (i + 1) * magnitude).max())))
    return tuple(lost)


def range_error(vectors: Vectors) -> float:
    """Return what leaving the ranges of words and of float32 adds to the error, relative to |A||B|.

    vectors : of both operands, on the host, as they are to be split. Infinite if a word or a sum may
    overflow.

    Where ε are not 0, the products of words and of remainders exceed their relative bounds by at most
    c_a·|a| + c_b·|b| + c_k at each index with a·b ≠ 0. There |a||b| is at least the product of the smallest
    elements; at half of all indices it is at least t_A·t_B.
    """
    scheme, k = vectors.scheme, vectors.a.shape[1]
    a, b = (_magnitudes(vectors, side) for side in (0, 1))
    c_a, c_b, c_k = _absolute(a, b, scheme)
    final = _magnitudes(vectors, 0, plain=True), _magnitudes(vectors, 1, plain=True)
    largest = max(a.norm * b.norm, final[0].norm * final[1].norm)
    if not math.isfinite(c_a + c_b) or largest >= OVERFLOW:
        return math.inf
    if scheme.word != "fp64":
        c_k += 2 * len(scheme.pairs) * UNDERFLOW  # of each product, and where it is added
    each = c_a * b.inverse + c_b * a.inverse + c_k * a.inverse * b.inverse
    both = 2 * _common(k) - k
    common = c_a * a.sums * b.inverse_common + c_b * b.sums * a.inverse_common
    common = (common + c_k * k * a.inverse_common * b.inverse_common) / both
    rounding = UNDERFLOW * final[0].inverse * final[1].inverse  # of the result, in float32
    return 2 * min(each, common if math.isfinite(common) else math.inf) + rounding


def _absolute(a: Magnitudes, b: Magnitudes, scheme: Scheme) -> tuple[float, float, float]:
    """Return c_a, c_b and c_k: Σ_i |A_i|·r_B(J_i) + r_A(p)·|B|, without the terms of |A||B|.

    J_i is the number of words of B that word i of A is multiplied by, and |A_i| ≤ r_A(i - 1) + r_A(i).
    """
    if scheme.plain:
        return 0.0, 0.0, 0.0
    u, p = FORMATS[scheme.word].unit_roundoff * (2.0 if scheme.rounding == "RZ" else 1.0), scheme.words
    c_a, c_b, c_k = 0.0, a.lost[p], 0.0
    for i in range(1, p + 1):
        partners = sum(first == i for first, _ in scheme.pairs)
        relative, absolute = u ** (i - 1) + u**i, a.lost[i - 1] + a.lost[i]
        c_a += relative * b.lost[partners]
        c_b += absolute * u**partners
        c_k += absolute * b.lost[partners]
    return c_a, c_b, c_k


def _magnitudes(vectors: Vectors, side: int, plain: bool = False) -> Magnitudes:
    """Return the statistics of A (0) or B (1), as it is split, or as it is."""
    scheme = Scheme("fp64", 1) if plain else vectors.scheme
    result = Magnitudes((0.0,) * (scheme.words + 1))
    for x, of in _in_blocks((vectors.a, vectors.bt)[side], vectors.data[side]):
        y, exact = x, x.astype(np.float64)
        if not scheme.plain:
            y = scaled_on_host(vectors, side, x, of)
            with np.errstate(invalid="ignore"):
                exact = np.ldexp((x - of["centre"][:, None]).astype(np.float64), of["shift"][:, None])
        result = result.merged(Magnitudes.of(y, exact, scheme))
    return result


def _in_blocks(x: Array, of: Array) -> Iterator[tuple[Array, Array]]:
    rows = max(1, _ELEMENTS_AT_ONCE // max(x.shape[1], 1))
    for start in range(0, len(x), rows):
        yield x[start : start + rows], of[start : start + rows]
