"""Products of which no bound proves anything, for a row and a column have no nonzero number in common.

|A||B| of that pair is 0, and T is not: integers must lose nothing. The pair's N + M <= k nonzero numbers
leave nothing of the counting bound, equilibrated or not, nor of the pairwise one, so that no question has to
be asked: as of transforms whose last row is 0, 0, 0, 1.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from multiword.runtime.arrays import Array, namespace
from multiword.runtime.kernels import Kernel
from multiword.runtime.readback import Readback
from multiword.runtime.tiles import StridedParts, extent, strided_parts
from ozaki.scaling.exact import LAST_PLACE_CONSTANTS

_THREADS = 256
"""Threads of a block, at most."""

_MOST_MASKS, _MOST_MASKS_ALONE = 1 << 13, 1 << 9
"""Words of 32 numbers of a product, for which a block has room; and which one block is soon done with."""


def proves_nothing(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return of which of a stack of products no bound proves anything: integers of these lose nothing.

    They are those of (s, m, k) real rows and (s, n, k) columns of which a row and a column, neither zero,
    have no nonzero number in common.

    >>> proves_nothing(np.eye(2)[None], np.eye(2)[None]), proves_nothing(np.ones((1, 2, 2)), np.eye(2)[None])
    (array([ True]), array([False]))
    """
    left, right = rows != 0, columns != 0
    common = left.astype(np.float32) @ right.astype(np.float32).swapaxes(-1, -2)
    apart = (common == 0) & left.any(axis=-1)[..., :, None] & right.any(axis=-1)[..., None, :]
    return apart.any(axis=(-2, -1))


_LOSE_NOTHING = Kernel(
    "lose_nothing",
    Path(__file__).with_suffix(".cu"),
    tuple(
        {**LAST_PLACE_CONSTANTS, "THREADS": _THREADS, "REAL": real, "PARTS": parts}
        for real in ("float", "double")
        for parts in (1, 2)
    ),
    (StridedParts,),
)


def decides_soon(parts: tuple[list[Array], list[Array]], stack: int) -> bool:
    """Return whether a block of a GPU has room for a product of a stack; for one alone, whether that is soon
    done."""
    return _masks(parts, stack) <= (_MOST_MASKS if stack > 1 else _MOST_MASKS_ALONE)


def _masks(parts: tuple[list[Array], list[Array]], stack: int) -> int:
    (rows, columns), (others, _) = map(extent, parts)
    return len(parts[0]) * ((rows + others) // stack) * -(-columns // 32)


def scales_that_lose_nothing(
    parts: tuple[list[Array], list[Array]], scales: tuple[Array, Array], stack: int, norm: int
) -> tuple[tuple[Array, Array], Readback]:
    """Return scales by which the integers of such products, of a stack, lose nothing, and which these are.

    Those whose integers then have norms of up to 2**(norm/2) are marked by 1, on its way from the device;
    the others, and those with an Inf or NaN, keep their scales.
    """
    (rows, columns), (others, _) = map(extent, parts)
    (a, layout), (b, _) = map(strided_parts, parts)
    masks, length, readback = _masks(parts, stack), columns * len(parts[0]), Readback(stack, np.int32)
    new = namespace(scales[0]).empty_like(scales[0]), namespace(scales[1]).empty_like(scales[1])
    sizes, threads = (np.int32(rows // stack), np.int32(others // stack)), 64 if masks < 32 else _THREADS
    room = np.int32(norm - (length - 1).bit_length())  # twice the bits that a number may have
    constants = {"REAL": layout["REAL"], "PARTS": len(parts[0])}
    _LOSE_NOTHING(
        (stack,),
        (threads,),
        (a, b, *scales, *new, *sizes, room, readback.address),
        shared=4 * masks,
        **LAST_PLACE_CONSTANTS,
        THREADS=_THREADS,
        **constants,
    )
    readback.send()
    return new, readback
