"""What a first call compiles: the kernels that usual calls ask for, so that all are compiled at once.

`companions.json` of a package has lists of kernels with their constants, by call, in the order in which they
are compiled. `python -m benchmarks.first_calls --gpu --record` writes it. A list that is out of date costs
time only.
"""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cache

from multiword.runtime.sources import PACKAGES

Constants = tuple[tuple[str, int | str], ...]
"""Of an instance: the names of macros and their values, sorted."""

Named = tuple[str, Constants]
"""An instance: a kernel's name, and the constants."""

FILES = [package / "companions.json" for package in PACKAGES]


def companions(instance: Named) -> list[Named]:
    """Return the shortest list that has an instance, or nothing: where one that has it was returned before.

    Short ones are tried first because what a call does not need is compiled in vain.
    """
    having = {call: listed for call, listed in lists().items() if instance in listed}
    if not having or not _begun.isdisjoint(having):
        return []
    shortest = min(having, key=lambda call: len(having[call]))
    _begun.add(shortest)
    return having[shortest]


@cache
def lists() -> dict[str, list[Named]]:
    """Return the instances of every usual call."""
    found: dict[str, list[Named]] = {}
    for file in FILES:
        with suppress(OSError, ValueError, TypeError, AttributeError):  # it is not there, or damaged
            for call, listed in json.loads(file.read_text(encoding="utf-8")).items():
                found[call] = [(name, tuple(sorted(constants.items()))) for name, constants in listed]
    return found


_begun: set[str] = set()
"""The calls whose lists have been returned."""
