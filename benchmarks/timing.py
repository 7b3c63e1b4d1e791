"""Seconds on a GPU, by events around calls that are queued one after another."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

WARM, BUSY = 0.15, 0.1
"""Seconds of calls that go before, until a GPU at its power limit has settled, and of those timed."""


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


def settled(works: Mapping[str, Callable[[], Any]]) -> dict[str, tuple[float, float]]:
    """Median seconds of a call among many queued one after another, and of a call alone.

    For a tenth of a second and more what ran before decides how fast a GPU at its power limit is, so each
    of the works runs for a while before it is timed.
    """
    for work in works.values():
        for _ in range(3):
            work()
    found = {}
    for name, work in works.items():
        first = events(work)
        count, times = max(1, min(50, int(BUSY / 5 / first))), 5 if first < BUSY else 2
        spent = first
        while spent < WARM:
            spent += count * events(work, count)
        queued = median([events(work, count) for _ in range(times)])
        found[name] = queued, median([events(work) for _ in range(times)])
    return found


def compact(record: dict[str, Any]) -> str:
    """JSON with one row to a line."""
    text = json.dumps(record, indent=1)
    return re.sub(r"\{[^{}]*\}|\[[^\[\]{}]*\]", lambda m: re.sub(r"\s*\n\s*", " ", m.group()), text) + "\n"


def publish(record: dict[str, Any], path: Path | None) -> None:
    """Print a record, and write it where that is asked for."""
    text = compact(record)
    print(text)
    if path:
        path.write_text(text)
