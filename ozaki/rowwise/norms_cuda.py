"""Norms of layers of float32 rows on a GPU: one kernel, by the operations of the definition."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, namespace
from multiword.runtime.graphs import refuse_captures
from multiword.runtime.kernels import expanded, from_text, pointers
from multiword.runtime.memory import empty_result
from ozaki.elementary.cuda import device_functions
from ozaki.rowwise.cuda import MOST_IN_REGISTERS, launch_teams, team_of


def run(
    kind: str,
    rows: Array,
    eps: float,
    weight: Array | None = None,
    bias: Array | None = None,
    moments: tuple[Array, Array] | None = None,
) -> Array | None:
    """Return "layer_norm", "rms_norm" or "inverse_deviation" of rows.

    None for rows that are not float32, or too long for a team's registers. weight and bias are contiguous,
    and as long as a row; inverse_deviation is one number a row. moments are filled: of each row the mean,
    correctly rounded, and by what layer_norm multiplies, rounded.
    """
    (count, n), xp = rows.shape, namespace(rows)
    if rows.dtype != np.float32 or n > MOST_IN_REGISTERS:
        return None
    refuse_captures("functions of rows")
    rows = xp.ascontiguousarray(rows)
    out = empty_result(rows, (count, 1) if kind == "inverse_deviation" else rows.shape, rows.dtype)
    arrays = pointers(weight, bias), pointers(*(moments or (None, None)))
    sizes = np.int64(count), np.int64(n), np.float64(eps)
    team, numbers = team_of(n)
    given = weight is not None, bias is not None, moments is not None
    kernel = _kernel(kind, team, numbers, *given, rows.data.device_id)
    launch_teams(kernel, team, count, (rows, *arrays[0], out, *arrays[1], *sizes))
    return out


@cache
def _kernel(kind: str, team: int, numbers: int, weight: bool, bias: bool, moments: bool, device: int) -> Any:
    return from_text(source(kind, team, numbers, weight, bias, moments), "norms", device)


def source(
    kind: str, team: int, numbers: int, weight: bool = False, bias: bool = False, moments: bool = False
) -> str:
    """Return the kernel in CUDA, for teams whose threads have so many numbers each."""
    constants = {"TEAM": team, "NUMBERS": numbers, "KIND": kind.upper()}
    constants |= {"WEIGHT": int(weight), "BIAS": int(bias), "MOMENTS": int(moments)}
    lines = "".join(f"#define {name} {x}\n" for name, x in constants.items())
    return device_functions(rsqrt="rsqrt") + lines + expanded(Path(__file__).with_name("norms.cu"))
