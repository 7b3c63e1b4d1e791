"""Softmax and its logarithms of rows on a GPU.

`steps.cuh` has the steps: the largest number, the powers and their exact sum, the results. `rows.cu`
takes all of them for a row in one kernel; where rows are long and few, `parts.cu` divides them among
blocks, a kernel a step. exp(x − m) and log1p are the texts that every machine evaluates, printed. Of float32
rows that are not very long, `enclosed.cu` encloses the results; `rows.cu` then takes those in doubt.
What texts and sums of some words still leave open, longer integers decide (`exact.cuh`): so nothing
waits for the GPU.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from multiword.engines.machine import multiprocessors
from multiword.runtime.arrays import Array, namespace
from multiword.runtime.graphs import refuse_captures
from multiword.runtime.kernels import block_memory, expanded, from_text, pointers
from multiword.runtime.memory import empty_result
from ozaki.elementary.cuda import device_functions
from ozaki.tuning import SHORT_ROW

WARP, MOST_THREADS = 32, 256
"""Threads that have a row of up to _LONG_FOR_A_WARP numbers, and a longer one."""

_LONG_FOR_A_WARP, _WARPS = 512, 4
"""Numbers of a row that a warp has at most, and warps of a block, which have a row each, or a thread."""

_MOST_BLOCKS = (1 << 31) - 1
"""Blocks at most: with a block for each row the last ones end together, with fewer some have one row more."""

_FOR_FEW = 2
"""Blocks to a multiprocessor where rows are listed: mostly a few are, and blocks take time to start."""

_LISTED = 1 << 16
"""Rows that are listed at most (`LISTED` of `team.cuh`): where more are in doubt, all are computed."""


_FEW_SHORT = 4096
"""Rows beyond which a thread has one of fewer than SHORT_ROW numbers."""

_MOST_KEPT = 4096
"""Numbers of a row that one block has: its shared memory has 48 KB, of which 14 are for threads, and the rest
for powers, which softmax of longer rows computes twice."""

_LONG_SHARE, _STEP = 8, 4
"""Numbers that a thread has of a short row, at most, and the multiples of which it has of a longer one."""

_IN_REGISTERS = {WARP: 1024, 256: 4096, 512: 8192}
"""Numbers of a row that a warp and larger teams have in registers, at most."""

MOST_IN_REGISTERS = max(_IN_REGISTERS.values())

_MOST_ENCLOSED = max(_IN_REGISTERS) * 16 * 23
"""Numbers of a row that is enclosed, at most (`SUMS` and `MOST_OF_A_SUM` of `enclosed.cu`)."""

_PARTS, _LEAST_PART = 4, 1024
"""Parts to a multiprocessor at most, and numbers of one at least, where longer rows are divided."""

_LARGEST, _SUM = 24, 32
"""Bytes of what a part keeps for the next step (`parts.cu` compares them)."""

_SOFTMAX = ("softmax", "safe_softmax")
"""Kinds of which a row's powers are needed once more. The second is 0 of rows of −Inf alone, as PyTorch's."""

TYPES = {np.dtype("float32"): "float", np.dtype("float64"): "double"}
"""The dtypes of rows that there are kernels for."""


def run(kind: str, rows: Array) -> Array:
    """Return "softmax", "safe_softmax", "log_softmax" or "logsumexp" of contiguous rows.

    logsumexp is one number a row; all have the dtype of the rows.
    """
    refuse_captures("functions of rows")  # whose memory another would have when the graph is launched
    count, n = rows.shape
    out = empty_result(rows, (count, 1) if kind == "logsumexp" else rows.shape, rows.dtype)
    parts, size = _division(count, n)
    if rows.dtype == np.float32 and 1 < n <= (MOST_IN_REGISTERS if parts > 1 else _MOST_ENCLOSED):
        listed = namespace(rows).zeros(1 + min(count, _LISTED), np.uint64)
        team, numbers = team_of(n)
        kernel = _kernel("quick_rows", kind, rows.dtype, team, rows.data.device_id, numbers)
        launch_teams(kernel, team, count, (rows, out, listed, np.int64(count), np.int64(n)))
        _at_once(kind, rows, out, listed)
    elif parts > 1 or (kind in _SOFTMAX and n > _MOST_KEPT):
        _in_parts(kind, rows, out, parts, size)
    else:
        _at_once(kind, rows, out, None)
    return out


def team_of(n: int) -> tuple[int, int]:
    """Return how many threads have a row of n numbers, and how many of them each has in registers, or 0."""
    if n > MOST_IN_REGISTERS:
        return max(_IN_REGISTERS), 0
    if n <= _LONG_SHARE * WARP:
        team = 1 << max(0, (n - 1) // _LONG_SHARE).bit_length()
        return team, -(-n // team)
    team = next(team for team, most in _IN_REGISTERS.items() if n <= most)
    return team, -(-n // (team * _STEP)) * _STEP


def launch_teams(kernel: Any, team: int, count: int, arguments: tuple[Any, ...]) -> None:
    """Launch a kernel whose teams of so many threads have a row each."""
    threads = max(team, WARP * _WARPS)
    kernel((min(-(-count * team // threads), _MOST_BLOCKS),), (threads,), arguments)


def _at_once(kind: str, rows: Array, out: Array, listed: Array | None) -> None:
    """Write the results of rows that a team of threads has each: of those listed, or of all."""
    count, n = rows.shape
    if listed is None and n < SHORT_ROW and count > _FEW_SHORT:
        team, teams = 1, WARP * _WARPS
    elif n <= (_LONG_FOR_A_WARP if listed is None else WARP):
        team, teams = WARP, _WARPS
    else:
        team, teams = MOST_THREADS, 1
    kernel = _kernel("rows", kind, rows.dtype, team, rows.data.device_id)
    shared = 8 * teams * n if kind in _SOFTMAX and n <= MOST_IN_REGISTERS else 0
    arguments = (rows, out, *pointers(listed), *map(np.int64, (count, n, shared > 0)))
    most = _MOST_BLOCKS if listed is None else _FOR_FEW * multiprocessors()
    kernel((min(-(-count // teams), most),), (team * teams,), arguments, shared_mem=shared)


def _in_parts(kind: str, rows: Array, out: Array, parts: int, size: int) -> None:
    """Write the results of rows that are divided among blocks."""
    xp, (count, n) = namespace(rows), rows.shape
    largest, sums = (xp.empty(count * parts * bytes_, np.uint8) for bytes_ in (_LARGEST, _SUM))
    sizes = tuple(map(np.int64, (count, n, parts, size)))
    for name, arrays in (
        ("largest_of_parts", (rows, largest)),
        ("sums_of_parts", (rows, largest, sums)),
        ("results_of_parts", (rows, largest, sums, out)),
    ):
        kernel = _kernel(name, kind, rows.dtype, MOST_THREADS, rows.data.device_id)
        kernel((min(count * parts, _MOST_BLOCKS),), (MOST_THREADS,), (*arrays, *sizes))


def _division(count: int, n: int) -> tuple[int, int]:
    """Return how many parts a row has, enough of them to fill a GPU, and the numbers of a part."""
    if n <= _MOST_KEPT:
        return 1, n
    parts = max(1, min(_PARTS * multiprocessors() // count, n // _LEAST_PART))
    size = -(-n // (parts * MOST_THREADS)) * MOST_THREADS
    return -(-n // size), size


@cache
def _kernel(name: str, kind: str, dtype: Any, team: int, device: int, numbers: int = 0) -> Any:
    if name == "quick_rows":
        return from_text(quick_source(kind, team, numbers), name, device)
    file = "rows.cu" if name == "rows" else "parts.cu"
    kernel = from_text(source(file, kind, dtype, team), name, device)
    if name == "rows":
        kernel.max_dynamic_shared_size_bytes = block_memory(device) - kernel.shared_size_bytes
    return kernel


def source(file: str, kind: str, dtype: Any, team: int) -> str:
    """Return the kernels of a file in CUDA, for rows of a dtype and teams of so many threads."""
    texts = {"exp": "exp_minus"} | ({} if kind in _SOFTMAX else {"log": "log1p"})
    constants = f"typedef {TYPES[np.dtype(dtype)]} T;\n#define TEAM {team}\n"
    return device_functions(**texts) + constants + _kind(kind) + expanded(Path(__file__).with_name(file))


def quick_source(kind: str, team: int, numbers: int) -> str:
    """Return the kernel that encloses results, for teams whose threads have so many numbers each."""
    constants = f"#define TEAM {team}\n#define NUMBERS {numbers}\n"
    return constants + _kind(kind) + expanded(Path(__file__).with_name("enclosed.cu"))


def _kind(kind: str) -> str:
    of_nothing = "0.0" if kind == "safe_softmax" else "NOT_A_NUMBER"
    return f"#define KIND {kind.upper().removeprefix('SAFE_')}\n#define OF_NOTHING {of_nothing}\n"
