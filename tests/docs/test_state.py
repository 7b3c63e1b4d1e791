"""The page about state and the code that owns it name the same things."""

import ast
import importlib
import re
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "state.md"
START, END = "<!-- names -->\n", "<!-- end -->"
MAKERS = {"dict", "list", "set", "deque", "OrderedDict", "defaultdict", "Counter", "local", "Lock", "RLock"}
MAKERS |= {"WeakValueDictionary", "WeakKeyDictionary", "WeakSet"}


def is_state(value: ast.expr | None) -> bool:
    """Whether a module keeps something in this that is empty at first, or a lock."""
    if isinstance(value, ast.Dict):
        return not value.keys
    if isinstance(value, ast.List):
        return not value.elts
    if not isinstance(value, ast.Call):
        return False
    name = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "")
    return name in MAKERS and not value.args


def owned() -> dict[str, str]:
    """What modules own as long as the process lives, as `folder.module.name`, and what they say of it."""
    found = {}
    for path in sorted([*ROOT.glob("multiword/**/*.py"), *ROOT.glob("ozaki/**/*.py")]):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts[1:]).removesuffix(".__init__")
        for node, following in pairwise([*ast.parse(path.read_text()).body, ast.Pass()]):
            if isinstance(node, ast.Assign | ast.AnnAssign) and is_state(node.value):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                said = isinstance(following, ast.Expr) and ast.literal_eval(following.value)
                found[f"{module}.{ast.unparse(target)}"] = " ".join(said.split()) if said else ""
    return found


def table() -> str:
    """The page's table of all names."""
    rows = [f"| `{name}` | {said} |\n" for name, said in owned().items()]
    return "| name | what it is |\n| --- | --- |\n" + "".join(rows)


def named() -> list[str]:
    """The dotted names in the first column of the page's tables."""
    rows = [line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return [name for row in rows for name in re.findall(r"`([a-z_0-9.]+\.[A-Za-z_0-9.]+)`", row)]


def resolved(name: str) -> bool:
    """Whether there is a module of this name, or one that has it."""
    for package in ("ozaki", "multiword"):
        parts, rest = [package, *name.split(".")], []
        while len(parts) > 1:
            if (ROOT / Path(*parts)).is_dir() or (ROOT / Path(*parts)).with_suffix(".py").exists():
                pytest.importorskip("torch") if "torch" in parts else None
                thing = importlib.import_module(".".join(parts))
                for attribute in rest:
                    thing = getattr(thing, attribute, None)
                if thing is not None:
                    return True
                break
            rest.insert(0, parts.pop())
    return False


@pytest.mark.parametrize("name", named())
def test_what_the_page_names_is_there(name):
    assert resolved(name)


def test_the_page_has_what_the_code_says_of_all_that_lives_longer_than_a_call():
    assert all(owned().values()), "say what it is in a string after it"
    assert f"{START}{table()}{END}" in PAGE.read_text()


if __name__ == "__main__":
    before, _, rest = PAGE.read_text().partition(START)
    PAGE.write_text(before + START + table() + END + rest.partition(END)[2])
