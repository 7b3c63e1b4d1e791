"""Functions of rows of tensors, differentiable: softmax and norms of layers.

The operators take rows along the last dimension. Their derivatives are made of these operators, of sums and
of elementwise IEEE operations, in the dtype of the tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import prod
from operator import add
from typing import Any

from torch import Tensor

from multiword.runtime.options import axes, integer
from ozaki.rowwise import api as rowwise
from ozaki.rowwise.rows import affine
from ozaki.torch.elementary import DTYPES, elementary
from ozaki.torch.functions import check
from ozaki.torch.operators import dot, mean, new_operator, save, sum


def softmax(x: Tensor, dim: int) -> Tensor:
    """Return e**x / Σ e**x along a dimension; differentiable.

    As `ozaki.softmax`; differs in its name for the axis, and in taking tensors alone.

    Parameters
    ----------
    x : tensor of float16, bfloat16, float32 or float64, on the CPU or an NVIDIA GPU.
    dim : the dimension that is summed over.

    Raises
    ------
    TypeError : no tensor; another dtype or layout. ValueError : a dimension that x does not have.

    >>> import torch, ozaki.torch
    >>> ozaki.torch.softmax(torch.zeros(4), 0)
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    return _along(_softmax, x, dim)


def log_softmax(x: Tensor, dim: int) -> Tensor:
    """Return x − log Σ e**x along a dimension; differentiable.

    As `ozaki.torch.softmax`; differs in the function, that of `ozaki.log_softmax`.

    >>> import torch, ozaki.torch
    >>> ozaki.torch.log_softmax(torch.tensor([0.0, 1000.0]), 0)
    tensor([-1000.,     0.])
    """
    return _along(_log_softmax, x, dim)


