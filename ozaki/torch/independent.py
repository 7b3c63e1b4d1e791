"""PyTorch's operators whose bits depend on their arguments alone, as data.

They are independent of the number of threads, of the cut of a batch and of the order of its samples, as found
by experiment on CPUs (`tests/torch/test_independent.py`, `test_movement.py`). Every other operator may vary,
and is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


ARITHMETIC = _names("""
_prelu_kernel _prelu_kernel_backward
abs acos acosh add addcdiv addcmul amax amin aminmax argmax argmin asin asinh atan ceil clamp clamp_max
clamp_min copysign cos digamma div erf erfc exp expm1 floor floor_divide fmax fmin frac hardtanh
heaviside leaky_relu leaky_relu_backward lerp lgamma log log10 log2 max maximum min
max_pool1d max_pool2d_with_indices max_pool3d_with_indices adaptive_max_pool2d adaptive_max_pool3d
minimum mul nan_to_num neg nextafter reciprocal relu round rsqrt rsub sign sin sinc sort sqrt
sgn sub tan tanh tanh_backward threshold threshold_backward trunc xlogy
""")
"""Operators of float32 and float64: an element, or a maximum, is the same function of numbers everywhere."""

BY_MACHINE = _names("""
acos acosh asin asinh atan cos digamma erf erfc exp expm1 lgamma log log10 log2 rsqrt sin sinc tan tanh
tanh_backward xlogy
""")
"""Those of them whose bits depend on the kind of CPU, or GPU: a mode of everything refuses them."""

MOVEMENT = _names("""
_aminmax _assert_async _functional_assert_async _is_all_true _is_any_true _local_scalar_dense _stack
_to_sparse _to_sparse_csr _unique _unique2 _upsample_nearest_exact1d _upsample_nearest_exact2d
_upsample_nearest_exact3d all any bitwise_and bitwise_not bitwise_or bitwise_xor bucketize cat
channel_shuffle complex conj_physical count_nonzero dequantize eq equal eye fill flip gather ge gt im2col
index index_fill index_select is_set_to isin isnan isneginf isposinf le logical_and
logical_not logical_or logical_xor lt masked_fill masked_scatter masked_select narrow_copy
native_channel_shuffle ne nonzero nonzero_static pixel_shuffle pixel_unshuffle reflection_pad1d
reflection_pad2d reflection_pad3d repeat_interleave replication_pad1d replication_pad2d replication_pad3d
resize roll searchsorted set signbit take tril triu unique_consecutive unique_dim upsample_nearest1d
upsample_nearest2d upsample_nearest3d where zero
""")
"""Operators that copy, compare or count, of every dtype."""

DRAWS = _names(
    "bernoulli cauchy exponential geometric log_normal native_dropout normal random randperm uniform"
)
"""Random numbers, drawn by one thread from a generator."""

_POWERS = frozenset({0, 0.5, 1, 2, 3, -0.5, -1, -2})
"""Exponents for which PyTorch multiplies, divides or takes a root."""


def _replaces_elements(
    x: Tensor, indices: Any, values: Tensor, accumulate: bool = False, *_: Any, **__: Any
) -> bool:
    masks = all(i is None or i.dtype is torch.bool for i in indices)
    return not accumulate and (masks or values.numel() == 1)


def _copies_to_different_places(x: Tensor, dim: int, index: Tensor, *_: Any, **__: Any) -> bool:
    return index.numel() < 2 or index.unique().numel() == index.numel()


def _scatters_to_different_places(
    x: Tensor, dim: int, index: Tensor, source: Any, *, reduce: str | None = None, **_: Any
) -> bool:
    different = not isinstance(source, Tensor) or not index.dim()
    return reduce is None and (different or bool(index.sort(dim).values.diff(dim=dim).all()))


CONDITIONS: dict[str, Callable[..., bool]] = {
    "_index_put_impl": _replaces_elements,
    "index_copy": _copies_to_different_places,
    "scatter": _scatters_to_different_places,
    "hardtanh_backward": lambda gradient, x, *_, **__: not bool(x.isnan().any()),
    "pow": lambda x, exponent, **_: isinstance(exponent, int | float) and exponent in _POWERS,
    "mse_loss": lambda x, y, reduction=1, **_: reduction == 0,
    "mse_loss_backward": lambda gradient, x, y, reduction=1, **_: reduction == 0,
    "nll_loss_forward": lambda x, y, weight, reduction, *_, **__: reduction == 0,
}
"""Operators of real numbers that vary with some arguments only, and when they do not."""

INSTEAD = {
    "sum": "sums=True",
    "mean": "sums=True",
    "sigmoid": "1 / (1 + torch.exp(-x))",
    "silu": "x / (1 + torch.exp(-x))",
    "gelu": "0.5 * x * (1 + torch.erf(x / 2**0.5))",
    "softplus": "torch.log(1 + torch.exp(x))",
    "_softmax": "e = torch.exp(x - x.amax(-1, True)); e / e.sum(-1, True) with sums=True",
    "_log_softmax": "y = x - x.amax(-1, True); y - torch.log(torch.exp(y).sum(-1, True)) with sums=True",
    "native_layer_norm": "d = x - x.mean(-1, True); d / ((d * d).mean(-1, True) + eps).sqrt() with sums=True",
    "var": "d = x - x.mean(-1, True); (d * d).mean(-1) with sums=True",
    "std": "d = x - x.mean(-1, True); torch.sqrt((d * d).mean(-1)) with sums=True",
    "mse_loss": "((x - y) ** 2).mean() with sums=True",
    "nll_loss_forward": "reduction='none', and mean() with sums=True",
    "embedding_dense_backward": "a product with torch.nn.functional.one_hot(indices, n) for the look-up",
    "_index_put_impl": "a product with torch.nn.functional.one_hot(indices, n) for the look-up",
    "index_add": "a product with torch.nn.functional.one_hot(indices, n)",
    "scatter_add": "a product with torch.nn.functional.one_hot(indices, n)",
    "convolution": "torch.nn.functional.unfold and a product",
    "poisson": "numbers that were drawn once, outside, and kept",
    "binomial": "torch.bernoulli(p.expand(n, ...)).sum(0)",
    "_standard_gamma": "numbers that were drawn once, outside, and kept",
    "_sample_dirichlet": "numbers that were drawn once, outside, and kept",
}
"""What to write instead of an operator that varies."""


def instead_of(operator: str) -> str | None:
    """Return what to write instead of an operator, or of the one whose derivative it is."""
    if operator.startswith(("_foreach", "_fused_ad", "_fused_sgd")):
        return "foreach=False, fused=False for the optimizer, or for what clips gradients,"
    forward = operator.removesuffix("_data").removesuffix("_backward")
    return INSTEAD.get(operator) or INSTEAD.get(forward) or INSTEAD.get(f"{forward}_forward")


def floating(arguments: Iterable[Any]) -> torch.dtype | None:
    """Return the dtype of the first floating-point or complex tensor among arguments and lists of them."""
    for x in arguments:
        if isinstance(x, Tensor):
            if x.is_floating_point() or x.is_complex():
                return x.dtype
        elif isinstance(x, list | tuple) and (dtype := floating(x)) is not None:
            return dtype
    return None


def varies(
    operator: str, dtype: torch.dtype, arguments: tuple[Any, ...], options: dict[str, Any], everything: bool
) -> bool:
    """Return whether a call of an operator that is watched may have other bits elsewhere.

    everything: whether other machines count, too.
    """
    if operator in BY_MACHINE:
        return everything
    condition = CONDITIONS.get(operator)
    return condition is None or dtype.is_complex or not condition(*arguments, **options)


def watched(key: str) -> Iterator[str]:
    """Yield the operators with a kernel of a dispatch key's own that some calls must be counted of.

    Operators that PyTorch makes of others are not among them: it calls those. Nor is elementary arithmetic,
    which would take longer outside of the mode, although products and quotients of complex numbers vary.
    """
    return (name for name, operator in _computing(key) if operator not in MOVEMENT | DRAWS | ARITHMETIC)


def by_machine(key: str) -> Iterator[str]:
    """Yield the operators with a kernel of a dispatch key's own that only a mode of everything watches."""
    return (name for name, operator in _computing(key) if operator in BY_MACHINE)


def _computing(key: str) -> Iterator[tuple[str, str]]:
    """Yield operators with a kernel of a dispatch key's own that makes numbers, with and without overload."""
    for full in torch._C._dispatch_get_all_op_names():
        name = full.removeprefix("aten::")
        if name == full or not torch._C._dispatch_has_kernel_for_dispatch_key(full, key):
            continue
        base, _, overload = name.partition(".")
        operator = base.rstrip("_")
        if operator.startswith(("_test", "_foobar", "quantize", "_make_per", "_nested", "_fake", "fake")):
            continue
        schema = getattr(getattr(torch.ops.aten, base), overload or "default")._schema
        tensors = any("Tensor" in str(a.type) for a in schema.arguments)
        views = any(a.alias_info is not None and not a.alias_info.is_write for a in schema.arguments)
        if tensors and not views:
            yield name, operator
