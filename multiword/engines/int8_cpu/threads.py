"""Threads for compiled code that shares out its own work."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from multiword.runtime.parallel import _pool, thread_count

FINISHED = 1 << 60
"""A counter that leaves nothing to be taken."""


def in_threads(work: Callable[[int], None], units: int, counter: np.ndarray) -> None:
    """Call work in as many threads as there are cores and units."""
    threads = min(thread_count(), units)
    others = [_pool().submit(work, i) for i in range(1, threads)]
    try:
        work(0)
    finally:
        counter[0] = FINISHED
        for other in others:
            if not other.cancel():
                other.result()
