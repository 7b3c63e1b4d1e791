"""What optimizers' fused kernels are in a mode of everything: plain steps. `lists` has operators of lists.

A fused kernel rounds a step's products and sums together, and how depends on the device. Here each operation
is one operator of a tensor, rounded by itself, so all forms of an optimizer have the bits of the plain one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
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
