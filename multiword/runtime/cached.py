"""Attributes that are computed at their first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class cached_property(Generic[T]):
    """An attribute that is computed once and may be assigned; threads may both compute it, and agree.

    Python 3.11's own holds one lock for all instances: it would make threads take turns, and a fork in the
    middle would leave it locked in the child.

    >>> class Square:
    ...     side = 3
    ...     @cached_property
    ...     def area(self):
    ...         return self.side**2
    >>> Square().area
    9
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> cached_property[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
