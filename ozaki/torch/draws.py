"""What random numbers are in a mode of everything: those of `ozaki.random`, by their places in the tensor.

The seed of a call is one integer from PyTorch's generator: the one given, or the CPU's, for tensors on a
GPU, too. So `torch.manual_seed`, saved states and `fork_rng` do what they do outside, and a GPU has a CPU's
numbers.
`rand`, `randn`, `randint`, `bernoulli`, dropouts and initializers call these operators, for tensors of any
dtype. Halves are rounded from float32. Each function returns None for arguments that PyTorch is to refuse.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from multiword.runtime.arrays import Array, namespace
from multiword.runtime.tensors import array_of, numpy_dtype, stream_of, tensor_of
from ozaki.elementary.api import apply
from ozaki.random import Generator
from ozaki.random.generator import scaled_bernoulli
from ozaki.sums.cumulative import cumsum
from ozaki.torch.elementwise import of_arrays
from ozaki.torch.notes import Part
from ozaki.torch.products import delivered
from ozaki.torch.settings import Settings, active

_FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_DIGITS = {torch.float16: 11, torch.bfloat16: 8, torch.float32: 24, torch.float64: 53}
"""How many bits the significands of floats have."""


# into a tensor ----------------------------------------------------------------------------------------


def _uniform(
    settings: Settings, x: Tensor, low: float = 0.0, high: float = 1.0, *, generator: Any = None
) -> Tensor | None:
    if x.is_complex():
        parts = _uniform(settings, torch.view_as_real(x), low, high, generator=generator)
        return None if parts is None else x
    if x.dtype not in _FLOATS or not low <= high or math.isinf(high - low):
        return None
    if high - low > torch.finfo(x.dtype).max:
        return None
    dtype, digits = _working(x), _DIGITS[x.dtype]

    def numbers(rng: Generator) -> Array:
        if x.dtype.itemsize > 2:
            return rng.uniform(low, high, tuple(x.shape), dtype)
        u = rng.random(tuple(x.shape), dtype)  # in as many bits as halves have, so that none is rounded to 1
        u = (u * dtype.type(2**digits)).astype(np.int32).astype(dtype) / dtype.type(2**digits)
        return u * dtype.type(high - low) + dtype.type(low)

    return _filled(x, generator, numbers)


def _normal(
    settings: Settings, x: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None
) -> Tensor | None:
    """Normal numbers; of a complex x each part has half the variance."""
    if not std >= 0:
        return None
    if x.is_complex():
        parts = _normal(settings, torch.view_as_real(x), 0.0, std / math.sqrt(2), generator=generator)
        return None if parts is None else x.add_(mean)
    if x.dtype not in _FLOATS:
        return None
    return _filled(x, generator, lambda rng: rng.normal(mean, std, tuple(x.shape), _working(x)))


def _bernoulli(settings: Settings, x: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor | None:
    """Ones with probability p, a number or a tensor that broadcasts to x."""
    if x.is_complex():
        return None
    if not isinstance(p, Tensor):
        if not 0 <= p <= 1:
            return None
        return _filled(x, generator, lambda rng: rng.bernoulli(p, tuple(x.shape)))
    if p.device != x.device or not p.is_floating_point() or not bool(((p >= 0) & (p <= 1)).all()):
        return None
    bounds = p.double().expand(x.shape)
    return _filled(x, generator, lambda rng: rng.random(tuple(x.shape)) < array_of(bounds))


def _exponential(settings: Settings, x: Tensor, rate: float = 1.0, *, generator: Any = None) -> Any:
    """−log(u)/λ."""
    if x.dtype not in _FLOATS or not rate > 0:
        return None
    return _filled(x, generator, lambda rng: _exponentials(rng, tuple(x.shape)) / rate)


def _exponentials(rng: Generator, shape: tuple[int, ...]) -> Array:
    """Return −log(u) of u in (0, 1]; never 0, since their logarithms are taken."""
    e = -apply("log", 1.0 - rng.random(shape))
    return namespace(e).maximum(e, 2.0**-54)


def _geometric(settings: Settings, x: Tensor, p: float, *, generator: Any = None) -> Tensor | None:
    """How many trials it takes to a success of probability p: ⌈log(u)/log(1 − p)⌉, 1 at least."""
    if x.is_complex() or not 0 < p < 1:
        return None
    most = math.inf if x.is_floating_point() else min(2.0**53, _largest(x))
    slope = float(apply("log1p", np.float64(-p)))

    def numbers(rng: Generator) -> Array:
        n = -_exponentials(rng, tuple(x.shape)) / slope
        return namespace(n).clip(namespace(n).ceil(n), 1.0, most)

    return _filled(x, generator, numbers)


def _cauchy(
    settings: Settings, x: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Any = None
) -> Tensor | None:
    """m + σ·tan(πv) of v between −1/2 and 1/2."""
    if x.dtype not in _FLOATS or not sigma > 0:
        return None

    def numbers(rng: Generator) -> Array:
        v = rng.random(tuple(x.shape)) - 0.5 + 2.0**-54  # exact, and never ±1/2
        return apply("sinpi", v) / apply("cospi", v) * sigma + median

    return _filled(x, generator, numbers)


def _log_normal(
    settings: Settings, x: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Any = None
) -> Tensor | None:
    if x.dtype not in _FLOATS or not std > 0:
        return None
    return _filled(x, generator, lambda rng: apply("exp", rng.normal(mean, std, tuple(x.shape))))


def _integers(settings: Settings, x: Tensor, low: int, high: int | None, *, generator: Any = None) -> Any:
    """Integers from low to high − 1, or without a limit to the largest, which the dtype of x must have."""
    if x.is_complex():
        return None
    most = _largest(x)
    least = -most if x.is_floating_point() else 0 if x.dtype is torch.bool else torch.iinfo(x.dtype).min
    end = most + 1 if high is None else high
    if not least <= low < end <= most + 1 or most >= 1 << 63:
        return None
    return _filled(x, generator, lambda rng: rng.integers(low, end, tuple(x.shape)))


def _integers_below(settings: Settings, x: Tensor, high: int, *, generator: Any = None) -> Any:
    return _integers(settings, x, 0, high, generator=generator)


def _any_integers(settings: Settings, x: Tensor, *, generator: Any = None) -> Any:
    return _integers(settings, x, 0, None, generator=generator)


# of other tensors -------------------------------------------------------------------------------------


def _permutation(settings: Settings, n: int, *, generator: Any = None, out: Tensor) -> Tensor | None:
    if n < 0 or out.is_complex() or n - 1 > _largest(out):
        return None
    return delivered(_drawn(out, generator, lambda rng: rng.permutation(n)).to(out.dtype), out)


def _normal_of(
    settings: Settings, mean: Any, std: Any = 1.0, *, generator: Any = None, out: Tensor | None = None
) -> Tensor | None:
    """mean + std·z, of which one at least is a tensor."""
    tensors = [t for t in (mean, std) if isinstance(t, Tensor)]
    like = tensors[0]
    if any(t.dtype is not like.dtype or t.device != like.device for t in tensors):
        return None
    negative = bool((std < 0).any()) if isinstance(std, Tensor) else not std >= 0
    if like.dtype not in _FLOATS or negative:
        return None
    z = like.new_empty(torch.broadcast_shapes(*(t.shape for t in tensors)))
    return delivered(z.normal_(generator=generator) * std + mean, out)


def _multinomial(
    settings: Settings,
    weights: Tensor,
    n: int,
    replacement: bool = False,
    *,
    generator: Any = None,
    out: Tensor | None = None,
) -> Tensor | None:
    """Places of weights: where their running sum exceeds u times the last one, or the n largest of w/e.

    e are exponential numbers (Efraimidis and Spirakis, 2006); equal quotients keep their order.
    """
    if weights.dtype not in _FLOATS or weights.dim() not in (1, 2) or not weights.numel() or n < 1:
        return None
    w = weights.double()
    if not bool(((w >= 0) & (w < math.inf)).all() & (w > 0).any(-1).all()):
        return None
    if replacement or n == 1:
        shape = *weights.shape[:-1], n
        total = of_arrays(lambda a: cumsum(a, -1), w)
        u = _drawn(weights, generator, lambda rng: rng.random(shape)) * total[..., -1:]
        below = torch.nextafter(total[..., -1:], torch.zeros_like(u[..., :1]))
        chosen = torch.searchsorted(total, torch.minimum(u, below), right=True)
    elif n <= int((w > 0).sum(-1).min()):
        keys = w / _drawn(weights, generator, lambda rng: _exponentials(rng, tuple(w.shape)))
        chosen = keys.sort(dim=-1, descending=True, stable=True).indices[..., :n].contiguous()
    else:
        return None
    return delivered(chosen, out)


def dropout(settings: Settings, x: Tensor, p: float, train: bool) -> Tensor | None:
    """Return x·b/(1 − p), b of `bernoulli_`: on a GPU, too, where PyTorch's fused kernel draws others."""
    if not settings.everything or not x.is_floating_point() or not (train and 0 < p < 1 and x.numel()):
        return None
    one, share = (torch.scalar_tensor(number, dtype=x.dtype) for number in (1.0, 1 - p))
    scale = one / share
    if x.dtype is torch.float32:
        settings.count("bernoulli")
        value = np.float32(scale.item())
        return x * _drawn(x, None, lambda rng: scaled_bernoulli(rng, 1 - p, value, tuple(x.shape)))
    return x * torch.empty_like(x).bernoulli_(1 - p).mul_(scale)


