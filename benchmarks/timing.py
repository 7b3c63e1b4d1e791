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


def settled(works: Mapping[str, Callable[[], Any]], rounds: int = 1) -> dict[str, tuple[float, float]]:
    """Median seconds of a call among many queued one after another, and of a call alone.

    For a tenth of a second and more what ran before decides how fast a GPU at its power limit is, so each
    of the works runs for a while before it is timed. In several rounds, every other one in reverse, none of
    them always comes after the same one, on a GPU that is the warmer the later.
    """
    for work in works.values():
        for _ in range(3):
            work()
    queued, alone = ({name: list[float]() for name in works} for _ in range(2))
    for turn in range(rounds):
        for name in list(works)[:: 1 - 2 * (turn % 2)]:
            work, first = works[name], events(works[name])
            count, times = max(1, min(50, int(BUSY / 5 / first))), 5 if first < BUSY else 2
            spent = first
            while spent < WARM:
                spent += count * events(work, count)
            queued[name] += [events(work, count) for _ in range(times)]
            alone[name] += [events(work) for _ in range(times)]
    return {name: (median(queued[name]), median(alone[name])) for name in works}


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
