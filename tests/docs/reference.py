"""The scripts of `docs/`, which is no package, and the pages of the reference as they are built."""

import importlib.util
from pathlib import Path
from types import ModuleType

DOCS = Path(__file__).parents[2] / "docs"


def loaded(name: str) -> ModuleType:
    """A module of `docs/`."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


with_records = loaded("pages").with_records
