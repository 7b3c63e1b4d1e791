"""The table of inputs in classes of functions, and of kinds of input, with the same outcomes."""

from collections.abc import Callable, Hashable, Iterable
from math import ceil
from typing import TypeVar

from tests.inputs import GROUPS, expected, skipped
from tests.inputs.kinds import Kind
from tests.inputs.tables import Function

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def grouped(things: Iterable[T], key: Callable[[T], K]) -> list[tuple[K, list[T]]]:
    """Things with the same key together, in the order of the first of each."""
    found: dict[K, list[T]] = {}
    for thing in things:
        found.setdefault(key(thing), []).append(thing)
    return list(found.items())


def outcome(function: Function, kind: Kind) -> str | None:
    """What a cell of the table says; None where it means nothing."""
    return None if skipped(function, kind) else expected(function, kind).result


def classes(functions: Iterable[Function]) -> tuple[list[list[Function]], list[list[Kind]]]:
    """The functions of a group with the same outcomes together, and so the kinds."""
    functions = list(functions)
    kinds = functions[0].kinds
    columns = [alike for _, alike in grouped(functions, lambda f: tuple(outcome(f, kind) for kind in kinds))]
    rows = [alike for _, alike in grouped(kinds, lambda kind: tuple(outcome(c[0], kind) for c in columns))]
    return columns, rows


def cells_of_classes() -> list[tuple[Function, Kind]]:
    """Cells of every class, as few as have every function and every kind of each group."""
    cells = []
    for group in GROUPS.values():
        columns, rows = classes(group)
        for i, functions in enumerate(columns):
            for j, kinds in enumerate(rows):
                of_row, of_column = ceil(len(functions) / len(rows)), ceil(len(kinds) / len(columns))
                cells += [
                    (functions[(j * of_row + n) % len(functions)], kinds[(i * of_column + n) % len(kinds)])
                    for n in range(max(of_row, of_column))
                ]
    return [cell for cell in cells if not skipped(*cell)]
