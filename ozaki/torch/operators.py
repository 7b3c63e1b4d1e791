"""The custom operators of the namespace `ozaki`, which `torch.compile` calls and does not look into.

Their derivatives are made of these operators again: they have the same bits everywhere, and derivatives of
their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd import forward_ad

import ozaki.sums.api as sums
from multiword.runtime.arrays import namespace
from multiword.runtime.tensors import array_of, numpy_dtype, stream_of, tensor_of
from ozaki import api
from ozaki.sums import statistics
from ozaki.sums.arguments import reduced_shape

_library = torch.library.Library("ozaki", "FRAGMENT")


def new_operator(
    schema: str,
    compute: Callable[..., Any],
    fake: Callable[..., Tensor],
    batched: Callable[..., Sequence[Any]],
    keep: Callable[..., None],
    derivative: Callable[..., Any],
    tangent: Callable[..., Tensor],
) -> Callable[..., Any]:
    """Return a function that calls a new custom operator with its derivatives.

    compute makes an array of arrays; fake an empty result; batched makes, of arguments whose tensors have
    a batch in front or broadcast, those of one call for the batch; keep saves what the derivatives need.
    derivative makes gradients of that of the result; tangent makes the result's tangent of those of the
    arguments, which are None of what is no tensor.
    """
    name = schema.partition("(")[0]

    def kernel(*arguments: Any) -> Tensor:
        given = (array_of(x) if isinstance(x, Tensor) else x for x in arguments)
        with stream_of(arguments[0]):
            return tensor_of(compute(*given)).contiguous()  # as a fake result is

    def mapped(info: Any, dims: Sequence[Any], *arguments: Any) -> tuple[Tensor, int]:
        given = list(zip(arguments, dims, strict=True))
        ndim = max(x.dim() - (d is not None) for x, d in given if isinstance(x, Tensor))
        moved = (_batch_first(x, d, ndim) if isinstance(x, Tensor) else x for x, d in given)
        return operator(*batched(*moved)), 0

    _library.define(schema, tags=(torch.Tag.pt2_compliant_tag, torch.Tag.cudagraph_unsafe))
    for device in ("CPU", "CUDA"):
        _library.impl(name, kernel, device)
    torch.library.register_fake(f"ozaki::{name}", fake, lib=_library)
    torch.library.register_vmap(f"ozaki::{name}", mapped, lib=_library)
    operator = getattr(torch.ops.ozaki, name).default

    torch.library.register_autograd(f"ozaki::{name}", derivative, setup_context=keep, lib=_library)

    class Transformed(torch.autograd.Function):  # for `torch.func`, and for derivatives forwards
        generate_vmap_rule = True
        forward = staticmethod(lambda *given: operator(*map(_value, given)))
        setup_context = staticmethod(
            lambda ctx, inputs, output: keep(ctx, tuple(map(_value, inputs)), output)
        )
        backward = staticmethod(derivative)
        jvp = staticmethod(tangent)

    def at_once(*arguments: Any) -> Tensor:
        return (kernel if _lie_here(arguments) else operator)(*arguments)

    class Differentiated(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *arguments: Any) -> Tensor:
            result = at_once(*arguments)
            keep(ctx, arguments, result)
            return result

        backward = staticmethod(derivative)

    def call(*arguments: Any) -> Tensor:
        if torch.compiler.is_compiling():
            return operator(*arguments)
        if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
            return Transformed.apply(*map(_one, arguments))
        if "Tensor[]" in schema:  # a class of derivatives does not look into lists
            return operator(*arguments)
        # Without PyTorch's dispatcher, which takes 20 µs.
        return (Differentiated.apply if _is_followed(arguments) else at_once)(*arguments)

    return call


_AUTOGRAD = torch._C.DispatchKey.AutogradFunctionality
_PLAIN = Tensor, torch.nn.Parameter


def _is_followed(arguments: tuple[Any, ...]) -> bool:
    """Return whether derivatives by one of the arguments may be asked for; not by operators within others."""
    if not any(isinstance(x, Tensor) and x.requires_grad for x in arguments):
        return False
    return torch.is_grad_enabled() and not torch._C._dispatch_tls_is_dispatch_key_excluded(_AUTOGRAD)


def _lie_here(arguments: tuple[Any, ...]) -> bool:
    """Return whether a kernel takes arguments as they are: no mode or kind of tensor wants to see them."""
    if torch._C._len_torch_dispatch_stack() or torch._C._get_tracing_state():
        return False
    tensors = (x for x in arguments if isinstance(x, Tensor))
    return all(type(x) in _PLAIN and (x.is_cpu or x.is_cuda) for x in tensors)


@dataclass(frozen=True)
class _One:
    """A list as one argument: PyTorch's batched derivatives count those in a list, but not their tangents."""

    value: list[Any]


