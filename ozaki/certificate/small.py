"""Norm scales and bounds of small factors on a GPU: one launch, not three that wait for each other.

The same launch may decide what products take whose counting bound is not enough, as `decide` does: what it
asks of such a product is in a block's shared memory. Graded ones, those with an Inf or NaN, and those that
take many more bits it leaves to the host.
"""

from __future__ import annotations

import ctypes
import math
from pathlib import Path
from typing import Any

import numpy as np

from multiword.formats import Format
from multiword.runtime.arrays import Array, namespace
from multiword.runtime.graphs import kept_zeros
from multiword.runtime.kernels import Kernel, Struct, members
from multiword.runtime.readback import Readback
from multiword.runtime.tiles import StridedParts, extent, strided_parts
from ozaki.certificate.counting import (
    BOUND_CONSTANTS,
    MERGED_NUMBERS,
    NUMBERS,
    PendingNumbers,
    counting_tolerance,
    enough,
)
from ozaki.certificate.pairwise import tolerance
from ozaki.definition.decision import WIDENED_BY_COUNTING
from ozaki.rounding.truncation import TRUNCATION_CONSTANTS
from ozaki.scaling.equilibration import most_graded
from ozaki.scaling.exact import LAST_PLACE_CONSTANTS
from ozaki.scaling.scales import empty_scales, norm_limit
from ozaki.scaling.statistics import NormScales
from ozaki.tuning import SMALL_FACTORS

_WARPS = 8

_MOST_BYTES, _MOST_BYTES_ALONE = 1 << 16, 3 << 13
"""Shared memory of a block that decides of a product; and of one alone, which it is soon done with."""

_WIDENINGS = 16


class Tolerances(Struct):
    """What a decision is made by: see `small.cu`."""

    _fields_ = (
        *members(ctypes.c_double, "counting", "pairs", "unit_roundoff"),
        *members(ctypes.c_int, "graded", "room", "count"),
        ("widenings", ctypes.c_int * _WIDENINGS),
    )

    @classmethod
    def of(cls, length: int, limits: Format, spare: int) -> Tolerances:
        """Return those of rows of that many numbers, whose integers may be wider by so many bits."""
        limit = norm_limit(limits, length)
        widenings = [bits for bits in limit.widenings if bits <= spare]
        return cls(
            counting=counting_tolerance(length, limits),
            pairs=float(tolerance(np.float64(length))),
            unit_roundoff=limits.unit_roundoff,
            graded=most_graded(length, limit),
            room=limit.bits + 2 * spare - (length - 1).bit_length(),
            count=len(widenings),
            widenings=(ctypes.c_int * _WIDENINGS)(*widenings),
        )


def _constants(real: str, parts: int, decides: bool) -> dict[str, Any]:
    return {
        **BOUND_CONSTANTS,
        **TRUNCATION_CONSTANTS,
        **LAST_PLACE_CONSTANTS,
        "WIDENED_BY_COUNTING": WIDENED_BY_COUNTING,
        "WARPS": _WARPS,
        "REAL": real,
        "PARTS": parts,
        "DECIDES": int(decides),
    }


_SCALES_AND_BOUNDS = Kernel(
    "scales_and_bounds",
    Path(__file__).with_suffix(".cu"),
    tuple(
        _constants(real, parts, decides)
        for real in ("float", "double")
        for parts in (1, 2)
        for decides in (False, True)
    ),
    (StridedParts, NormScales, Tolerances),
    equals="ozaki.definition.decision.widening",
)


def are_small(parts: tuple[list[Array], list[Array]], stack: int) -> bool:
    """Return whether that takes less time: for single products, and stacks of very small ones.

    In a stack a block has a product, and its warps are to have few rows each.
    """
    (rows, columns), (others, _) = map(extent, parts)
    numbers = (rows + others) * columns * len(parts[0])
    return numbers <= SMALL_FACTORS and (stack == 1 or rows + others <= 4 * _WARPS * stack)


def may_be_decided(parts: tuple[list[Array], list[Array]], stack: int) -> bool:
    """Return whether blocks have room for what decisions ask of such products."""
    return _bytes(parts, stack) <= (_MOST_BYTES if stack > 1 else _MOST_BYTES_ALONE)


def _bytes(parts: tuple[list[Array], list[Array]], stack: int) -> int:
    """Return the shared memory of a block that decides."""
    (rows, columns), (others, _) = map(extent, parts)
    return (rows + others) // stack * (28 + 4 * len(parts[0]) * -(-columns // 4)) + 8 * columns


def scales_and_bounds(
    parts: tuple[list[Array], list[Array]], limits: Format, stack: int, spare: int | None = None
) -> tuple[tuple[Array, Array], PendingNumbers]:
    """Return the norm scales of both factors, and their bounds, on their way from the device.

    As `ozaki.scaling.scales.norm_scales` and `ozaki.certificate.counting.compute_bounds`; the bounds of rows
    are not kept. With `spare` bits, products that take no more than these, or whose integers lose nothing
    with them, have the scales that they take, and are `DECIDED`.
    """
    (rows, columns), (others, _) = map(extent, parts)
    length, decides = columns * len(parts[0]), spare is not None
    limit, readback = norm_limit(limits, length), Readback(stack * NUMBERS)
    (of_a, to_a), (of_b, to_b) = (empty_scales(r, parts[0][0], limit) for r in (rows, others))
    (a, layout), (b, _) = map(strided_parts, parts)
    m, n = rows // stack, others // stack
    blocks = 1 if stack > 1 or decides else -(-(m + n) // _WARPS)
    shared = (kept_zeros if blocks > 1 else namespace(of_a).empty)((stack, MERGED_NUMBERS), np.uint64)
    tolerances = Tolerances.of(length, limits, spare or 0)
    sizes = np.int32(m), np.int32(n), np.int32(limit.bits // 2), np.int32(math.isqrt(length))
    arguments = a, b, to_a, to_b, *sizes, np.float64(enough(length, limits)), tolerances
    constants = _constants(layout["REAL"], len(parts[0]), decides)
    _SCALES_AND_BOUNDS(
        (blocks, stack),
        (32 * _WARPS,),
        (*arguments, shared, readback.address),
        shared=_bytes(parts, stack) if decides else 0,
        **constants,
    )
    readback.send()
    return (of_a, of_b), PendingNumbers(readback.look, length)
