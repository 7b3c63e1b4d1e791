"""Routines that return a status, made to raise instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar


class StatusError(RuntimeError):
    """A routine returned a status other than success.

    Attributes
    ----------
    routine, status : which, and what it returned.
    """

    names: ClassVar[Mapping[int, str]] = {}
    """What the library calls its statuses."""

    exhausted: ClassVar[int] = 0
    """The status that says that there is no memory."""

    def __init__(self, routine: str, status: int) -> None:
        self.routine, self.status = routine, status
        super().__init__(self.said(routine, status))

    @classmethod
    def said(cls, routine: str, status: int) -> str:
        """Return the message."""
        return f"{routine} returned status {status} ({cls.names.get(status, 'unknown')})"


def checked(function: Callable[..., int], name: str, error: type[StatusError]) -> Callable[..., None]:
    """Return a function that raises MemoryError where there is no memory, and `error` otherwise."""

    def call(*arguments: object) -> None:
        status = function(*arguments)
        if status == 0:
            return
        if status == error.exhausted:
            raise MemoryError(error.said(name, status))
        raise error(name, status)

    call.__name__ = name
    return call