def _one(x: Any) -> Any:
    return _One(x) if isinstance(x, list) else x


def _value(x: Any) -> Any:
    return x.value if isinstance(x, _One) else x


def _batch_first(x: Tensor, batch: int | None, ndim: int) -> Tensor:
    """Return a tensor with its batch in front of ndim other dimensions; tensors without one broadcast."""
    if batch is None:
        return x
    missing = ndim - (x.dim() - 1)
    return x.movedim(batch, 0).unflatten(0, (x.shape[batch], *[1] * missing))


def _multiplied(a: Any, b: Any, accuracy: str) -> Any:
    return api.matmul(a, b, accuracy=int(accuracy) if accuracy.isdecimal() else accuracy)


def _empty_product(a: Tensor, b: Tensor, accuracy: str) -> Tensor:
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return a.new_empty((*batch, a.shape[-2], b.shape[-1]))


def save(ctx: Any, *tensors: Tensor) -> None:
    """Save what the derivatives need, backwards and forwards."""
    ctx.save_for_backward(*tensors)
    ctx.save_for_forward(*tensors)


def _keep_factors(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, y, ctx.option = inputs
    save(ctx, x, y)


def bilinear(ctx: Any, multiply: Callable[..., Tensor], dx: Tensor | None, dy: Tensor | None) -> Tensor:
    """Return the tangent of a product of the two saved tensors."""
    x, y = ctx.saved_tensors
    return added(None if dx is None else multiply(dx, y), None if dy is None else multiply(x, dy))


def added(first: Tensor | None, second: Tensor | None) -> Tensor:
    """Return the sum of what the tangents of two arguments add, of which one may have none."""
    if first is None or second is None:
        return cast(Tensor, second if first is None else first)
    return first + second


def _product_tangent(ctx: Any, dx: Tensor | None, dy: Tensor | None, _: None) -> Tensor:
    return bilinear(ctx, lambda x, y: matmul(x, y, ctx.option), dx, dy)


def _dot_tangent(ctx: Any, dx: Tensor | None, dy: Tensor | None, _: None) -> Tensor:
    return bilinear(ctx, lambda x, y: dot(x, y, ctx.option), dx, dy)


def _of_product(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    (a, b), needed = ctx.saved_tensors, ctx.needs_input_grad
    of_a = summed_to(a, matmul(gradient, b.mH, ctx.option)) if needed[0] else None
    of_b = summed_to(b, matmul(a.mH, gradient, ctx.option)) if needed[1] else None
    return of_a, of_b, None


def _of_dot(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    (x, y), needed = ctx.saved_tensors, ctx.needs_input_grad
    gradient = gradient.unsqueeze(ctx.option)
    of_x = summed_to(x, gradient * y.conj()) if needed[0] else None
    of_y = summed_to(y, gradient * x.conj()) if needed[1] else None
    return of_x, of_y, None


def summed_to(x: Tensor, gradient: Tensor) -> Tensor:
    """Return a gradient summed, or repeated, over the dimensions in which x broadcasts."""
    more = gradient.dim() - x.dim()
    dims = [d for d, n in enumerate(gradient.shape) if n != 1 and (d < more or x.shape[d - more] == 1)]
    gradient = sum(gradient, dims, True) if dims else gradient
    return gradient.reshape(gradient.shape[more:]).expand(x.shape)


def _empty_dot(x: Tensor, y: Tensor, dim: int) -> Tensor:
    shape = torch.broadcast_shapes(x.shape, y.shape)
    return x.new_empty(reduced_shape(shape, (dim % len(shape),), False))


def _empty_sum(x: Tensor, dim: Sequence[int], keepdim: bool, dtype: torch.dtype | None = None) -> Tensor:
    return x.new_empty(reduced_shape(x.shape, tuple(dim), keepdim), dtype=dtype)


def _empty_average(x: Tensor, weights: Tensor, dim: Sequence[int]) -> Tensor:
    return _empty_sum(x.expand(torch.broadcast_shapes(x.shape, weights.shape)), dim, False)


def _keep_shape(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, ctx.dim, ctx.keepdim, ctx.target = inputs
    ctx.shape, ctx.dtype = x.shape, x.dtype


def with_dimensions(gradient: Tensor, dim: Sequence[int]) -> Tensor:
    """Return a gradient with the dimensions that were summed over."""
    for d in sorted(dim):
        gradient = gradient.unsqueeze(d)
    return gradient


def _of_sum(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    wide = with_dimensions(gradient, () if ctx.keepdim else ctx.dim).expand(ctx.shape)
    wide = wide.real if wide.is_complex() and not ctx.dtype.is_complex else wide
    return wide.to(ctx.dtype), None, None, None


def _of_mean(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    return _of_sum(ctx, gradient / prod(ctx.shape[d] for d in ctx.dim))


def _sum_tangent(ctx: Any, dx: Tensor, *_: None) -> Tensor:
    return sum(dx, ctx.dim, ctx.keepdim, ctx.target)


def _mean_tangent(ctx: Any, dx: Tensor, *_: None) -> Tensor:
    return mean(dx, ctx.dim, ctx.keepdim, ctx.target)


def _averaged(x: Any, weights: Any, dim: Sequence[int]) -> Any:
    x, weights = namespace(x).broadcast_arrays(x, weights)  # one of them may lack a batch
    return statistics.average(x, tuple(dim), weights)


def _of_average(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    """dA = Σ (w·dx + (x - A)·dw) / Σ w."""
    (x, weights), dim, needed = ctx.saved_tensors, ctx.option, ctx.needs_input_grad
    shape = torch.broadcast_shapes(x.shape, weights.shape)
    gradient = with_dimensions(gradient, dim) / sum(weights.expand(shape), dim, True)
    of_x = summed_to(x, (gradient * weights).expand(shape)) if needed[0] else None
    if not needed[1]:
        return of_x, None, None
    of_w = gradient * (x - with_dimensions(average(x, weights, dim), dim)).conj()
    return of_x, summed_to(weights, of_w.real if x.is_complex() else of_w), None


def _average_tangent(ctx: Any, dx: Tensor | None, dw: Tensor | None, _: None) -> Tensor:
    """dA = Σ (w·dx + (x - A)·dw) / Σ w."""
    (x, weights), dim = ctx.saved_tensors, ctx.option
    shape = torch.broadcast_shapes(x.shape, weights.shape)
    centred = x - with_dimensions(average(x, weights, dim), dim)
    total = added(None if dx is None else weights * dx, None if dw is None else centred * dw)
    return sum(total.expand(shape), dim, False) / sum(weights.expand(shape), dim, False)


def _reduction(name: str, reduce: Callable[..., Any], *derivatives: Callable[..., Any]) -> Callable[..., Any]:
    operator = new_operator(
        f"{name}(Tensor x, int[] dim, bool keepdim, ScalarType? dtype=None) -> Tensor",
        lambda x, dim, keepdim, dtype=None: reduce(
            x, tuple(dim), dtype and numpy_dtype(dtype), keepdims=keepdim
        ),
        _empty_sum,
        lambda x, dim, keepdim, dtype=None: (x, [d + 1 for d in dim], keepdim, dtype),
        _keep_shape,
        *derivatives,
    )
    return lambda x, dim, keepdim, dtype=None: operator(x, dim, keepdim, dtype)


matmul = new_operator(
    "matmul(Tensor a, Tensor b, str accuracy) -> Tensor",
    _multiplied,
    _empty_product,
    lambda *arguments: arguments,
    _keep_factors,
    _of_product,
    _product_tangent,
)
dot = new_operator(
    "dot(Tensor x, Tensor y, int dim) -> Tensor",
    sums.dot,
    _empty_dot,
    lambda *arguments: arguments,
    _keep_factors,
    _of_dot,
    _dot_tangent,
)
average = new_operator(
    "average(Tensor x, Tensor weights, int[] dim) -> Tensor",
    _averaged,
    _empty_average,
    lambda x, weights, dim: (x, weights, [d + 1 for d in dim]),
    _keep_factors,
    _of_average,
    _average_tangent,
)
sum = _reduction("sum", sums.sum, _of_sum, _sum_tangent)
mean = _reduction("mean", sums.mean, _of_mean, _mean_tangent)
