"""What pooling and nearest interpolation are in a mode of everything: exact sums over windows.

A mean is the exact sum of a window, rounded, divided by the number of its elements. A derivative is the exact
sum of what the windows that hold an element give it. Both gather along tables of places, one for each
dimension. To choose a maximum, or to copy, is PyTorch's, and has the same bits everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from math import prod
from typing import Any

import torch
from torch import Tensor

from ozaki.sums import api as sums
from ozaki.torch.elementwise import of_arrays
from ozaki.torch.settings import Settings
from ozaki.torch.sizes import Sizes, each_dimension, most_at_once

Tables = list[Tensor]
"""For each dimension a table with a row for each result: places of what is summed, or the length for none."""


# windows ----------------------------------------------------------------------------------------------


def _windows(
    x: Tensor, results: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes
) -> Tables:
    """Return the places of windows in x; those in the padding are none."""
    sizes = x.shape[-len(results) :]
    kernel, stride, padding, dilation = (
        each_dimension(v, len(results)) for v in (kernel, stride or kernel, padding, dilation)
    )
    tables = []
    for n, m, k, s, p, d in zip(sizes, results, kernel, stride, padding, dilation, strict=True):
        places = torch.arange(m)[:, None] * s - p + torch.arange(k) * d
        tables.append(torch.where((places >= 0) & (places < n), places, n))
    return tables


def _bins(x: Tensor, results: Sizes) -> Tables:
    """Return the places of PyTorch's adaptive windows, from ⌊i·n/m⌋ to before ⌈(i + 1)·n/m⌉."""
    tables = []
    for n, m in zip(x.shape[-len(results) :], results, strict=True):
        i = torch.arange(m)[:, None]
        first, end = i * n // m, -(-(i + 1) * n // m)
        places = first + torch.arange(int((end - first).max()))
        tables.append(torch.where(places < end, places, n))
    return tables


def _turned(tables: Tables, sizes: Sizes) -> Tables:
    """Return for each place which windows hold it; those that do not are the number of windows."""
    turned = []
    for table, n in zip(tables, sizes, strict=True):
        holds = (table[None] == torch.arange(n)[:, None, None]).any(2)
        most = max(1, int(holds.sum(1).max()))
        number = torch.where(holds, torch.arange(len(table)), len(table))
        turned.append(number.sort(1).values[:, :most])
    return turned


# sums over windows ------------------------------------------------------------------------------------


