"""Both factors of a product measured and split by one launch on a GPU, not seven that wait for each other.

A tile holds rows as a whole. So it knows their statistics, norm scales and bounds when it has read them, and
splits the numbers that it has in shared memory; and truncates them, if there is to be a pairwise bound.
"""

from __future__ import annotations

import ctypes
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from multiword.engines.moduli import ResidueSystem, residue_system
from multiword.formats import Format
from multiword.runtime.arrays import Array, namespace
from multiword.runtime.graphs import kept_zeros
from multiword.runtime.kernels import Kernel, Struct, members
from multiword.runtime.memory import padded
from multiword.runtime.readback import Readback
from multiword.runtime.tiles import StridedParts, extent, strided_parts
from ozaki.certificate.counting import (
    BOUND_CONSTANTS,
    MERGED_NUMBERS,
    NUMBERS,
    PendingBounds,
    PendingNumbers,
    RowBounds,
    empty_rows,
    enough,
)
from ozaki.definition.scales import NormLimit
from ozaki.residues.split import split_constants
from ozaki.rounding.truncation import TRUNCATION_CONSTANTS, empty_magnitudes
from ozaki.scaling.scales import empty_scales
from ozaki.scaling.statistics import NormScales, Rows, RowStatistics, empty_statistics, rows_of
from ozaki.tuning import MOST_BY_NORMS


class Truncated(NamedTuple):
    """What a pairwise bound takes of a factor.

    Attributes
    ----------
    scales : by which it is split, wider than norm scales by some bits.
    rows : the bounds of its rows.
    magnitudes : as `Magnitudes.split` returns them.
    """

    scales: Array
    rows: RowBounds
    magnitudes: Array


class SplitFactor(NamedTuple):
    """The statistics of a factor's rows, their norm scales, and its residues.

    These are of the integers of the norm scales or, where a pairwise bound is wanted, of wider ones.
    """

    statistics: RowStatistics
    scales: Array
    words: Array
    truncated: Truncated | None


class Bound(Struct):
    """What bounds take, and where they go, by way of zeros in `maxima`; None where there are to be none."""

    _fields_ = (
        ("length", ctypes.c_longlong),
        *members(ctypes.c_int, "top", "root"),
        ("enough", ctypes.c_double),
        *members(ctypes.c_void_p, "maxima", "bounds"),
    )

    @classmethod
    def sent_by(cls, readback: Readback, length: int, limit: NormLimit, limits: Format) -> Bound:
        """Return what bounds below the norm limit of a format take, for rows of that many numbers."""
        return cls(
            length=length,
            top=limit.bits // 2,
            root=math.isqrt(length),
            enough=enough(length, limits),
            maxima=kept_zeros((MERGED_NUMBERS,), np.uint64),
            bounds=int(readback.address),
        )


_NO_BOUND = Bound(length=0, top=0, root=0, enough=0, maxima=None, bounds=None)


_POINTERS = "scale", "total", "truncation_scale", "scale_offset", "magnitudes"


class Paired(Struct):
    """What a pairwise bound takes of a factor, which is split by scales wider by some bits."""

    _fields_ = (
        *members(ctypes.c_void_p, *_POINTERS),
        *members(ctypes.c_int, "row_length", "wider"),
    )


_NOT_PAIRED = Paired(**dict.fromkeys(_POINTERS), row_length=0, wider=0)

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
    system: ResidueSystem, width: int, columns: int, parts: int, tile: dict[str, int], paired: bool
) -> dict[str, Any]:
    """Return the kernel's constants but for the layout of the factors."""
    of_split = split_constants(system, (True, False), width, parts, columns % tile["RUN"] == 0)
    return {**of_split, **BOUND_CONSTANTS, **TRUNCATION_CONSTANTS, **tile, "PAIRS": int(paired)}


