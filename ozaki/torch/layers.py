"""What softmax, layer norms, look-ups and statistics are in the mode, if asked: exact sums, rounded.

Forward functions are this library's of the same names. Derivatives are exact sums and elementwise operations,
each rounded to the dtype, in one order. Numbers that go to one place are summed exactly there, not added one
by one. Each function returns None for arguments that PyTorch is to treat itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from multiword.runtime.arrays import Array, namespace
from multiword.runtime.tensors import array_of, stream_of, tensor_of
from ozaki.rowwise import api as rowwise
from ozaki.rowwise.slopes_cuda import softmax_slope
from ozaki.rowwise.sums_of_rows import sums_of_rows
from ozaki.sums import api as sums
from ozaki.sums.cumulative import cumsum
from ozaki.sums.exactsum import ExactSum
from ozaki.sums.groups import group_sum
from ozaki.sums.statistics import std, var
from ozaki.torch import rowwise as rows
from ozaki.torch.elementwise import of_arrays
from ozaki.torch.norms import normalized, normalized_rows, slope, sum_of_products
from ozaki.torch.settings import Settings


def _dot(x: Tensor, y: Tensor, dim: Any, keepdim: bool = True) -> Tensor:
    return of_arrays(lambda a, b: sums.dot(a, b, dim, None, None, keepdim), x, y)


def _sum(x: Tensor, dim: Any = None, keepdim: bool = True) -> Tensor:
    return of_arrays(lambda a: sums.sum(a, dim, None, None, keepdim), x)


# softmax ----------------------------------------------------------------------------------------------


def _softmax(name: str, settings: Settings, x: Tensor, dim: int, half_to_float: bool) -> Tensor | None:
    if half_to_float or not x.dim():
        return None
    function = getattr(rowwise, name)
    return of_arrays(lambda a: function(a, dim), x)


def _safe_softmax(settings: Settings, x: Tensor, dim: int, dtype: Any = None) -> Tensor | None:
    """Softmax that is 0 in rows that a mask has left nothing of: attention's."""
    if not x.dim() or dtype not in (None, x.dtype):
        return None
    return of_arrays(lambda a: rowwise.safe_softmax(a, dim), x)


def _softmax_slope(settings: Settings, g: Tensor, y: Tensor, dim: int, dtype: Any) -> Tensor | None:
    if not y.dim() or dtype is not y.dtype:
        return None
    of_rows = _softmax_slope_of_rows(g, y) if dim in (-1, y.dim() - 1) else None
    return rows.softmax_slope(y, g, _dot(g, y, dim)) if of_rows is None else of_rows


def _softmax_slope_of_rows(g: Tensor, y: Tensor) -> Tensor | None:
    """Return the derivative of softmax along the last dimension, where that is one kernel."""
    if y.is_cpu or not y.numel():
        return None
    with stream_of(y):
        found = softmax_slope(*(array_of(t.reshape(-1, t.shape[-1]).contiguous()) for t in (y, g)))
        return None if found is None else tensor_of(found).reshape(y.shape)


def _log_softmax_slope(settings: Settings, g: Tensor, y: Tensor, dim: int, dtype: Any) -> Tensor | None:
    if not y.dim() or dtype is not y.dtype:
        return None
    return rows.log_softmax_slope(y, g, _sum(g, dim))


# layer norm -------------------------------------------------------------------------------------------


def _layer_norm(
    settings: Settings, x: Tensor, shape: Sequence[int], weight: Any, bias: Any, eps: float
) -> tuple[Tensor, Tensor, Tensor] | None:
    own, last = x.shape, tuple(shape)
    ends = [own[-len(last) :], *[t.shape for t in (weight, bias) if t is not None]]
    if not last or {*ends} != {last}:
        return None
    kept, channels = (*own[: -len(last)], *[1] * len(last)), _as_channels(x, last)
    found = normalized_rows(channels[0], eps, weight, bias)
    if found is None:
        y, mean, scale = normalized(channels, eps)
        y = y.reshape(own)
        y = y if weight is None else y * weight
        found = y if bias is None else y + bias, mean, scale
    y, mean, scale = found
    return y.reshape(own), mean.reshape(kept), scale.reshape(kept)


