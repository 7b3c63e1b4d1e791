"""Norms of float32 rows and channels on a CPU, and sums of channels: exact sums, and float64 with a bound.

A channel is x[:, c, :]. Where both ends of what a result may be are rounded to the same float32 number, that
is it. Rows and channels with other results are left in doubt.
"""

from __future__ import annotations

import math

import numpy as np
from numba import boolean, float32, float64, int64, types, uint8, void

from multiword.runtime.jit import inlined, jit
from ozaki.rowwise.bounds_numba import BLOCK, IN_ANY_ORDER, ROW, ROWS, U, additions_of, write_products
from ozaki.sums.exact.enclosure_numba import divided_by, rounded, two_sum
from ozaki.sums.exact.extraction_numba import bits_of, number_of

CHANNELS, VECTOR = types.Array(float32, 3, "C", readonly=True), float64[::1]

OPERATIONS = 16
"""Roundings of both computations, at most, from Σd² to a result: each has a relative error of U."""


@jit(float64(VECTOR), inner=True, fastmath=IN_ANY_ORDER)
def sum_of_magnitudes(numbers):
    """Return Σ|x|, but for roundings."""
    total = 0.0
    for j in range(len(numbers)):
        total += abs(numbers[j])
    return total


@jit(types.UniTuple(float64, 2)(float64, float64), inner=True)
def cut(x, sigma):
    """Return x rounded to multiples of 2**-53·sigma, for a power of two above 2·|x|, and the rest."""
    high = (x + sigma) - sigma
    return high, x - high


@jit(types.UniTuple(float64, 3)(VECTOR, float64), inner=True, fastmath=IN_ANY_ORDER)
def sums_of_cut(numbers, sigma):
    """Return the sum of multiples, exact in any order, those of the rests, and of their magnitudes."""
    high = low = magnitudes = 0.0
    for j in range(len(numbers)):
        multiple, rest = cut(numbers[j], sigma)
        high += multiple
        low += rest
        magnitudes += abs(rest)
    return high, low, magnitudes


@jit(types.UniTuple(float64, 3)(VECTOR), inner=True)
def sum_of(numbers):
    """Return the sum of numbers as an enclosure."""
    magnitudes = sum_of_magnitudes(numbers)
    if not magnitudes < np.inf:
        return np.nan, 0.0, 0.0
    if magnitudes == 0:  # a sum of zeros has a sign
        total = -0.0
        for j in range(len(numbers)):
            total += numbers[j]
        return total, 0.0, 0.0
    high, low, rests = sums_of_cut(numbers, number_of(((bits_of(magnitudes) >> 52) + 2) << 52))
    high, low = two_sum(high, low)
    return high, low, len(numbers) * U * rests


@jit(float64(VECTOR, float64), inner=True, fastmath=IN_ANY_ORDER)
def sum_of_squares(numbers, mean):
    """Take the mean away from numbers; return Σd² of the differences."""
    total = 0.0
    for j in range(len(numbers)):
        d = numbers[j] - mean
        numbers[j] = d
        total += d * d
    return total


@inlined
def widen(x, numbers):
    """Write float32 numbers as float64 ones."""
    for j in range(len(x)):
        numbers[j] = x[j]


@inlined
def mean_of(high, low, error, n, single):
    """Return a sum's quotient by n, rounded, or NaN if that is in doubt."""
    high, low, error = divided_by(high, low, error, np.float64(n))
    return rounded(high, low, error / n, single)


@inlined
def deviations(centred, eps, d):
    """Take the mean m of numbers away from them; return their sum, Σd², its relative error, bounds of 1/√w.

    The sum is an enclosure, and 0 if m is to be 0. w is the mean of d² plus eps.
    """
    n, squares = len(d), 0.0
    total = sum_of(d) if centred else (0.0, 0.0, 0.0)
    exact = total[1] == 0 and total[2] == 0  # as it mostly is
    m = total[0] / n if exact else mean_of(*total, n, False)
    for start in range(0, n, BLOCK):
        squares += sum_of_squares(d[start : start + BLOCK], m)
    share = (additions_of(n) + 1) * U  # a product is rounded, too
    scale = 1 / math.sqrt(squares / n + eps) if eps >= 0 else np.nan
    error = scale * (share / 2 + OPERATIONS * U)
    return total, squares, share, scale - error, scale + error


@inlined
def agreed(least, greatest):
    """Return the float32 number that both are rounded to, or NaN, as of zeros of two signs."""
    low, high = np.float32(least), np.float32(greatest)
    same = low == high and math.copysign(1.0, low) == math.copysign(1.0, high)
    return low if same else np.float32(np.nan)


OF_ROWS = void(float64, ROWS, ROW, ROW, float32[:, ::1], uint8[::1], VECTOR)


@jit(void(boolean, *OF_ROWS.args), inner=True)
def norms(centred, eps, x, weight, bias, out, doubt, d):
    """Write norms of rows, times a weight and plus a bias unless these are empty."""
    for i in range(len(x)):
        widen(x[i], d)
        _, _, _, least, greatest = deviations(centred, eps, d)
        row = out[i]
        unlike = write_products(d, least, greatest, row)
        if len(weight):
            for j in range(len(row)):
                row[j] *= weight[j]
        if len(bias):
            for j in range(len(row)):
                row[j] += bias[j]
        for j in range(len(row)):
            unlike |= not abs(row[j]) < np.inf  # a NaN may be another than the canonical one
        doubt[i] = unlike


@jit(OF_ROWS)
def layer_norm(eps, x, weight, bias, out, doubt, d):
    """Write layer norms of rows."""
    norms(True, eps, x, weight, bias, out, doubt, d)


