"""Threads for compiled code that shares out its own work."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

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

    in_threads(work, min(units, available_threads()) - 1, stop)


def available_threads() -> int:
    """Cores of this process, or fewer where the environment or threadpoolctl limits the BLAS."""
    threads = thread_count()
    if "threadpoolctl" in sys.modules:  # else nothing has been limited with it
        limits = [library.num_threads for library in _blas()]
        threads = min([threads, *(limit for limit in limits if limit)])
    return threads


@cache
def _blas() -> list[Any]:
    """The libraries that threadpoolctl limits."""
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    libraries: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
    return [library for library in libraries if "numpy" in str(library.filepath)]
