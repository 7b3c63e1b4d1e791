"""Seconds on a GPU, by events around calls that are queued one after another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median
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


def in_turns(works: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, tuple[float, float]]:
    """Median seconds of a call among many queued one after another, and of a call alone.

    The works take turns, for what ran before decides how fast a GPU at its power limit is.
    """
    alone: dict[str, list[float]] = {name: [] for name in works}
    queued: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        for _ in range(4):
            work()
    for _ in range(rounds):
        for name, work in works.items():
            alone[name].append(events(work))
            queued[name].append(events(work, int(min(max(BUSY / alone[name][0], 1), 50))))
    return {name: (median(queued[name]), median(alone[name])) for name in works}
