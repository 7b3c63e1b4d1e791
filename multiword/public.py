"""One record for each public name, made where the name is defined.

Whatever lists public names asks the records: `__all__` of the packages, the pages of the reference, tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter, signature
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Record:
    """A public function, class, or table.

    Attributes
    ----------
    module : the package in which users find it.
    name : under which that has it.
    value : the function, class or table.
    heading : of the page of the reference, under which it stands.

    >>> RECORDS["multiword.split"].heading, list(RECORDS["multiword.split"].parameters)
    ('Words and their error', ['x', 'word', 'words', 'scaled', 'rounding'])
    """

    module: str
    name: str
    value: Any
    heading: str

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """What it takes."""
        return signature(self.value).parameters


RECORDS: dict[str, Record] = {}
"""By module and name, "multiword.split", in the order of their definition."""


def record(entry: Record) -> None:
    """Put a record into the table."""
    RECORDS[f"{entry.module}.{entry.name}"] = entry


def public_in(module: str, heading: str, name: str = "") -> Callable[[T], T]:
    """Return a decorator that makes a function or class public as it is; called with a table, that.

    Parameters
    ----------
    module, heading : as in `Record`.
    name : as in `Record`, where that is not the value's own.

    >>> primes = public_in("examples", "Numbers", "PRIMES")((2, 3))
    >>> RECORDS.pop("examples.PRIMES").value is primes
    True
    """

    def recorded(value: T) -> T:
        record(Record(module, name or value.__name__, value, heading))  # type: ignore[attr-defined]
        return value

    return recorded


def public_names(module: str) -> list[str]:
    """Return the sorted names that have records in a package, as far as its modules are imported.

    >>> "solve" in public_names("multiword")
    False
    """
    return sorted(entry.name for entry in RECORDS.values() if entry.module == module)