def _native_dropout(settings: Settings, x: Tensor, p: float, train: bool | None) -> Any:
    """x·b·(1/(1 − p)), and b as booleans."""
    if not 0 <= p <= 1:
        return None
    if train is False:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    kept = torch.empty_like(x, dtype=torch.bool).bernoulli_(1 - p)
    return x * kept * (0.0 if p == 1 else 1 / (1 - p)), kept


def _random_slope(
    form: str,
    settings: Settings,
    x: Tensor,
    noise: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Any = None,
    *,
    out: Tensor | None = None,
) -> Tensor | None:
    """x, where it is not positive times a random slope, which is kept; in evaluation the mean slope."""
    if not lower <= upper or not x.is_floating_point():
        return None
    if training:
        noise.uniform_(lower, upper, generator=generator).masked_fill_(~(x <= 0), 1)
        result = x * noise
    else:
        result = torch.nn.functional.leaky_relu(x, (lower + upper) / 2)
    return x.copy_(result) if form == "_" else delivered(result, out)


_OF_TENSORS = ("Tensor_Tensor", "Tensor_float", "float_Tensor")

KERNELS: dict[str, Callable[..., Any]] = {
    "uniform_": _uniform,
    "normal_": _normal,
    "bernoulli_.float": _bernoulli,
    "bernoulli_.Tensor": _bernoulli,
    "exponential_": _exponential,
    "geometric_": _geometric,
    "cauchy_": _cauchy,
    "log_normal_": _log_normal,
    "random_": _any_integers,
    "random_.from": _integers,
    "random_.to": _integers_below,
    "randperm.generator_out": _permutation,
    **{f"normal.{tensors}{form}": _normal_of for tensors in _OF_TENSORS for form in ("", "_out")},
    "multinomial": _multinomial,
    "multinomial.out": _multinomial,
    "native_dropout": _native_dropout,
    **{f"rrelu_with_noise{form}": partial(_random_slope, form) for form in ("", "_", ".out")},
}
"""What computes each operator, by the name of its overload."""


