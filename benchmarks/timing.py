"""Seconds on a GPU, by events around calls that are queued one after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

BUSY = 0.02
"""Seconds for which calls are queued, where their number is not given."""


def events(work: Callable[[], Any], count: int = 1) -> float:
    """Seconds of a call, of so many between two events."""
    import cupy

    start, stop = cupy.cuda.Event(), cupy.cuda.Event()
    start.record()
    for _ in range(count):
        work()
    stop.record()
    stop.synchronize()
    return float(cupy.cuda.get_elapsed_time(start, stop)) / 1e3 / count
