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
    own = x.dtype
    target = dtype or (own if out is None else out.dtype)
    axes = _axes(dim, x.dim()) if dim else ()
    replaced = target in settings.halves or (target in settings.dtypes and target in DTYPES)
    if not settings.sums or not replaced or axes is None:
        return None
    if out is not None and out.dtype is not target:
        return None
    if target is not own and own.is_complex and not target.is_complex:
        return None
    with stream_of(x):
        a = array_of(x)
        # In their places, and one axis as a number, options take the function less time to look at.
        axis = None if len(axes) in (0, a.ndim) or not a.ndim else axes[0] if len(axes) == 1 else axes
        result = tensor_of(reduce(a, axis, None if target is own else numpy_dtype(target), None, keepdim))
    if settings.part is not None and out is None and reduce is sums.sum and own is target:
        over = axes or range(x.dim())
        settings.note(result, partial(_add_elements, x, over), (x,), summed=0 in over)
    return result if out is None else delivered(result, out)


def _axes(dim: Sequence[int], ndim: int) -> tuple[int, ...] | None:
    """Return dimensions as axes from 0 on; None if one is not there, or twice."""
    ndim = ndim or 1  # a number has an axis to PyTorch
    if len(dim) == 1:  # most often
        return (dim[0] % ndim,) if -ndim <= dim[0] < ndim else None
    axes = tuple([d % ndim for d in dim if -ndim <= d < ndim])
    return axes if len(dim) == len(axes) == len({*axes}) else None


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
