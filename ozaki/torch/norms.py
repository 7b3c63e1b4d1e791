"""What batch, group and instance norms are in a mode of everything: rows of exact sums, as of layer norms.

A row has the elements of one mean: of a channel in all samples, or of a group of channels in one. Each
function returns None for arguments that PyTorch is to treat itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import torch
from torch import Tensor

from multiword.runtime.tensors import address_of, array_of, stream_of, tensor_of
from ozaki.elementary.api import apply
from ozaki.rowwise.standardized import (
    NO_AVERAGES,
    Averages,
    channel_slopes,
    channel_sums,
    standardized,
    standardized_channels,
    standardized_rows,
)
from ozaki.sums import api as sums
from ozaki.torch import rowwise as rows
from ozaki.torch.elementwise import of_arrays
from ozaki.torch.notes import Terms
from ozaki.torch.settings import Settings

Three = tuple[Tensor | None, Tensor | None, Tensor | None]


def _batch_norm(
    settings: Settings,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Return the normalized x, and in training the means and inverse deviations."""
    if not _alike(x, weight, bias, running_mean, running_var) or not x.numel():
        return None
    if not training:
        if running_mean is None or running_var is None:
            return None
        y = (x - _wide(x, running_mean)) * _wide(x, _inverse_root(running_var, eps))
        return _affine(x, y, weight, bias), x.new_empty(0), x.new_empty(0)
    averages = Averages(running_mean, running_var, momentum)
    y, mean, scale = normalized(_as_channels(x).contiguous(), eps, weight, bias, averages)
    return y.reshape(x.shape), mean, scale


def _batch_norm_slope(
    settings: Settings,
    g: Tensor,
    x: Tensor,
    weight: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    mean: Tensor | None,
    scale: Tensor | None,
    training: bool,
    eps: float,
    needed: Sequence[bool],
) -> Three | None:
    """Return the derivatives of x, of the weight, Σ g·y, and of the bias, Σ g."""
    if not _alike(x, g, weight, running_mean, running_var) or not x.numel():
        return None
    if not training:
        if running_mean is None or running_var is None:
            return None
        mean, scale = running_mean, _inverse_root(running_var, eps)
    if mean is None or scale is None:
        return None
    if training and (found := _slopes(_as_channels(g), _as_channels(x), weight, mean, scale)) is not None:
        slope_of_x, *sums = found
        noted = None if settings.part is None else (x - _wide(x, mean)) * _wide(x, scale)
        of_affine = _of_affine(settings, g, noted, needed, sums)
        return slope_of_x.reshape(x.shape) if needed[0] else None, *of_affine
    h = g if weight is None else g * _wide(x, weight)
    y = (x - _wide(x, mean)) * _wide(x, scale)
    of_x = None
    if needed[0] and training:
        of_x = slope(_as_channels(h), _as_channels(y), scale).reshape(x.shape)
    elif needed[0]:
        of_x = h * _wide(x, scale)
    return of_x, *_of_affine(settings, g, y, needed)


