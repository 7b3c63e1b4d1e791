"""Lengths of dimensions, and how much of them is copied at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch

Sizes = Sequence[int]

GATHERED = 2**24
"""The most elements that are gathered, or written out as windows, at once, if there need not be more.

A GPU has more at once, one for every 2**10 bytes of its memory: what lies between kernels takes longer there.
"""


def most_at_once(device: torch.device) -> int:
    """Return the most elements that are gathered at once on a device."""
    if device.type == "cpu":
        return GATHERED
    return max(GATHERED, _memory(device) >> 10)


@cache  # to ask takes as long as to launch a kernel
def _memory(device: torch.device) -> int:
    return int(torch.cuda.get_device_properties(device).total_memory)


def each_dimension(sizes: Sizes, dims: int) -> Sizes:
    """Return sizes for each dimension, of which PyTorch takes one for all."""
    return list(sizes) * dims if len(sizes) == 1 else list(sizes)
