"""The text of a function, or of a derivative, as a trace of its operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ozaki.elementary.slopes import arguments_of, values_of
from ozaki.elementary.values import FLOAT, Trace, Value


class Program:
    """What a text does: its trace, and the values in it that are the result, and whether it is undecided.

    Both are what `of` returns, of a name, of float32, of the last text, and of traced arguments.
    """

    def __init__(
        self, name: str, of_single: bool, last: bool, of: Callable[..., tuple[Any, Any]] = values_of
    ) -> None:
        self.name, self.of_single, self.last, self.arguments = name, of_single, last, arguments_of(name)
        self.trace = Trace()
        x = [self.trace.value(FLOAT, "argument", i) for i in range(self.arguments)]
        self.results: tuple[Any, Any] = of(name, of_single, last, *x)
        self._drop_unused()

    def _drop_unused(self) -> None:
        """Keep the operations that the results are made of."""
        used, waiting = set(), [x for x in self.results if isinstance(x, Value)]
        while waiting:
            value = waiting.pop()
            if value.index not in used:
                used.add(value.index)
                waiting += [x for x in value.args if isinstance(x, Value)]
        kept = [x for x in self.trace.values if x.index in used]
        for index, value in enumerate(kept):
            value.index = index
        self.trace.values = kept
        names = {x.args[0] for x in kept if x.op == "take"}
        self.trace.tables = {name: table for name, table in self.trace.tables.items() if name in names}
