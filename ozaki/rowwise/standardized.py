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
    loops = _loops(x)
    if len(x) == 1 and not variance and (rows := standardized_rows(x[0], eps)) is not None:
        return rows._replace(y=rows.y[None])
    if (found := standardized_channels(x, eps)) is not None:
        return found if variance else found._replace(variance=None)
    if loops is None or not 0 <= eps < np.inf:
        spread = var(x, (0, 2), ddof=1) if variance else None
        return Standardized(*_exactly(x, eps), spread)
    samples, channels, length = x.shape
    y, moments, doubt = np.empty_like(x), np.empty((3, channels), x.dtype), np.empty(channels, np.uint8)
    with quietly(x):
        n = samples * length
        loops.standardize(eps, x, y, moments, doubt, np.empty(n), np.empty(n, x.dtype))
    mean, scale, spread = moments
    if (doubtful := doubt != 0).any():
        y[:, doubtful], mean[doubtful], scale[doubtful] = _exactly(x[:, doubtful], eps)
    if variance and (again := np.isnan(spread)).any():
        spread[again] = var(x[:, again], (0, 2), ddof=1)
    return Standardized(y, mean, scale, spread if variance else None)


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
    """Return channels standardized, times their weights, plus their biases; None as `standardized_rows`.

    Averages are moved: written to. All but x may be addresses of contiguous arrays.
    """
    if not _on_device(x):
        return None
    y, moments = standardized_cuda.standardize(x, eps, weight, bias, averages)
    return Standardized(y, *moments)


def channel_slopes(
    g: Array, x: Array, weight: Array | None, mean: Array | None, scale: Array
) -> tuple[Array, Array, Array] | None:
    """Return the derivatives of x, of weights, Σ g·y, and of biases, Σ g, for those of results, g.

    Of h = g·weight and y = (x − mean)·scale, or x itself where there are no means, that of x is (h − Σ h/n −
    y·(Σ h·y/n))·scale, all operations rounded. All but g and x may be addresses of contiguous arrays. None as
    `standardized_rows`.
    """
    if not _on_device(g) or not _on_device(x):
        return None
    return standardized_cuda.slopes(g, x, weight, mean, scale)


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