def _layer_norm_slope(
    settings: Settings,
    g: Tensor,
    x: Tensor,
    shape: Sequence[int],
    mean: Tensor,
    scale: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    needed: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    """Return the derivatives of x, for g·weight and y = (x − m)·r; of the weight, Σ g·y; of the bias, Σ g."""
    y = (x - mean) * scale
    of_x = of_weight = of_bias = None
    if needed[0]:
        h = g if weight is None else g * weight
        of_x = slope(_as_channels(h, shape), _as_channels(y, shape), scale.reshape(-1)).reshape(x.shape)
    if needed[1] and weight is not None:
        of_weight = sum_of_products(settings, g.reshape(-1, *shape), y.reshape(-1, *shape))
    if needed[2] and bias is not None:
        of_bias = sum_of_products(settings, g.reshape(-1, *shape))
    return of_x, of_weight, of_bias


def _as_channels(x: Tensor, shape: Sequence[int]) -> Tensor:
    """Return the numbers that are normalized together as channels, of one sample."""
    return x.reshape(1, prod(x.shape[: x.dim() - len(shape)]), prod(shape))


# look-ups ---------------------------------------------------------------------------------------------


def _added(base: Tensor, places: Tensor, values: Tensor) -> Tensor:
    """Return the base with values added at places in C order, each place's sum rounded once."""
    return of_arrays(_sums_at, base.contiguous(), places.reshape(-1), values.reshape(-1))


def _add_at(places: Tensor, values: Tensor, total: ExactSum) -> None:
    """Add values to elements of a sum, in C order."""
    flat = ExactSum(total.dtype, prod(total.shape)).add_groups(array_of(values), array_of(places))
    total.merge_at(flat, slice(None))


def _sums_at(base: Array, places: Array, values: Array) -> Array:
    return _sums_along(-1, base.reshape(-1), places, values).reshape(base.shape)


def _sums_along(axis: int, base: Array, index: Array, values: Array) -> Array:
    """Return the base with values added at an index along an axis, each number's sum rounded once."""
    xp, result = namespace(base), base.copy()
    used, numbers = xp.unique(index, return_inverse=True)
    along = xp.moveaxis(result, axis, -1)
    terms = xp.concatenate([along[..., used], xp.moveaxis(values, axis, -1)], -1)
    labels = xp.concatenate([xp.arange(len(used), dtype=np.int64), numbers.reshape(-1).astype(np.int64)])
    along[..., used] = group_sum(terms, labels, len(used))
    return result


def _embedding_slope(
    settings: Settings, g: Tensor, indices: Tensor, rows: int, padding: int, by_frequency: bool
) -> Tensor | None:
    if by_frequency:
        return None
    columns, at = g.shape[-1], indices.reshape(-1)
    every = g.reshape(-1, columns)
    if settings.part is None and g.is_cuda and g.dtype is torch.float32:
        return _sums_by_row(every, at, rows, padding)
    kept = at != padding
    values, at = every[kept], at[kept]
    result = of_arrays(partial(_sums_along, 0), g.new_zeros(rows, columns), at, values)
    # What is looked up once for all samples has a gradient that is a sum over them.
    if settings.part is not None and indices.dim() and len(indices) == settings.part.samples:
        places = at[:, None] * columns + torch.arange(columns, device=g.device)
        settings.note(result, partial(_add_at, places.reshape(-1), values.reshape(-1)), (g,))
    return result


def _sums_by_row(values: Tensor, at: Tensor, rows: int, padding: int) -> Tensor:
    """Return the sums of rows that have one index, on a GPU, without waiting for it."""
    order = torch.argsort(at, stable=True)
    starts = torch.searchsorted(at[order], torch.arange(rows + 1, dtype=at.dtype, device=at.device))
    result = of_arrays(sums_of_rows, values.contiguous(), order, starts)
    if 0 <= padding < rows:
        result[padding] = 0
    return result


def _index_add(
    settings: Settings, x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1
) -> Tensor | None:
    if not x.dim() or index.dim() != 1 or source.dim() != x.dim() or source.dtype is not x.dtype:
        return None
    if source.shape[dim] != len(index) or _without(source, dim) != _without(x, dim):
        return None
    at = torch.where(index < 0, index + x.shape[dim], index)
    return of_arrays(partial(_sums_along, dim), x, at, source if alpha == 1 else source * alpha)


def _without(x: Tensor, dim: int) -> list[int]:
    """Return the lengths of all dimensions but one."""
    sizes = list(x.shape)
    del sizes[dim]
    return sizes


def _scatter_add(settings: Settings, x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor | None:
    if not x.dim() or index.dim() != x.dim() or source.dtype is not x.dtype:
        return None
    source = source[tuple(slice(n) for n in index.shape)]
    return _added(x, _places(x, dim, index), source)


def _places(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """Return the places in C order of elements that keep their indices but for one."""
    places, step = torch.zeros_like(index, dtype=torch.int64), 1
    for d in reversed(range(x.dim())):
        shape = [1] * x.dim()
        shape[d] = -1
        own = torch.arange(index.shape[d], device=index.device).reshape(shape)
        places = places + (index if d == dim % x.dim() else own) * step
        step *= x.shape[d]
    return places


def _index_put(
    settings: Settings,
    x: Tensor,
    indices: Sequence[Tensor | None],
    values: Tensor,
    accumulate: bool = False,
    unsafe: bool = False,
) -> Tensor | None:
    """x[indices] += values, of indices for the first dimensions."""
    given = [i for i in indices if i is not None]
    whole = all(i is not None for i in indices) and all(not i.dtype.is_floating_point for i in given)
    if not accumulate or not whole or any(i.dtype in (torch.bool, torch.uint8) for i in given):
        return None
    if values.dtype is not x.dtype:
        return None
    elements = torch.arange(x.numel(), device=x.device).reshape(x.shape)
    places = elements[tuple(given)]
    return _added(x, places, values.expand_as(places))


# statistics -------------------------------------------------------------------------------------------


def _spread(
    function: Any,
    settings: Settings,
    x: Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Tensor:
    ddof = 1 if correction is None else correction
    return of_arrays(lambda a: function(a, _axes(dim, x), None, None, ddof, keepdim), x)


def _spread_and_mean(function: Any, settings: Settings, x: Tensor, *given: Any, **options: Any) -> Any:
    spread = _spread(function, settings, x, *given, **options)
    dim, keepdim = (given or (options.get("dim"),))[0], options.get("keepdim", False)
    return spread, of_arrays(lambda a: sums.mean(a, _axes(dim, x), None, None, keepdim), x)


def _axes(dim: Sequence[int] | None, x: Tensor) -> int | tuple[int, ...] | None:
    """Return what functions of arrays take for these dimensions: a number for one, in less time."""
    if not dim or not x.dim():
        return None
    return dim[0] if len(dim) == 1 else tuple(dim)


def _norm(
    settings: Settings,
    x: Tensor,
    ord: float = 2,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Tensor | None:
    if ord != 2 or (dtype is not None and dtype is not x.dtype):
        return None
    return of_arrays(lambda a: sums.norm(a, None, _axes(dim, x), None, None, keepdim), x)


def _cumsum(settings: Settings, x: Tensor, dim: int, *, dtype: Any = None) -> Tensor | None:
    if not x.dim() or (dtype is not None and dtype is not x.dtype):
        return None
    return of_arrays(lambda a: cumsum(a, dim), x)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "_softmax": partial(_softmax, "softmax"),
    "_safe_softmax": _safe_softmax,
    "_log_softmax": partial(_softmax, "log_softmax"),
    "index_add": _index_add,
    "scatter_add": _scatter_add,
    "cumsum": _cumsum,
    "linalg_vector_norm": _norm,
}
_IN_PLACE = ("index_add", "scatter_add", "cumsum")

KERNELS: dict[str, Callable[..., Any]] = {
    **_FUNCTIONS,
    **{f"{name}.out": function for name, function in _FUNCTIONS.items()},
    **{f"{name}_": _FUNCTIONS[name] for name in _IN_PLACE},
    "_softmax_backward_data": _softmax_slope,
    "_softmax_backward_data.out": _softmax_slope,
    "_log_softmax_backward_data": _log_softmax_slope,
    "_log_softmax_backward_data.out": _log_softmax_slope,
    "native_layer_norm": _layer_norm,
    "native_layer_norm_backward": _layer_norm_slope,
    "embedding_dense_backward": _embedding_slope,
    "_index_put_impl_": _index_put,
    "var.correction": partial(_spread, var),
    "std.correction": partial(_spread, std),
    "var_mean.correction": partial(_spread_and_mean, var),
    "std_mean.correction": partial(_spread_and_mean, std),
}
"""What computes each operator, by the name of its overload."""
