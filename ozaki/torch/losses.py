"""What losses are in the mode, if asked: elementwise operations, each rounded, and exact means or sums.

Derivatives are made of operations that are each rounded to the dtype, in one order. Each function returns
None for arguments that PyTorch is to treat itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ozaki.sums import api as sums
from ozaki.sums.statistics import average
from ozaki.torch.elementwise import of_arrays
from ozaki.torch.settings import Settings

MEAN, SUM = 1, 2
"""PyTorch's numbers of what becomes of the losses of all samples; 0 keeps them."""

LEAST_LOGARITHM, LEAST_PRODUCT = -100.0, 1e-12
"""PyTorch's bounds of binary cross-entropy: of logarithms, and of p·(1 − p) in the derivative."""


def _sum(x: Tensor) -> Tensor:
    return of_arrays(sums.sum, x)


def _reduced(losses: Tensor, reduction: int) -> Tensor:
    if reduction == MEAN:
        return of_arrays(sums.mean, losses)
    return _sum(losses) if reduction == SUM else losses


def _shared(slope: Tensor, reduction: int, g: Tensor) -> Tensor:
    """Return the derivative of what `_reduced` returns, for that of each loss."""
    return (slope / slope.numel() if reduction == MEAN else slope) * g


def _mse(settings: Settings, x: Tensor, y: Tensor, reduction: int = MEAN) -> Tensor | None:
    return None if y.dtype is not x.dtype else _reduced((x - y) ** 2, reduction)


def _mse_slope(settings: Settings, g: Tensor, x: Tensor, y: Tensor, reduction: int) -> Tensor | None:
    return None if y.dtype is not x.dtype else _shared((x - y) * 2, reduction, g)


def _huber(
    settings: Settings, x: Tensor, y: Tensor, reduction: int = MEAN, delta: float = 1.0
) -> Tensor | None:
    """z²/2 for z = |x − y| up to δ, and δ·(z − δ/2) beyond."""
    if y.dtype is not x.dtype:
        return None
    z = (x - y).abs()
    return _reduced(torch.where(z <= delta, z * z * 0.5, (z - 0.5 * delta) * delta), reduction)


def _huber_slope(
    settings: Settings, g: Tensor, x: Tensor, y: Tensor, reduction: int, delta: float
) -> Tensor | None:
    return None if y.dtype is not x.dtype else _shared((x - y).clamp(-delta, delta), reduction, g)


def _smooth(
    settings: Settings, x: Tensor, y: Tensor, reduction: int = MEAN, beta: float = 1.0
) -> Tensor | None:
    """z²/2β for z = |x − y| below β, and z − β/2 from there."""
    if y.dtype is not x.dtype or not beta:
        return None
    z = (x - y).abs()
    return _reduced(torch.where(z < beta, z * z * 0.5 / beta, z - 0.5 * beta), reduction)


def _smooth_slope(
    settings: Settings, g: Tensor, x: Tensor, y: Tensor, reduction: int, beta: float
) -> Tensor | None:
    if y.dtype is not x.dtype or not beta:
        return None
    d = x - y
    return _shared(torch.where(d.abs() < beta, d / beta, d.sign()), reduction, g)


def _binary(
    settings: Settings, p: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = MEAN
) -> Tensor | None:
    """−t·log p − (1 − t)·log(1 − p), times a weight."""
    if not _are_probabilities(p, target, weight):
        return None
    here, there = p.log().clamp(min=LEAST_LOGARITHM), (-p).log1p().clamp(min=LEAST_LOGARITHM)
    losses = (target - 1) * there - target * here
    return _reduced(losses if weight is None else losses * weight, reduction)


def _binary_slope(
    settings: Settings,
    g: Tensor,
    p: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: int = MEAN,
) -> Tensor | None:
    if not _are_probabilities(p, target, weight):
        return None
    slope = (p - target) / ((1 - p) * p).clamp(min=LEAST_PRODUCT)
    return _shared(slope if weight is None else slope * weight, reduction, g)


def _are_probabilities(p: Tensor, *others: Tensor | None) -> bool:
    """Whether numbers are from 0 to 1, if a CPU has them, and all tensors of one dtype."""
    alike = all(t is None or t.dtype is p.dtype for t in others)
    return alike and (not p.is_cpu or bool(((p >= 0) & (p <= 1)).all()))


