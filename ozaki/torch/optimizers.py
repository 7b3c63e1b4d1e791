"""What optimizers' fused kernels and operators of lists are in a mode of everything: plain steps.

A fused kernel rounds a step's products and sums together, and how depends on the device. Here each operation
is one operator of a tensor, rounded by itself, so all forms of an optimizer have the bits of the plain one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.optim.adagrad import adagrad
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from ozaki.torch.settings import Settings, active

_PLAIN: dict[str, Any] = {"foreach": False, "fused": False}


def _adaptive(
    function: Callable[..., None],
    settings: Settings,
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    *states: Sequence[Tensor],
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    **options: Any,
) -> Any:
    """Take a step of Adam or Adagrad, whose plain forms count it themselves."""
    if grad_scale is not None or found_inf is not None:
        return NotImplemented
    *averages, steps = states
    before = [step - 1 for step in steps]
    with torch.no_grad():
        function(list(params), list(grads), *map(list, averages), before, **_PLAIN, **options)
    return None


def _sgd(
    settings: Settings,
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    buffers: Sequence[Tensor],
    *,
    is_first_step: bool,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    **options: Any,
) -> Any:
    """Take a step; the first one gives each buffer its gradient."""
    if grad_scale is not None or found_inf is not None:
        return NotImplemented
    momenta: list[Tensor | None] = [None] * len(params) if is_first_step or not buffers else list(buffers)
    with torch.no_grad():
        sgd(list(params), list(grads), momenta, **_PLAIN, **options)
        for buffer, momentum in zip(buffers, momenta, strict=False):
            if is_first_step and momentum is not None:
                buffer.copy_(momentum)
    return None


_FUSED: dict[str, Callable[..., Any]] = {
    "_fused_adam_": partial(_adaptive, adam),
    "_fused_adamw_": partial(_adaptive, partial(adam, decoupled_weight_decay=True)),
    "_fused_adagrad_": partial(_adaptive, adagrad),
    "_fused_sgd_": _sgd,
}

KERNELS: dict[str, Callable[..., Any]] = {
    f"{name}{overload}": step for name, step in _FUSED.items() for overload in ("", ".tensor_lr")
}
"""What computes each fused step, by the name of its overload; NotImplemented of scaled gradients."""


_ELEMENTWISE = {
    f"_foreach_{name}" for name in ("add", "sub", "mul", "div", "addcmul", "addcdiv", "lerp", "sqrt")
}
"""Operators of lists that compute each number by itself."""

_TOGETHER = 1 << 24
"""Numbers of some of a GPU's tensors, at most, that are computed as one: a call of each takes longer."""


def one_by_one(name: str) -> Callable[..., Any]:
    """Return what computes an operator of lists, `_foreach_…`, by operators of single tensors.

    It is PyTorch's own kernel for a CPU, which calls these for tensors on any device. On a GPU it gets small
    tensors as parts of one.
    """
    native = torch.library.get_kernel(f"aten::{name}", "CPU")
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
    operator = name.partition(".")[0]
    in_place, elementwise = operator.endswith("_"), operator.rstrip("_") in _ELEMENTWISE

    def call(*arguments: Any, **options: Any) -> Any:
        return native.call_boxed(keys, *arguments, **options)

    def compute(settings: Settings, *arguments: Any, **options: Any) -> Any:
        if not elementwise or options or settings.part is not None or not _joinable(arguments):
            return call(*arguments, **options)
        results = list[Tensor]()
        for chosen in _chunks(arguments[0]):
            some = [[x[i] for i in chosen] if isinstance(x, list | tuple) else x for x in arguments]
            results += _as_one(call, in_place, *some)
        return None if in_place else results

    return compute


def _joinable(arguments: Sequence[Any]) -> bool:
    """Return whether lists are of a GPU's tensors, of one dtype, shapes that agree, and no gaps in memory."""
    lists = [x for x in arguments if isinstance(x, list | tuple) and x and isinstance(x[0], Tensor)]
    if not lists or not lists[0][0].is_cuda:
        return False
    shapes, device, dtype = [x.shape for x in lists[0]], lists[0][0].device, lists[0][0].dtype
    return all(
        [x.shape for x in tensors] == shapes
        and all(x.dtype is dtype and x.device == device and x.is_contiguous() for x in tensors)
        for tensors in lists
    )


def _chunks(tensors: Sequence[Tensor]) -> Iterator[list[int]]:
    """Yield the places of tensors that are computed as one."""
    chunk, numbers = list[int](), 0
    for i, x in enumerate(tensors):
        if chunk and numbers + x.numel() > _TOGETHER:
            yield chunk
            chunk, numbers = [], 0
        chunk.append(i)
        numbers += x.numel()
    yield chunk


def _as_one(call: Callable[..., Any], in_place: bool, *arguments: Any) -> Sequence[Tensor]:
    """Return the results of an operator of lists, computed of one tensor that has all numbers of each."""
    first, joined = arguments[0], list[Any]()
    for x in arguments:
        if isinstance(x, list) and isinstance(x[0], Tensor):
            joined.append([torch.cat([tensor.reshape(-1) for tensor in x])] if len(x) > 1 else x)
        elif isinstance(x, list) and len({*map(repr, x)}) > 1:  # numbers of the tensors, each of its own
            found = call(*arguments)
            return first if in_place else found
        else:
            joined.append(x[:1] if isinstance(x, list) else x)
    found = call(*joined)
    if len(first) == 1:
        return first if in_place else found
    (whole,) = joined[0] if in_place else found
    pieces = [
        piece.view(x.shape) for piece, x in zip(whole.split([x.numel() for x in first]), first, strict=True)
    ]
    if in_place:
        _native_copy()(first, pieces)
    return first if in_place else pieces


@cache
def _native_copy() -> Callable[..., Any]:
    """Return PyTorch's copy of a GPU's tensors from one list to another, which changes no bit."""
    native = torch.library.get_kernel("aten::_foreach_copy_", "CUDA")
    return partial(native.call_boxed, torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA))


_OF_OTHER_FORMULAS = torch.optim.NAdam, torch.optim.RAdam, torch.optim.ASGD
"""Optimizers whose foreach form orders its products and quotients otherwise than the plain one."""


def refuse_other_formulas(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    """Raise RuntimeError before a step of such a form, the default on a GPU, in a mode of everything."""
    settings = active()
    if settings is None or not settings.everything or not isinstance(optimizer, _OF_OTHER_FORMULAS):
        return
    for group in optimizer.param_groups:
        form = group["foreach"]
        if form or (form is None and any(p.is_cuda for p in group["params"])):
            raise RuntimeError(
                f"within ozaki.torch.reproducible(everything=True) a step of {type(optimizer).__name__} in "
                "its foreach form has other bits than in its plain one, which is the default on a CPU; write "
                "foreach=False for the optimizer"
            )
