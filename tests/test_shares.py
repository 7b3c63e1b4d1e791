"""Which instances of tests an ordinary run takes."""

import itertools
import json
from math import prod
from types import SimpleNamespace

import pytest

from tests import shares


class Item:
    """An instance of a test, as pytest collects it."""

    def __init__(self, indices, marks=()):
        self.nodeid, self.callspec, self.slow = f"f.py::t[{indices}]", SimpleNamespace(indices=indices), False
        self.keywords = dict.fromkeys(marks)

    def add_marker(self, mark):
        self.slow = mark == pytest.mark.slow


@pytest.fixture
def taken(tmp_path, monkeypatch):
    """Returns a function: the indices of instances that are not slow, of axes of these lengths."""

    def of(seconds, *lengths, marks=()):
        path = tmp_path / "seconds.json"
        path.write_text(json.dumps({"f.py": {"t": [seconds, prod(lengths)]}}))
        monkeypatch.setattr(shares, "SECONDS", path)
        cells = itertools.product(*map(range, lengths))
        items = [Item(dict(zip("abc", cell, strict=False)), marks) for cell in cells]
        shares.mark_others(items)
        return [tuple(item.callspec.indices.values()) for item in items if not item.slow]

    return of


def test_enough_and_each_value_of_an_axis(taken):
    for times, lengths in ((4, (4, 5)), (6, (3, 4, 4)), (2, (2, 9))):
        seconds = times * shares.ENOUGH
        found = taken(seconds, *lengths)
        assert [len(set(axis)) for axis in zip(*found, strict=True)] == list(lengths)
        each = seconds / prod(lengths)
        assert shares.costs()["f.py"] <= shares.ENOUGH + each
        assert len(found) * each <= shares.ENOUGH + each * max(lengths)


def test_one_at_least_and_all_that_are_quick_or_whole(taken):
    assert taken(99.0, 3) == [(0,)]
    assert len(taken(shares.ENOUGH, 7)) == 7
    assert len(taken(99.0, 7, marks=["whole"])) == 7


def test_arguments_of_one_parameter_are_one_axis(tmp_path, monkeypatch):
    path = tmp_path / "seconds.json"
    path.write_text(json.dumps({"f.py": {"t": [2 * shares.ENOUGH, 6]}}))
    monkeypatch.setattr(shares, "SECONDS", path)
    items = [Item({"x": i, "y": i}) for i in range(6)]
    shares.mark_others(items)
    assert [item.slow for item in items] == [False, True] * 3


def test_seconds_are_those_of_tests_that_are_there():
    """A file that is moved would lose its shares, and be run whole."""
    for file, tests in json.loads(shares.SECONDS.read_text()).items():
        text = (shares.SECONDS.parents[1] / file).read_text()
        assert [t for t in tests if f"def {t.rpartition('::')[2]}(" not in text] == [], file
