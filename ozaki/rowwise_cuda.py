"""Softmax and its logarithms of rows as one kernel: the largest number, the powers and their exact sum.

`rowwise.cu` has the steps; exp(x − m) is the text that every machine evaluates, printed.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from multiword.engines.machine import multiprocessors
from multiword.runtime.arrays import Array, namespace
from multiword.runtime.kernels import expanded, from_text
from ozaki.elementary.api import apply
from ozaki.elementary.cuda import device_function
from ozaki.elementary.tracing import Program
from ozaki.tuning import SEARCHED_IN_PARTS, SHORT_ROW

WARP, MOST_THREADS = 32, 256
"""Threads that have a row of up to LONG_FOR_A_WARP numbers, and a longer one."""

_LONG_FOR_A_WARP, _WARPS, _BLOCKS = 512, 4, 16
"""Warps of a block that have a row each, or whose threads have, and blocks to a multiprocessor at most."""

_MOST_KEPT = 4096
"""Powers of a row that a block keeps: its shared memory has 48 KB, of which 16 are for threads."""

_FEW_SHORT, _LONG_FOR_A_BLOCK = 4096, 1 << 18
"""Rows beyond which a thread has one of fewer than SHORT_ROW numbers; numbers of a row, at most, where rows
are few: one block has all of it."""

_TYPES = {"float32": "float", "float64": "double"}


def takes(kind: str, rows: Array) -> bool:
    """Return whether there is a kernel for such rows: not for few very long ones."""
    (count, n), most = rows.shape, _MOST_KEPT if kind == "softmax" else _LONG_FOR_A_BLOCK
    few, _ = SEARCHED_IN_PARTS
    return (n <= most or (count > few and kind != "softmax")) and rows.dtype.name in _TYPES


def run(kind: str, rows: Array) -> tuple[Array, Array | None]:
    """Return "softmax", "log_softmax" or "logsumexp" of contiguous rows, and which are in doubt, if some are.

    logsumexp is float64, one number a row; the others have the dtype of the rows.
    """
    xp, (count, n) = namespace(rows), rows.shape
    kept, sizes = kind == "softmax", (np.int64(count), np.int64(n))
    out, state = xp.empty_like(rows), xp.zeros(1 + (count + 31) // 32, np.uint32)
    largest, sums = xp.empty((2, count, 1))
    if n < SHORT_ROW and count > _FEW_SHORT:
        threads, teams = 1, WARP * _WARPS
    else:
        threads, teams = (WARP, _WARPS) if n <= _LONG_FOR_A_WARP else (MOST_THREADS, 1)
    kernel = _kernel("rows", rows.dtype.name, threads, kept, xp.cuda.runtime.getDevice())
    arguments = (rows, out, largest, sums, state, *sizes)
    kernel((_blocks(-(-count // teams)),), (threads * teams,), arguments, shared_mem=8 * teams * n * kept)
    if not kept:
        logarithms = apply("log1p", sums)
        if kind == "logsumexp":
            out = xp.where(abs(largest) == np.inf, largest, largest + logarithms)
        else:
            kernel = _kernel("differences", rows.dtype.name, threads, kept, xp.cuda.runtime.getDevice())
            given = (rows, largest, logarithms, out, *sizes)
            kernel((_blocks(-(-rows.size // MOST_THREADS)),), (MOST_THREADS,), given)
    if not int(state[0]):
        return out, None
    return out, xp.flatnonzero(xp.unpackbits(state[1:].view(np.uint8), bitorder="little")[:count])


def _blocks(most: int) -> int:
    return min(most, _BLOCKS * multiprocessors())


@cache
def _kernel(name: str, dtype: str, team: int, softmax: bool, device: int) -> Any:
    return from_text(source(dtype, team, softmax), name, device)


def source(dtype: str, team: int, softmax: bool) -> str:
    """Return the kernels in CUDA for rows of a dtype, each of a team of threads."""
    texts = (
        device_function(Program("exp_minus", False, last), name)
        for name, last in (("quick", False), ("longer", True))
    )
    constants = f"typedef {_TYPES[dtype]} T;\n#define TEAM {team}\n#define SOFTMAX {int(softmax)}\n"
    return "\n".join([*texts, constants, expanded(Path(__file__).with_name("rowwise.cu"))])
