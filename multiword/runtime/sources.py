"""What a module of the two packages is made of: its own source, and those that it imports within them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path

PACKAGES = [Path(__file__).parents[1], Path(__file__).parents[2] / "ozaki"]

_IMPORT = re.compile(r"^ *(?:from +([\w.]+) +import +(\([^)]*\)|.*)|import +(.*))$", re.MULTILINE)


def digest_of(modules: Iterable[str]) -> str:
    """Return a hash of the sources of some modules, and of all that they import within the packages.

    The modules above one, `ozaki` above `ozaki.sums` say, are imported before it but hand it nothing:
    they count where they are named.

    >>> digest_of(["multiword.formats"]) == digest_of(["multiword.formats", "multiword.formats"])
    True
    """
    found, left = set[str](), list(modules)
    while left:
        module = left.pop()
        if module not in found and _source(module) is not None:
            found.add(module)
            left += _imports(module)
    sources = sorted((module, _source(module)) for module in found)
    return sha256(repr(sources).encode()).hexdigest()


@cache
def _source(module: str) -> str | None:
    """Return the source of a module of the packages; None for any other."""
    package, _, rest = module.partition(".")
    for folder in PACKAGES:
        if folder.name == package:
            path = folder.joinpath(*rest.split(".")) if rest else folder
            for file in (path.with_suffix(".py"), path / "__init__.py"):
                if file.is_file():
                    return file.read_text(encoding="utf-8")
    return None


def _imports(module: str) -> Iterator[str]:
    """Yield the modules named by lines that begin as imports do, those in functions and examples, too."""
    for package, names, plain in _IMPORT.findall(_source(module) or ""):
        for name in re.sub(r"[()]|#.*", " ", names or plain).split(","):
            first = name.partition(" as ")[0].strip()
            inside = f"{package}.{first}" if package else first
            yield inside if _source(inside) is not None else package