@jit(OF_ROWS)
def rms_norm(eps, x, weight, bias, out, doubt, d):
    """Write norms of rows by the means of their squares."""
    norms(False, eps, x, weight, bias, out, doubt, d)


@jit(void(float64, ROWS, float32[:, ::1], uint8[::1], VECTOR))
def inverse_deviation(eps, x, out, doubt, d):
    """Write what layer norms multiply by."""
    for i in range(len(x)):
        widen(x[i], d)
        _, _, _, least, greatest = deviations(True, eps, d)
        out[i, 0] = agreed(least, greatest)
        doubt[i] = out[i, 0] != out[i, 0]


@jit(
    int64(
        *(float64, CHANNELS, ROW, ROW, float32[:, :, ::1], float32[:, ::1]),
        *(uint8[::1], VECTOR, float32[::1]),
    )
)
def standardize(eps, x, weight, bias, y, moments, doubt, d, row):
    """Write layer norms of channels, their means, 1/√w and Σ(x − mean)²/(n − 1), which is NaN if in doubt.

    Norms are multiplied by weights of channels, and biases are added, unless these are empty. Returned is how
    much is in doubt: channels, and variances.
    """
    samples, channels, length = x.shape
    n, in_doubt = samples * length, np.int64(0)
    for c in range(channels):
        for i in range(samples):
            for j in range(length):
                d[i * length + j] = x[i, c, j]
        total, squares, share, least, greatest = deviations(True, eps, d)
        unlike = write_products(d, least, greatest, row)
        if len(weight):
            for j in range(n):
                row[j] *= weight[c]
        if len(bias):
            for j in range(n):
                row[j] += bias[c]
        for i in range(samples):
            for j in range(length):
                y[i, c, j] = row[i * length + j]
        moments[0, c], moments[1, c] = np.float32(mean_of(*total, n, True)), agreed(least, greatest)
        # d is rounded, and m: n·(m·U)² at most, twice over for its own roundings.
        margin = 2 * share * squares + 2 * n * (total[0] / n * U) ** 2
        moments[2, c] = agreed((squares - margin) / (n - 1.0), (squares + margin) / (n - 1.0))
        doubt[c] = unlike or moments[0, c] != moments[0, c] or moments[1, c] != moments[1, c]
        in_doubt += np.int64(doubt[c] != 0) + np.int64(moments[2, c] != moments[2, c])
    return in_doubt


@inlined
def write_slope_factors(g, x, c, weight, mean, scale, h, y):
    """Write h = g·weight and y = (x − mean)·scale of a channel; without weights g, and without means x."""
    samples, _, length = x.shape
    for i in range(samples):
        for j in range(length):
            h[i * length + j], y[i * length + j] = g[i, c, j], x[i, c, j]
    if len(weight):
        for j in range(len(h)):
            h[j] *= weight[c]
    if len(mean):
        for j in range(len(y)):
            y[j] = (y[j] - mean[c]) * scale[c]


@inlined
def sums_of(h, y, numbers):
    """Return Σ h·y and Σ h, rounded, or NaN where that is in doubt."""
    for j in range(len(h)):
        numbers[j] = np.float64(h[j]) * np.float64(y[j])
    product = np.float32(rounded(*sum_of(numbers), True))
    widen(h, numbers)
    return product, np.float32(rounded(*sum_of(numbers), True))


SLOPES = CHANNELS, CHANNELS, ROW, ROW, ROW


@jit(boolean(*SLOPES, float32[:, ::1], float32[::1], float32[::1], VECTOR))
def slope_sums(g, x, weight, mean, scale, sums, h, y, numbers):
    """Write Σ h·y, Σ h and, if there is room for them, Σ g·y and Σ g of each channel.

    Sums are NaN where a rounding is in doubt; returned is whether one is.
    """
    doubt = False
    samples, channels, length = x.shape
    for c in range(channels):
        write_slope_factors(g, x, c, weight, mean, scale, h, y)
        sums[0, c], sums[1, c] = sums_of(h, y, numbers)
        if len(sums) > 2:
            for i in range(samples):
                for j in range(length):
                    h[i * length + j] = g[i, c, j]
            sums[2, c], sums[3, c] = sums_of(h, y, numbers)
        for k in range(len(sums)):
            doubt |= sums[k, c] != sums[k, c]
    return doubt


@jit(void(*SLOPES, float32[:, ::1], float32[:, :, ::1], float32[::1], float32[::1]))
def slopes(g, x, weight, mean, scale, sums, out, h, y):
    """Write (h − Σ h/n − y·(Σ h·y/n))·scale, all operations rounded, from the sums."""
    samples, channels, length = x.shape
    n = np.float32(samples * length)
    for c in range(channels):
        write_slope_factors(g, x, c, weight, mean, scale, h, y)
        product, total = sums[0, c] / n, sums[1, c] / n
        for i in range(samples):
            for j in range(length):
                at = i * length + j
                out[i, c, j] = ((h[at] - total) - y[at] * product) * scale[c]


@jit(void(CHANNELS, CHANNELS, boolean, float32[::1], VECTOR))
def channel_sums(x, y, product, result, numbers):
    """Write Σ x, or Σ x·y, of each channel, rounded, or NaN if that is in doubt."""
    samples, channels, length = x.shape
    for c in range(channels):
        for i in range(samples):
            for j in range(length):
                other = np.float64(y[i, c, j]) if product else 1.0
                numbers[i * length + j] = x[i, c, j] * other
        result[c] = np.float32(rounded(*sum_of(numbers), True))