def _summed(x: Tensor, tables: Tables, chosen: Tensor | None = None) -> Tensor:
    """Return exact sums of x over windows, each rounded once; only of numbers whose `chosen` is its place."""
    dims, results = len(tables), [len(table) for table in tables]
    if x.is_cuda:  # from memory of which PyTorch knows that it is still to be read, so that nothing waits
        tables = [table.pin_memory().to(x.device, non_blocking=True) for table in tables]
    places = _places(tables, x.shape[-dims:])
    rows = _by_place(x, dims, 0)
    indices = None if chosen is None else _by_place(chosen, dims, -1)
    total = x.new_empty(places.shape[1], rows.shape[1])
    own = torch.arange(len(total), device=x.device)[:, None]
    at_once = max(1, most_at_once(x.device) // places.numel())
    for i in range(0, rows.shape[1], at_once):
        some = slice(i, i + at_once)
        terms = _gathered(rows[:, some], places)
        if indices is not None:
            terms = torch.where(_gathered(indices[:, some], places) == own, terms, 0)
        total[:, some] = terms[0] if len(terms) == 1 else of_arrays(lambda a: sums.sum(a, 0), terms)
    return total.T.reshape(*x.shape[:-dims], *results).contiguous()


def _places(tables: Tables, sizes: Sizes) -> Tensor:
    """Return a row for each place in a window, of numbers in C order; for none their number."""
    dims, own = len(tables), []
    for i, table in enumerate(tables):
        shape = [1] * (2 * dims)
        shape[dims + i], shape[i] = table.shape
        own.append(table.T.reshape(shape))
    places, there = own[0], own[0] < sizes[0]
    for of_dimension, n in zip(own[1:], sizes[1:], strict=True):
        places, there = places * n + of_dimension, there & (of_dimension < n)
    return torch.where(there, places, prod(sizes)).flatten(0, dims - 1).flatten(1)


def _by_place(x: Tensor, dims: int, none: int) -> Tensor:
    """Return a row for each place in the last dimensions, and one for what is not there."""
    rows = x.reshape(-1, prod(x.shape[-dims:])).T
    return torch.cat([rows, rows.new_full((1, rows.shape[1]), none)])


def _gathered(rows: Tensor, places: Tensor) -> Tensor:
    """Return the rows at places: whole rows are copied, which is several times as fast as to copy numbers."""
    return rows.index_select(0, places.flatten()).reshape(*places.shape, -1)


# operators --------------------------------------------------------------------------------------------


def _mean(dims: int, name: str, settings: Settings, x: Tensor, *options: Any) -> Tensor:
    results = _shape(name, x, *options)[-dims:]
    tables, counts = _averaged(x, results, *options)
    return _summed(x, tables) / counts


def _mean_slope(dims: int, name: str, settings: Settings, g: Tensor, x: Tensor, *options: Any) -> Tensor:
    _shape(name, g, x, *options)
    tables, counts = _averaged(x, g.shape[-dims:], *options)
    return _summed(g / counts, _turned(tables, x.shape[-dims:]))


def _averaged(
    x: Tensor,
    results: Sizes,
    kernel: Sizes,
    stride: Sizes = (),
    padding: Sizes = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> tuple[Tables, Tensor]:
    """Return the windows of a mean, and by what their sums are divided."""
    dims = len(results)
    tables = _windows(x, results, kernel, stride, padding, (1,))
    if divisor_override is not None:
        return tables, x.new_full((), divisor_override)
    if not count_include_pad:
        return tables, _counts(x, tables)
    kernel, stride, padding = (each_dimension(v, dims) for v in (kernel, stride or kernel, padding))
    counts = []
    for n, m, k, s, p in zip(x.shape[-dims:], results, kernel, stride, padding, strict=True):
        counts.append((n + 2 * p - torch.arange(m) * s).clamp(max=k))  # beyond the padding nothing counts
    return tables, _product(x, counts)


def _adaptive_mean(dims: int, name: str, settings: Settings, x: Tensor, sizes: Sizes) -> Tensor:
    tables = _bins(x, _shape(name, x, sizes)[-dims:])
    return _summed(x, tables) / _counts(x, tables)


def _adaptive_mean_slope(dims: int, name: str, settings: Settings, g: Tensor, x: Tensor) -> Tensor:
    _shape(name, g, x)
    tables = _bins(x, g.shape[-dims:])
    return _summed(g / _counts(x, tables), _turned(tables, x.shape[-dims:]))


def _max_slope(
    dims: int,
    name: str,
    settings: Settings,
    g: Tensor,
    x: Tensor,
    kernel: Sizes,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
    indices: Tensor,
) -> Tensor:
    _shape(name, g, x, kernel, stride, padding, dilation, ceil_mode, indices)
    tables = _windows(x, g.shape[-dims:], kernel, stride, padding, dilation)
    return _summed(g, _turned(tables, x.shape[-dims:]), indices)


def _adaptive_max_slope(
    dims: int, name: str, settings: Settings, g: Tensor, x: Tensor, indices: Tensor
) -> Tensor:
    _shape(name, g, x, indices)
    return _summed(g, _turned(_bins(x, g.shape[-dims:]), x.shape[-dims:]), indices)


def _nearest_slope(
    dims: int, name: str, settings: Settings, g: Tensor, results: Sizes, shape: Sizes, *scales: float | None
) -> Tensor:
    """Return Σ g at the elements that interpolation has copied; it copies their places, too."""
    copy = getattr(torch.ops.aten, f"{name.removesuffix(f'{dims}d_backward')}1d")
    tables = []
    for n, m, scale in zip(shape[-dims:], results, scales or [None] * dims, strict=True):
        tables.append(copy(torch.arange(n, dtype=torch.float64)[None, None], [m], scale).long().reshape(m, 1))
    return _summed(g, _turned(tables, shape[-dims:]))


def _shape(name: str, *arguments: Any) -> torch.Size:
    """Return the shape of PyTorch's result; it raises PyTorch's error for what does not fit."""
    given = (torch.empty_like(a, device="meta") if isinstance(a, Tensor) else a for a in arguments)
    shape: torch.Size = getattr(torch.ops.aten, name)(*given).shape
    return shape


def _counts(x: Tensor, tables: Tables) -> Tensor:
    """Return how many elements of x each window has."""
    sizes = x.shape[-len(tables) :]
    return _product(x, [(table < n).sum(1) for table, n in zip(tables, sizes, strict=True)])


def _product(x: Tensor, counts: Sequence[Tensor]) -> Tensor:
    """Return the products of numbers for each dimension, in the dtype of x."""
    return reduce(lambda a, b: a[..., None] * b, counts).to(x.device, x.dtype)


_FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    f"{operator}{dims}d{suffix}": partial(function, dims, f"{operator}{dims}d{suffix}")
    for dims in (1, 2, 3)
    for operator, suffix, function in (
        ("avg_pool", "", _mean),
        ("avg_pool", "_backward", _mean_slope),
        ("_adaptive_avg_pool", "", _adaptive_mean),
        ("_adaptive_avg_pool", "_backward", _adaptive_mean_slope),
        ("max_pool", "_with_indices_backward", _max_slope),
        ("adaptive_max_pool", "_backward", _adaptive_max_slope),
        ("upsample_nearest", "_backward", _nearest_slope),
        ("_upsample_nearest_exact", "_backward", _nearest_slope),
    )
    if dims > 1 or "nearest" in operator  # others of one dimension PyTorch makes of those of two
}

KERNELS: dict[str, Callable[..., Tensor]] = {
    **_FUNCTIONS,
    **{
        f"{name}.{'grad_input' if name.endswith('backward') else 'out'}": function
        for name, function in _FUNCTIONS.items()
        if "_adaptive" not in name
    },
}
"""What computes each operator, by the name of its overload."""
