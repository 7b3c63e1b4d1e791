"""Sums of rows and of columns as enclosures, and rounded, compiled with numba: in one pass.

A sum is high + low, each added up by `two_sum`, and the magnitudes that `low` loses bound what is missing
(Ogita, Rump and Oishi, Accurate sum and dot product, where the sum of errors is not watched). Where nothing
is lost the sum is exact, and ties are rounded as they should be. Exponents may be any. What a sum rounds to
is NaN where its bounds do not tell.
"""

from __future__ import annotations

import numpy as np

from multiword import rounding
from multiword.runtime.jit import inlined
from ozaki.sums.exact.extraction import TINY
from ozaki.sums.exact.extraction_numba import fma
from ozaki.sums.exact.rows import SIDE, WIDTH

EQUALS = {
    "rounded_sums": "sums.rounded_norm",
    "rounded_variances": "sums.rounded_variance",
    "correlated": "sums.rounded_dot",
}
"""The function of `ozaki.definition` that each form, or the sum it is a step of, has the bits of."""

SQUARED = 2.0**-103
"""More than (d + r)² = d² + 2·d·r + r² loses, as a share of d², where r is the rounding error of d.

With u = 2**-53, r² is at most u²·d². It is left out. Numbers of at most 3·u·d² are rounded: one, or two if
there is a weight. That makes 7·u².
"""

UNDERFLOW = 2.0**-1060
"""More than products of rounding errors lose below the range; less than what sums of products show."""

RELATIVE = 2.0**-50  # of the few operations that are not exact, relative to what they give


two_sum = inlined(rounding.two_sum)


@inlined
def add(x, high, low, error, single):
    """Add a number to an enclosure; for float32 `high` alone is narrow enough."""
    high, rest = two_sum(high, x)
    if single:
        return high, low, error + abs(rest)
    low, lost = two_sum(low, rest)
    return high, low, error + abs(lost)


@inlined
def add_product(x, y, high, low, error, single):
    """Add a product; one whose error may be no float64 leaves NaN. Of float32 numbers it has none."""
    p = x * y
    high, low, error = add(p, high, low, error, single)
    if single:
        return high, low, error
    low, lost = two_sum(low, fma(x, y, -p))
    tiny = (abs(p) < TINY) & (x != 0) & (y != 0)
    return high, low, error + (np.nan if tiny else abs(lost))


@inlined
def _fold(high, low, error, count):
    """Add the second half of the enclosures to the first, until there is one."""
    while count > 1:
        count //= 2
        for j in range(count):
            k = np.uint64(j + count)
            high[j], rest = two_sum(high[j], high[k])
            low[j], lost = two_sum(low[j], low[k])  # to high they would turn −0 into 0
            low[j], more = two_sum(low[j], rest)
            error[j] += error[k] + (abs(lost) + abs(more))


@inlined
def divided_by(high, low, error, divisor):
    """The quotient by an integer, whose remainders are exact; the error is not divided."""
    quotient = high / divisor
    rest, lost = two_sum(fma(-quotient, divisor, high), low)
    correction = rest / divisor
    return quotient, correction, error + abs(lost) + abs(fma(-correction, divisor, rest))


@inlined
def root_of(high, low, error):
    """The square root, with a correction of first order."""
    root = np.sqrt(high)
    rest, lost = two_sum(fma(-root, root, high), low)
    error += abs(lost)
    if rest == 0 and error == 0:
        return root, 0.0, 0.0
    correction = rest / (2 * root)
    return (
        root,
        correction,
        (error + abs(rest) * RELATIVE) / root + 2 * correction * correction / root + TINY,
    )


@inlined
def rounded(high, low, error, single):
    """What both ends of an enclosure round to, or NaN."""
    margin = 0.0 if error == 0 else 2 * error + abs(low) * RELATIVE
    if single and (low != 0 or error != 0):  # rounded twice
        margin += (abs(high) + abs(low)) * RELATIVE  # high may be what has cancelled
    below, above = high + (low - margin), high + (low + margin)
    if single:
        below, above = np.float64(np.float32(below)), np.float64(np.float32(above))
    if low == 0 and margin == 0:
        return high  # which may be -0
    return below if below == above and below != 0 else np.nan  # the sign of 0 is open


