"""The scales: which integers stand for the rows of A and the columns of B (`ozaki.definition.scales`).

    A'_ih = RN(a_ih·2**s_i),   B'_hj = RN(b_hj·2**t_j),   C_ij = RN((A'B')_ij·2**(-s_i - t_j))

with the product A'B' exact in the integers. C depends on A, B and the scales s and t alone,
and the scales depend on the data and on the accuracy alone. For accuracy "fp64"
(and "fp32") the scale of a row depends on that row only: it is the power of two that brings
the row's 2-norm just below a limit, whatever else the matrices contain, unless the
certificate (`ozaki.certificate`) demands more. For "normwise" nothing demands more. Where the
inner dimension is graded, "fp64" and "fp32" replace A and B by A·D and D⁻¹·B
(`ozaki.scaling.equilibration`).

Why norms: by Cauchy and Schwarz |A'B'|_ij is at most the product of the norms, so the limit
alone says how many moduli hold the product, for any k; and every row gets the same relative
precision, as the error relative to |A||B| requires.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from multiword.formats import Format
from multiword.runtime.arrays import Array, import_cupy, is_cupy, namespace
from multiword.runtime.kernels import Kernel
from multiword.runtime.tiles import extent
from ozaki.definition.scales import NormLimit, limit_of
from ozaki.definition.statistics import BITS
from ozaki.rounding.digits import bit_length
from ozaki.scaling.statistics import (
    NONFINITE,
    NONFINITE_ROW,
    STATISTICS_CONSTANTS,
    ZERO,
    NormScales,
    Rows,
    RowStatistics,
    in_one_pass,
    row_statistics,
    rows_of,
)


def norm_limit(target: Format, length: int) -> NormLimit:
    """Return the limit for rows of `length` numbers (twice k for complex ones)."""
    return _limit_of(target.name, length)


_limit_of = lru_cache(256)(limit_of)


def normwise_error(limit: NormLimit, length: int) -> float:
    """Return an upper bound of |C - AB|_ij / (‖a_i‖₂‖b_j‖₂) for a norm limit, the rounding of C itself apart.

    For the limits above it is below sqrt(k)·u, for rows of up to 2**24 numbers.

    Proof. Let M be the limit, k the length, and t = ⌊|x|⌋ the magnitudes of a row a in the unit of its
    statistics, where the largest is at least 2**15. So N = Σ(t + 1)² bounds the squared norm from above, and
    √N <= ‖a‖ + √k <= (1 + ε)‖a‖ with ε = √k·2**-15. The scale is the largest power of two, s, with N·s² <= M:
    hence a' = s·a has ‖a'‖ >= √M / (2(1 + ε)), and so has b'. Rounded to integers, both change by at most 1/2
    in each number, so by √k/2 in norm, and by Cauchy and Schwarz

        |C' - a'·b'| <= √k/2·(‖a'‖ + ‖b'‖) + k/4 <= (2(1 + ε)·√(k/M) + (1 + ε)²·k/M)·‖a'‖‖b'‖.
    """
    largest = math.ldexp(limit.significand, limit.bits - 5)
    root = (1 + math.sqrt(length) * 2.0 ** (1 - BITS)) * math.sqrt(length / largest)
    return (1 + 2.0**-40) * (2 * root + root * root)


def statistics_and_scales(parts: list[Array], limit: NormLimit) -> tuple[RowStatistics, Array]:
    """Return `row_statistics` of an operand and their `norm_scales`: of short rows on a GPU by one kernel."""
    if is_cupy(parts[0]):
        scales, to = empty_scales(extent(parts)[0], parts[0], limit)
        if (statistics := in_one_pass(parts, to)) is not None:
            return statistics, scales
    statistics = row_statistics(parts)
    return statistics, norm_scales(statistics, limit)


def norm_scales(statistics: RowStatistics, limit: NormLimit) -> Array:
    """Return the (r,) int32 scales that fill a norm limit.

    The largest s for which the statistics prove Σ(|x|·2**s)² to be below the limit. Zero rows get 0, rows
    that are not finite NONFINITE_ROW.
    """
    return (_norm_scales_device if is_cupy(statistics.exponent) else _norm_scales_host)(statistics, limit)


def _norm_scales_host(statistics: RowStatistics, limit: NormLimit) -> np.ndarray:
    high = np.maximum(bit_length(statistics.square) - 1, LEAST_SQUARE)  # zero rows have no square
    bits = filling_bits(statistics.square, high, limit.significand, limit.bits)
    return _where_summed(statistics.exponent, bits - statistics.exponent)


LEAST_SQUARE = 2 * (BITS - 1)
"""log2 of the least square of a row with a nonzero number: the largest magnitude alone has it."""


def filling_bits(square: Any, high: Any, significand: int, limit: int) -> Any:
    """Return the bits of the largest integers of a row that fill the norm limit 2**limit·significand/32.

    square : of the row's statistics, from 2**high to 2**(high + 1); an integer, or an array of rows. This
    text is compiled, too, as it stands.
    """
    threshold = (1 << high) + ((significand - 32) << (high - 5))
    return ((limit - high - (square > threshold)) >> 1) + BITS


_NORM_SCALES = Kernel(
    "norm_scales",
    Path(__file__).with_suffix(".cu"),
    (STATISTICS_CONSTANTS,),
    (Rows, NormScales),
    equals="ozaki.definition.scales.norm_scale",
)


def _norm_scales_device(statistics: RowStatistics, limit: NormLimit) -> Array:
    rows = len(statistics.exponent)
    scales, to = empty_scales(rows, statistics.exponent, limit)
    _NORM_SCALES((-(-rows // 256),), (256,), (rows_of(statistics), to), **STATISTICS_CONSTANTS)
    return scales


def empty_scales(rows: int, like: Array, limit: NormLimit) -> tuple[Array, NormScales]:
    """Return memory for the scales of so many rows, and the argument by which kernels write to it."""
    scales = namespace(like).empty(rows, np.int32)
    return scales, NormScales(scale=scales, limit_bits=limit.bits, significand=limit.significand)


def widened(scale: Array, bits: int) -> Array:
    """Return scales for integers wider by some bits; `NONFINITE_ROW` stays."""
    if is_cupy(scale):
        return _wider()(scale, np.int32(bits), np.int32(NONFINITE_ROW))
    return np.where(scale == NONFINITE_ROW, scale, scale + np.int32(bits))


@cache
def _wider() -> Any:
    """One launch instead of three."""
    code = "y = scale == nonfinite ? scale : scale + bits"
    return import_cupy().ElementwiseKernel(
        "int32 scale, int32 bits, int32 nonfinite", "int32 y", code, "wider"
    )


def zero_nonfinite(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Set the rows with the scale `NONFINITE_ROW` to zero, and return scales that are 0 there."""
    finite = scale != NONFINITE_ROW
    if finite.all():
        return scale
    x[~finite] = 0
    return np.where(finite, scale, 0)


def width_scales(exponent: Array, width: int) -> Array:
    """Return the (r,) int32 scales that make max |A'| at most 2**width in every row."""
    return _where_summed(exponent, width - exponent)


def _where_summed(exponent: Array, scale: Array) -> Array:
    xp = namespace(exponent)
    scale = xp.where(exponent == ZERO, 0, scale)
    return xp.where(exponent == NONFINITE, NONFINITE_ROW, scale).astype(xp.int32)