def _nll(
    settings: Settings, x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignored: int
) -> tuple[Tensor, Tensor] | None:
    """Weighted means of −x at the targets: both sums exact, their ratio rounded once."""
    if x.dim() != 2 or not len(x):
        return None
    return _likelihoods(x, target, weight, reduction, ignored)


def _nll_of_images(
    settings: Settings, x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignored: int
) -> tuple[Tensor, Tensor] | None:
    """The same of all points of (n, classes, h, w)."""
    if not _are_images(x, target):
        return None
    loss, total = _likelihoods(_points(x), target.reshape(-1), weight, reduction, ignored)
    return loss if reduction else loss.reshape(target.shape), total


def _are_images(x: Tensor, target: Tensor) -> bool:
    """Whether these are scores, (n, classes, h, w), and the classes of as many points."""
    return x.dim() == 4 and x.numel() > 0 and (x.shape[0], *x.shape[2:]) == tuple(target.shape)


def _points(x: Tensor) -> Tensor:
    """Return the scores of all points, a row each."""
    return x.movedim(1, -1).flatten(0, -2)


def _likelihoods(
    x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignored: int
) -> tuple[Tensor, Tensor]:
    """Return the losses of rows of scores, or what becomes of them, and the sum of their weights."""
    counted, losses, weights = _picked(x, target, weight, ignored)
    if not reduction:
        return losses * weights, x.new_zeros(())
    total = _sum(weights)
    if reduction == SUM:
        return of_arrays(sums.dot, losses, weights), total
    if not counted.any():
        return torch.full_like(total, torch.nan), total
    return of_arrays(lambda a, w: average(a, weights=w), losses, weights), total


def _picked(x: Tensor, target: Tensor, weight: Tensor | None, ignored: int) -> tuple[Tensor, ...]:
    """Which samples count, their losses, and weights, 0 for those that do not."""
    counted = target != ignored
    at = torch.where(counted, target, 0)
    losses = -x.gather(1, at[:, None]).squeeze(1)
    weights = torch.ones_like(losses) if weight is None else weight[at]
    return counted, torch.where(counted, losses, 0), torch.where(counted, weights, 0)


def _nll_slope(
    settings: Settings,
    g: Tensor,
    x: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignored: int,
    total: Tensor,
) -> Tensor | None:
    if x.dim() != 2 or not len(x):
        return None
    return _likelihood_slopes(g, x, target, weight, reduction, ignored, total)


def _nll_slope_of_images(
    settings: Settings, g: Tensor, x: Tensor, target: Tensor, weight: Tensor | None, *options: Any
) -> Tensor | None:
    if not _are_images(x, target):
        return None
    of_points = g.reshape(-1) if g.dim() else g
    slopes = _likelihood_slopes(of_points, _points(x), target.reshape(-1), weight, *options)
    return slopes.reshape(*target.shape, x.shape[1]).movedim(-1, 1).contiguous()


def _likelihood_slopes(
    g: Tensor, x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignored: int, total: Tensor
) -> Tensor:
    """Return their derivatives."""
    *_, weights = _picked(x, target, weight, ignored)
    slope = -(weights / total if reduction == MEAN else weights) * g
    classes = torch.arange(x.shape[1], device=x.device)
    return torch.where(classes == target[:, None], slope[:, None], 0)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "mse_loss": _mse,
    "huber_loss": _huber,
    "smooth_l1_loss": _smooth,
    "binary_cross_entropy": _binary,
}
_DERIVATIVES: dict[str, Callable[..., Any]] = {
    "mse_loss_backward": _mse_slope,
    "smooth_l1_loss_backward": _smooth_slope,
    "binary_cross_entropy_backward": _binary_slope,
}

KERNELS: dict[str, Callable[..., Any]] = {
    **_FUNCTIONS,
    **{f"{name}.out": function for name, function in _FUNCTIONS.items()},
    **_DERIVATIVES,
    **{f"{name}.grad_input": function for name, function in _DERIVATIVES.items()},
    "huber_loss_backward": _huber_slope,
    "huber_loss_backward.out": _huber_slope,
    "nll_loss_forward": _nll,
    "nll_loss_backward": _nll_slope,
    "nll_loss2d_forward": _nll_of_images,
    "nll_loss2d_backward": _nll_slope_of_images,
}
"""What computes each operator, by the name of its overload."""
