"""Windows of arrays written out as rows of a matrix, on a GPU: what convolutions multiply."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache, lru_cache
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from multiword.runtime.arrays import Array
from multiword.runtime.graphs import refuse_captures
from multiword.runtime.kernels import Struct, expanded, from_text, members
from multiword.runtime.memory import empty_result

_TEAM, _ROWS = 256, 32
"""Threads of a block, and its windows."""

_KINDS = 1 << 10
"""Of windows whose descriptions are kept, some 400 bytes each."""

_NARROW = 1 << 30
"""Places along a dimension, counted from any zero around it, that 32 bits have room for."""

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

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    lengths: tuple[int, ...]
    groups: int


class Piece(NamedTuple):
    """From where to where: of N, of the windows along the first dimension, and of the numbers of a window.

    These are counted in C order.
    """

    samples: tuple[int, int]
    lines: tuple[int, int]
    places: tuple[int, int]


def written_out(x: Array, windows: Windows, piece: Piece) -> Array:
    """Return some windows of (N, …, C) contiguous numbers, zeros beyond: (rows, groups, places·C/groups)."""
    refuse_captures("windows")
    word = _word(x.shape[-1] // windows.groups * x.itemsize, x.data.ptr, x.itemsize)
    blocks, wide, shape, described = _described(x.shape, windows, piece, word // x.itemsize)
    out = empty_result(x, shape, x.dtype)
    _kernel(word, wide, x.data.device_id)((blocks,), (_TEAM,), (x, out, described.value))
    return out


@lru_cache(_KINDS)
def _described(
    size: tuple[int, ...], windows: Windows, piece: Piece, of_word: int
) -> tuple[int, bool, tuple[int, ...], WindowShape]:
    """Return how many blocks there are, whether places take 64 bits, the result's shape, and what is asked.

    of_word : numbers of a word.
    """
    (sample, last), (line, end), (place, stop) = piece
    lengths = end - line, *windows.lengths[1:]
    rows, channels = (last - sample) * prod(lengths), size[-1]
    described = WindowShape(
        size=_three(size[1:-1], 1),
        kernel=_three(windows.kernel, 1),
        stride=_three(windows.stride, 1),
        dilation=_three(windows.dilation, 1),
        before=_three(windows.before, 0),
        channels=channels // of_word,
        groups=windows.groups,
        sample=sample,
        line=line,
        lengths=_three(lengths, 1),
        rows=rows,
        place=place,
        places=stop - place,
    )
    across = -(-(stop - place) * channels // (of_word * _TEAM))
    shape = rows, windows.groups, (stop - place) * (channels // windows.groups)
    spans = zip(size[1:-1], *windows[:5], strict=True)
    wide = any(n + k * d + s * length + abs(b) >= _NARROW for n, k, s, d, b, length in spans)
    return -(-rows // _ROWS) * across, wide, shape, described


def _three(sizes: Sequence[int], missing: int) -> tuple[int, ...]:
    """Return sizes of three dimensions; the first ones, where there are none, have no windows but one."""
    return (*sizes[:1], *[missing] * (_DIMENSIONS - len(sizes)), *sizes[1:])


def _word(of_group: int, address: int, itemsize: int) -> int:
    """Return how many bytes are copied at once."""
    largest = max(_WORDS)
    return largest if of_group % largest == address % largest == 0 else itemsize


@cache
def _kernel(word: int, wide: bool, device: int) -> Any:
    return from_text(source(_TEAM, _ROWS, word, wide), "write_windows", device)


def source(team: int, rows: int, word: int, wide: bool) -> str:
    """Return the kernel in CUDA, for blocks of so many threads and windows, and words of so many bytes.

    wide : whether a dimension may be so long that it takes 64 bits to count along it.
    """
    constants = {"TEAM": team, "ROWS": rows, "WORD": _WORDS[word], "PLACE": "long long" if wide else "int"}
    lines = "".join(f"#define {name} {value}\n" for name, value in constants.items())
    return lines + expanded(Path(__file__).with_suffix(".cu"))
