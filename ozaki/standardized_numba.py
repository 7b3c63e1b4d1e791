"""Channels of float32 numbers standardized, and their sums, compiled with numba: enclosed, and rounded.

A channel is x[:, c, :]. Its mean is enclosed as other sums are. Σ d² is added up in float64, whose error is
bounded relative to it. Where both ends of what a result may be round to one float32 number, that is the
result; else the channel is in doubt.
"""

from __future__ import annotations

import numpy as np
from numba import boolean, float32, float64, int64, types

from multiword.runtime.jit import inlined, jit
from ozaki.sums.exact.enclosure_numba import _fold, add, add_product, divided_by, rounded

LANES, FEW_LANES, SHORT = 64, 8, 256
"""Sums that a channel is added up in, before these are added: fewer of one with fewer numbers than SHORT."""

UNIT = 2.0**-53

OPERATIONS = 24.0
"""Roundings of both computations, at most, from Σ d² to a result: each has a relative error of UNIT."""

Numbers = types.Array(float32, 3, "C", readonly=True)


@inlined
def _lanes(n):
    return LANES if n >= SHORT else FEW_LANES


@inlined
def _clear(sums, lanes):
    for j in range(lanes):
        sums[0, j], sums[1, j], sums[2, j] = -0.0, 0.0, 0.0


@inlined
def _total(sums, lanes):
    _fold(sums[0], sums[1], sums[2], lanes)
    return sums[0, 0], sums[1, 0], sums[2, 0]


@inlined
def _agreed(low, high):
    """Return the float32 number that both round to, or NaN."""
    below, above = np.float32(low), np.float32(high)
    return below if below == above else np.float32(np.nan)


@jit(
    int64(Numbers, float64, float32[:, :, ::1], float32[:, ::1], boolean[::1], float64[::1], float64[:, ::1])
)
def standardize(x, eps, y, moments, doubtful, row, sums):
    """Write (x − m)·r, and m, r and Σ(x − m)²/(n − 1) of each channel; return how many are in doubt.

    As `ozaki.layer_norm`: m is the mean rounded to float64, r = 1/√(Σ(x − m)²/n + eps). eps is not negative.

    moments : (3, channels). row, sums : scratch, of a channel's numbers, and (3, LANES).
    """
    samples, channels, length = x.shape
    n, count = samples * length, 0
    lanes = _lanes(n)
    high, low, error = sums[0], sums[1], sums[2]
    for c in range(channels):
        for i in range(samples):
            for j in range(length):
                row[i * length + j] = np.float64(x[i, c, j])
        _clear(sums, lanes)
        for start in range(0, n, lanes):
            part = row[start : min(n, start + lanes)]
            for j in range(len(part)):
                high[j], low[j], error[j] = add(part[j], high[j], low[j], error[j], True)
        mean = divided_by(*_total(sums, lanes), np.float64(n))
        m = rounded(*mean, False)
        moments[0, c] = np.float32(rounded(*mean, True))
        _clear(sums, lanes)
        for start in range(0, n, lanes):
            part = row[start : min(n, start + lanes)]
            for j in range(len(part)):
                part[j] -= m
                high[j] += part[j] * part[j]
        squares = 0.0
        for j in range(lanes):
            squares += high[j]
        # Σ d² has n/lanes + lanes additions one after another, at most; r has half of its relative error.
        share = (np.float64(n // lanes + lanes) + OPERATIONS) * UNIT
        r = 1.0 / np.sqrt(squares / n + eps)
        less, more = r * (1.0 - share), r * (1.0 + share)
        moments[1, c] = _agreed(less, more)
        # (x − m) is rounded, and m: n·(m·UNIT)² at most, twice over for its own roundings.
        margin = 2.0 * share * squares + 2.0 * n * (m * UNIT) ** 2
        moments[2, c] = (
            _agreed((squares - margin) / (n - 1.0), (squares + margin) / (n - 1.0)) if n > 1 else np.nan
        )
        differ = 0
        for i in range(samples):
            for j in range(length):
                d = row[i * length + j]
                below, above = np.float32(d * less), np.float32(d * more)
                y[i, c, j] = below
                differ += below != above
        doubtful[c] = differ > 0 or moments[0, c] != moments[0, c] or moments[1, c] != moments[1, c]
        count += doubtful[c]
    return count


@jit(int64(Numbers, Numbers, boolean, float32[::1], float64[:, ::1]))
def channel_sums(x, y, product, result, sums):
    """Write Σ x, or Σ x·y, of each channel, rounded; return how many are in doubt, which are NaN."""
    samples, channels, length = x.shape
    lanes, count = _lanes(samples * length), 0
    high, low, error = sums[0], sums[1], sums[2]
    for c in range(channels):
        _clear(sums, lanes)
        at_once = lanes // length if length < lanes else 1
        for first in range(0, samples, at_once):
            for i in range(first, min(samples, first + at_once)):
                begin = (i - first) * length
                for start in range(0, length, lanes):
                    xs, ys = x[i, c, start : start + lanes], y[i, c, start : start + lanes]
                    for j in range(len(xs)):
                        k = begin + j
                        a, b, of = np.float64(xs[j]), np.float64(ys[j]), (high[k], low[k], error[k])
                        if product:
                            high[k], low[k], error[k] = add_product(a, b, *of, True)
                        else:
                            high[k], low[k], error[k] = add(a, *of, True)
        result[c] = np.float32(rounded(*_total(sums, lanes), True))
        count += result[c] != result[c]
    return count
