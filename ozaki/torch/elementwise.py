"""What PyTorch's elementary functions and activations are in the mode, if asked: correctly rounded.

Derivatives are made of these functions, and of operations that are each rounded, in one order: nothing is
contracted, so a GPU has a CPU's bits. Each function returns None for arguments that PyTorch is to treat
itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from multiword.runtime.tensors import array_of, stream_of, tensor_of
from ozaki.elementary.api import apply
from ozaki.elementary.derivatives import derivative
from ozaki.elementary.normal import gelu_text
from ozaki.torch.settings import Settings

UNARY = (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan"),
    *("asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc"),
    *("sigmoid", "silu", "mish"),
)
"""Functions that PyTorch calls by the same name."""


def of_arrays(function: Callable[..., Any], *tensors: Tensor) -> Tensor:
    """Return a function's value of tensors that it takes as arrays."""
    with stream_of(tensors[0]):
        result: Tensor = tensor_of(function(*map(array_of, tensors)))
        return result


def _value(name: str, settings: Settings, x: Tensor) -> Tensor:
    return of_arrays(partial(apply, name), x)


def _gelu(settings: Settings, x: Tensor, *, approximate: str = "none") -> Tensor:
    return _value(gelu_text(approximate), settings, x)


def _logit(settings: Settings, x: Tensor, eps: float | None = None) -> Tensor | None:
    return None if eps is not None else _value("logit", settings, x)


