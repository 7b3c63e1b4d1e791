"""Values that each thread has for itself, and others within a context."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

T = TypeVar("T")


class Scoped(threading.local, Generic[T]):
    """A value of each thread.

    >>> depth = Scoped(0)
    >>> with depth.within(1) as inner:
    ...     inner, depth.value
    (1, 1)
    >>> depth.value
    0
    """

    def __init__(self, outside: T) -> None:
        self.value = outside

    def within(self, value: T) -> Within[T]:
        """Return a context in which this thread has another value."""
        return Within(self, value)


class Within(Generic[T]):
    """The context. (A generator takes twice as long.)"""

    __slots__ = ("_before", "_scoped", "_value")

    def __init__(self, scoped: Scoped[T], value: T) -> None:
        self._scoped, self._value = scoped, value

    def __enter__(self) -> T:
        self._before, self._scoped.value = self._scoped.value, self._value
        return self._value

    def __exit__(self, *exception: object) -> None:
        self._scoped.value = self._before
