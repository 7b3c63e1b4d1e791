"""A plugin of pytest: gives test modules the replaced functions, and writes down how each test ended."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import ModuleType
from typing import Any

import pytest

from benchmarks.suites import replaced

Members = dict[ModuleType, dict[str, Any]]


def _of_scipy() -> Members:
    from benchmarks.suites.solvers import of_scipy

    return of_scipy()


REPLACEMENTS: dict[str, Callable[[], Members]] = {
    "nothing": dict,
    "numpy": replaced.of_numpy,
    "arrays": replaced.of_arrays,
    "scipy": _of_scipy,
    "torch": dict,  # its functions are replaced by the mode, within each test
}

_session: dict[str, Any] = {"replaced": "nothing", "members": {}, "adopting": "", "before": 0}


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--replaced", choices=list(REPLACEMENTS), default="nothing")
    parser.addoption("--adopting", default="", help="a package whose modules see the replaced functions, too")
    parser.addoption(
        "--outcomes", help="a file of lines of JSON: test, outcome, first line of the error, calls"
    )


def pytest_configure(config: Any) -> None:
    name = config.getoption("replaced")
    _session.update(replaced=name, members=REPLACEMENTS[name](), adopting=config.getoption("adopting"))
    _session["file"] = open(config.getoption("outcomes"), "w", buffering=1)  # noqa: SIM115


class SuiteModule(pytest.Module):
    """A module of tests, imported while the functions are replaced."""

    def _getobj(self) -> Any:
        with replaced.imported(_session["members"]):
            module = super()._getobj()
        prefix = _session["adopting"]
        others = [m for n, m in list(sys.modules.items()) if prefix and n.split(".")[0] == prefix]
        for x in {id(x): x for x in (module, *others) if x is not None}.values():
            replaced.adopt(x, _session["members"])
        return module


def pytest_pycollect_makemodule(module_path: Any, parent: Any) -> Any:
    return SuiteModule.from_parent(parent, path=module_path)


@contextmanager
def within() -> Iterator[Any]:
    """Enter PyTorch's mode, where that is what is replaced."""
    if _session["replaced"] != "torch":
        with nullcontext():
            yield
        return
    import torch

    import ozaki.torch

    dtypes = (torch.float32, torch.float64, torch.complex64, torch.complex128, torch.int64)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "within ozaki.torch.reproducible")  # on leaving the mode
        with ozaki.torch.reproducible(dtypes=dtypes, sums=True) as counted:
            yield
        replaced.calls += counted.total()


def pytest_runtest_setup(item: Any) -> None:
    _session["before"] = replaced.calls


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Any:
    report = yield
    if report.when == "call" or report.outcome != "passed":
        crash = getattr(report.longrepr, "reprcrash", None)
        error = getattr(crash, "message", str(report.longrepr)) if report.failed else ""
        name = f"{item.path.stem}::{item.nodeid.partition('::')[2]}"
        line = name, report.outcome, error[:300], replaced.calls - _session["before"]
        _session["file"].write(json.dumps(line) + "\n")
    return report