def _softplus(settings: Settings, x: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """log(1 + exp(βx))/β, and x itself where βx is beyond the threshold."""
    scaled = x if beta == 1 else x * beta
    value = _value("softplus", settings, scaled)
    return torch.where(scaled > threshold, x, value if beta == 1 else value / beta)


def _log_sigmoid(settings: Settings, x: Tensor) -> tuple[Tensor, Tensor]:
    """log(1/(1 + exp(−x))), and nothing in place of what PyTorch keeps for the derivative."""
    return -_value("softplus", settings, -x), x.new_empty(0)


def _hardsigmoid(settings: Settings, x: Tensor) -> Tensor:
    return (x + 3).clamp(0, 6) / 6


def _hardswish(settings: Settings, x: Tensor) -> Tensor:
    return x * (x + 3).clamp(0, 6) / 6


def _gated(settings: Settings, x: Tensor, dim: int = -1) -> Tensor | None:
    """a·sigmoid(b) for the halves of x along a dimension."""
    if not x.dim() or x.shape[dim] % 2:
        return None
    a, b = x.chunk(2, dim)
    return a * _value("sigmoid", settings, b)


def _elu(settings: Settings, x: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Tensor:
    below = _value("expm1", settings, x * input_scale) * (alpha * scale)
    return torch.where(x > 0, x * scale, below)


def _binary(name: str, settings: Settings, x: Tensor, y: Tensor) -> Tensor | None:
    both = _alike(settings, x, y)
    return None if both is None else of_arrays(partial(apply, name), *both)


def _alike(settings: Settings, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return two tensors in their common dtype and on one device; None if that is PyTorch's business."""
    if not isinstance(y, Tensor) or (y.device != x.device and (y.dim() or not y.is_cpu)):
        return None
    dtype = torch.result_type(x, y)
    if dtype not in settings.dtypes or not dtype.is_floating_point:
        return None
    return x.to(dtype), y.to(x.device, dtype)


def _times_logarithm(settings: Settings, x: Tensor, y: Tensor) -> Tensor | None:
    """x·log(y), 0 where x is 0 and y a number."""
    both = _alike(settings, x, y)
    if both is None:
        return None
    x, y = both
    return torch.where((x == 0) & ~y.isnan(), 0, x * _value("log", settings, y))


def _sinc(settings: Settings, x: Tensor) -> Tensor:
    """sin(πx)/(πx), 1 at 0."""
    return torch.where(x == 0, 1, _value("sinpi", settings, x) / (x * math.pi))


_NATIVE = {
    (name, device == "CPU"): partial(
        torch.library.get_kernel(f"aten::{name}", device).call_boxed,
        torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, device)),
    )
    for name in ("add.Tensor", "sub.Tensor", "add.out", "sub.out")
    for device in (("CPU", "CUDA") if torch.version.cuda else ("CPU",))
}
"""PyTorch's own sums and differences of tensors, by whether these are a CPU's: the mode replaces them."""


def _plus(x: Tensor, y: Tensor, out: Tensor | None = None) -> Tensor:
    """x + y, in `out` if that is given and of their shape."""
    return _added("add", x, y, out)


def _minus(x: Tensor, y: Tensor, out: Tensor | None = None) -> Tensor:
    return _added("sub", x, y, out)


def _added(name: str, x: Tensor, y: Tensor, out: Tensor | None) -> Tensor:
    if out is None or not x.shape == y.shape == out.shape:
        result: Tensor = _NATIVE[f"{name}.Tensor", x.is_cpu](x, y)
        return result
    _NATIVE[f"{name}.out", x.is_cpu](x, y, out=out)
    return out


def _plus_multiple(sign: int, settings: Settings, x: Tensor, y: Any, *, alpha: float = 1) -> Tensor | None:
    """x ± αy: a GPU's kernel would round it once."""
    if alpha == 1 or not isinstance(y, Tensor):
        return None
    return (_plus if sign > 0 else _minus)(x, y * alpha)


def _plus_product(
    settings: Settings, x: Tensor, y: Tensor, z: Tensor, *, value: float = 1, in_place: bool = False
) -> Tensor:
    return _plus(x, (y if value == 1 else y * value) * z, x if in_place else None)


def _plus_quotient(
    settings: Settings, x: Tensor, y: Tensor, z: Tensor, *, value: float = 1, in_place: bool = False
) -> Tensor:
    return _plus(x, (y if value == 1 else y * value) / z, x if in_place else None)


def _quotient(settings: Settings, x: Tensor, y: Tensor, *, rounding_mode: str | None = None) -> Tensor | None:
    """x / y for a number y, by which a GPU's kernel multiplies with the reciprocal."""
    if y.dim() or not y.is_cpu or y.is_complex():
        return None
    number = torch.full((), y.to(x.dtype).item(), dtype=x.dtype, device=x.device)  # which waits for nothing
    return torch.div(x, number, rounding_mode=rounding_mode)


def _power(settings: Settings, x: Tensor, exponent: float) -> Tensor | None:
    """x to the power of a number; PyTorch multiplies, or takes a root, for some."""
    if isinstance(exponent, complex) or exponent in (0, 1, 2, 3):
        return None
    if exponent in (0.5, -0.5):
        return _value("sqrt" if exponent > 0 else "rsqrt", settings, x)
    return of_arrays(lambda a: apply("pow", a, float(exponent)), x)


def _between(settings: Settings, x: Tensor, y: Tensor, weight: Any, *, in_place: bool = False) -> Tensor:
    """x + w·(y − x), or for w from 1/2 on y − (1 − w)·(y − x)."""
    if isinstance(weight, Tensor):
        return torch.where(weight.abs() < 0.5, x + (y - x) * weight, y - (y - x) * (1 - weight))
    step, out = _minus(y, x), x if in_place else None
    return _plus(x, step * weight, out) if abs(weight) < 0.5 else _minus(y, step * (1 - weight), out)


def _slope(name: str, settings: Settings, gradient: Tensor, x: Tensor) -> Tensor:
    """The gradient times a derivative, which is rounded to the dtype before."""
    return gradient * of_arrays(lambda array: derivative(name, (1,), array), x)


def _gelu_slope(settings: Settings, gradient: Tensor, x: Tensor, *, approximate: str = "none") -> Tensor:
    return _slope(gelu_text(approximate), settings, gradient, x)


def _logit_slope(settings: Settings, gradient: Tensor, x: Tensor, eps: float | None = None) -> Tensor | None:
    return None if eps is not None else _slope("logit", settings, gradient, x)


def _sigmoid_slope(settings: Settings, gradient: Tensor, y: Tensor) -> Tensor:
    return gradient * ((1 - y) * y)


def _tanh_slope(settings: Settings, gradient: Tensor, y: Tensor) -> Tensor:
    return gradient * (1 - y * y)


def _softplus_slope(settings: Settings, gradient: Tensor, x: Tensor, beta: float, threshold: float) -> Tensor:
    scaled = x if beta == 1 else x * beta
    slope = gradient * _value("sigmoid", settings, scaled)
    return torch.where(scaled > threshold, gradient, slope)


def _log_sigmoid_slope(settings: Settings, gradient: Tensor, x: Tensor, kept: Tensor) -> Tensor:
    return gradient * _value("sigmoid", settings, -x)


def _hardsigmoid_slope(settings: Settings, gradient: Tensor, x: Tensor) -> Tensor:
    return torch.where((x > -3) & (x < 3), gradient / 6, 0)


def _hardswish_slope(settings: Settings, gradient: Tensor, x: Tensor) -> Tensor:
    within = gradient * (x / 3 + 0.5)
    return torch.where(x <= -3, 0, torch.where(x < 3, within, gradient))


def _gated_slope(settings: Settings, gradient: Tensor, x: Tensor, dim: int) -> Tensor:
    a, b = x.chunk(2, dim)
    s = _value("sigmoid", settings, b)
    return torch.cat([gradient * s, gradient * a * ((1 - s) * s)], dim)


def _elu_slope(
    settings: Settings,
    gradient: Tensor,
    alpha: float,
    scale: float,
    input_scale: float,
    is_result: bool,
    x: Tensor,
) -> Tensor:
    factor = alpha * scale
    if is_result:  # y = αs·(exp(x) − 1)
        below = (x + factor) * input_scale
    else:
        below = _value("exp", settings, x * input_scale) * (factor * input_scale)
    return gradient * torch.where(x > 0, torch.full_like(x, scale), below)


_FUNCTIONS: dict[str, Callable[..., Tensor | None]] = {
    **{name: partial(_value, name) for name in UNARY},
    "gelu": _gelu,
    "logit": _logit,
    "sinc": _sinc,
    "softplus": _softplus,
    "elu": _elu,
    "hardsigmoid": _hardsigmoid,
    "hardswish": _hardswish,
    "atan2": partial(_binary, "atan2"),
    "hypot": partial(_binary, "hypot"),
    "logaddexp": partial(_binary, "logaddexp"),
}

_DERIVATIVES: dict[str, Callable[..., Tensor | None]] = {
    "sigmoid_backward": _sigmoid_slope,
    "tanh_backward": _tanh_slope,
    "silu_backward": partial(_slope, "silu"),
    "mish_backward": partial(_slope, "mish"),
    "gelu_backward": _gelu_slope,
    "logit_backward": _logit_slope,
    "softplus_backward": _softplus_slope,
    "elu_backward": _elu_slope,
    "hardsigmoid_backward": _hardsigmoid_slope,
    "glu_backward": _gated_slope,
    "log_sigmoid_backward": _log_sigmoid_slope,
}

_CONTRACTED: dict[str, Callable[..., Tensor | None]] = {
    "add.Tensor": partial(_plus_multiple, 1),
    "sub.Tensor": partial(_plus_multiple, -1),
    "addcmul": _plus_product,
    "addcdiv": _plus_quotient,
    "lerp.Scalar": _between,
    "lerp.Tensor": _between,
    "div.Tensor": _quotient,
    "div.Tensor_mode": _quotient,
}
"""What a GPU's kernels round otherwise than a CPU's."""


def _forms(name: str) -> tuple[str, ...]:
    """Return an operator's name with those that write to its argument, and to `out`."""
    base, dot, overload = name.partition(".")
    others = {f"{x}.Tensor": f"{x}.out" for x in ("add", "sub", "div")} | {
        "div.Tensor_mode": "div.out_mode",
        "xlogy.Tensor": "xlogy.OutTensor",
    }
    return name, f"{base}_{dot}{overload}", others.get(name, f"{base}.{overload}{'_' * len(dot)}out")


ON_GPUS = {form for name in ("div.Tensor", "div.Tensor_mode") for form in _forms(name)}
"""Operators that are a CPU's own on a CPU."""

_IN_PLACE = {
    _forms(name)[1]: partial(_CONTRACTED[name], in_place=True)
    for name in ("addcmul", "addcdiv", "lerp.Scalar")
}
"""Those of an optimizer's steps write to their argument what others copy there."""

_STEPWISE = {form: function for name, function in _CONTRACTED.items() for form in _forms(name)} | _IN_PLACE
STEPWISE = _STEPWISE.keys()
"""Operators that are made of PyTorch's own, step by step, and so for tensors of any real dtype."""

KERNELS: dict[str, Callable[..., Any]] = {
    **_STEPWISE,
    **dict.fromkeys(_forms("xlogy.Tensor"), _times_logarithm),
    **_FUNCTIONS,
    **{f"{name}_": function for name, function in _FUNCTIONS.items()},
    **{f"{name}.out": function for name, function in _FUNCTIONS.items()},
    **_DERIVATIVES,
    **{f"{name}.grad_input": function for name, function in _DERIVATIVES.items()},
    "log_sigmoid_forward": _log_sigmoid,
    "glu": _gated,
    "glu.out": _gated,
    "hardswish_backward": _hardswish_slope,
    "hardswish_backward.out": _hardswish_slope,
    "pow.Tensor_Scalar": _power,
    "pow.Tensor_Scalar_out": _power,
    "pow_.Scalar": _power,
    "pow.Tensor_Tensor": partial(_binary, "pow"),
    "pow.Tensor_Tensor_out": partial(_binary, "pow"),
    "pow_.Tensor": partial(_binary, "pow"),
}
"""What computes each operator, by the name of its overload."""
