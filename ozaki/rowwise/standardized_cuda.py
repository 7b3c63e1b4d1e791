"""Channels of float32 arrays on a GPU, standardized, and the derivatives: `standardized*.cu`'s kernels.

Nothing waits for the GPU: where a rounding is open a sum is taken again, with nothing lost, by the kernel.
"""

from __future__ import annotations

import ctypes
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from multiword.engines.machine import multiprocessors
from multiword.runtime.arrays import Array, namespace
from multiword.runtime.graphs import refuse_captures
from multiword.runtime.kernels import Struct, expanded, from_text, members, pointers
from multiword.runtime.memory import empty_result
from ozaki.elementary.cuda import device_functions

MOST = 1 << 31
"""Numbers that a channel has fewer of."""

_FEW, _TEAMS = 1024, (32, 256)
"""Numbers up to which a channel has the first of these teams of threads."""

_PARTS, _LEAST_PART, _BLOCKS = 8, 4096, 16
"""Parts to a multiprocessor at most, numbers of one at least, and blocks to a multiprocessor."""

_SUM = 3
"""float64 numbers of a sum of a part."""

_KINDS = 1 << 10
"""Of arrays, by their shapes, of which is kept how their channels are divided."""


class Averages(NamedTuple):
    """Moving averages of means and variances, contiguous, and the share of what is new in them."""

    mean: Array | None
    variance: Array | None
    share: float


NO_AVERAGES = Averages(None, None, 0.0)


class ChannelShape(Struct):
    """`channels.cuh`'s."""

    _fields_ = members(ctypes.c_longlong, "samples", "channels", "length", "parts", "size")


def standardize(
    x: Array, eps: float, weight: Array | None, bias: Array | None, averages: Averages
) -> tuple[Array, Array]:
    """Return (n, c, l) contiguous numbers standardized, times weights of channels, plus biases; and moments.

    These are the means, the inverse deviations and the variances, with one degree of freedom less, (3, c). In
    averages a becomes (1 − share)·a + share·now, all operations rounded to float32.
    """
    shape, launch = _launches(x, "standardized.cu", WEIGHT=weight, BIAS=bias)
    xp, per_part = namespace(x), (shape.channels * shape.parts, _SUM)
    sums, squares = xp.ndarray(per_part), xp.ndarray(per_part)
    means, moments = xp.ndarray(shape.channels), empty_result(x, (3, shape.channels), x.dtype)
    y = empty_result(x, x.shape, x.dtype)
    affine, moved = pointers(weight, bias), pointers(*averages[:2])
    numbers = map(np.float64, (eps, 1 - averages.share, averages.share))
    launch("sums_of_channels", x, sums)
    launch("squares_of_channels", x, sums, means, squares)
    launch("results_of_channels", x, means, squares, *affine, y, moments, *moved, *numbers)
    return y, moments


def slopes(
    g: Array, x: Array, weight: Array | None, mean: Array | None, scale: Array
) -> tuple[Array, Array, Array]:
    """Return the derivatives of x, those of weights, Σ g·y, and those of biases, Σ g.

    g : (n, c, l), the derivative of the result: of y = (x − mean)·scale, times a weight, plus a bias.
    mean : None where x is y already.
    """
    shape, launch = _launches(x, "standardized_slopes.cu", WEIGHT=weight)
    sums = namespace(x).ndarray((4, shape.channels * shape.parts, _SUM))
    of_x = empty_result(x, x.shape, x.dtype)
    of_weight, of_bias = (empty_result(x, (shape.channels,), x.dtype) for _ in range(2))
    arguments = g, x, *pointers(weight, mean), scale, sums
    launch("sums_of_slopes", *arguments)
    launch("slopes_of_channels", *arguments, of_x, of_weight, of_bias)
    return of_x, of_weight, of_bias


def _launches(x: Array, file: str, **given: Array | None) -> tuple[ChannelShape, Any]:
    """Return how channels are divided, and what launches a kernel of a file, which is told what is given."""
    refuse_captures("norms of channels")
    return _launches_of(
        x.shape, file, tuple((name, a is not None) for name, a in given.items()), x.data.device_id
    )


@lru_cache(_KINDS)
def _launches_of(
    size: tuple[int, int, int], file: str, options: tuple[tuple[str, bool], ...], device: int
) -> tuple[ChannelShape, Any]:
    samples, channels, length = size
    team, parts, of_part = division(channels, samples * length)
    shape = ChannelShape(samples=samples, channels=channels, length=length, parts=parts, size=of_part)
    blocks = min(channels * parts, _BLOCKS * (_TEAMS[-1] // team) * multiprocessors())
    by_value = shape.value

    def launch(name: str, *arguments: Any) -> None:
        kernel = _kernel(file, name, team, options, device)
        kernel((blocks,), (team,), (*arguments, by_value))

    return shape, launch


def division(channels: int, n: int) -> tuple[int, int, int]:
    """Return the threads of a block, the parts of channels of n numbers, and the numbers of a part."""
    team = _TEAMS[n > _FEW]
    parts = max(1, min(_PARTS * multiprocessors() // channels, n // _LEAST_PART))
    size = -(-n // (parts * team)) * team
    return team, -(-n // size), size


@cache
def _kernel(file: str, name: str, team: int, options: tuple[tuple[str, bool], ...], device: int) -> Any:
    return from_text(source(file, team, **dict(options)), name, device)


def source(file: str, team: int, **given: bool) -> str:
    """Return the kernels of a file in CUDA, for blocks of so many threads, told what they are given."""
    lines = "".join(f"#define {name} {int(value)}\n" for name, value in {"TEAM": team, **given}.items())
    texts = device_functions(rsqrt="rsqrt") if file == "standardized.cu" else ""
    return texts + lines + expanded(Path(__file__).with_name(file))
