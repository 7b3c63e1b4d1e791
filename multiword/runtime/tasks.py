"""Work in other threads, which no signal's handler leaves half handed over.

Handlers run in the main thread, between any two of its instructions, and may raise there. Queues and locks
that are one instruction each are then taken, or not; the locks within `concurrent.futures` and
`threading.Condition` take several, and stay locked where a handler raises between these: the next to ask for
such a lock would wait for ever.
"""

from __future__ import annotations

from _thread import allocate_lock, start_new_thread
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")

CANCELLED = object()


class Task(Generic[T]):
    """A call that another thread makes, or that is cancelled before any has begun it."""

    _result: T

    def __init__(self, work: Callable[[], T]) -> None:
        self._work: list[Callable[[], T]] = [work]
        self._taken: dict[str, object] = {}  # setdefault is one instruction, and may be repeated
        self._error: BaseException | None = None
        self._running = allocate_lock()
        self._running.acquire()

    def run(self) -> None:
        """Make the call, unless it is cancelled or another thread's: in a thread that runs no handlers."""
        here = object()
        if self._taken.setdefault("by", here) is not here:
            return
        try:
            self._result = self._work.pop()()
        except BaseException as error:  # raised where the result is waited for
            self._error = error
        finally:
            self._running.release()

    def cancelled(self) -> bool:
        """Return whether no thread has begun the call, and none will: it keeps no memory alive any more."""
        cancelled = self._taken.setdefault("by", CANCELLED) is CANCELLED
        if cancelled:
            self._work.clear()
        return cancelled

    def wait(self) -> None:
        """Wait until the call has ended."""
        with self._running:
            pass

    def result(self) -> T:
        """Wait for the call's result, or raise its error."""
        self.wait()
        try:
            if self._error is not None:
                raise self._error
            return self._result
        finally:
            del self  # the error's traceback refers to this frame


def in_new_thread(work: Callable[[], None]) -> None:
    """Have a thread of its own do the work; RuntimeError if none can be started."""
    start_new_thread(work, ())


def queue_for(threads: int) -> SimpleQueue[Task[Any]]:
    """Return a queue whose tasks so many new threads run; RuntimeError, and no thread, if one is refused."""
    tasks: SimpleQueue[Task[Any]] = SimpleQueue()

    def work() -> None:
        while (task := tasks.get()) is not _END:
            task.run()

    for started in range(threads):
        try:
            in_new_thread(work)
        except RuntimeError:
            for _ in range(started):
                tasks.put(_END)
            raise
    return tasks


_END: Task[Any] = Task(lambda: None)
"""What ends a thread that takes it from its queue."""
