"""Threads for compiled code that shares out its own work."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from multiword.runtime.parallel import in_threads, thread_count

FINISHED = 1 << 60
"""A counter that leaves nothing to be taken."""


def over_units(work: Callable[[], None], units: int, counter: np.ndarray) -> None:
    """Call work in as many threads as the BLAS would take, or units; all have returned when this does.

    Threads take units from the counter: one that comes late, because others of the process are busy, finds
    none left, and nobody waits for it.
    """
    if units <= 1:
        work()
        return

    def stop() -> None:
        counter[0] = FINISHED

    in_threads(work, min(units, thread_count()) - 1, stop)
