"""Tiles of an operand, which its CUDA kernels read: how they lie, and what a thread reads of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from multiword.runtime.arrays import Array

THREADS, WARPS = 256, 8


def operand_layout(x: Array) -> tuple[tuple[int, int], dict[str, Any]]:
    """Strides of an (r, k) operand in elements, and the constants that its kernels are built with.

    UNIT: whether the numbers of its contiguous axis lie side by side.
    """
    strides = (x.strides[0] // x.itemsize, x.strides[1] // x.itemsize)
    along = abs(strides[1]) <= abs(strides[0]) or x.shape[0] == 1
    return strides, {
        "ALONG_K": int(along),
        "UNIT": int(strides[along] == 1),
        "REAL": "float" if x.dtype == np.float32 else "double",
    }


def tile_instances(constants: dict[str, Any], run: int) -> tuple[dict[str, Any], ...]:
    """The instances of a kernel for every layout, type and number of parts.

    `run` numbers fall to a thread, of all parts together.
    """
    return tuple(
        {**constants, "ALONG_K": along, "UNIT": 2 - parts, "REAL": t, "PARTS": parts, "RUN": run // parts}
        for along in (0, 1)
        for t in ("float", "double")
        for parts in (1, 2)
    )


def tile_count(constants: dict[str, Any], rows: int, columns: int) -> int:
    """How many tiles cover an operand."""
    height = WARPS if constants["ALONG_K"] else constants["LANES"]
    return -(-rows // height) * -(-columns // (THREADS * constants["RUN"] // height))
