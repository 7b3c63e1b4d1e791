"""What convolutions are in a mode of everything: windows of the input times a matrix.

A matrix of windows has a row for each element of a channel of the result, and a column for each weight
(`windows`). It is made in pieces, of rows, or of columns for the gradient of the weight. No product is cut
along its inner dimension, so every element is one sum of products, and pieces do not show in its bits. Each
function returns None for arguments that PyTorch is to treat itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import torch
from torch import Tensor

from multiword.runtime.arrays import Array, namespace
from multiword.runtime.tensors import array_of, stream_of, tensor_of
from ozaki.rowwise.windows import Piece, Windows
from ozaki.sums.exactsum import ExactSum
from ozaki.torch.norms import sum_of_products
from ozaki.torch.products import multiplied_arrays
from ozaki.torch.settings import Settings
from ozaki.torch.sizes import Sizes, each_dimension
from ozaki.torch.windows import WindowsOf


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
    sizes = [each_dimension(v, x.dim() - 2) for v in (stride, padding, dilation, output_padding)]
    shape, (step, pad, spread, extra) = _shape(x, weight, sizes, transposed, groups), sizes
    if shape is None or (bias is not None and tuple(bias.shape) != shape[1:2]):
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
    sizes = [each_dimension(v, x.dim() - 2) for v in (stride, padding, dilation, output_padding)]
    if tuple(g.shape) != _shape(x, weight, sizes, transposed, groups):
        return None
    of_x = of_weight = of_bias = None
    step, pad, spread, _ = sizes
    if needed[0] and transposed:
        of_x = _applied(settings, g, weight, step, pad, pad, spread, groups)
    elif needed[0]:
        least = _spread(g.shape[2:], step, pad, spread, weight.shape[2:])
        extra = [n - m for n, m in zip(x.shape[2:], least, strict=True)]
        of_x = _turned(settings, g, weight, step, pad, spread, extra, groups)
    if needed[1]:
        wide, narrow = (g, x) if transposed else (x, g)
        of_weight = _correlated(settings, wide, narrow, weight.shape[2:], step, pad, spread, groups)
    if needed[2]:
        of_bias = sum_of_products(settings, g.transpose(0, 1).flatten(1).T)
    return of_x, of_weight, of_bias


def _shape(
    x: Tensor, weight: Tensor, sizes: Sequence[Sizes], transposed: bool, groups: int
) -> tuple[int, ...] | None:
    """Return the shape of the result, of strides, paddings, dilations and output paddings; None for none."""
    stride, padding, dilation, extra = sizes
    if min(*stride, *dilation) < 1 or len(weight) % groups:
        return None
    given, kernel = x.shape[2:], weight.shape[2:]
    if transposed:
        outputs = weight.shape[1] * groups
        lengths = [
            n + e for n, e in zip(_spread(given, stride, padding, dilation, kernel), extra, strict=True)
        ]
    else:
        outputs = weight.shape[0]
        lengths = _counted(given, padding, padding, kernel, stride, dilation)
    return (len(x), outputs, *lengths) if min(lengths) > 0 else None


def _counted(
    sizes: Sizes, before: Sizes, after: Sizes, kernel: Sizes, stride: Sizes, dilation: Sizes
) -> list[int]:
    """Return how many windows there are along each dimension, with zeros before and after."""
    of_each = zip(sizes, before, after, kernel, stride, dilation, strict=True)
    return [(n + b + a - d * (k - 1) - 1) // s + 1 for n, b, a, k, s, d in of_each]


def _spread(sizes: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, kernel: Sizes) -> list[int]:
    """Return the lengths of a transposed convolution: the least of which so many windows are counted."""
    of_each = zip(sizes, stride, padding, dilation, kernel, strict=True)
    return [(n - 1) * s - 2 * p + d * (k - 1) + 1 for n, s, p, d, k in of_each]


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
    kernel = weight.shape[2:]
    lengths = _counted(x.shape[2:], before, after, kernel, stride, dilation)
    windows = WindowsOf(x, _asked(kernel, stride, dilation, before, lengths, groups), after)
    split = weight.reshape(groups, len(weight) // groups, *weight.shape[1:])
    matrix = split.movedim(2, -1).flatten(2).transpose(1, 2)

    def products(piece: Piece) -> Tensor:
        with stream_of(x):
            rows = _product(settings, windows.written(piece).swapaxes(0, 1), array_of(matrix))
        return rows.reshape(piece.samples[1] - piece.samples[0], -1, *lengths[1:], len(weight))

    pieces = list(windows.rows())
    if len(pieces) == 1:
        result = products(pieces[0])
    else:
        result = x.new_empty((len(x), *lengths, len(weight)))
        for piece in pieces:
            result[slice(*piece.samples), slice(*piece.lines)] = products(piece)
    return result.movedim(-1, 1).contiguous()


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

    Places in a window are columns of the product: as many are multiplied at once as there is room for.
    """
    outputs, inputs = narrow.shape[1] // groups, wide.shape[1] // groups
    windows = WindowsOf(wide, _asked(kernel, stride, dilation, padding, narrow.shape[2:], groups), padding)
    rows, parts = narrow.movedim(1, 0).reshape(groups, outputs, -1), []
    for piece in windows.columns():
        with stream_of(wide):
            products = _product(settings, array_of(rows), windows.written(piece).swapaxes(0, 1))
        parts.append(products.reshape(outputs, groups, -1, inputs))
    every = parts[0] if len(parts) == 1 else torch.cat(parts, 2)
    result = every.permute(1, 0, 3, 2).reshape(groups * outputs, inputs, *kernel).contiguous()
    return settings.note(result, partial(_add_correlated, windows, rows), (wide, narrow))


def _add_correlated(windows: WindowsOf, rows: Tensor, total: ExactSum) -> None:
    """Add the exact products of which `_correlated` returns the rounded sums."""
    groups, outputs, _ = rows.shape
    elements = torch.arange(prod(total.shape), device=rows.device)
    elements = elements.reshape(groups, outputs, -1, windows.places)
    for piece in windows.columns():
        columns = windows.written(piece)
        for group, at in enumerate(elements[..., slice(*piece.places)].mT):
            total.add_matmul_at(array_of(rows[group]), columns[:, group], array_of(at.reshape(-1)))


def _asked(
    kernel: Sizes, stride: Sizes, dilation: Sizes, before: Sizes, lengths: Sizes, groups: int
) -> Windows:
    return Windows(tuple(kernel), tuple(stride), tuple(dilation), tuple(before), tuple(lengths), groups)


def _product(settings: Settings, a: Array, b: Array) -> Tensor:
    """Return the products of two stacks of matrices, one for each group, side by side."""
    request = settings.request(a)
    if len(a) == 1:
        return tensor_of(multiplied_arrays(a[0], b[0], request))
    xp = namespace(a)
    products = tensor_of(multiplied_arrays(xp.ascontiguousarray(a), xp.ascontiguousarray(b), request))
    return products.transpose(0, 1).flatten(1)


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
