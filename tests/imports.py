"""Which files of this repository a file uses, read from its source: imports, kernels, files that it names."""

import ast
import gc
import re
from collections import defaultdict, deque
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("ozaki", "multiword", "tests", "benchmarks")
NAMED = {".cu", ".cuh", ".json", ".md", ".npz", ".js", ".toml", ".py"}
"""Files that sources name in strings."""


@cache
def files() -> dict[str, Path]:
    """The files of the packages, of the documentation and of the examples, by their path from the root."""
    folders = [ROOT / name for name in (*PACKAGES, "docs", "examples")]
    found = [path for folder in folders for path in folder.rglob("*") if path.suffix in NAMED]
    found += [
        ROOT / name for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "RELEASE.md", "mkdocs.yml")
    ]
    return {str(path.relative_to(ROOT)): path for path in sorted(found) if "__pycache__" not in path.parts}


@cache
def by_name() -> dict[str, list[str]]:
    names = defaultdict(list)
    for path in files():
        names[path.rpartition("/")[2]].append(path)
    return names


@cache
def module(name: str) -> str | None:
    """The file of a module or a package of this repository."""
    path = name.replace(".", "/")
    return next((p for p in (f"{path}.py", f"{path}/__init__.py") if p in files()), None)


@cache
def tree(path: str) -> ast.Module:
    return ast.parse(files()[path].read_text())


@cache
def exports(path: str) -> dict[str, tuple[str, str]]:
    """The names that a file has from others of this repository: from which module, and under which name."""
    found = {}
    for node in tree(path).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
    return found


def home(dotted: str) -> str | None:
    """The file that defines what a dotted name means: `ozaki.sum` is defined in `ozaki/sums/api.py`."""
    if path := module(dotted):
        return path
    owner, _, name = dotted.rpartition(".")
    path = owner and home(owner)
    if not path or path != module(owner):
        return path or None
    source = exports(path).get(name)
    return home(".".join(source)) if source and source[0] != owner and module(source[0]) else path


def names(path: str) -> Iterator[str]:
    """The dotted names of modules, and of what is in them, that a Python file uses, and its short strings."""
    bound, chains = {}, []
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Attribute):
            chains.append(node)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            bound |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            for name, known_as in ((alias.name, alias.asname) for alias in node.names):
                bound[known_as or name.partition(".")[0]] = name if known_as else name.partition(".")[0]
                yield name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 100:
            yield node.value.partition(":")[0]
    for node in chains:
        members = []
        while isinstance(node, ast.Attribute):
            members.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name) and node.id in bound:
            yield ".".join([bound[node.id], *reversed(members)])


def named(name: str, folder: str) -> list[str]:
    """The files of a name: the one of that path, the one in the folder, or all that are called so."""
    near = [path for path in (name, f"{folder}/{name}") if path in files()]
    return near[:1] or by_name().get(name.rpartition("/")[2], [])


@cache
def used(path: str) -> frozenset[str]:
    """The files that a file uses directly."""
    folder = path.rpartition("/")[0]
    found = set()
    if path.endswith((".cu", ".cuh")):
        for name in re.findall(r'#include "([^"]+)"', files()[path].read_text()):
            found.update(named(name, folder))
    elif path.endswith(".py"):
        found.add(f"{path[:-3]}.cu")
        for name in set(names(path)):
            if name.partition(".")[0] in PACKAGES:
                found.add(home(name))
                if (through := module(name.rpartition(".")[0])) and not is_face(through):
                    found.add(through)  # which may fill what another file defines
            found.update(named(name, folder))
    return frozenset(p for p in found if p in files() and p != path and p != f"{folder}/__init__.py")


@cache
def users() -> dict[str, list[str]]:
    """The files that use a file directly."""
    found = defaultdict(list)
    gc.disable()  # to look for cycles among all nodes of all trees takes longer than to read them
    try:
        for path in files():
            for other in used(path):
                found[other].append(path)
    finally:
        gc.enable()
    return found


def is_face(path: str) -> bool:
    """Whether a file only hands on what others define: what uses such a package uses nothing of all that."""
    return path.endswith("/__init__.py") and all(
        node.name.startswith("__")
        for node in tree(path).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    )


def distances(path: str) -> dict[str, int]:
    """How many imports it takes from other files to this one."""
    found, queue = {path: 0}, deque([path])
    while queue:
        here = queue.popleft()
        if is_face(here) and here != path:
            continue
        for user in users()[here]:
            if user not in found:
                found[user] = found[here] + 1
                queue.append(user)
    return found
