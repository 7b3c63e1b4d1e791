"""The error of a product times a vector, |C - AB|·v, from a few numbers of every row and column.

Rows a_i of A and columns b_j of B have k numbers, the real and the imaginary parts together. Their integers,
divided by the scales again, are ã_i and b̃_j; no number of theirs is further from a_i and b_j than

    δ_i = 2**(-s_i - 1),   ε_j = 2**(-t_j - 1),   or 0 where the integers lose nothing.

The product ÃB̃ is rounded once, to C. With |AB - ÃB̃| <= |A||B - B̃| + |A - Ã||B̃| and, by Cauchy and Schwarz,
|ÃB̃|_ij <= ‖ã_i‖₂‖b̃_j‖₂,

    |AB - ÃB̃|_ij <= ‖a_i‖₁·ε_j + δ_i·(‖b_j‖₁ + kε_j),
    |C - ÃB̃|_ij  <= u·(‖a_i‖₂ + √k·δ_i)·(‖b_j‖₂ + √k·ε_j) + η/2,

with η the smallest number of C's format. Both are matrices of low rank: times v they are inner products. Of a
complex product the first bound is that of either part, so √2 times as much is that of the modulus; for the
second, |ÃB̃|_ij is a modulus already, and η/2 becomes η at most.

Every sum here has nonnegative terms. The numbers of a row are in units of a power of two, and those that
might underflow are raised to where they cannot: so few roundings are relative errors below `MARGIN`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from multiword.formats import Format
from multiword.runtime.arrays import Array, on_host
from ozaki.definition.statistics import BITS
from ozaki.scaling.statistics import NONFINITE, RowStatistics

MARGIN = 2.0**-40
"""More than the relative error of a correctly rounded sum of rounded products, and of a few steps more."""

SMALLEST_WEIGHT, SMALLEST_ERROR = 2.0**-100, 2.0**-200
"""Lower bounds, relative to the largest column and to the row, that keep all products here normal."""


@dataclass(frozen=True)
class RowErrors:
    """What the bound takes of the rows of A, or the columns of B, in units of 2**exponent.

    Attributes
    ----------
    exponent : (r,) int64; 0 for a row of zeros.
    total, norm : (r,) float64, upper bounds of ‖a_i‖₁ and of ‖ã_i‖₂.
    error : (r,) float64, δ_i.
    finite : (r,) bool, whether a row has no Inf or NaN.
    length : k.
    """

    exponent: np.ndarray
    total: np.ndarray
    norm: np.ndarray
    error: np.ndarray
    finite: np.ndarray
    length: int

    @classmethod
    def of(cls, statistics: RowStatistics, scale: Array, lossless: Array) -> RowErrors:
        """Return those of rows with these scales; below the scales `lossless` some number is rounded."""
        x, length = statistics, statistics.length
        e, total, square = (on_host(y).astype(np.int64) for y in (x.exponent, x.total, x.square))
        s, enough = (on_host(y).astype(np.int64) for y in (scale, lossless))
        rounded = (total > 0) & (s < enough)
        ulp = np.ldexp(0.5, np.where(rounded, -s - e, 0).astype(np.int32))
        error = np.where(rounded, np.maximum(ulp, SMALLEST_ERROR), 0.0)
        norm = np.sqrt(square) * 2.0**-BITS + math.sqrt(length) * error
        return cls(np.where(total > 0, e, 0), total * 2.0**-BITS, norm, error, e != NONFINITE, length)


@dataclass(frozen=True)
class ErrorBound:
    """The bound of |C - AB| for one product: `times` multiplies it by a vector."""

    rows: RowErrors
    columns: RowErrors
    parts: int
    target: Format

    def times(self, v: np.ndarray, rounding: bool) -> np.ndarray:
        """Return the (m,) upper bounds for (n,) weights v >= 0; of |AB - ÃB̃|·v without `rounding`."""
        a, b = self.rows, self.columns
        weighted = (v > 0) & (b.norm > 0)
        significand, exponent = np.frexp(v)
        exponent = exponent + b.exponent
        top = int(exponent[weighted].max()) if weighted.any() else 0
        w = np.ldexp(significand, np.where(weighted, exponent - top, 0).astype(np.int32))
        w = np.where(weighted, np.maximum(w, SMALLEST_WEIGHT), 0.0)
        total, norm, error = (math.fsum((w * x).tolist()) for x in (b.total, b.norm, b.error))
        bound = a.total * error + a.error * (total + a.length * error)
        bound *= math.sqrt(self.parts)
        if rounding:
            bound += self.target.unit_roundoff * norm * a.norm
        with np.errstate(over="ignore"):
            out = np.ldexp(bound * (1 + MARGIN), (a.exponent + top).astype(np.int32))
            out = np.where(bound > 0, np.nextafter(out, np.inf), 0.0)
            if rounding:
                below = self.target.smallest_subnormal * len(v) * v.max()
                out = np.where(a.norm > 0, np.nextafter(out + np.nextafter(below, np.inf), np.inf), 0.0)
                out[self._may_overflow()] = np.inf
        out[~a.finite] = np.inf
        return out if b.finite.all() else np.full_like(out, np.inf)

    def _may_overflow(self) -> np.ndarray:
        """Return the rows of C in which ‖ã_i‖₂‖b̃_j‖₂ does not prove that all numbers are finite."""
        of_a, of_b = (np.frexp(x.norm)[1] + x.exponent for x in (self.rows, self.columns))
        return (self.rows.norm > 0) & (of_a + of_b.max(initial=-(1 << 20)) > self.target.emax)
