"""Running sums of rows on a GPU, each rounded: integers as of `moments`, in one launch.

Numbers that are further apart, or not finite, and a few long rows are left to `ozaki.sums.cumulative`.
"""

from __future__ import annotations

from ctypes import c_int, c_longlong, c_void_p
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from multiword.formats import Format
from multiword.runtime.arrays import Array, import_cupy
from multiword.runtime.graphs import capturing
from multiword.runtime.kernels import Kernel, Struct
from multiword.runtime.readback import Readback
from ozaki.rounding.digits import last_place
from ozaki.sums.arguments import format_of
from ozaki.sums.exact.extraction import SOURCES, constants
from ozaki.sums.exact.fixed_point import DigitRange
from ozaki.sums.exact.moments import MOST
from ozaki.sums.exact.summands import Summands
from ozaki.sums.exact.summands_cuda import in_place

_THREADS = 256
_FORM = {"ALIKE": 0, "HEADROOM": 0, "THREADS": _THREADS, "PARTS": 1}
_LONG, _MANY = 1 << 16, 1 << 6
"""Numbers of a row from which on one block takes long, and rows that keep a GPU busy all the same."""


class Prefixes(Struct):
    """The kernel's parameters; see the comment above the C struct."""

    _fields_ = (
        ("x", c_void_p),
        *((name, c_longlong) for name in ("x_outer", "x_inner", "x_step", "y_outer", "y_inner", "y_step")),
        *((name, c_longlong) for name in ("n", "outputs")),
        *((name, c_void_p) for name in ("undecided", "result")),
        *((name, c_int) for name in ("pair", "precision", "smallest")),
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
)


def prefix_sums(x: Array, target: Format) -> Array | None:
    """Return the running sums of a CuPy array along its first axis; None where they are left to others."""
    n, outputs = len(x), prod(x.shape[1:])
    if (
        x.dtype.name not in SOURCES
        or not x.size
        or n >= MOST
        or (n > _LONG and outputs < _MANY)
        or capturing()
    ):
        return None
    result = import_cupy().empty_like(x, dtype=target.dtype)
    terms, of_result = (in_place(Summands((y,)), 1) for y in (x, result))
    if terms is None or of_result is None or terms.rows[0].pair != of_result.rows[0].pair:
        return None
    rows, undecided = terms.rows[0], Readback(1, np.int32)
    near = (
        abs(rows.step) > abs(rows.outer) and outputs >= 1 << 10
    )  # neighbouring threads take neighbours in memory
    lanes = 1 if near else next(lanes for lanes in (1, 8, 32, 256) if lanes == 256 or n <= 8 * lanes)
    parameters = Prefixes(
        x=x,
        **rows.parameters("x"),
        **of_result.rows[0].parameters("y"),
        n=n,
        outputs=outputs,
        undecided=int(undecided.address),
        result=result,
        pair=int(rows.pair),
        precision=target.precision,
        smallest=last_place(target),
    )
    grid = (-(-outputs // (_THREADS // lanes)),)
    _KERNEL(grid, (_THREADS,), (parameters,), **_constants(terms.dtype, lanes))
    undecided.send()
    return None if undecided.look()[0] else result
