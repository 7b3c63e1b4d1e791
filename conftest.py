"""What is searched for examples: files that have some, and of optional packages those that are installed."""

from importlib.util import find_spec

import pytest
from _pytest.doctest import DoctestModule

collect_ignore = [f"ozaki/{name}" for name in ("torch", "jax") if find_spec(name) is None]


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path):
    """To be searched, a file is imported, and each of its functions read again: in vain in most of them."""
    collectors = yield
    if file_path.suffix == ".py" and ">>>" not in file_path.read_text():
        return [one for one in collectors if not isinstance(one, DoctestModule)]
    return collectors
