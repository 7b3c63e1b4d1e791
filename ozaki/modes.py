"""Blocks that change what other libraries compute: where they hold, and how they are shared.

They are entered in a context variable, so they follow asyncio's tasks, and end wherever their block is left.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any, Generic, Protocol, TypeVar


class Mode(Protocol):
    """The settings of a block; `is_open` while the block is being run."""

    is_open: bool


M = TypeVar("M", bound=Mode)


class Modes(Generic[M]):
    """The modes of one kind that have been entered in each context."""

    def __init__(self, name: str) -> None:
        self._entered: ContextVar[tuple[M, ...]] = ContextVar(name, default=())
        self.entered: Callable[[], tuple[M, ...]] = self._entered.get
        """Return those entered here, the innermost last; modes that have ended may remain among them."""

    def enter(self, mode: M) -> None:
        """Make this the innermost mode of the context."""
        self._entered.set((*self._entered.get(), mode))

    def leave(self, mode: M) -> None:
        """End a mode in every context."""
        mode.is_open = False
        self._entered.set(tuple(m for m in self._entered.get() if m.is_open))

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Leave all modes for a while."""
        token = self._entered.set(())
        try:
            yield
        finally:
            self._entered.reset(token)


def innermost(modes: tuple[M, ...]) -> M | None:
    """Return the last of these modes that is open, or None.

    >>> innermost(()) is None
    True
    """
    for mode in reversed(modes):  # in a fifth of the time of a generator
        if mode.is_open:
            return mode
    return None


class Shared:
    """A context for the process: the first block to enter makes it, and the last to leave ends it."""

    def __init__(self, make: Callable[[], AbstractContextManager[Any]]) -> None:
        self._make, self._stack = make, ExitStack()
        self._lock, self._blocks = threading.Lock(), 0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if not self._blocks:
                self._stack.enter_context(self._make())
            self._blocks += 1
        try:
            yield
        finally:
            with self._lock:
                self._blocks -= 1
                if not self._blocks:
                    self._stack.close()
