"""Norm scales and bounds of small factors on a GPU: one launch, not three that wait for each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from multiword.formats import Format
from multiword.runtime.arrays import Array, namespace
from multiword.runtime.graphs import kept_zeros
from multiword.runtime.kernels import Kernel
from multiword.runtime.readback import Readback
from multiword.runtime.tiles import StridedParts, extent, strided_parts
from ozaki.certificate.counting import BOUND_CONSTANTS, MERGED_NUMBERS, NUMBERS, PendingNumbers, enough
from ozaki.scaling.scales import empty_scales, norm_limit
from ozaki.scaling.statistics import NormScales
from ozaki.tuning import SMALL_FACTORS

_WARPS = 8

_SCALES_AND_BOUNDS = Kernel(
    "scales_and_bounds",
    Path(__file__).with_suffix(".cu"),
    tuple(
        {**BOUND_CONSTANTS, "WARPS": _WARPS, "REAL": real, "PARTS": parts}
        for real in ("float", "double")
        for parts in (1, 2)
    ),
    (StridedParts, NormScales),
)


def are_small(parts: tuple[list[Array], list[Array]], stack: int) -> bool:
    """Return whether that takes less time: for single products, and stacks of very small ones.

    In a stack a block has a product, and its warps are to have few rows each.
    """
    (rows, columns), (others, _) = map(extent, (parts[0], parts[1]))
    numbers = (rows + others) * columns * len(parts[0])
    return numbers <= SMALL_FACTORS and (stack == 1 or rows + others <= 4 * _WARPS * stack)


def scales_and_bounds(
    parts: tuple[list[Array], list[Array]], limits: Format, stack: int
) -> tuple[tuple[Array, Array], PendingNumbers]:
    """Return the norm scales of both factors, and their bounds, on their way from the device.

    As `ozaki.scaling.scales.norm_scales` and `ozaki.certificate.counting.compute_bounds`; the bounds of rows
    are not kept.
    """
    (rows, columns), (others, _) = map(extent, (parts[0], parts[1]))
    length = columns * len(parts[0])
    limit, readback = norm_limit(limits, length), Readback(stack * NUMBERS)
    (of_a, to_a), (of_b, to_b) = (empty_scales(r, parts[0][0], limit) for r in (rows, others))
    (a, layout), (b, _) = map(strided_parts, parts)
    m, n = rows // stack, others // stack
    blocks = 1 if stack > 1 else -(-(m + n) // _WARPS)
    sizes: tuple[Any, ...] = np.int32(m), np.int32(n), np.int32(limit.bits // 2)
    shared = (kept_zeros if blocks > 1 else namespace(of_a).empty)((stack, MERGED_NUMBERS), np.uint64)
    arguments = a, b, to_a, to_b, *sizes, np.float64(enough(length, limits)), shared, readback.address
    constants = {**BOUND_CONSTANTS, "WARPS": _WARPS, "REAL": layout["REAL"], "PARTS": len(parts[0])}
    _SCALES_AND_BOUNDS((blocks, stack), (32 * _WARPS,), arguments, **constants)
    readback.send()
    return (of_a, of_b), PendingNumbers(readback.look, length)
