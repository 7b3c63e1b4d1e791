"""Weighted means and variances of rows as enclosures, and rounded, compiled with numba.

Variances as in `enclosure_numba`: with d + c = x − m, m the mean rounded, and W = Σw, the sum of squares
about the exact mean is Σw·(d + c)² − t²/W, where t = Σw·(d + c) is a rounding error.
"""

from __future__ import annotations

import numpy as np

from multiword.runtime.jit import inlined
from ozaki.sums.exact.enclosure_numba import RELATIVE, SQUARED, add, add_product, root_of, rounded, two_sum
from ozaki.sums.exact.extraction import TINY
from ozaki.sums.exact.extraction_numba import fma

EQUALS = {
    "weighted_means": "sums.rounded_weighted_mean",
    "weighted_variances": "sums.rounded_weighted_variance",
}
"""The function of `ozaki.definition` that each form has the bits of."""

UNDERFLOW = 2.0**-1074  # what a product of a weight and a rounding error may lose


@inlined
def _about_mean(xs, ws, weight, high, low, error):
    """Add Σw·|x − m|² to an enclosure, m being the exact mean."""
    first, rest, lost, alike = 0.0, 0.0, 0.0, True
    for j in range(len(xs)):
        first, rest, lost = add_product(ws[j], xs[j], first, rest, lost, False)
        alike &= xs[j] == xs[0]
    mean = xs[0] if alike else first / weight
    t, below, unsure = 0.0, 0.0, 0.0
    for j in range(len(xs)):
        w = ws[j]
        d, c = two_sum(xs[j], -mean)
        square = d * d
        more = fma(d, d, -square)
        if abs(square) < TINY and d != 0 and w != 0:
            error = np.nan
        high, low, error = add_product(w, square, high, low, error, False)
        low, lost = two_sum(low, w * fma(2 * d, c, more))
        # No result shows this bound: next to a tie, what `quotient_of` adds for its remainder is larger.
        error += abs(lost) + (w * square * SQUARED if more != 0 or c != 0 else 0.0)
        t, below, unsure = add_product(w, d, t, below, unsure, False)
        below, lost = two_sum(below, w * c)
        unsure += abs(lost) + (abs(w * c) * RELATIVE + UNDERFLOW if c != 0 else 0.0)
    t += below
    unsure += abs(t) * RELATIVE
    most = abs(t) + unsure
    if most != 0 and most * (most / weight) < TINY:  # below, squares of rounding errors might underflow
        error = np.nan
    square = t * (t / weight)
    error += (2 * abs(t) + unsure) * (unsure / weight) + square * RELATIVE
    high, rest = two_sum(high, -square)
    low, lost = two_sum(low, rest)
    return high, low, error + abs(lost)


@inlined
def _left(weight, weight_low, unsure, squares, squares_low, squares_error, ddof):
    """W − ddof·A/W, with A = Σw² of reliabilities; A = W of frequencies."""
    ratio = squares / weight
    rest = fma(-ratio, weight, squares) + (squares_low - ratio * weight_low)
    error = (abs(squares_low) + abs(ratio * weight_low) + abs(rest)) * RELATIVE
    error = abs(ddof) * (error + squares_error + ratio * unsure) / weight
    product, more = ddof * ratio, ddof * (rest / weight)
    lost = fma(ddof, ratio, -product)
    high, low = two_sum(weight, -product)
    rest = weight_low - (lost + more)
    error += unsure + (abs(weight_low) + abs(lost) + abs(more)) * RELATIVE
    if rest != 0:
        error += abs(low + rest) * RELATIVE
    high, low = two_sum(high, low + rest)
    return high, low, error


@inlined
def quotient_of(high, low, error, divisor, divisor_low, unsure):
    """The quotient of two enclosures; its error is NaN if the divisor may be 0, and where what is divided or
    the quotient is tiny: a remainder might underflow."""
    quotient = high / divisor
    rest = fma(-quotient, divisor, high) + (low - quotient * divisor_low)
    more = rest / divisor
    error += abs(quotient) * unsure + abs(more) * (abs(divisor_low) + unsure)
    error += (abs(low) + abs(quotient * divisor_low) + abs(rest)) * RELATIVE
    sure = abs(divisor) > 2 * unsure and (min(abs(high), abs(quotient)) > TINY or high == 0)
    return quotient, more, error / abs(divisor) if sure else np.nan


def weighted_means(x, w, zero, single, result):
    """Write Σwx/Σw of each part of numbers; return how many are undecided, which are NaN.

    As `weighted_variances`; result : (parts, outputs). Weights may be negative.

    zero : the sum of nothing: −0, or 0 where all are integers, whose products are never −0.
    """
    undecided = 0
    for i in range(len(w)):
        weight = weight_low = unsure = 0.0
        for j in range(w.shape[1]):
            weight, weight_low, unsure = add(w[i, j], weight, weight_low, unsure, False)
        weight, weight_low = two_sum(weight, weight_low)
        for part in range(len(x)):
            high, low, error = zero, 0.0, 0.0
            for j in range(w.shape[1]):
                high, low, error = add_product(w[i, j], x[part, i, j], high, low, error, False)
            if low != 0:  # else a sum of −0 would be 0
                high, low = two_sum(high, low)
            high, low, error = quotient_of(high, low, error, weight, weight_low, unsure)
            value = rounded(high, low, error, single)
            result[part, i] = value
            undecided += value != value
    return undecided


def weighted_variances(x, w, reliable, ddof, root, single, result):
    """Write weighted variances, or their roots; return how many are undecided, which are NaN.

    x : (parts, outputs, n), the real and the imaginary parts of numbers. w : (outputs, n), not negative.
    reliable : whether the weights are reliabilities, and not frequencies.
    root, single : as in `rounded_sums`.
    """
    undecided = 0
    for i in range(len(result)):
        weight = weight_low = unsure = 0.0
        squares = squares_low = squares_error = 0.0
        for j in range(w.shape[1]):
            weight, weight_low, unsure = add(w[i, j], weight, weight_low, unsure, False)
            if reliable:
                squares, squares_low, squares_error = add_product(
                    w[i, j], w[i, j], squares, squares_low, squares_error, False
                )
        if not reliable:
            squares, squares_low, squares_error = weight, weight_low, unsure
        high = low = error = 0.0
        for part in range(len(x)):
            high, low, error = _about_mean(x[part, i], w[i], weight, high, low, error)
        divisor = _left(weight, weight_low, unsure, squares, squares_low, squares_error, ddof)
        high, low = two_sum(high, low)
        high, low, error = quotient_of(high, low, error, *divisor)
        if not divisor[0] > 0:
            error = np.nan
        if root:
            high, low, error = root_of(high, low, error)
        value = rounded(high, low, error, single)
        result[i] = value
        undecided += value != value
    return undecided
