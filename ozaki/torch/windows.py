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
from multiword.runtime.tensors import array_of, stream_of
from ozaki.rowwise.windows import Windows, written_out
from ozaki.torch.pooling import Sizes, most_at_once


class WindowsOf:
    """The windows of a tensor.

    after : zeros after the last number of each dimension.
    """

    def __init__(self, x: Tensor, windows: Windows, after: Sizes) -> None:
        self.windows, self.samples, self.device = windows, len(x), x.device
        self.places = prod(windows.kernel)
        self._x = _padded(x, windows.before, after) if x.is_cpu else x.movedim(1, -1).contiguous()

    def parts(self) -> Iterator[tuple[slice, slice]]:
        """Yield samples, and lines along the first dimension, whose windows are written out at once."""
        first, *others = self.windows.lengths
        line = max(1, self.places * self._x.shape[-1] * prod(others))
        most = most_at_once(self.device)
        lines = min(first, max(1, most // line))
        at_once = max(1, most // (line * first)) if lines == first else 1
        for n in range(0, self.samples, at_once):
            for i in range(0, first, lines):
                yield slice(n, min(n + at_once, self.samples)), slice(i, min(i + lines, first))

    def rows(self, samples: slice, lines: slice) -> Array:
        """Return these windows, (rows, groups, places·C/groups)."""
        return self._written(samples, lines, slice(0, self.places))

    def columns(self) -> Iterator[tuple[slice, Array]]:
        """Yield places, and the numbers of all windows there, as rows: as many as there is room for."""
        everything = slice(0, self.samples), slice(0, self.windows.lengths[0])
        of_place = max(1, self.samples * prod(self.windows.lengths) * self._x.shape[-1])
        many = max(1, most_at_once(self.device) // of_place)
        for start in range(0, self.places, many):
            places = slice(start, min(start + many, self.places))
            yield places, self._written(*everything, places)

    def _written(self, samples: slice, lines: slice, places: slice) -> Array:
        if not self._x.is_cpu:
            with stream_of(self._x):
                return written_out(array_of(self._x), self.windows, samples, lines, places)
        part = _views(self._x, self.windows)[samples, lines]
        groups, of_group = self.windows.groups, self._x.shape[-1] // self.windows.groups
        count = places.stop - places.start
        if count < self.places:
            chosen = islice(product(*map(range, self.windows.kernel)), places.start, places.stop)
            ends: list[tuple[Any, ...]] = [(..., *place, slice(None)) for place in chosen]
            part = torch.stack([part[end] for end in ends], -2)
        return array_of(contiguous(part).reshape(-1, groups, count * of_group))


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


def contiguous(windows: Tensor) -> Tensor:
    """Return windows, written out; of four channels at a time, if there are so many, which is faster."""
    sizes = windows.shape[-1], windows.storage_offset(), *windows.stride()[:-1]
    four = 16 // windows.itemsize
    if windows.stride(-1) != 1 or any(size % four for size in sizes):
        return windows.contiguous()
    return windows.view(torch.complex128).contiguous().view(windows.dtype)
