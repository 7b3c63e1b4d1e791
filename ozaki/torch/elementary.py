"""Elementary functions of tensors, differentiable; the public ones follow from the records of `ozaki`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ozaki.differentiable import elementary_forms, parts
from ozaki.elementary import PARTS
from ozaki.elementary.derivatives import derivative
from ozaki.torch.functions import check
from ozaki.torch.operators import added, new_operator, save, summed_to

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def _keep_one(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, ctx.name, ctx.order = inputs
    save(ctx, x)


def _slope(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    return gradient * _one(*ctx.saved_tensors, ctx.name, ctx.order + 1), None, None


def _slope_tangent(ctx: Any, dx: Tensor, *_: None) -> Tensor:
    return dx * _one(*ctx.saved_tensors, ctx.name, ctx.order + 1)


def _keep_two(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, y, ctx.name, *ctx.orders = inputs
    save(ctx, x, y)


def _slopes(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    (x, y), (first, second), needed = ctx.saved_tensors, ctx.orders, ctx.needs_input_grad
    of_x = summed_to(x, gradient * _two(x, y, ctx.name, first + 1, second)) if needed[0] else None
    of_y = summed_to(y, gradient * _two(x, y, ctx.name, first, second + 1)) if needed[1] else None
    return of_x, of_y, None, None, None


def _slopes_tangent(ctx: Any, dx: Tensor | None, dy: Tensor | None, *_: None) -> Tensor:
    (x, y), (first, second) = ctx.saved_tensors, ctx.orders
    of_x = None if dx is None else dx * _two(x, y, ctx.name, first + 1, second)
    return added(of_x, None if dy is None else dy * _two(x, y, ctx.name, first, second + 1))


_one = new_operator(
    "elementary(Tensor x, str name, int order) -> Tensor",
    lambda x, name, order: derivative(name, (order,), x),
    lambda x, name, order: x.new_empty(x.shape),
    lambda *arguments: arguments,
    _keep_one,
    _slope,
    _slope_tangent,
)
_two = new_operator(
    "elementary2(Tensor x, Tensor y, str name, int first, int second) -> Tensor",
    lambda x, y, name, first, second: derivative(name, (first, second), x, y),
    lambda x, y, name, first, second: x.new_empty(torch.broadcast_shapes(x.shape, y.shape)),
    lambda *arguments: arguments,
    _keep_two,
    _slopes,
    _slopes_tangent,
)
"""A function's partial derivative of so many orders, itself for none."""


def elementary(name: str, x: Tensor, y: Any = None) -> Tensor:
    """Return a function's values of one tensor, or of two, of which one may be a number."""
    if y is None and name in PARTS and isinstance(x, Tensor) and x.is_complex():
        return torch.complex(*_parts(name, x))
    if y is None:
        check(DTYPES, x=x)
        return _one(x, name, 0)
    if isinstance(y, int | float):
        y = torch.as_tensor(y, dtype=x.dtype, device=x.device)
    elif isinstance(x, int | float):
        x = torch.as_tensor(x, dtype=y.dtype, device=y.device)
    check(DTYPES, x=x, y=y)
    return _two(x, y, name, 0, 0)


def _parts(name: str, x: Tensor) -> list[Tensor]:
    """Return the parts of a function's values of complex numbers, or of real ones that it takes for such."""
    check((*DTYPES, torch.complex64, torch.complex128), x=x)
    plane = (x.real, x.imag) if x.is_complex() else (x, torch.zeros_like(x))
    return parts(name, *plane, elementary)


def abs(x: Tensor) -> Tensor:
    """Return |x|, correctly rounded, differentiable.

    As `ozaki.abs`; differs in taking tensors, and in having derivatives of every order, x / |x| and 0 at 0,
    which are made of functions of this library in float64.

    Parameters
    ----------
    x : tensor of float16, bfloat16, float32, float64, complex64 or complex128, on the CPU or an NVIDIA GPU.

    Raises
    ------
    TypeError : another dtype.

    >>> import torch, ozaki.torch
    >>> x = torch.tensor([3 + 4j], requires_grad=True)
    >>> ozaki.torch.abs(x).sum().backward()
    >>> x.grad
    tensor([0.6000+0.8000j])
    """
    return _but_for_zero("abs", x)


def angle(x: Tensor) -> Tensor:
    """Return the angle of x in the complex plane, from -π to π, correctly rounded, differentiable.

    As `ozaki.torch.abs`; differs in the function, `ozaki.torch.atan2(x.imag, x.real)`, whose derivatives are
    ix / |x|², and 0 at 0.

    >>> import torch, ozaki.torch
    >>> ozaki.torch.angle(torch.tensor([1j, -1.0]))
    tensor([1.5708, 3.1416])
    """
    return _but_for_zero("angle", x)


def _but_for_zero(name: str, x: Tensor) -> Tensor:
    """Return values of a function that has no derivative at zero: 0 is taken for it, as PyTorch does."""
    (value,), zero = _parts(name, x.detach()), x == 0
    (of_others,) = _parts(name, torch.where(zero, torch.ones_like(x), x))
    return torch.where(zero, value, of_others)


_EXAMPLE = """
    >>> import torch, ozaki.torch
    >>> x = torch.tensor([0.5, 0.75], requires_grad=True)
    >>> ozaki.torch.{0}({1}).sum().backward()
    >>> x.grad.dtype
    torch.float32
"""

ELEMENTARY = {
    **elementary_forms("ozaki.torch", "tensors", _EXAMPLE, elementary),
    "abs": abs,
    "angle": angle,
}
"""The elementary functions, by name."""
