"""Channels standardized: x[:, c, :] less its mean times the inverse of its deviation, as `ozaki.layer_norm`.

Of float32 arrays on a CPU one compiled pass encloses the results (`norms_numba`); channels that it
leaves in doubt, and all others, are exact sums, rounded. On a GPU kernels do all of it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from multiword.runtime.arrays import Array, is_cupy, quietly
from multiword.runtime.compiled import compiled
from multiword.runtime.memory import empty_result
from ozaki.rowwise import api, norms_cuda, standardized_cuda
from ozaki.rowwise.standardized_cuda import NO_AVERAGES, Averages
from ozaki.sums import api as sums
from ozaki.sums.statistics import var

LOOPS = "ozaki.rowwise.norms_numba"

_FLOAT32 = np.dtype(np.float32)

_NONE = np.empty(0, _FLOAT32)
"""In place of weights, biases and means, where there are none."""


class Standardized(NamedTuple):
    """(n, c, l) numbers y = (x − m)·r, and m, r and, if asked, Σ(x − m)²/(n·l − 1) of each channel."""

    y: Array
    mean: Array
    scale: Array
    variance: Array | None


def standardized(x: Array, eps: float, variance: bool = False) -> Standardized:
    """Return the numbers of each channel of (n, c, l) arrays standardized.

    y has the bits of `ozaki.layer_norm`, and r those of what it computes in float64, rounded to the dtype; m
    and the variance are correctly rounded.
    """
    if len(x) == 1 and not variance and (rows := standardized_rows(x[0], eps)) is not None:
        return rows._replace(y=rows.y[None])
    if (found := standardized_channels(x, eps)) is not None:
        return found if variance else found._replace(variance=None)
    return Standardized(*_exactly(x, eps), var(x, (0, 2), ddof=1) if variance else None)


def standardized_rows(
    x: Array, eps: float, weight: Array | None = None, bias: Array | None = None
) -> Standardized | None:
    """Return rows standardized, times a weight, plus a bias, each rounded, and their means and scales.

    None where that is not one kernel: but for float32 arrays on a GPU, of rows that are not long. Weight and
    bias are as long as a row.
    """
    if not is_cupy(x) or x.dtype != _FLOAT32 or not x.size:
        return None
    mean, scale = (empty_result(x, x.shape[:1], x.dtype) for _ in range(2))
    y = norms_cuda.run("layer_norm", x, float(eps), weight, bias, (mean, scale))
    return None if y is None else Standardized(y, mean, scale, None)


def standardized_channels(
    x: Array,
    eps: float,
    weight: Array | None = None,
    bias: Array | None = None,
    averages: Averages = NO_AVERAGES,
) -> Standardized | None:
    """Return channels standardized, times their weights, plus their biases, each rounded.

    Averages are moved: written to. On a GPU all but x may be addresses of contiguous arrays. None but for
    contiguous float32 arrays, on a CPU with compiled code.
    """
    if _on_device(x):
        y, moments = standardized_cuda.standardize(x, eps, weight, bias, averages)
        return Standardized(y, *moments)
    loops = _loops(x)
    if loops is None or not 0 <= eps < np.inf:
        return None
    (samples, channels, length), affine = x.shape, [_NONE if a is None else a for a in (weight, bias)]
    y, moments, doubt = np.empty_like(x), np.empty((3, channels), x.dtype), np.empty(channels, np.uint8)
    mean, scale, variance = moments
    with quietly(x):
        n = samples * length
        if loops.standardize(eps, x, *affine, y, moments, doubt, np.empty(n), np.empty(n, x.dtype)):
            some, again = doubt != 0, np.isnan(variance)
            exact, mean[some], scale[some] = _exactly(x[:, some], eps)
            exact = exact if weight is None else exact * weight[some, None]
            y[:, some] = exact if bias is None else exact + bias[some, None]
            variance[again] = var(x[:, again], (0, 2), ddof=1)
        for average, now in (averages.mean, mean), (averages.variance, variance):
            if average is not None:
                average[...] = average * (1 - averages.share) + now * averages.share
    return Standardized(y, mean, scale, variance)


def channel_slopes(
    g: Array, x: Array, weight: Array | None, mean: Array | None, scale: Array
) -> tuple[Array, Array, Array] | None:
    """Return the derivatives of x, of weights, Σ g·y, and of biases, Σ g, for those of results, g.

    Of h = g·weight and y = (x − mean)·scale, or x itself where there are no means, that of x is (h − Σ h/n −
    y·(Σ h·y/n))·scale, all operations rounded. On a GPU all but g and x may be addresses of contiguous
    arrays. None as `standardized_channels`.
    """
    if _on_device(g) and _on_device(x):
        return standardized_cuda.slopes(g, x, weight, mean, scale)
    loops = _loops(g) and _loops(x)
    if loops is None:
        return None
    (samples, channels, length), given = x.shape, [_NONE if a is None else a for a in (weight, mean, scale)]
    n, of_x = samples * length, np.empty_like(x)
    total, rows = np.empty((2 if weight is None else 4, channels), x.dtype), np.empty((2, n), x.dtype)
    with quietly(x):
        if loops.slope_sums(g, x, *given, total, *rows, np.empty(n)):
            some = np.isnan(total).any(0)
            of_g, y, (w, m, r) = g[:, some], x[:, some], (a[some, None] if len(a) else None for a in given)
            y = y if m is None else (y - m) * r
            for pair, h in zip((total[:2], total[-2:]), (of_g if w is None else of_g * w, of_g), strict=True):
                pair[:, some] = _summed(h, y), _summed(h, None)
        loops.slopes(g, x, *given, total, of_x, *rows)
    return of_x, *total[-2:]


def _on_device(x: Array) -> bool:
    if not is_cupy(x) or x.dtype != _FLOAT32 or not x.size or not x.flags.c_contiguous:
        return False
    return x.shape[0] * x.shape[2] < standardized_cuda.MOST


def channel_sums(x: Array, y: Array | None = None) -> Array:
    """Return Σ x, or Σ x·y, of each channel of (n, c, l) arrays, correctly rounded."""
    loops = _loops(x)
    if loops is None:
        return _summed(x, y)
    result = np.empty(x.shape[1], x.dtype)
    with quietly(x):
        numbers = np.empty(x.shape[0] * x.shape[2])
        loops.channel_sums(x, x if y is None else y, y is not None, result, numbers)
    if (again := np.isnan(result)).any():
        result[again] = _summed(x[:, again], None if y is None else y[:, again])
    return result


def _summed(x: Array, y: Array | None) -> Array:
    if y is None:
        return sums.sum(x, (0, 2))
    of_x, of_y = (a.swapaxes(0, 1).reshape(a.shape[1], -1) for a in (x, y))
    return sums.dot(of_x, of_y, axis=1)


def _exactly(x: Array, eps: float) -> tuple[Array, Array, Array]:
    axes = 0, 2
    scale = api.inverse_deviation(x, axes, eps).reshape(-1)
    return api.layer_norm(x, axes, eps=eps), sums.mean(x, axes), scale


def _loops(x: Array) -> Any:
    """Return the compiled loops for an array, if there are some."""
    plain = not is_cupy(x) and x.dtype is _FLOAT32 and x.flags.c_contiguous and x.flags.aligned and x.size
    return compiled(LOOPS) if plain else None
