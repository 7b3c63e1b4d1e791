"""What neither a fork nor a signal may disturb: late imports, compilations, and what ends with an object."""

from __future__ import annotations

import atexit
import logging  # noqa: F401
import os
import weakref
from collections.abc import Callable
from threading import RLock, current_thread, main_thread
from typing import Any, TypeVar

from multiword.runtime.tasks import Task, in_new_thread

T = TypeVar("T")

loading = RLock()
"""A lock that forks wait for, to be held while a thread imports or compiles.

A child process has none of its parent's other threads, and would wait for ever for their locks. What imports
ask for while they hold this lock, forks must take after it, so it is registered after `logging`'s.
"""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=loading.acquire, after_in_parent=loading.release, after_in_child=loading.release
    )


def finalize(owner: object, work: Callable[..., object], *arguments: Any) -> None:
    """Have work(*arguments) called when `owner` is no more; not at the process's end, nor in a fork of it.

    In a child, objects of the threads that it lacks go at once, and what they own is still the parent's.
    """
    weakref.finalize(owner, _in_process, os.getpid(), work, *arguments).atexit = False


def _in_process(process: int, work: Callable[..., object], *arguments: Any) -> None:
    if os.getpid() == process:
        work(*arguments)


def to_the_end(work: Callable[[], T]) -> T:
    """Return work(), which goes on to its end even where a signal's handler raises in the caller.

    Handlers run in the main thread alone, so that one waits for another thread. Half an import, or a compiler
    stopped in the middle, would not work again: the next caller finds it done, or waits for it.
    """
    if current_thread() is not main_thread():
        return work()
    task = Task(work)
    try:
        in_new_thread(task.run)
    except RuntimeError:
        return work()  # the process ends, and starts no more threads
    return task.result()


def _wait_for_loading() -> None:
    with loading:
        pass


atexit.register(_wait_for_loading)
