"""What PyTorch's sums and means are in the mode, if asked: correctly rounded.

Each function returns None for arguments that PyTorch is to treat itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

import ozaki.sums.api as sums
from multiword.runtime.tensors import array_of, numpy_dtype, stream_of, tensor_of
from ozaki.sums.exactsum import ExactSum
from ozaki.torch.products import delivered
from ozaki.torch.settings import DTYPES, Settings


def _reduced(
    reduce: Callable[..., Any],
    settings: Settings,
    x: Tensor,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
    out: Tensor | None = None,
) -> Tensor | None:
    target = dtype or (x.dtype if out is None else out.dtype)
    ndim = max(x.dim(), 1)  # a number has an axis to PyTorch
    axes = {d % ndim for d in dim if -ndim <= d < ndim} if dim else set[int]()
    replaced = target in settings.halves or (target in settings.dtypes and target in DTYPES)
    if not settings.sums or not replaced or len(axes) < len(dim or ()):
        return None
    if out is not None and out.dtype is not target:
        return None
    if x.is_complex() and not target.is_complex:
        return None
    with stream_of(x):
        axis = tuple(axes) if axes and x.dim() else None
        own = None if target is x.dtype else numpy_dtype(target)  # which takes longer to look at
        result = tensor_of(reduce(array_of(x), axis, own, keepdims=keepdim))
    if settings.part is not None and out is None and reduce is sums.sum and x.dtype is target:
        over = axes or set(range(x.dim()))
        settings.note(result, partial(_add_elements, x, over), (x,), summed=0 in over)
    return delivered(result, out)


def _add_elements(x: Tensor, axes: Iterable[int], total: ExactSum) -> None:
    """Add the elements of a tensor over some of its dimensions."""
    kept = [d for d in range(x.dim()) if d not in axes]
    total.add(array_of(x.permute(*axes, *kept).reshape(-1, *total.shape)))


KERNELS: dict[str, Callable[..., Any]] = {
    "sum.dim_IntList": partial(_reduced, sums.sum),
    "sum.IntList_out": partial(_reduced, sums.sum),
    "mean.dim": partial(_reduced, sums.mean),
    "mean.out": partial(_reduced, sums.mean),
}
"""What computes each operator, by the name of its overload."""
