"""Both factors of a product measured and split by one launch on a GPU, not seven that wait for each other.

A tile holds rows as a whole. So it knows their statistics, norm scales and bounds when it has read them, and
splits the numbers that it has in shared memory.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from multiword.formats import Format
from multiword.runtime.arrays import Array, namespace
from multiword.runtime.graphs import kept_zeros
from multiword.runtime.kernels import Kernel, Struct, members
from multiword.runtime.memory import padded
from multiword.runtime.readback import Readback
from multiword.runtime.tiles import StridedParts, extent, strided_parts
from ozaki.certificate.counting import BOUND_CONSTANTS, MERGED_NUMBERS, NUMBERS, PendingNumbers, enough
from ozaki.residues.split import split_constants
from ozaki.residues.system import ResidueSystem, residue_system
from ozaki.scaling.scales import NormLimit, empty_scales
from ozaki.scaling.statistics import NormScales, Rows, RowStatistics, empty_statistics, rows_of
from ozaki.tuning import MOST_BY_NORMS


class SplitFactor(NamedTuple):
    """The statistics of a factor's rows, their norm scales, and the residues of the integers of these."""

    statistics: RowStatistics
    scales: Array
    words: Array


class Bound(Struct):
    """What bounds take, and where they go, by way of zeros in `maxima`; None where there are to be none."""

    _fields_ = (
        ("length", ctypes.c_longlong),
        ("top", ctypes.c_int),
        ("enough", ctypes.c_double),
        *members(ctypes.c_void_p, "maxima", "bounds"),
    )

    @classmethod
    def sent_by(cls, readback: Readback, length: int, limit: NormLimit, limits: Format) -> Bound:
        """Return what bounds below the norm limit of a format take, for rows of that many numbers."""
        return cls(
            length=length,
            top=limit.bits // 2,
            enough=enough(length, limits),
            maxima=kept_zeros((MERGED_NUMBERS,), np.uint64),
            bounds=int(readback.address),
        )


_NO_BOUND = Bound(length=0, top=0, enough=0, maxima=None, bounds=None)

_ROWS = 8

_TILES = ((256, 8), (256, 16), (512, 16))
"""Threads of a block and numbers to each of them, for rows of up to 256, 512 and 1024 real numbers."""


def _tile(columns: int, parts: int) -> dict[str, int] | None:
    """Return the constants of a tile that rows of so many numbers fill by more than half, if there is one."""
    for threads, run in _TILES:
        if columns <= threads * run // parts // _ROWS < 2 * columns:
            return {"THREADS": threads, "ROWS": _ROWS, "RUN": run // parts, "BLOCKS": 1024 // threads}
    return None


def _constants(
    system: ResidueSystem, width: int, columns: int, parts: int, tile: dict[str, int]
) -> dict[str, Any]:
    """Return the kernel's constants but for the layout of the factors."""
    aligned = columns % tile["RUN"] == 0
    return {**split_constants(system, (True, False), width, parts, aligned), **BOUND_CONSTANTS, **tile}


_SPLIT_BY_NORMS = Kernel(
    "split_by_norms",
    Path(__file__).with_suffix(".cu"),
    tuple(
        {
            **_constants(residue_system("int8", 109.2, columns, parts), 55, columns, parts, tile),
            "REAL": real,
            "ALONG_A": along,
            "ALONG_B": 1 - along,
        }
        for along, columns, real, parts in (
            (0, 256, "double", 1),
            (1, 512, "double", 1),
            (1, 1024, "double", 1),
            (1, 512, "double", 2),
            (0, 128, "float", 2),
        )
        if (tile := _tile(columns, parts))
    ),
    (StridedParts, Rows, NormScales, Bound),
)


def split_by_norms(
    parts: tuple[list[Array], list[Array]],
    limit: NormLimit,
    limits: Format | None,
    system: ResidueSystem,
    padding: int,
    width: int,
) -> tuple[SplitFactor, SplitFactor, PendingNumbers | None] | None:
    """Return both factors, split by the scales that fill a norm limit, and their bounds.

    Parameters
    ----------
    parts : the (r, k) parts of the factors, A's and B's.
    limits : the format whose norm limit that is; None if no bounds are wanted.
    system, padding, width : as `ozaki.residues.split.residues` takes them, A's residues with weights.

    Returns
    -------
    None where words are not integers, where rows do not suit a tile, or where there are so many numbers that
    one launch after the other takes less time.
    """
    columns, count = extent(parts[0])[1], len(parts[0])
    padded_columns, length = padded(columns, padding), columns * count
    tile = _tile(padded_columns, count)
    if tile is None or system.word.floating or sum(extent(x)[0] for x in parts) * length > MOST_BY_NORMS:
        return None
    arguments: list[Any] = []
    split, along, blocks = [], [], 1
    for x in parts:
        xp, rows = namespace(x[0]), extent(x)[0]
        height = padded(rows, padding)
        operand, layout = strided_parts(x)
        statistics = empty_statistics(xp.empty(rows, np.int32), length)
        scales, to = empty_scales(rows, x[0], limit)
        words = xp.empty((system.images, len(system.moduli), height, padded_columns), system.word.dtype)
        arguments += [operand, rows_of(statistics), to, words, np.int32(height)]
        split.append(SplitFactor(statistics, scales, words))
        along.append(layout["ALONG_K"])
        blocks += -(-height // _ROWS)
    readback = None if limits is None else Readback(NUMBERS)
    bound = Bound.sent_by(readback, length, limit, limits) if readback and limits else _NO_BOUND
    constants = _constants(system, width, padded_columns, count, tile)
    constants |= {"REAL": layout["REAL"], "ALONG_A": along[0], "ALONG_B": along[1]}
    shared = 8 * count * _ROWS * (tile["THREADS"] * tile["RUN"] // _ROWS + 2)
    arguments += [np.int32(padded_columns), bound]
    _SPLIT_BY_NORMS((blocks,), (tile["THREADS"],), tuple(arguments), shared=shared, **constants)
    if readback is None:
        return split[0], split[1], None
    readback.send()
    return split[0], split[1], PendingNumbers(readback.look, length)
