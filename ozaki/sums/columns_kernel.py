"""The CUDA form of `_columns`: exact sums of many terms in one pass.

Two kernels, for two ways in which sums lie in memory. In `exact_sums` the threads of a block share
an output, or up to 32 that lie side by side, and a superaccumulator for each in shared memory. In
`exact_columns` every thread has an output of its own. Either way several blocks may share the terms
of an output; the last of them rounds.
"""

from __future__ import annotations

from pathlib import Path

from multiword.formats import FORMATS
from multiword.runtime.kernels import Kernel
from ozaki.sums.columns_window import THREADS, constants
from ozaki.sums.superaccumulator import Layout

WIDEST = 32
"""The most outputs that the threads of a block of `exact_sums` share."""

COLUMNS_BLOCKS = {False: 3, True: 4}
"""Blocks of `exact_columns` that share a processor. Sums leave registers to read ahead, products do not."""


_OWN_LAYOUTS = {
    "float64": Layout.of(FORMATS["fp64"]),
    "float32": Layout.of(FORMATS["fp32"]),
    "float16": Layout.of(FORMATS["fp16"]),
    "bfloat16": Layout.of(FORMATS["bf16"]),
}


def sums_form(width: int, threads: int, packed: bool) -> dict[str, int]:
    """How `exact_sums` shares outputs among threads, as compile-time constants."""
    alone = width == 1
    widest = 1 if alone else WIDEST
    return {
        "ALIKE": 1,
        "HEADROOM": 0,
        "THREADS": threads,
        "WIDEST": widest,
        "PACKED": int(packed),
    }


def columns_form(tile: bool, product: bool) -> dict[str, int]:
    """How `exact_columns` reads, as compile-time constants."""
    blocks = COLUMNS_BLOCKS[product]
    ahead = int(not tile and not product)
    return {
        "ALIKE": 0,
        "HEADROOM": 4,
        "THREADS": THREADS,
        "TILE": int(tile),
        "AHEAD": ahead,
        "BLOCKS": blocks,
    }


exact_sums = Kernel(
    "exact_sums",
    Path(__file__).with_name("sums.cu"),
    tuple(
        constants(dtype, product, square, _OWN_LAYOUTS[dtype], **sums_form(width, threads, packed))
        for dtype, product, square, width, threads, packed in (
            ("float64", False, False, 1, 256, True),
            ("float64", True, False, 1, 256, True),
            ("float64", True, True, 1, 64, True),
            ("float64", True, False, 2, 256, False),
            ("float32", False, False, 1, 32, True),
            ("float32", True, False, 1, 256, True),
            ("float16", True, True, 1, 256, True),
            ("bfloat16", False, False, 1, 256, False),
        )
    ),
)
"""See the comment above its CUDA source."""

exact_columns = Kernel(
    "exact_columns",
    Path(__file__).with_name("columns.cu"),
    tuple(
        constants(dtype, product, square, _OWN_LAYOUTS[dtype], **columns_form(tile, product))
        for dtype, product, square, tile in (
            ("float64", False, False, False),
            ("float64", True, False, True),
            ("float64", True, True, False),
            ("float32", False, False, True),
            ("float32", True, False, False),
            ("float16", True, True, True),
            ("bfloat16", False, False, False),
        )
    ),
)
"""See the comment above its CUDA source."""
