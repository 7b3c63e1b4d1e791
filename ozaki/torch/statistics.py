"""Variances, norms and running sums of tensors, differentiable."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from multiword.runtime.options import axes, integer
from ozaki.sums import api, cumulative, statistics
from ozaki.sums.arguments import reduced_shape
from ozaki.sums.variance import exact_ddof
from ozaki.torch.functions import check, dimensions
from ozaki.torch.operators import mean, new_operator, save, sum, with_dimensions
from ozaki.torch.settings import DTYPES


def var(
    x: Tensor, dim: int | Sequence[int] | None = None, *, correction: float = 0, keepdim: bool = False
) -> Tensor:
    """Return the variance over dimensions, correctly rounded; differentiable.

    As `ozaki.var`; differs in its names for axes.

    Parameters
    ----------
    x, dim, keepdim : as in `ozaki.torch.sum`.
    correction : the sum of squares is divided by n − correction, which `torch.var` has 1 by default.

    Raises
    ------
    TypeError, ValueError : as `ozaki.torch.sum`; TypeError for a correction that is no number.

    >>> import torch, ozaki.torch
    >>> ozaki.torch.var(torch.tensor([1e16, 1e16 + 2, 1e16 + 4], dtype=torch.float64), correction=1).item()
    4.0
    """
    check(DTYPES, x=x)
    exact_ddof(correction)  # which says what is none
    return _var(x, dimensions(x, dim), correction, keepdim)


def norm(x: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """Return the square root of Σ |x|² over dimensions, correctly rounded; differentiable.

    As `ozaki.norm`; differs in its names for axes, and in being Euclid's norm. Its derivative at 0 is 0.

    Parameters
    ----------
    x, dim, keepdim : as in `ozaki.torch.sum`.

    Raises
    ------
    TypeError, ValueError : as `ozaki.torch.sum`.

    >>> import torch, ozaki.torch
    >>> x = torch.tensor([3.0, 4.0], dtype=torch.float64)
    >>> ozaki.torch.norm(x * 2.0**900).item() / 2.0**900
    5.0
    """
    check(DTYPES, x=x)
    return _norm(x, dimensions(x, dim), keepdim)


def cumsum(x: Tensor, dim: int) -> Tensor:
    """Return the running sums along a dimension, each correctly rounded; differentiable.

    As `ozaki.cumsum`; differs in its name for the axis.

    Parameters
    ----------
    x : as in `ozaki.torch.sum`.
    dim : the dimension.

    Raises
    ------
    TypeError, ValueError : as `ozaki.torch.sum`.

    >>> import torch, ozaki.torch
    >>> ozaki.torch.cumsum(torch.tensor([1.0, 1e30, -1e30]), 0)
    tensor([1.0000e+00, 1.0000e+30, 1.0000e+00])
    """
    check(DTYPES, x=x)
    if not x.dim():
        raise ValueError("x must have a dimension, along which it is summed, got a number")
    (along,) = axes("dim", integer("dim", dim), x.dim())
    return _cumsum(x, along)


def _empty(x: Tensor, dim: Sequence[int], *options: Any) -> Tensor:
    return x.real.new_empty(reduced_shape(x.shape, tuple(dim), options[-1]))


def _keep_options(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, ctx.dim, *ctx.options = inputs
    save(ctx, x)


def _slopes(ctx: Any) -> Tensor:
    """2·(x − mean)/(n − correction), by which a variance grows with each number."""
    (x,), (correction, _) = ctx.saved_tensors, ctx.options
    divisor = prod(x.shape[d] for d in ctx.dim) - correction
    return (x - mean(x, ctx.dim, True)) * (2 / divisor if divisor > 0 else torch.nan)


def _of_var(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    wide = gradient if ctx.options[-1] else with_dimensions(gradient, ctx.dim)
    return wide * _slopes(ctx), None, None, None


def _var_tangent(ctx: Any, dx: Tensor, *_: None) -> Tensor:
    products = _slopes(ctx).conj() * dx
    return sum(products.real if dx.is_complex() else products, ctx.dim, ctx.options[-1])


def _keep_norm(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, ctx.dim, ctx.keepdim = inputs
    save(ctx, x, output)


def _directions(ctx: Any) -> Tensor:
    """x/‖x‖, or 0."""
    x, norm = ctx.saved_tensors
    norm = norm if ctx.keepdim else with_dimensions(norm, ctx.dim)
    return torch.where(norm == 0, 0, x / norm)


def _of_norm(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    wide = gradient if ctx.keepdim else with_dimensions(gradient, ctx.dim)
    return wide * _directions(ctx), None, None


def _norm_tangent(ctx: Any, dx: Tensor, *_: None) -> Tensor:
    products = _directions(ctx).conj() * dx
    return sum(products.real if dx.is_complex() else products, ctx.dim, ctx.keepdim)


def _keep_dimension(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, ctx.dim = inputs


def _of_cumsum(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    return _cumsum(gradient.flip(ctx.dim), ctx.dim).flip(ctx.dim), None


def _cumsum_tangent(ctx: Any, dx: Tensor, _: None) -> Tensor:
    return _cumsum(dx, ctx.dim)


_var = new_operator(
    "var(Tensor x, int[] dim, float correction, bool keepdim) -> Tensor",
    lambda x, dim, correction, keepdim: statistics.var(x, tuple(dim), ddof=correction, keepdims=keepdim),
    _empty,
    lambda x, dim, *options: (x, [d + 1 for d in dim], *options),
    _keep_options,
    _of_var,
    _var_tangent,
)
_norm = new_operator(
    "norm(Tensor x, int[] dim, bool keepdim) -> Tensor",
    lambda x, dim, keepdim: api.norm(x, None, tuple(dim), keepdims=keepdim),
    _empty,
    lambda x, dim, keepdim: (x, [d + 1 for d in dim], keepdim),
    _keep_norm,
    _of_norm,
    _norm_tangent,
)
_cumsum = new_operator(
    "cumsum(Tensor x, int dim) -> Tensor",
    lambda x, dim: cumulative.cumsum(x, dim),
    lambda x, dim: x.new_empty(x.shape),
    lambda x, dim: (x, dim + 1),
    _keep_dimension,
    _of_cumsum,
    _cumsum_tangent,
)
