"""Late imports and compilations, which neither a fork nor a signal cuts in two."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from threading import RLock, Thread, current_thread, main_thread
from typing import TypeVar

T = TypeVar("T")

loading = RLock()
"""A lock that forks wait for, to be held while a thread imports or compiles.

A child process has none of its parent's other threads, and would wait for ever for their locks.
"""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=loading.acquire, after_in_parent=loading.release, after_in_child=loading.release
    )


def to_the_end(work: Callable[[], T]) -> T:
    """Return work(), which goes on to its end even where a signal's handler raises in the caller.

    Handlers run in the main thread alone, so that one waits for another thread. Half an import, or a compiler
    stopped in the middle, would not work again: the next caller finds it done, or waits for it.
    """
    if current_thread() is not main_thread():
        return work()
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:  # raised by result.result()
            result.set_exception(error)

    try:
        Thread(target=run, name="ozaki-loading").start()
    except RuntimeError as error:
        if "shutdown" not in str(error):
            raise
        return work()  # the process ends, and starts no more threads
    return result.result()
