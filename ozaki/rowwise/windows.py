"""Windows of arrays written out as rows of a matrix, on a GPU: what convolutions multiply."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from multiword.runtime.arrays import Array
from multiword.runtime.graphs import refuse_captures
from multiword.runtime.kernels import Struct, expanded, from_text, members
from multiword.runtime.memory import empty_result

_TEAM, _ROWS = 256, 32
"""Threads of a block, and its windows."""

_DIMENSIONS = 3
_WORDS = {4: "unsigned", 8: "unsigned long long", 16: "uint4"}
"""What a thread copies at once, by its bytes."""


class WindowShape(Struct):
    """`windows.cu`'s; sizes in words."""

    _fields_ = (
        *members(ctypes.c_longlong * _DIMENSIONS, "size", "kernel", "stride", "dilation", "before"),
        *members(ctypes.c_longlong, "channels", "groups", "sample", "line"),
        ("lengths", ctypes.c_longlong * _DIMENSIONS),
        *members(ctypes.c_longlong, "rows", "place", "places"),
    )


class Windows(NamedTuple):
    """Which windows of (N, …, C) numbers: by dimension, of up to three, and how many groups of channels.

    before : zeros before the first number, or less than none of what is left out.
    lengths : how many windows there are.
    """

    kernel: Sequence[int]
    stride: Sequence[int]
    dilation: Sequence[int]
    before: Sequence[int]
    lengths: Sequence[int]
    groups: int


def written_out(x: Array, windows: Windows, samples: slice, lines: slice, places: slice) -> Array:
    """Return some windows of (N, …, C) contiguous numbers, zeros beyond: (rows, groups, places·C/groups).

    samples, lines, places : from where to where: of N, of the windows along the first dimension, and of the
        numbers of a window, whose last dimension changes first.
    """
    refuse_captures("windows")
    lengths = lines.stop - lines.start, *windows.lengths[1:]
    rows, channels = (samples.stop - samples.start) * prod(lengths), x.shape[-1]
    count = places.stop - places.start
    shape = rows, windows.groups, count * (channels // windows.groups)
    out = empty_result(x, shape, x.dtype)
    word = _word(channels // windows.groups * x.itemsize, x.data.ptr, x.itemsize)
    described = WindowShape(
        size=_three(x.shape[1:-1], 1),
        kernel=_three(windows.kernel, 1),
        stride=_three(windows.stride, 1),
        dilation=_three(windows.dilation, 1),
        before=_three(windows.before, 0),
        channels=channels * x.itemsize // word,
        groups=windows.groups,
        sample=samples.start,
        line=lines.start,
        lengths=_three(lengths, 1),
        rows=rows,
        place=places.start,
        places=count,
    )
    across = -(-count * channels * x.itemsize // (word * _TEAM))
    grid = (-(-rows // _ROWS) * across,)
    _kernel(word, x.data.device_id)(grid, (_TEAM,), (x, out, described.value))
    return out


def _three(sizes: Sequence[int], missing: int) -> tuple[int, ...]:
    """Return sizes of three dimensions; the first ones, where there are none, have no windows but one."""
    return (*sizes[:1], *[missing] * (_DIMENSIONS - len(sizes)), *sizes[1:])


def _word(of_group: int, address: int, itemsize: int) -> int:
    """Return how many bytes are copied at once."""
    largest = max(_WORDS)
    return largest if of_group % largest == address % largest == 0 else itemsize


@cache
def _kernel(word: int, device: int) -> Any:
    return from_text(source(_TEAM, _ROWS, word), "write_windows", device)


def source(team: int, rows: int, word: int) -> str:
    """Return the kernel in CUDA, for blocks of so many threads and windows, and words of so many bytes."""
    constants = {"TEAM": team, "ROWS": rows, "WORD": _WORDS[word]}
    lines = "".join(f"#define {name} {value}\n" for name, value in constants.items())
    return lines + expanded(Path(__file__).with_suffix(".cu"))
