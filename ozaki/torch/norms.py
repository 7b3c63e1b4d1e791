"""What batch, group and instance norms are in a mode of everything: rows of exact sums, as of layer norms.

A row has the elements of one mean: of a channel in all samples, or of a group of channels in one. Each
function returns None for arguments that PyTorch is to treat itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from multiword.runtime.tensors import array_of
from ozaki import rowwise
from ozaki.elementary.api import apply
from ozaki.sums import api as sums
from ozaki.sums.exactsum import ExactSum
from ozaki.sums.statistics import var
from ozaki.torch import rowwise as rows
from ozaki.torch.elementwise import of_arrays
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
    channels = _by_channel(x)
    y, *kept = normalized(channels, (-1,), eps)
    mean, scale = (t.reshape(-1) for t in kept)
    if running_mean is not None:
        running_mean.copy_(running_mean * (1 - momentum) + mean * momentum)
    if running_var is not None:
        spread = of_arrays(lambda a: var(a, 1, ddof=1), channels)
        running_var.copy_(running_var * (1 - momentum) + spread * momentum)
    return _affine(x, _from_channels(x, y), weight, bias), mean, scale


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
    h = g if weight is None else g * _wide(x, weight)
    y = (x - _wide(x, mean)) * _wide(x, scale)
    of_x = None
    if needed[0] and training:
        of_x = _from_channels(x, _slope(_by_channel(h), _by_channel(y), scale))
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
    y, mean, scale = normalized(x.reshape(samples * groups, -1), (-1,), eps)
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
    y = (x.reshape(samples * groups, -1) - mean.reshape(-1, 1)) * scale[:, None]
    of_x = _slope(h.reshape(y.shape), y, scale).reshape(x.shape) if needed[0] else None
    return of_x, *_of_affine(settings, g, y.reshape(x.shape), needed)


def normalized(x: Tensor, axes: tuple[int, ...], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return x less its means over axes times the inverse deviations, and both of these, axes kept."""
    y = of_arrays(lambda a: rowwise.layer_norm(a, axes, eps=eps), x)
    mean = of_arrays(lambda a: sums.mean(a, axes, keepdims=True), x)
    return y, mean, of_arrays(lambda a: rowwise.inverse_deviation(a, axes, eps), x)


def _slope(h: Tensor, y: Tensor, scale: Tensor) -> Tensor:
    """Return the derivative of rows y = (x − m)·r, for that of the result, h."""
    product = of_arrays(lambda a, b: sums.dot(a, b, axis=-1, keepdims=True), h, y)
    total = of_arrays(lambda a: sums.sum(a, -1, keepdims=True), h)
    return rows.norm_slope(y, h, scale[:, None], product, h.shape[-1], total)


def _of_affine(
    settings: Settings, g: Tensor, y: Tensor, needed: Sequence[bool]
) -> tuple[Tensor | None, Tensor | None]:
    """Return the derivatives of the weight, Σ g·y, and of the bias, Σ g."""
    g, y = _by_channel(g).T, _by_channel(y).T
    of_weight = sum_of_products(settings, g, y) if needed[1] else None
    return of_weight, sum_of_products(settings, g) if needed[2] else None


def sum_of_products(settings: Settings, *factors: Tensor) -> Tensor:
    """Return the sum over the first dimension, of a tensor or of products of two, rounded once."""
    reduce: Callable[..., Any] = sums.dot if len(factors) == 2 else sums.sum
    result = of_arrays(partial(reduce, axis=0), *factors)
    return settings.note(result, partial(_add_terms, factors))


def _add_terms(factors: Sequence[Tensor], total: ExactSum) -> None:
    add = total.add_products if len(factors) == 2 else total.add
    add(*map(array_of, factors))


def _affine(x: Tensor, y: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    y = y if weight is None else y * _wide(x, weight)
    return y if bias is None else y + _wide(x, bias)


def _wide(x: Tensor, of_channels: Tensor) -> Tensor:
    """Return a number for each channel with the dimensions of x, (N, C, …)."""
    return of_channels.reshape(-1, *[1] * (x.dim() - 2))


def _by_channel(x: Tensor) -> Tensor:
    return x.transpose(0, 1).reshape(x.shape[1], -1)


def _from_channels(x: Tensor, channels: Tensor) -> Tensor:
    n, c, *rest = x.shape
    return channels.reshape(c, n, *rest).transpose(0, 1).contiguous()


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
