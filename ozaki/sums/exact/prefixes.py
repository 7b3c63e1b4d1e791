"""Running sums of rows on a GPU, each rounded: integers as of `moments`, in one launch; long rows in three.

Numbers that are further apart, or not finite, are left to `ozaki.sums.cumulative`.
"""

from __future__ import annotations

from ctypes import c_int, c_longlong, c_void_p
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from multiword.engines.machine import multiprocessors
from multiword.formats import Format
from multiword.runtime.arrays import Array, import_cupy
from multiword.runtime.graphs import capturing
from multiword.runtime.kernels import Kernel, Struct
from multiword.runtime.readback import Readback
from ozaki.sums.arguments import format_of
from ozaki.sums.exact.extraction import SOURCES, constants
from ozaki.sums.exact.fixed_point import DigitRange
from ozaki.sums.exact.moments import MOST
from ozaki.sums.exact.summands import Summands
from ozaki.sums.exact.summands_cuda import Rows, in_place

_THREADS = 256
_FORM = {"ALIKE": 0, "HEADROOM": 0, "THREADS": _THREADS, "PARTS": 1}
_PART, _WAVES = 1 << 11, 8
"""Numbers that a block takes where several share a row, at least, and blocks to a multiprocessor, then."""
_ALONE, _MEASURE, _TOTALS, _SUMS = range(4)
"""What a launch does; see the comment above the C struct."""


class Prefixes(Struct):
    """The kernel's parameters; see the comment above the C struct."""

    _fields_ = (
        ("x", c_void_p),
        *((name, c_longlong) for name in ("x_outer", "x_inner", "x_step", "y_outer", "y_inner", "y_step")),
        *((name, c_longlong) for name in ("n", "outputs")),
        *((name, c_void_p) for name in ("known", "totals", "undecided", "result")),
        *((name, c_int) for name in ("pair", "precision", "smallest", "parts", "phase")),
    )


def _constants(dtype: str, lanes: int) -> dict[str, Any]:
    return constants(dtype, DigitRange.of(format_of(dtype)), **_FORM, LANES=lanes)


_KERNEL = Kernel(
    "prefix_sums",
    Path(__file__).with_suffix(".cu"),
    tuple(
        _constants(dtype, lanes)
        for dtype, lanes in (
            ("float64", 1),
            ("float64", 256),
            ("float32", 32),
            ("float16", 8),
            ("bfloat16", 1),
        )
    ),
    (Prefixes,),
    equals="ozaki.definition.sums.rounded_sum",
)


def prefix_sums(x: Array, target: Format) -> Array | None:
    """Return the running sums of a CuPy array along its first axis; None where they are left to others."""
    n, outputs = len(x), prod(x.shape[1:])
    if x.dtype.name not in SOURCES or not x.size or n >= MOST or capturing():
        return None
    cupy = import_cupy()
    result = cupy.empty_like(x, dtype=target.dtype)
    terms, of_result = (in_place(Summands((y,)), 1) for y in (x, result))
    if terms is None or of_result is None or terms.rows[0].pair != of_result.rows[0].pair:
        return None
    rows, undecided = terms.rows[0], Readback(1, np.int32)
    lanes, parts = _shape(rows, n, outputs, multiprocessors())
    arguments: dict[str, Any] = dict(
        x=x,
        **rows.parameters("x"),
        **of_result.rows[0].parameters("y"),
        n=n,
        outputs=outputs,
        known=cupy.zeros((4, outputs), np.int32) if parts > 1 else None,
        totals=cupy.empty((outputs * parts, 3), np.uint64) if parts > 1 else None,
        undecided=int(undecided.address),
        result=result,
        pair=int(rows.pair),
        precision=target.precision,
        smallest=target.last_place,
        parts=parts,
    )
    grid = (-(-outputs // (_THREADS // lanes)) * parts,)
    for phase in (_MEASURE, _TOTALS, _SUMS) if parts > 1 else (_ALONE,):
        _KERNEL(grid, (_THREADS,), (Prefixes(phase=phase, **arguments),), **_constants(terms.dtype, lanes))
    undecided.send()
    return None if undecided.look()[0] else result


@lru_cache(1 << 10)
def _shape(rows: Rows, n: int, outputs: int, processors: int) -> tuple[int, int]:
    """Return the threads of an output, and the blocks that share it."""
    if abs(rows.step) > abs(rows.outer) and outputs >= 1 << 10:
        return 1, 1  # neighbouring threads take neighbours in memory
    lanes = next(lanes for lanes in (1, 8, 32, 256) if lanes == 256 or n <= 8 * lanes)
    if lanes < _THREADS:
        return lanes, 1
    return lanes, max(1, min(-(-n // _PART), _WAVES * processors // outputs))
