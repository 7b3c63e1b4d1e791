"""What the tree reductions of this package share: parts come as nested lists, and merge two by two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any


def flat(parts: Any) -> Iterator[Any]:
    """The elements of nested lists."""
    if isinstance(parts, list):
        for part in parts:
            yield from flat(part)
    else:
        yield parts


def as_it_is(x: Any, **_: Any) -> Any:
    """The part that a block is."""
    return x


def merged(parts: Any, *, merge: Callable[[Any, Any], Any], **_: Any) -> Any:
    """All parts, merged by a function of two; None if they are None."""
    first, *others = flat(parts)
    return None if first is None else reduce(merge, others, first)