@inlined
def _round(high, low, error, single, result):
    """Round enclosures; return how many results are undecided."""
    undecided = 0
    for j in range(len(result)):
        value = rounded(high[j], low[j], error[j], single)
        result[j] = value
        undecided += value != value
    return undecided


@inlined
def special(x, y, first, step):
    """What IEEE 754 makes of Inf and NaN among every step-th of x, or x·y; 0 where there are none."""
    total = 0.0
    for k in range(first, len(x), step):
        a, b = np.float64(x[k]), 1.0 if y is None else np.float64(y[k])
        if a - a != 0 or b - b != 0:
            total += a * b
    return np.nan if total != total else total  # of one sign


def rounded_sums(x, y, columns, divisor, root, single, sums, result):
    """Sum the columns of each of (l, n·columns) numbers, or of x·y; return how many are undecided, then NaN.

    y : as x, or None.
    columns : LANES where result has one column: the sums of all numbers of a row.
    divisor, root : an integer that sums are divided by; whether their square root is taken.
    single : round to float32.
    sums : (3, WIDTH) scratch, or as wide as there are columns.
    """
    undecided, high, low, error = 0, sums[0], sums[1], sums[2]
    for i in range(len(x)):
        for start in range(0, columns, WIDTH):
            count, out = min(WIDTH, columns - start), result[i, start : start + WIDTH]
            for j in range(count):
                high[j], low[j], error[j] = -0.0, 0.0, 0.0
            for k in range(start, x.shape[1], columns):
                xs = x[i, k : k + count]
                ys = xs if y is None else y[i, k : k + count]
                for j in range(len(xs)):
                    a, total = np.float64(xs[j]), (high[j], low[j], error[j])
                    if y is None:
                        total = add(a, *total, single)
                    else:
                        total = add_product(a, np.float64(ys[j]), *total, single)
                    high[j], low[j], error[j] = total
            if len(out) < count:
                _fold(high, low, error, count)
            for j in range(len(out) if divisor != 1 else 0):
                high[j], low[j], error[j] = divided_by(high[j], low[j], error[j], divisor)
            for j in range(len(out) if root else 0):
                high[j], low[j], error[j] = root_of(high[j], low[j], error[j])
            if not _round(high, low, error, single, out):
                continue
            step = columns if len(out) == count else 1
            for j in range(len(out)):
                if out[j] != out[j]:
                    value = special(x[i], None if y is None else y[i], start + j, step)
                    out[j] = value if value != 0 else np.nan
                    undecided += value == 0
    return undecided


def correlated(x, y, single, sums, result):
    """Write Σ_j x_(i+j)·y_j for every i where x has as many numbers, NaN where that is undecided.

    As `rounded_sums`; the columns are windows of one vector, which are not copied.
    """
    undecided, high, low, error = 0, sums[0], sums[1], sums[2]
    for start in range(0, len(result), WIDTH):
        out = result[start : start + WIDTH]
        for i in range(len(out)):
            high[i], low[i], error[i] = -0.0, 0.0, 0.0
        for j in range(len(y)):
            xs, factor = x[start + j : start + j + len(out)], np.float64(y[j])
            for i in range(len(xs)):
                total = high[i], low[i], error[i]
                high[i], low[i], error[i] = add_product(np.float64(xs[i]), factor, *total, single)
        undecided += _round(high, low, error, single, out)
    return undecided


@inlined
def _mean(high, low, unknown, n):
    """The mean m of n numbers, of whose sum this is an enclosure, rounded; t = Σx − n·m, and a bound of what
    that is wrong by."""
    mean = high / n
    total, below = two_sum(high, -n * mean)
    more = low - fma(n, mean, -n * mean)
    unknown += (abs(total) + abs(below) + abs(low) + abs(more)) * RELATIVE
    return mean, total + (below + more), unknown


@inlined
def _mean_of(xs):
    """The same of all numbers of a vector."""
    high, low, unknown = 0.0, 0.0, 0.0
    for j in range(len(xs)):
        high, low, unknown = add(np.float64(xs[j]), high, low, unknown, False)
    return _mean(high, low, unknown, np.float64(len(xs)))