def logsumexp(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """Return log Σ e**x along a dimension; differentiable.

    As `ozaki.torch.softmax`; differs in the function, that of `ozaki.logsumexp`.

    Parameters
    ----------
    keepdim : whether the dimension is kept with length 1.

    >>> import torch, ozaki.torch
    >>> ozaki.torch.logsumexp(torch.tensor([1000.0, 1000.0]), 0)
    tensor(1000.6932)
    """
    result = _along(_logsumexp, x, dim)
    return result if keepdim else result.squeeze(dim)


def layer_norm(
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Return (x − mean) / √(var + eps)·weight + bias over the last dimensions; differentiable.

    As `ozaki.layer_norm`; differs in its arguments, those of `torch.nn.functional.layer_norm`. The
    derivatives of weight and bias are exact sums, rounded once.

    Parameters
    ----------
    x, weight, bias : tensors of one dtype, float16, bfloat16, float32 or float64, on the CPU or an NVIDIA
        GPU.
    normalized_shape : the lengths of the last dimensions, over which there is one mean.

    Raises
    ------
    TypeError : no tensors; other dtypes or layouts. ValueError : shapes that do not fit; two devices.

    >>> import torch, ozaki.torch
    >>> ozaki.torch.layer_norm(torch.tensor([1.0, 3.0]), (2,), eps=0.0)
    tensor([-1.,  1.])
    """
    return _normalized(_layer_norm, x, normalized_shape, weight, bias, eps)


def rms_norm(
    x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Return x / √(mean x² + eps)·weight over the last dimensions; differentiable.

    As `ozaki.torch.layer_norm`; differs in the function, that of `ozaki.rms_norm`.

    >>> import torch, ozaki.torch
    >>> ozaki.torch.rms_norm(torch.tensor([3.0, -3.0]), (2,), eps=0.0)
    tensor([ 1., -1.])
    """
    return _normalized(_rms_norm, x, normalized_shape, weight, None, eps)


def _along(operator: Callable[[Tensor], Tensor], x: Tensor, dim: int) -> Tensor:
    check(DTYPES, x=x)
    (axis,) = axes("dim", integer("dim", dim), x.dim())
    return operator(x.movedim(axis, -1)).movedim(-1, axis)


def _normalized(
    operator: Callable[..., Tensor],
    x: Tensor,
    shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> Tensor:
    given = {name: v for name, v in (("weight", weight), ("bias", bias)) if v is not None}
    check(DTYPES, x=x, **given)
    shape = tuple(shape)
    others = [tuple(v.shape) for v in given.values()]
    if not shape or {tuple(x.shape[-len(shape) :]), *others} != {shape}:
        shapes = ", ".join(f"{n} {tuple(v.shape)}" for n, v in {"x": x, **given}.items())
        raise ValueError(f"x must end in normalized_shape {shape}, and weight and bias have it; got {shapes}")
    affine = (None if v is None else v.reshape(-1) for v in (weight, bias))
    return operator(x.reshape(*x.shape[: -len(shape)], prod(shape)), *affine, float(eps)).reshape(x.shape)


def _keep_result(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    save(ctx, output)


def _keep_argument(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    save(ctx, inputs[0])


def _keep_arguments(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, _, ctx.eps = inputs
    save(ctx, x, weight)


def softmax_slope(y: Tensor, gradient: Tensor, product: Tensor) -> Tensor:
    """Return the derivative of a softmax y, y·(g − Σ g·y), for product = Σ g·y."""
    return y * (gradient - product)


def log_softmax_slope(y: Tensor, gradient: Tensor, total: Tensor) -> Tensor:
    """Return the derivative of a logarithm y of a softmax, g − e**y·Σ g, for total = Σ g."""
    return gradient - elementary("exp", y) * total


def norm_slope(
    y: Tensor, gradient: Tensor, scale: Tensor, product: Tensor, n: int, total: Tensor | None = None
) -> Tensor:
    """Return the derivative of y = (x − m)·r, r·(g − Σ g/n − y·Σ g·y/n), or of y = x·r, without Σ g."""
    rest = gradient if total is None else gradient - total / n
    return (rest - y * (product / n)) * scale


def _of_softmax(ctx: Any, gradient: Tensor) -> Tensor:
    (y,) = ctx.saved_tensors
    return softmax_slope(y, gradient, _dot(gradient, y))


def _of_log_softmax(ctx: Any, gradient: Tensor) -> Tensor:
    (y,) = ctx.saved_tensors
    return log_softmax_slope(y, gradient, _sum(gradient))


def _of_logsumexp(ctx: Any, gradient: Tensor) -> Tensor:
    """g·softmax(x)."""
    (x,) = ctx.saved_tensors
    return gradient * _softmax(x)


def _log_softmax_tangent(ctx: Any, dx: Tensor) -> Tensor:
    """dx − Σ e**y·dx."""
    (y,) = ctx.saved_tensors
    return dx - _dot(elementary("exp", y), dx)


def _logsumexp_tangent(ctx: Any, dx: Tensor) -> Tensor:
    """Σ softmax(x)·dx."""
    (x,) = ctx.saved_tensors
    return _dot(_softmax(x), dx)


def _symmetric(derivative: Callable[..., Any]) -> Callable[..., Tensor]:
    """Return the tangent by a Jacobian that is its own transpose: that of the derivative."""

    return lambda ctx, dx: derivative(ctx, dx)


class _Norm:
    """A norm of layers as an operator of rows, of a weight and a bias: y·w + b, y = (x − m)·r or x·r."""

    def __init__(self, name: str, centred: bool) -> None:
        self._function, self._centred = getattr(rowwise, name), centred
        self.operator = new_operator(
            f"{name}(Tensor x, Tensor? weight, Tensor? bias, float eps) -> Tensor",
            self._compute,
            lambda x, *_: x.new_empty(x.shape),
            lambda *arguments: arguments,
            _keep_arguments,
            self._derivative,
            self._tangent,
        )

    def _compute(self, x: Any, weight: Any, bias: Any, eps: float) -> Any:
        if any(v is not None and v.ndim > 1 for v in (weight, bias)):  # a batch of weights
            return affine(self._function(x, -1, eps=eps), weight, bias)
        return self._function(x, -1, weight, *([bias] if self._centred else []), eps=eps)

    def _parts(self, ctx: Any) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return y, r = 1/√(mean d² + eps) of d = x − m or x, and the weight."""
        (x, weight), n = ctx.saved_tensors, ctx.saved_tensors[0].shape[-1]
        centred = x - mean(_wide(x), [x.dim() - 1], True).to(x.dtype) if self._centred else x
        scale = elementary("rsqrt", _dot(centred, centred) / n + ctx.eps)
        return centred * scale, scale, weight

    def _slope(self, y: Tensor, scale: Tensor, gradient: Tensor) -> Tensor:
        """Return the derivative of x for that of y, or the tangent of y: its own transpose."""
        total = _sum(gradient) if self._centred else None
        return norm_slope(y, gradient, scale, _dot(gradient, y), gradient.shape[-1], total)

    def _derivative(self, ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        (y, scale, weight), needed = self._parts(ctx), ctx.needs_input_grad
        h = gradient if weight is None else gradient * weight
        of_x = self._slope(y, scale, h) if needed[0] else None
        rows, of_rows = (_wide(t).reshape(-1, t.shape[-1]) for t in (gradient, y))
        of_weight = dot(rows, of_rows, 0).to(y.dtype) if needed[1] else None
        of_bias = sum(rows, [0], False).to(y.dtype) if needed[2] else None
        return of_x, of_weight, of_bias, None

    def _tangent(self, ctx: Any, dx: Tensor | None, dw: Tensor | None, db: Tensor | None, _: None) -> Tensor:
        (y, scale, weight), parts = self._parts(ctx), list[Tensor]()
        if dx is not None:
            of_x = self._slope(y, scale, dx)
            parts.append(of_x if weight is None else of_x * weight)
        parts += [y * dw] if dw is not None else []
        parts += [db.expand(y.shape)] if db is not None else []
        return reduce(add, parts)


def _wide(x: Tensor) -> Tensor:
    """Return halves as float32, in which they are summed."""
    return x.float() if x.dtype.itemsize == 2 else x


def _dot(x: Tensor, y: Tensor) -> Tensor:
    return dot(_wide(x), _wide(y), -1).to(x.dtype).unsqueeze(-1)


def _sum(x: Tensor) -> Tensor:
    return sum(_wide(x), [x.dim() - 1], True).to(x.dtype)


def _operator(
    name: str,
    keep: Callable[..., None],
    derivative: Callable[..., Any],
    tangent: Callable[..., Tensor] | None = None,
) -> Any:
    """Return the operator of a function of rows of the last axis."""
    reduced, function = name == "logsumexp", getattr(rowwise, name)
    kept = {"keepdims": True} if reduced else {}
    return new_operator(
        f"{name}(Tensor x) -> Tensor",
        lambda x: function(x, -1, **kept),
        lambda x: x.new_empty((*x.shape[:-1], 1) if reduced else x.shape),
        lambda *arguments: arguments,
        keep,
        derivative,
        tangent or _symmetric(derivative),
    )


_softmax = _operator("softmax", _keep_result, _of_softmax)
_log_softmax = _operator("log_softmax", _keep_result, _of_log_softmax, _log_softmax_tangent)
_logsumexp = _operator("logsumexp", _keep_argument, _of_logsumexp, _logsumexp_tangent)
_layer_norm, _rms_norm = _Norm("layer_norm", True).operator, _Norm("rms_norm", False).operator
