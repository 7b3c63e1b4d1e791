"""Weighted means and variances of columns as enclosures, and rounded, compiled with numba.

Variances as in `enclosure_numba`: with d + c = x − m, m the mean rounded, and W = Σw, the sum of squares
about the exact mean is Σw·(d + c)² − t²/W, where t = Σw·(d + c) is a rounding error.
"""

from __future__ import annotations

import numpy as np

from multiword.runtime.jit import inlined
from ozaki.sums.exact.enclosure_numba import RELATIVE, SQUARED, add, add_product, root_of, rounded, two_sum
from ozaki.sums.exact.extraction import TINY
from ozaki.sums.exact.extraction_numba import fma
from ozaki.sums.exact.rows import SIDE

EQUALS = {
    "weighted_means": "sums.rounded_weighted_mean",
    "weighted_variances": "sums.rounded_weighted_variance",
}
"""The function of `ozaki.definition` that each form has the bits of."""

UNDERFLOW = 2.0**-1074  # what a product of a weight and a rounding error may lose


@inlined
def _add_up(x, w, start, count, sums):
    """Add up the numbers of some columns, or products of two, in enclosures."""
    high, low, error = sums[0], sums[1], sums[2]
    for k in range(len(x)):
        xs = x[k, start : start + count]
        ws = xs if w is None else w[k, start : start + count]
        for j in range(len(xs)):
            if w is None:
                high[j], low[j], error[j] = add(xs[j], high[j], low[j], error[j], False)
            else:
                high[j], low[j], error[j] = add_product(ws[j], xs[j], high[j], low[j], error[j], False)


@inlined
def _about_mean(xs, w, mean, sums, rest):
    """Add w·(d + c)² to enclosures, where d + c = x − m, and w·(d + c) to others, which are rest errors."""
    high, low, error, t, below, unsure = sums[0], sums[1], sums[2], rest[0], rest[1], rest[2]
    for j in range(len(xs)):
        d, c = two_sum(xs[j], -mean[j])
        square = d * d
        more = fma(d, d, -square)
        tiny = (abs(square) < TINY) & (d != 0) & (w[j] != 0)
        high[j], low[j], error[j] = add_product(w[j], square, high[j], low[j], error[j], False)
        low[j], lost = two_sum(low[j], w[j] * fma(2 * d, c, more))
        # No result shows this bound: next to a tie, what `quotient_of` adds for its remainder is larger.
        inexact = (more != 0) | (c != 0)
        error[j] += (np.nan if tiny else abs(lost)) + (w[j] * square * SQUARED if inexact else 0.0)
        t[j], below[j], unsure[j] = add_product(w[j], d, t[j], below[j], unsure[j], False)
        below[j], lost = two_sum(below[j], w[j] * c)
        unsure[j] += abs(lost) + (abs(w[j] * c) * RELATIVE + UNDERFLOW if c != 0 else 0.0)


@inlined
def _less_square(high, low, error, t, below, unsure, weight):
    """Subtract t²/W, where t + below is a rounding error, from an enclosure."""
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


def weighted_means(x, w, zero, single, scratch, result):
    """Write Σwx/Σw of each part of numbers; return how many are undecided, which are NaN.

    As `weighted_variances`; result : (parts, outputs). Weights may be negative.

    zero : the sum of nothing: −0, or 0 where all are integers, whose products are never −0.
    """
    undecided = 0
    for start in range(0, w.shape[1], SIDE):
        count = min(SIDE, w.shape[1] - start)
        sums, weights = scratch[:3], scratch[3:6]
        weights[:] = 0.0
        _add_up(w, None, start, count, weights)
        for part in range(len(x)):
            sums[0], sums[1], sums[2] = zero, 0.0, 0.0
            _add_up(x[part], w, start, count, sums)
            for j in range(count):
                weight, weight_low = two_sum(weights[0, j], weights[1, j])
                high, low, error = sums[0, j], sums[1, j], sums[2, j]
                if low != 0:  # else a sum of −0 would be 0
                    high, low = two_sum(high, low)
                high, low, error = quotient_of(high, low, error, weight, weight_low, weights[2, j])
                value = rounded(high, low, error, single)
                result[part, start + j] = value
                undecided += value != value
    return undecided


def weighted_variances(x, w, reliable, ddof, root, single, scratch, result):
    """Write weighted variances, or their roots; return how many are undecided, which are NaN.

    x : (parts, n, outputs), the real and the imaginary parts of numbers. w : (n, outputs), not negative.
    reliable : whether the weights are reliabilities, and not frequencies.
    root, single : as in `rounded_sums`.
    scratch : (13, SIDE); so many outputs are computed side by side, in the lanes of vectors.
    """
    undecided = 0
    for start in range(0, w.shape[1], SIDE):
        count = min(SIDE, w.shape[1] - start)
        sums, weights, rest, mean = scratch[:3], scratch[3:6], scratch[6:9], scratch[9]
        squares = scratch[10:13] if reliable else weights
        scratch[:] = 0.0
        _add_up(w, None, start, count, weights)
        if reliable:
            _add_up(w, w, start, count, squares)
            for j in range(count):
                squares[0, j], squares[1, j] = two_sum(squares[0, j], squares[1, j])
        for j in range(count):  # they are divided by: as many roundings as numbers would be left below
            weights[0, j], weights[1, j] = two_sum(weights[0, j], weights[1, j])
        for part in range(len(x)):
            rest[:] = 0.0
            _add_up(x[part], w, start, count, rest)
            for j in range(count):
                high, low, weight = rest[0, j], rest[1, j], weights[0, j]
                first = high / weight
                left = fma(-first, weight, high) + (low - first * weights[1, j])
                mean[j] = first + left / weight  # then it is that of equal numbers
            rest[:] = 0.0
            for k in range(len(w)):
                stop = start + count
                _about_mean(x[part, k, start:stop], w[k, start:stop], mean, sums, rest)
            for j in range(count):
                high, low, error = _less_square(
                    sums[0, j], sums[1, j], sums[2, j], rest[0, j], rest[1, j], rest[2, j], weights[0, j]
                )
                sums[0, j], sums[1, j], sums[2, j] = high, low, error
        for j in range(count):
            of_weights, of_squares = weights[:, j], squares[:, j]
            divisor = _left(
                *(of_weights[0], of_weights[1], of_weights[2]),
                *(of_squares[0], of_squares[1], of_squares[2]),
                ddof,
            )
            high, low = two_sum(sums[0, j], sums[1, j])
            high, low, error = quotient_of(high, low, sums[2, j], *divisor)
            if not divisor[0] > 0:
                error = np.nan
            if root:
                high, low, error = root_of(high, low, error)
            value = rounded(high, low, error, single)
            result[start + j] = value
            undecided += value != value
    return undecided