@inlined
def rounded_covariance(xs, ys, divisor, single):
    """What Σ(x − mean)·(y − mean)/divisor rounds to, or NaN.

    As in `rounded_variances`: Σ(d + r)·(e + s) − t·v/n, where |r| <= u·|d| and |s| <= u·|e|, so that what
    `SQUARED` allows for r·s and roundings is at most 5·u²·|d·e|.
    """
    n, products, rest, error = np.float64(len(xs)), 0.0, 0.0, 0.0
    (mean, t, open_t), (other, v, open_v) = _mean_of(xs), _mean_of(ys)
    for j in range(len(xs)):
        (d, r), (e, s) = two_sum(np.float64(xs[j]), -mean), two_sum(np.float64(ys[j]), -other)
        products, rest, error = add_product(d, e, products, rest, error, False)
        if r != 0 or s != 0:
            rest, lost = two_sum(rest, d * s + r * e)
            error += abs(lost) + abs(d * e) * SQUARED
    if (t != 0 or open_t != 0) and (v != 0 or open_v != 0):
        product = t * v / n
        error += (abs(t) * open_v + (abs(v) + open_v) * open_t) / n + abs(product) * RELATIVE + UNDERFLOW
        products, lost = two_sum(products, -product)
        rest, lost = two_sum(rest, lost)
        error += abs(lost)
    products, rest = two_sum(products, rest)
    return rounded(*divided_by(products, rest, error, divisor), single)


@inlined
def _add_squares(xs, mean, squares, rest, error):
    """Add (x − m)² to enclosures."""
    for j in range(len(xs)):
        d, r = two_sum(np.float64(xs[j]), -mean[j])
        high, low, open_low = add_product(d, d, squares[j], rest[j], error[j], False)
        low, lost = two_sum(low, 2 * d * r)
        squares[j], rest[j], error[j] = high, low, open_low + (abs(lost) + d * d * SQUARED)


@inlined
def _variance(squares, rest, error, t, unknown, n, divisor, root, single):
    """What (Σ(x − m)² − t²/n)/divisor, or its root, rounds to, or NaN."""
    square = t * t / n
    error += (2 * abs(t) + unknown) * unknown / n + square * RELATIVE
    squares, lost = two_sum(squares, -square)
    rest, lost = two_sum(rest, lost)
    error += abs(lost)
    squares, rest = two_sum(squares, rest)
    squares, rest, error = divided_by(squares, rest, error, divisor)
    if root:
        squares, rest, error = root_of(squares, rest, error)
    return rounded(squares, rest, error, single)


def rounded_variances(x, columns, divisor, root, single, scratch, result):
    """Write Σ(x − mean)²/divisor of columns, or its root; return how many are undecided, which are NaN.

    With d + r = x − m, m the mean rounded, Σ(x − mean)² = Σ(d + r)² − t²/n, where t = Σx − n·m is a rounding
    error (Chan, Golub and LeVeque, Algorithms for computing the sample variance, the corrected two-pass one).

    x, columns, divisor, root, single : as in `rounded_sums`.
    scratch : (8, SIDE); so many columns are computed side by side, in the lanes of vectors.
    """
    undecided, high, low, unknown, mean = 0, scratch[0], scratch[1], scratch[2], scratch[3]
    t, squares, rest, error = scratch[4], scratch[5], scratch[6], scratch[7]
    for i in range(len(x)):
        for start in range(0, columns, SIDE):
            count, out = min(SIDE, columns - start), result[i, start : start + SIDE]
            whole = len(out) < count  # a row in lanes
            n = np.float64(x.shape[1] if whole else x.shape[1] // columns)
            scratch[:] = 0.0
            for k in range(start, x.shape[1], columns):
                xs = x[i, k : k + count]
                for j in range(len(xs)):
                    high[j], low[j], unknown[j] = add(np.float64(xs[j]), high[j], low[j], unknown[j], False)
            if whole:
                _fold(high, low, unknown, count)
            for j in range(len(out)):
                mean[j], t[j], unknown[j] = _mean(high[j], low[j], unknown[j], n)
            if whole:
                mean[:] = mean[0]
            for k in range(start, x.shape[1], columns):
                _add_squares(x[i, k : k + count], mean, squares, rest, error)
            if whole:
                _fold(squares, rest, error, count)
            for j in range(len(out)):
                of_sums = squares[j], rest[j], error[j], t[j], unknown[j]
                value = _variance(*of_sums, n, divisor, root, single)
                out[j] = value
                if value != value:
                    undecided += special(x[i], None, start + j, 1 if whole else columns) == 0
    return undecided
