"""Tests of all cells of a table, of which every run takes a part that has each pair of rows and columns."""

import itertools
from collections.abc import Iterable
from typing import Any

import pytest


def cells(share: int = 2, **axes: Iterable[Any]) -> pytest.MarkDecorator:
    """Return the decorator of a test that takes one value of each axis, by name.

    Slow are all combinations but those whose indices add up to a multiple of `share`: they have each value of
    an axis that is not longer than the others, of three axes or more each pair of values of two, and so on.
    """
    found = []
    for cell in itertools.product(*map(enumerate, axes.values())):
        slow = sum(index for index, _ in cell) % share
        values = [value for _, value in cell]
        found.append(
            pytest.param(*values, marks=[pytest.mark.slow] * bool(slow), id="-".join(map(str, values)))
        )
    return pytest.mark.parametrize(tuple(axes), found)
