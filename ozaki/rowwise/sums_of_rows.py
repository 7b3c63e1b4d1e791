"""Sums of float32 rows that have one index, on a GPU: the gradient of an embedding."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

from multiword.engines.machine import multiprocessors
from multiword.runtime.arrays import Array
from multiword.runtime.graphs import refuse_captures
from multiword.runtime.kernels import Struct, expanded, from_text, members
from multiword.runtime.memory import empty_result

_TEAM, _BLOCKS = 256, 64
"""Threads of a block, and blocks to a multiprocessor at most."""


class RowsByIndex(Struct):
    """`sums_of_rows.cu`'s."""

    _fields_ = members(ctypes.c_longlong, "rows", "columns")


def sums_of_rows(values: Array, order: Array, starts: Array) -> Array:
    """Return Σ values[order[p]], p from starts[r] to starts[r + 1], of each r: exact sums, rounded once.

    values : (m, c), contiguous, float32, CuPy. order, starts : (m,) and (rows + 1,), int64.
    """
    refuse_captures("sums")
    shape = RowsByIndex(rows=len(starts) - 1, columns=values.shape[1])
    out = empty_result(values, (shape.rows, shape.columns), values.dtype)
    if out.size:
        grid = (min(shape.rows, _BLOCKS * multiprocessors()),)
        _kernel(values.data.device_id)(grid, (_TEAM,), (values, order, starts, out, shape.value))
    return out


@cache
def _kernel(device: int) -> Any:
    return from_text(source(_TEAM), "sums_of_rows", device)


def source(team: int) -> str:
    """Return the kernel in CUDA, for blocks of so many threads."""
    return f"#define TEAM {team}\n" + expanded(Path(__file__).with_suffix(".cu"))