def _group_norm(
    settings: Settings,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    samples: int,
    channels: int,
    size: int,
    groups: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Return the normalized x, and the means and inverse deviations of each sample's groups."""
    if not _alike(x, weight, bias) or not x.numel():
        return None
    y, mean, scale = normalized(x.reshape(1, samples * groups, -1), eps)
    shape = samples, groups
    return _affine(x, y.reshape(x.shape), weight, bias), mean.reshape(shape), scale.reshape(shape)


def _group_norm_slope(
    settings: Settings,
    g: Tensor,
    x: Tensor,
    mean: Tensor,
    scale: Tensor,
    weight: Tensor | None,
    samples: int,
    channels: int,
    size: int,
    groups: int,
    needed: Sequence[bool],
) -> Three | None:
    if not _alike(x, g, mean, scale, weight) or not x.numel():
        return None
    scale = scale.reshape(-1)
    h = g if weight is None else g * _wide(x, weight)
    y = (x.reshape(1, samples * groups, -1) - mean.reshape(-1, 1)) * scale[:, None]
    of_x = slope(h.reshape(y.shape), y, scale).reshape(x.shape) if needed[0] else None
    return of_x, *_of_affine(settings, g, y.reshape(x.shape), needed)


def normalized(
    x: Tensor,
    eps: float,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    averages: Averages = NO_AVERAGES,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (n, c, l) numbers less the means of channels times the inverse deviations, and these.

    As `ozaki.rowwise.standardized`. Weights, biases and averages are of channels; averages are moved.
    """
    with stream_of(x):
        if (found := _normalized_at_once(x, eps, weight, bias, averages)) is not None:
            return found
        y, mean, scale, spread = standardized(array_of(x), eps, averages.variance is not None)
        result = _affine(x, tensor_of(y).contiguous(), weight, bias)
        for average, now in ((averages.mean, mean), (averages.variance, spread)):
            if average is not None:
                average.copy_(average * (1 - averages.share) + tensor_of(now) * averages.share)
        return result, tensor_of(mean), tensor_of(scale)


def _normalized_at_once(
    x: Tensor, eps: float, weight: Tensor | None, bias: Tensor | None, averages: Averages
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Return the same by kernels or compiled code, which move averages, too; None for what is not theirs."""
    if not all(t is None or (t.is_contiguous() and not t.is_neg()) for t in averages[:2]):
        return None
    moved = Averages(_given(averages.mean), _given(averages.variance), averages.share)
    affine = _given(_contiguous(weight)), _given(_contiguous(bias))
    found = standardized_channels(array_of(x), eps, *affine, moved)
    if found is None:
        return None
    return tensor_of(found.y), tensor_of(found.mean), tensor_of(found.scale)


def _given(t: Tensor | None) -> Any:
    """Return a contiguous tensor as a GPU's kernels and compiled code take it: its address, or an array."""
    return None if t is None else array_of(t) if t.is_cpu else address_of(t)


def _contiguous(t: Tensor | None) -> Tensor | None:
    """Return a tensor that lies as its numbers are."""
    return t if t is None or (t.is_contiguous() and not t.is_neg()) else t.resolve_neg().contiguous()


def normalized_rows(
    x: Tensor, eps: float, weight: Tensor | None, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Return rows normalized, times a weight and plus a bias, their means and inverse deviations.

    None as `standardized_rows`, and for a weight or bias of another dtype or device.
    """
    given = [t for t in (weight, bias) if t is not None]
    if x.is_cpu or any(t.dtype is not x.dtype or t.device != x.device for t in given):
        return None
    with stream_of(x):
        affine = [None if t is None else array_of(t.reshape(-1).contiguous()) for t in (weight, bias)]
        found = standardized_rows(array_of(x), eps, *affine)
        if found is None:
            return None
        return tensor_of(found.y), tensor_of(found.mean), tensor_of(found.scale)


def slope(h: Tensor, y: Tensor, scale: Tensor) -> Tensor:
    """Return the derivative of (n, c, l) channels y = (x − m)·r, for that of the result, h."""
    if (found := _slopes(h, y, None, None, scale)) is not None:
        return found[0]
    h, y = h.contiguous(), y.contiguous()
    n = h.shape[0] * h.shape[2]
    product, total = of_arrays(channel_sums, h, y), of_arrays(channel_sums, h)
    return rows.norm_slope(y, h, scale[:, None], product[:, None], n, total[:, None])


def _slopes(
    g: Tensor, x: Tensor, weight: Tensor | None, mean: Tensor | None, scale: Tensor
) -> tuple[Tensor, ...] | None:
    """Return the derivatives of `ozaki.rowwise.standardized.channel_slopes`; None for what is not theirs."""
    if g.dtype is not torch.float32:
        return None
    with stream_of(g):
        of_channels = [_contiguous(t) for t in (weight, mean, scale)]
        arrays = [array_of(t.contiguous()) for t in (g, x)]
        found = channel_slopes(*arrays, *map(_given, of_channels))
        return None if found is None else tuple(map(tensor_of, found))


def _of_affine(
    settings: Settings,
    g: Tensor,
    y: Tensor | None,
    needed: Sequence[bool],
    sums: Sequence[Tensor | None] = (None, None),
) -> tuple[Tensor | None, Tensor | None]:
    """Return the derivatives of the weight, Σ g·y, and of the bias, Σ g: the sums, if these are there.

    y : None if nothing is noted of them.
    """

    def of(result: Tensor | None, *factors: Tensor) -> Tensor:
        channels = [_as_channels(t).contiguous() for t in factors]
        result = of_arrays(channel_sums, *channels) if result is None else result
        return settings.note(result, Terms((tuple(t.mT for t in channels),)), factors)

    if y is None:
        of_weight, of_bias = sums
        return of_weight if needed[1] else None, of_bias if needed[2] else None
    return of(sums[0], g, y) if needed[1] else None, of(sums[1], g) if needed[2] else None


def sum_of_products(settings: Settings, *factors: Tensor) -> Tensor:
    """Return the sum over the first dimension, of a tensor or of products of two, rounded once."""
    reduce: Callable[..., Any] = sums.dot if len(factors) == 2 else sums.sum
    result = of_arrays(partial(reduce, axis=0), *factors)
    return settings.note(result, Terms((factors,)), factors)


def _affine(x: Tensor, y: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    y = y if weight is None else y * _wide(x, weight)
    return y if bias is None else y + _wide(x, bias)


def _as_channels(x: Tensor) -> Tensor:
    """Return (n, c, …) numbers as (n, c, l)."""
    return x.reshape(*x.shape[:2], prod(x.shape[2:]))


def _wide(x: Tensor, of_channels: Tensor) -> Tensor:
    """Return a number for each channel with the dimensions of x, (N, C, …)."""
    return of_channels.reshape(-1, *[1] * (x.dim() - 2))


def _inverse_root(variance: Tensor, eps: float) -> Tensor:
    return of_arrays(partial(apply, "rsqrt"), variance + eps)


def _alike(x: Tensor, *others: Tensor | None) -> bool:
    return x.dim() > 1 and all(t is None or (t.dtype is x.dtype and t.device == x.device) for t in others)


def _cudnn(*arguments: Any) -> tuple[Tensor, ...] | None:
    """Return the batch norm of cuDNN's operator, which also returns memory that it reserves: none."""
    result = _batch_norm(*arguments)
    if result is None:
        return None
    return *result, torch.empty(0, dtype=torch.uint8, device=result[0].device)


def _cudnn_slope(settings: Settings, x: Tensor, g: Tensor, weight: Tensor, *others: Any) -> Three | None:
    running_mean, running_var, mean, scale, eps, _ = others
    needed = True, True, True
    return _batch_norm_slope(
        settings, g, x, weight, running_mean, running_var, mean, scale, True, eps, needed
    )


KERNELS: dict[str, Callable[..., Any]] = {
    "native_batch_norm": _batch_norm,
    "native_batch_norm_backward": _batch_norm_slope,
    "cudnn_batch_norm": _cudnn,
    "cudnn_batch_norm_backward": _cudnn_slope,
    "native_group_norm": _group_norm,
    "native_group_norm_backward": _group_norm_slope,
}
"""What computes each operator, by its name."""
