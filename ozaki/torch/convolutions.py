"""What convolutions are in a mode of everything: windows of the input times a matrix.

A matrix of windows has a row for each element of a channel of the result, and a column for each weight. It is
made in chunks of rows, or of columns for the gradient of the weight. No product is cut along its inner
dimension, so every element is one sum of products, and chunks do not show in its bits. Each function returns
None for arguments that PyTorch is to treat itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from math import prod
from typing import Any

import torch
from torch import Tensor

from multiword.runtime.tensors import array_of, stream_of, tensor_of
from ozaki.sums.exactsum import ExactSum
from ozaki.torch.norms import sum_of_products
from ozaki.torch.pooling import Sizes, each_dimension, most_at_once
from ozaki.torch.products import multiplied
from ozaki.torch.settings import Settings


def _convolution(
    settings: Settings,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
) -> Tensor | None:
    """Return the product, rounded, and the bias added to it."""
    if not _ours(settings, x, weight, transposed, groups, bias):
        return None
    step, pad, spread, extra = (
        each_dimension(v, x.dim() - 2) for v in (stride, padding, dilation, output_padding)
    )
    outputs = weight.shape[1] * groups if transposed else weight.shape[0]
    if min(step) < 1 or min(spread) < 1 or (bias is not None and tuple(bias.shape) != (outputs,)):
        return None
    sizes = zip(x.shape[2:], weight.shape[2:], step, pad, spread, extra, strict=True)
    if transposed:
        fit = all((n - 1) * s + d * (k - 1) + e >= 2 * p for n, k, s, p, d, e in sizes)
    else:
        fit = all(n + 2 * p > d * (k - 1) for n, k, s, p, d, e in sizes)
    if not fit:
        return None
    if transposed:
        y = _turned(settings, x, weight, step, pad, spread, extra, groups)
    else:
        y = _applied(settings, x, weight, step, pad, pad, spread, groups)
    return y if bias is None else y + bias.reshape(-1, *[1] * (x.dim() - 2))


def _convolution_slope(
    settings: Settings,
    g: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Sizes | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
    needed: Sequence[bool],
) -> tuple[Tensor | None, ...] | None:
    """Return the derivatives of x, of the weight and of the bias.

    That of x is the transposed convolution of g, and a plain one of a transposed one. The weight's is a
    product over all windows and samples; for a transposed convolution g has the windows, and x the elements.
    """
    if not _ours(settings, x, weight, transposed, groups, g):
        return None
    step, pad, spread = (each_dimension(v, x.dim() - 2) for v in (stride, padding, dilation))
    of_x = of_weight = of_bias = None
    if needed[0] and transposed:
        of_x = _applied(settings, g, weight, step, pad, pad, spread, groups)
    elif needed[0]:
        sizes = zip(x.shape[2:], g.shape[2:], weight.shape[2:], step, pad, spread, strict=True)
        extra = [n - ((m - 1) * s - 2 * p + d * (k - 1) + 1) for n, m, k, s, p, d in sizes]
        of_x = _turned(settings, g, weight, step, pad, spread, extra, groups)
    if needed[1]:
        wide, narrow = (g, x) if transposed else (x, g)
        of_weight = _correlated(settings, wide, narrow, weight.shape[2:], step, pad, spread, groups)
    if needed[2]:
        of_bias = sum_of_products(settings, g.transpose(0, 1).flatten(1).T)
    return of_x, of_weight, of_bias


KERNELS: dict[str, Callable[..., Any]] = {
    "convolution": _convolution,
    "convolution_backward": _convolution_slope,
}
"""What computes each operator, by its name."""


def _applied(
    settings: Settings,
    x: Tensor,
    weight: Tensor,
    stride: Sizes,
    before: Sizes,
    after: Sizes,
    dilation: Sizes,
    groups: int,
) -> Tensor:
    """Return the convolution of x, padded with zeros: (N, C, …) and (O, C/groups, K…) make (N, O, L…)."""
    windows = _windows(_padded(x, before, after), weight.shape[2:], stride, dilation, groups)
    samples, lengths = windows.shape[0], windows.shape[1 : x.dim() - 1]
    split = weight.reshape(groups, len(weight) // groups, *weight.shape[1:])
    matrix = split.movedim(2, -1).flatten(2).transpose(1, 2)
    outputs, most = len(weight) // groups, most_at_once(x.device)
    chunks = list(_chunks(samples, lengths, matrix.shape[1] * groups, most))

    def products(chunk: tuple[slice, slice]) -> Tensor:
        part = windows[chunk]
        rows = _written(part).reshape(-1, groups, matrix.shape[1]).transpose(0, 1)
        return (
            _product(settings, rows, matrix)
            .transpose(0, 1)
            .reshape(*part.shape[: x.dim() - 1], groups, outputs)
        )

    if len(chunks) == 1:
        result = products(chunks[0])
    else:
        result = x.new_empty((samples, *lengths, groups, outputs))
        for chunk in chunks:
            result[chunk] = products(chunk)
    return result.flatten(-2).movedim(-1, 1).contiguous()


def _turned(
    settings: Settings,
    x: Tensor,
    weight: Tensor,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    extra: Sizes,
    groups: int,
) -> Tensor:
    """Return the transposed convolution: of x, zeros between its elements, with the weight turned round."""
    apart = x
    if max(stride) > 1:
        sizes = ((n - 1) * s + 1 for n, s in zip(x.shape[2:], stride, strict=True))
        among: tuple[Any, ...] = (..., *(slice(None, None, s) for s in stride))
        apart = x.new_zeros((*x.shape[:2], *sizes))
        apart[among] = x
    inputs, outputs, *kernel = weight.shape
    split = weight.reshape(groups, inputs // groups, outputs, *kernel).transpose(1, 2)
    turned = split.reshape(groups * outputs, inputs // groups, *kernel).flip(tuple(range(2, x.dim())))
    before = [d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding, strict=True)]
    after = [b + e for b, e in zip(before, extra, strict=True)]
    return _applied(settings, apart, turned, [1] * len(kernel), before, after, dilation, groups)


def _correlated(
    settings: Settings,
    wide: Tensor,
    narrow: Tensor,
    kernel: Sizes,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    groups: int,
) -> Tensor:
    """Return Σ narrow·window over samples and windows, for each pair of channels and each place in a window.

    Places in a window are columns of the product: as many are multiplied at once as the chunk has room for.
    """
    windows = _windows(_padded(wide, padding, padding), kernel, stride, dilation, groups)
    windows = windows[(slice(None), *(slice(n) for n in narrow.shape[2:]))]
    outputs, inputs = narrow.shape[1] // groups, wide.shape[1] // groups
    rows = narrow.movedim(1, 0).reshape(groups, outputs, -1)
    result = wide.new_empty((groups, outputs, inputs, prod(kernel)))
    for places, matrix in _columns(windows, kernel):
        part = _product(settings, rows, matrix)
        result[..., places] = part.reshape(groups, outputs, -1, inputs).transpose(2, 3)
    result = result.reshape(groups * outputs, inputs, *kernel)
    return settings.note(result, partial(_add_correlated, windows, rows, kernel), (wide, narrow))


def _add_correlated(windows: Tensor, rows: Tensor, kernel: Sizes, total: ExactSum) -> None:
    """Add the exact products of which `_correlated` returns the rounded sums."""
    groups, outputs, _ = rows.shape
    elements = torch.arange(prod(total.shape), device=rows.device).reshape(groups, outputs, -1, prod(kernel))
    for places, matrix in _columns(windows, kernel):
        for left, right, at in zip(rows, matrix, elements[..., places].mT, strict=True):
            total.add_matmul_at(*map(array_of, (left, right, at.reshape(-1))))


def _columns(windows: Tensor, kernel: Sizes) -> Iterator[tuple[slice, Tensor]]:
    """Yield places in windows, as many as the chunk has room for, and the matrix of their elements."""
    most = most_at_once(windows.device)
    if windows.numel() <= most:  # one copy, of whole windows, which are pieces of memory
        groups, samples = windows.shape[len(kernel) + 1], prod(windows.shape[: len(kernel) + 1])
        rows = _written(windows).reshape(samples, groups, -1)
        yield slice(0, prod(kernel)), rows.transpose(0, 1)
        return
    ends: list[tuple[Any, ...]] = [(..., *place, slice(None)) for place in product(*map(range, kernel))]
    many = max(1, most // max(1, windows.numel() // prod(kernel)))
    for start in range(0, len(ends), many):
        places = slice(start, min(start + many, len(ends)))
        columns = torch.stack([windows[end] for end in ends[places]], -2)  # (N, L…, groups, …, inputs)
        yield places, columns.flatten(0, len(kernel)).movedim(0, 1).flatten(2)


def _product(settings: Settings, a: Tensor, b: Tensor) -> Tensor:
    """Return the products of two stacks of matrices, one for each group."""
    with stream_of(a):
        if len(a) == 1:
            return tensor_of(multiplied(settings, a[0], b[0]))[None]
        return tensor_of(multiplied(settings, a.contiguous(), b.contiguous()))


def _padded(x: Tensor, before: Sizes, after: Sizes) -> Tensor:
    """Return x as (N, …, C) with zeros around it, or with less than it has, where their number is negative.

    With channels last a row of a window is one piece of memory: windows are copied several times as fast.
    """
    if not any((*before, *after)):
        return x.movedim(1, -1).contiguous()
    ends = [n for pair in reversed(list(zip(before, after, strict=True))) for n in pair]
    if min(ends) < 0:
        return torch.constant_pad_nd(x, ends).movedim(1, -1).contiguous()
    sizes = [b + n + a for b, n, a in zip(before, x.shape[2:], after, strict=True)]
    padded = x.new_zeros((len(x), *sizes, x.shape[1]))  # and one copy, not two
    inside: tuple[Any, ...] = tuple(slice(b, b + n) for b, n in zip(before, x.shape[2:], strict=True))
    padded[(slice(None), *inside)] = x.movedim(1, -1)
    return padded


def _windows(x: Tensor, kernel: Sizes, stride: Sizes, dilation: Sizes, groups: int) -> Tensor:
    """Return a view of (N, …, C) with shape (N, L…, groups, K…, C/groups)."""
    sizes = zip(x.shape[1:-1], kernel, stride, dilation, strict=True)
    lengths = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in sizes]
    first, *steps, channel = x.stride()
    inputs = x.shape[-1] // groups
    along = [step * s for step, s in zip(steps, stride, strict=True)]
    within = [step * d for step, d in zip(steps, dilation, strict=True)]
    shape = (x.shape[0], *lengths, groups, *kernel, inputs)
    return x.as_strided(shape, (first, *along, inputs * channel, *within, channel))


def _written(windows: Tensor) -> Tensor:
    """Return windows, written out; of four channels at a time, if there are so many, which is faster."""
    sizes = windows.shape[-1], windows.storage_offset(), *windows.stride()[:-1]
    four = 16 // windows.itemsize
    if windows.stride(-1) != 1 or any(size % four for size in sizes):
        return windows.contiguous()
    return windows.view(torch.complex128).contiguous().view(windows.dtype)


def _chunks(samples: int, lengths: Sizes, row: int, most: int) -> Iterator[tuple[slice, slice]]:
    """Yield samples, and windows along the first dimension, whose rows of this length are made at once."""
    line = max(1, row * prod(lengths[1:]))
    lines = min(lengths[0], max(1, most // line))
    at_once = max(1, most // (line * lengths[0])) if lines == lengths[0] else 1
    for n in range(0, samples, at_once):
        for i in range(0, lengths[0], lines):
            yield slice(n, n + at_once), slice(i, i + lines)


def _ours(
    settings: Settings, x: Tensor, weight: Tensor, transposed: bool, groups: int, other: Tensor | None
) -> bool:
    """Return whether the mode is one of everything, and the arguments are alike and not empty."""
    tensors = [t for t in (x, weight, other) if t is not None]
    alike = all(t.dtype is x.dtype and t.device == x.device and t.layout is torch.strided for t in tensors)
    if not settings.everything or not x.is_floating_point() or not alike or weight.dim() != x.dim():
        return False
    channels = weight.shape[0] if transposed else weight.shape[1] * groups
    return x.dim() > 2 and channels == x.shape[1] and all(t.numel() for t in tensors)
