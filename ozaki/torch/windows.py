"""Windows of (N, C, …) tensors, with zeros around them, as rows of a matrix: what convolutions multiply.

Channels are last, so that a row of a window is one piece of memory. A GPU writes windows out by a kernel; a
CPU copies views of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product
from math import prod
from typing import Any

import torch
from torch import Tensor

from multiword.runtime.arrays import Array
from multiword.runtime.tensors import array_of
from ozaki.rowwise.windows import Piece, Windows, written_out
from ozaki.torch.sizes import Sizes, most_at_once


class WindowsOf:
    """The windows of a tensor.

    after : zeros after the last number of each dimension.
    """

    def __init__(self, x: Tensor, windows: Windows, after: Sizes) -> None:
        self.windows, self.samples, self.device = windows, len(x), x.device
        self.places = prod(windows.kernel)
        self._x = _padded(x, windows.before, after) if x.is_cpu else x.movedim(1, -1).contiguous()

    def rows(self) -> Iterator[Piece]:
        """Yield pieces that are written out at once: of samples, or of the lines of one, all places."""
        first, *others = self.windows.lengths
        line = max(1, self.places * self._x.shape[-1] * prod(others))
        most = most_at_once(self.device)
        lines = min(first, max(1, most // line))
        at_once = max(1, most // (line * first)) if lines == first else 1
        for n in range(0, self.samples, at_once):
            samples = n, min(n + at_once, self.samples)
            for i in range(0, first, lines):
                yield Piece(samples, (i, min(i + lines, first)), (0, self.places))

    def columns(self) -> Iterator[Piece]:
        """Yield pieces that are written out at once: of places, of all windows."""
        every, lengths = self.samples, self.windows.lengths
        of_place = max(1, every * prod(lengths) * self._x.shape[-1])
        many = max(1, most_at_once(self.device) // of_place)
        for i in range(0, self.places, many):
            yield Piece((0, every), (0, lengths[0]), (i, min(i + many, self.places)))

    def written(self, piece: Piece) -> Array:
        """Return a piece, (rows, groups, places·C/groups); within `stream_of` the tensor."""
        if not self._x.is_cpu:
            return written_out(array_of(self._x), self.windows, piece)
        views = _views(self._x, self.windows)[slice(*piece.samples), slice(*piece.lines)]
        groups, (start, stop) = self.windows.groups, piece.places
        if stop - start < self.places:
            chosen = islice(product(*map(range, self.windows.kernel)), start, stop)
            ends: list[tuple[Any, ...]] = [(..., *place, slice(None)) for place in chosen]
            views = torch.stack([views[end] for end in ends], -2)
        return array_of(_copied(views).reshape(-1, groups, (stop - start) * views.shape[-1]))


def _padded(x: Tensor, before: Sizes, after: Sizes) -> Tensor:
    """Return x as (N, …, C) with zeros around it, or with less than it has, where they are less than none."""
    if not any((*before, *after)):
        return x.movedim(1, -1).contiguous()
    ends = [n for pair in reversed(list(zip(before, after, strict=True))) for n in pair]
    if min(ends) < 0:
        return torch.constant_pad_nd(x, ends).movedim(1, -1).contiguous()
    sizes = [b + n + a for b, n, a in zip(before, x.shape[2:], after, strict=True)]
    padded = x.new_zeros((len(x), *sizes, x.shape[1]))  # and one copy, not two
    inside = tuple([slice(b, b + n) for b, n in zip(before, x.shape[2:], strict=True)])
    padded[(slice(None), *inside)] = x.movedim(1, -1)
    return padded


def _views(x: Tensor, windows: Windows) -> Tensor:
    """Return a view of (N, …, C) with shape (N, L…, groups, K…, C/groups)."""
    first, *steps, channel = x.stride()
    inputs = x.shape[-1] // windows.groups
    along = [step * s for step, s in zip(steps, windows.stride, strict=True)]
    within = [step * d for step, d in zip(steps, windows.dilation, strict=True)]
    shape = (x.shape[0], *windows.lengths, windows.groups, *windows.kernel, inputs)
    return x.as_strided(shape, (first, *along, inputs * channel, *within, channel))


def _copied(windows: Tensor) -> Tensor:
    """Return windows, written out; of four channels at a time, if there are so many, which is faster."""
    sizes = windows.shape[-1], windows.storage_offset(), *windows.stride()[:-1]
    four = 16 // windows.itemsize
    if windows.stride(-1) != 1 or any(size % four for size in sizes):
        return windows.contiguous()
    return windows.view(torch.complex128).contiguous().view(windows.dtype)