def _working(x: Tensor) -> np.dtype:
    """Return the dtype in which numbers for a tensor are drawn."""
    return numpy_dtype(torch.float64 if x.dtype is torch.float64 else torch.float32)


def _largest(x: Tensor) -> int:
    """Return the largest integer up to which a tensor's dtype has all."""
    if x.is_floating_point():
        return 1 << _DIGITS.get(x.dtype, 0)
    return 1 if x.dtype is torch.bool else torch.iinfo(x.dtype).max


def _filled(x: Tensor, generator: Any, draw: Callable[[Generator], Array]) -> Tensor:
    return x.copy_(_drawn(x, generator, draw))


def _drawn(like: Tensor, generator: Any, draw: Callable[[Generator], Array]) -> Tensor:
    """Return what is drawn with a new seed, on the device of a tensor."""
    settings = active()
    with stream_of(like):
        seed, part = _seed(generator), None if settings is None else settings.part
        rng = Generator(seed, array_of(like)) if part is None else _OfSamples(seed, array_of(like), part)
        result: Tensor = tensor_of(draw(rng))
        return result


class _OfSamples(Generator):
    """Random numbers of some samples: their parts of what is drawn of a whole batch."""

    def __init__(self, seed: int, like: Array, part: Part) -> None:
        super().__init__(seed, like)
        self._part = part

    def _places(self, size: Any, first: int) -> tuple[Any, int, int]:
        shape, _, count = super()._places(size, first)
        return shape, self._part.place(shape), count


_NATIVE = {
    device: (
        torch.library.get_kernel("aten::random_", device),
        torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, device)),
    )
    for device in (("CPU", "CUDA") if torch.version.cuda else ("CPU",))
}
"""PyTorch's own kernels that draw an integer, and their keys: the mode replaces the operator."""


def _seed(generator: Any) -> int:
    """Return an integer from PyTorch's generator."""
    device = "cpu" if generator is None else generator.device
    number = torch.empty((), dtype=torch.int64, device=device)
    native, keys = _NATIVE["CPU" if number.is_cpu else "CUDA"]
    native.call_boxed(keys, number, generator=generator)
    return int(number)
