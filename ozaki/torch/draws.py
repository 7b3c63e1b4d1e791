"""What random numbers are in a mode of everything: those of `ozaki.random`, by their places in the tensor.

The seed of a call is one integer from PyTorch's generator: the one given, or the CPU's, for tensors on a
GPU, too. So `torch.manual_seed`, saved states and `fork_rng` do what they do outside, and a GPU has a CPU's
numbers.
`rand`, `randn`, `randint`, `bernoulli`, dropouts and initializers call these operators. Each function returns
None for arguments that PyTorch is to treat itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from multiword.runtime.arrays import Array
from multiword.runtime.tensors import array_of, numpy_dtype, stream_of, tensor_of
from ozaki.random import Generator
from ozaki.torch.products import delivered
from ozaki.torch.settings import Settings

_FLOATS = (torch.float32, torch.float64)


def _uniform(
    settings: Settings, x: Tensor, low: float = 0.0, high: float = 1.0, *, generator: Any = None
) -> Tensor | None:
    if not _ours(settings, x) or not low <= high:
        return None
    dtype = numpy_dtype(x.dtype)
    with np.errstate(over="ignore"):
        if not math.isfinite(dtype.type(high) - dtype.type(low)):
            return None
    return _filled(x, generator, lambda rng: rng.uniform(low, high, tuple(x.shape), dtype))


def _normal(
    settings: Settings, x: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None
) -> Tensor | None:
    if not _ours(settings, x) or not std >= 0:
        return None
    return _filled(x, generator, lambda rng: rng.normal(mean, std, tuple(x.shape), numpy_dtype(x.dtype)))


def _bernoulli(settings: Settings, x: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor | None:
    """Ones with probability p, a number or a tensor that broadcasts to x."""
    if x.is_floating_point() and not _ours(settings, x):
        return None
    if not isinstance(p, Tensor):
        if not 0 <= p <= 1:
            return None
        return _filled(x, generator, lambda rng: rng.bernoulli(p, tuple(x.shape)))
    if p.device != x.device or not p.is_floating_point() or not bool(((p >= 0) & (p <= 1)).all()):
        return None
    bounds = p.double().expand(x.shape)
    return _filled(x, generator, lambda rng: rng.random(tuple(x.shape)) < array_of(bounds))


def _integers(settings: Settings, x: Tensor, low: int, high: int | None, *, generator: Any = None) -> Any:
    """Integers from low to high − 1, which the dtype of x must have."""
    if x.is_floating_point() or x.is_complex() or x.dtype is torch.bool or high is None:
        return None
    limits = torch.iinfo(x.dtype)
    if not limits.min <= low < high <= limits.max + 1:
        return None
    return _filled(x, generator, lambda rng: rng.integers(low, high, tuple(x.shape)))


def _integers_below(settings: Settings, x: Tensor, high: int, *, generator: Any = None) -> Any:
    return _integers(settings, x, 0, high, generator=generator)


def _permutation(settings: Settings, n: int, *, generator: Any = None, out: Tensor) -> Tensor | None:
    if n < 0 or out.dtype is not torch.int64:
        return None
    return delivered(_drawn(out, generator, lambda rng: rng.permutation(n)), out)


def dropout(settings: Settings, x: Tensor, p: float, train: bool) -> Tensor | None:
    """Return x·b/(1 − p), b of `bernoulli_`: on a GPU, too, where PyTorch's fused kernel draws others."""
    if not settings.everything or not _ours(settings, x) or not (train and 0 < p < 1 and x.numel()):
        return None
    return x * torch.empty_like(x).bernoulli_(1 - p).div_(1 - p)


KERNELS: dict[str, Callable[..., Any]] = {
    "uniform_": _uniform,
    "normal_": _normal,
    "bernoulli_.float": _bernoulli,
    "bernoulli_.Tensor": _bernoulli,
    "random_.from": _integers,
    "random_.to": _integers_below,
    "randperm.generator_out": _permutation,
}
"""What computes each operator, by the name of its overload; all write to their tensor."""


def _ours(settings: Settings, x: Tensor) -> bool:
    return x.dtype in _FLOATS and x.dtype in settings.dtypes


def _filled(x: Tensor, generator: Any, draw: Callable[[Generator], Array]) -> Tensor:
    return x.copy_(_drawn(x, generator, draw))


def _drawn(like: Tensor, generator: Any, draw: Callable[[Generator], Array]) -> Tensor:
    """Return what is drawn with a new seed, on the device of a tensor."""
    device = "cpu" if generator is None else generator.device
    seed = int(torch.empty((), dtype=torch.int64, device=device).random_(generator=generator))
    with stream_of(like):
        result: Tensor = tensor_of(draw(Generator(seed, array_of(like))))
        return result
