"""The tests test something: no comparison of a value with itself, no test without an assertion."""

import ast
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PATHS = sorted(HERE.rglob("*.py"))


@cache
def nodes_of(path):
    """The nodes of a file that are looked at."""
    kinds = (ast.FunctionDef, ast.Compare, ast.Assert)
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds)]


def described(function):
    """Whether a function asserts, or expects an exception or a warning; and what it calls."""
    asserts, called = False, set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assert) or (
            isinstance(node, ast.Attribute) and node.attr in ("raises", "warns")
        ):
            asserts = True
        elif isinstance(node, ast.Call):
            called.add(getattr(node.func, "attr", getattr(node.func, "id", "")))
    return asserts, called


@cache
def checking() -> set[str]:
    """Functions with an assertion in them or in a function of the tests that they call, by name."""
    functions = [node for path in PATHS for node in nodes_of(path) if isinstance(node, ast.FunctionDef)]
    descriptions = [(f.name, *described(f)) for f in functions]
    found = {name for name, asserts, _ in descriptions if asserts}
    while more := {name for name, _, called in descriptions if called & found} - found:
        found |= more
    return found


@pytest.mark.whole
@pytest.mark.parametrize("path", PATHS, ids=lambda path: str(path.relative_to(HERE)))
def test_every_test_asserts_something_and_compares_nothing_with_itself(path):
    for node in nodes_of(path):
        if isinstance(node, ast.FunctionDef):
            assert not node.name.startswith("test_") or node.name in checking(), node.name
        elif isinstance(node, ast.Compare):
            values = [ast.dump(x) for x in (node.left, *node.comparators)]
            assert all(x != y for x, y in pairwise(values)), ast.unparse(node)
        else:
            assert not isinstance(node.test, ast.Constant | ast.Tuple), ast.unparse(node)


def test_what_tests_nothing_is_noticed():
    asserts, called = described(ast.parse("def test_nothing():\n    compute()").body[0])
    assert not asserts
    assert called == {"compute"}
    assert not called & checking()
    full = ast.parse("def test_something():\n    with pytest.raises(ValueError):\n        compute()").body[0]
    assert described(full)[0]
