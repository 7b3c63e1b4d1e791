"""The tests test something: no comparison of a value with itself, no test without an assertion."""

import ast
from itertools import pairwise
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TREES = {path: ast.parse(path.read_text()) for path in sorted(HERE.rglob("*.py"))}


def nodes(tree, kind):
    return (node for node in ast.walk(tree) if isinstance(node, kind))


def asserts(function) -> bool:
    """Whether there is an assertion in a function, or an exception or warning that is expected."""
    expected = any(node.attr in ("raises", "warns") for node in nodes(function, ast.Attribute))
    return expected or any(True for _ in nodes(function, ast.Assert))


def called(function) -> set[str]:
    names = (node.func for node in nodes(function, ast.Call))
    return {f.attr if isinstance(f, ast.Attribute) else getattr(f, "id", "") for f in names}


FUNCTIONS = [node for tree in TREES.values() for node in nodes(tree, ast.FunctionDef)]
CHECKING = {f.name for f in FUNCTIONS if asserts(f)}
"""Functions with an assertion in them or in a function of the tests that they call, by name."""

while more := {f.name for f in FUNCTIONS if called(f) & CHECKING} - CHECKING:
    CHECKING |= more


@pytest.mark.parametrize("path", TREES, ids=lambda path: str(path.relative_to(HERE)))
def test_every_test_asserts_something_and_compares_nothing_with_itself(path):
    for test in nodes(TREES[path], ast.FunctionDef):
        assert not test.name.startswith("test_") or test.name in CHECKING, test.name
    for compared in nodes(TREES[path], ast.Compare):
        values = [ast.dump(x) for x in (compared.left, *compared.comparators)]
        assert all(x != y for x, y in pairwise(values)), ast.unparse(compared)
    for assertion in nodes(TREES[path], ast.Assert):
        assert not isinstance(assertion.test, ast.Constant | ast.Tuple), ast.unparse(assertion)


def test_what_tests_nothing_is_noticed():
    empty = ast.parse("def test_nothing():\n    compute()").body[0]
    assert not asserts(empty)
    assert not called(empty) & CHECKING
    full = ast.parse("def test_something():\n    with pytest.raises(ValueError):\n        compute()").body[0]
    assert asserts(full)