_SPLIT_BY_NORMS = Kernel(
    "split_by_norms",
    Path(__file__).with_suffix(".cu"),
    tuple(
        {
            **_constants(residue_system("int8", 109.2, columns, parts), 55, columns, parts, tile, paired),
            "REAL": real,
            "ALONG_A": along,
            "ALONG_B": 1 - along,
        }
        for along, columns, real, parts, paired in (
            (0, 256, "double", 1, False),
            (1, 512, "double", 1, True),
            (1, 1024, "double", 1, True),
            (1, 512, "double", 2, False),
            (0, 128, "float", 2, True),
            (1, 512, "BFloat16", 1, False),
        )
        if (tile := _tile(columns, parts))
    ),
    (StridedParts, Rows, NormScales, Paired, Bound),
    equals="ozaki.definition.remainders.symmetric_residue",
)


def split_by_norms(
    parts: tuple[list[Array], list[Array]],
    limit: NormLimit,
    limits: Format | None,
    system: ResidueSystem,
    padding: int,
    width: int,
    wider: int | None = None,
) -> tuple[SplitFactor, SplitFactor, PendingNumbers | None] | None:
    """Return both factors, split by the scales that fill a norm limit, and their bounds.

    Parameters
    ----------
    parts : the (r, k) parts of the factors, A's and B's.
    limits : the format whose norm limit that is; None if no bounds are wanted.
    system, padding, width : as `ozaki.residues.split.residues` takes them, A's residues with weights.
    wider : bits by which integers are wider than that, where a pairwise bound is wanted, too; None where not.

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
    split: list[SplitFactor] = []
    along, blocks = [], 0
    for x in parts:
        xp, rows = namespace(x[0]), extent(x)[0]
        height = padded(rows, padding)
        operand, layout = strided_parts(x)
        statistics = empty_statistics(xp.empty(rows, np.int32), length)
        scales, to = empty_scales(rows, x[0], limit)
        words = xp.empty((system.images, len(system.moduli), height, padded_columns), system.word.dtype)
        paired, truncated = _NOT_PAIRED, None
        if wider is not None:
            paired, truncated = _paired(x[0], rows, words.shape[2:], count, len(split), wider)
        arguments += [operand, rows_of(statistics), to, words, np.int32(height), paired]
        split.append(SplitFactor(statistics, scales, words, truncated))
        along.append(layout["ALONG_K"])
        blocks += -(-height // _ROWS)
    readback = None if limits is None else Readback(NUMBERS)
    bound = Bound.sent_by(readback, length, limit, limits) if readback and limits else _NO_BOUND
    constants = _constants(system, width, padded_columns, count, tile, wider is not None)
    constants |= {"REAL": layout["REAL"], "ALONG_A": along[0], "ALONG_B": along[1]}
    shared = 8 * count * _ROWS * (tile["THREADS"] * tile["RUN"] // _ROWS + 2)
    arguments += [np.int32(padded_columns), bound]
    _SPLIT_BY_NORMS((blocks,), (tile["THREADS"],), tuple(arguments), shared=shared, **constants)
    if readback is None:
        return split[0], split[1], None
    readback.send()
    of_a, of_b = (x.truncated for x in split)
    if of_a is None or of_b is None:
        return split[0], split[1], PendingNumbers(readback.look, length)
    return split[0], split[1], PendingBounds(readback.look, length, (of_a.rows, of_b.rows))


def _paired(
    like: Array, rows: int, size: tuple[int, int], parts: int, side: int, wider: int
) -> tuple[Paired, Truncated]:
    """Return what a pairwise bound takes of a factor: as the kernel is told, and as it is used."""
    xp = namespace(like)
    scales, bounds = xp.empty(rows, np.int32), empty_rows(rows, xp)
    magnitudes = empty_magnitudes(like, *size, parts, side)
    to = {**vars(bounds), "magnitudes": magnitudes, "row_length": magnitudes.shape[-1]}
    paired = Paired(scale=scales, **to, wider=wider)
    return paired, Truncated(scales, bounds, magnitudes)
