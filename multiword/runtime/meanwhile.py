"""Work in NumPy's forms while another thread compiles what it would take.

Where nothing has been compiled, a first product would wait some seconds for its compiled form. NumPy's form
has the same bits, and takes some tens of milliseconds. So the first calls take that, until the code is there.
They slow the compilation down, since one thread of Python's runs at a time: a loop of many calls soon waits.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from multiword.runtime.compiled import NONE, PRESENT, NotCompiled, allowed
from multiword.runtime.forking import is_loading
from multiword.runtime.tasks import Task, in_new_thread

T = TypeVar("T")

MOST_SECONDS = 2.0
"""What calls may take in NumPy's forms while something is compiled, in all; later ones wait for the code."""

enabled = True
"""Whether calls may take NumPy's forms at all. The bits are the same."""

_spent = 0.0
"""The seconds that calls have taken in NumPy's forms since a compilation has begun."""


def meanwhile(work: Callable[..., T], *arguments: Any) -> T:
    """Return work(*arguments), in NumPy's forms if it asks for code that is not there.

    Another thread then compiles that.

    work : is begun twice in that case, and must have changed nothing before it asks for a compiled form, or
        only what it overwrites.
    """
    global _spent
    before = allowed.value
    if not enabled or before == NONE or (_running and _spent > MOST_SECONDS):
        return work(*arguments)
    try:
        allowed.value = PRESENT  # small products take longer for a context
        return work(*arguments)
    except NotCompiled:
        pass
    finally:
        allowed.value = before
    begin = time.perf_counter()
    try:
        with allowed.within(NONE):
            return work(*arguments)
    finally:
        _spent += time.perf_counter() - begin


def in_the_meantime(function: Callable[..., T]) -> Callable[..., T]:
    """Decorate a function that is to be called by `meanwhile`."""

    @wraps(function)
    def call(*arguments: Any) -> T:
        return meanwhile(function, *arguments)

    return call


def left_to_background(key: Any, compile_it: Callable[[], None], on_disk: Callable[[], bool]) -> None:
    """Raise NotCompiled where this thread is to use no other code than what is present; else do nothing.

    What is on disk counts as present, unless another compilation holds up its loading. What could not be
    compiled in the background is compiled here, which says why.
    """
    if allowed.value != PRESENT:
        return
    tried = key in _begun and key not in _running
    if tried or (not is_loading() and on_disk()) or not _begin(key, compile_it):
        return
    raise NotCompiled


def _begin(key: Any, compile_it: Callable[[], None]) -> bool:
    """Have a new thread compile something; return False if there can be none."""
    global _spent
    if not _running:
        _spent = 0.0

    def work() -> None:
        try:
            compile_it()
        finally:
            _running.pop(key, None)

    task = Task(work)
    try:
        if _running.setdefault(key, task) is task:
            _begun.add(key)
            in_new_thread(task.run)
        return True
    except BaseException as error:  # a handler's: nobody must wait for a thread that may not have started
        _running.pop(key, None)
        if type(error) is RuntimeError:  # the process ends, and starts no more threads
            return False
        raise


_begun: set[Any] = set()
"""The functions whose compilation another thread has begun, or has ended."""

_running: dict[Any, Task[None]] = {}
"""Those whose compilation has not ended, with what the other thread does."""


def finish() -> None:
    """Wait until all is compiled that other threads have begun."""
    for task in list(_running.values()):
        task.wait()


atexit.register(finish)  # the next process finds the code on disk

if hasattr(os, "register_at_fork"):  # a child process has none of these threads
    os.register_at_fork(after_in_child=_running.clear)
