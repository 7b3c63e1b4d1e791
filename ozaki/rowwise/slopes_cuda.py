"""The derivative of softmax of float32 rows on a GPU, in one kernel."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, is_cupy
from multiword.runtime.graphs import refuse_captures
from multiword.runtime.kernels import expanded, from_text
from multiword.runtime.memory import empty_result
from ozaki.rowwise.cuda import MOST_IN_REGISTERS, launch_teams, team_of


def softmax_slope(y: Array, g: Array) -> Array | None:
    """Return y·(g − Σ g·y) of rows, the exact sum and both operations rounded to float32.

    None for arrays that are not CuPy's, contiguous and of float32, and for rows that are too long for
    registers.
    """
    if not is_cupy(y) or not y.size or y.shape[1] > MOST_IN_REGISTERS:
        return None
    if any(a.dtype != np.float32 or not a.flags.c_contiguous for a in (y, g)):
        return None
    refuse_captures("functions of rows")
    (count, n), out = y.shape, empty_result(y, y.shape, y.dtype)
    team, numbers = team_of(n)
    kernel = _kernel(team, numbers, y.data.device_id)
    launch_teams(kernel, team, count, (y, g, out, np.int64(count), np.int64(n)))
    return out


@cache
def _kernel(team: int, numbers: int, device: int) -> Any:
    return from_text(source(team, numbers), "softmax_slopes", device)


def source(team: int, numbers: int) -> str:
    """Return the kernel in CUDA, for teams whose threads have so many numbers each."""
    lines = f"#define TEAM {team}\n#define NUMBERS {numbers}\n"
    return lines + expanded(Path(__file__).with_name("slopes.cu"))
