"""`python -m tests.of PATH …`: runs the tests that concern these files, in about a minute on two cores.

These are the doctests of the files themselves, and test files in this order, for as long as there is time:
those with the file's name in the folder that mirrors its own, and of a step the comparisons with its
definition; those that use it; those that use what uses it; in each case those in the mirrored folder first,
and then the quick ones. `tests.imports` reads from the sources what uses what. A CUDA file counts as the
modules that launch it, a page as itself: of tests with a page each that of others is left out. `seconds.json`
says how long test files take.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.imports import ROOT, distances, files
from tests.shares import SECONDS, costs

UNKNOWN = 10.0
"""Seconds that a file is taken to need of which `seconds.json` says nothing."""

BUDGET = 54.0
"""Seconds of both cores together, imports aside."""

STEPS = ("ozaki/scaling", "ozaki/certificate", "ozaki/residues", "ozaki/rounding", "ozaki/sums/exact")
"""Folders whose files are compared with the definition: those comparisons name the step that is wrong."""

FARTHEST = 2
"""Test files of other folders that are farther away count only where there is none so near."""


def is_test(path: str) -> bool:
    return path.startswith("tests/") and path.rpartition("/")[2].startswith("test_")


def mirror(path: str) -> str:
    """The folder of the tests of a file of the packages: `tests/sums` of `ozaki/sums/exact/rows.py`."""
    first, *inner, _ = path.split("/")
    if first == "tests":
        return "/".join((first, *inner))
    if first not in ("ozaki", "multiword"):
        return "tests/docs"
    folder = "/".join(("tests", *((first,) if first == "multiword" else ()), *inner))
    while not any(is_test(other) and other.startswith(f"{folder}/") for other in files()):
        folder = folder.rpartition("/")[0]
    return folder


def ranks(path: str) -> dict[str, tuple]:
    """The test files that concern a file: (how far away, whether in another folder)."""
    if is_test(path):
        return {path: (0, False), "tests/test_assertions.py": (1, False)}
    folder, stem = mirror(path), Path(path).stem
    found = {test: steps for test, steps in distances(path).items() if is_test(test)}
    if path.endswith((".cu", ".cuh")):
        found["tests/multiword/runtime/test_kernels_compile.py"] = 1
    if folder == "tests/docs" and not path.startswith("benchmarks/results/"):
        found |= dict.fromkeys(("tests/docs/test_docs.py", "tests/docs/test_site.py"), 1)
    if f"{folder}/test_{stem}.py" in files():
        found[f"{folder}/test_{stem}.py"] = 0
    if path.startswith(STEPS):
        found["tests/definition/test_forms.py"] = 0
    if not found:  # used through its package alone
        found = {test: 1 for test in files() if is_test(test) and test.startswith(f"{folder}/")}
    inside = {test for test in found if test.startswith(f"{folder}/")}
    farthest = max(FARTHEST, min(found.values(), default=0))
    return {t: (steps, t not in inside) for t, steps in found.items() if steps <= farthest or t in inside}


def chosen(paths: list[str], budget: float = BUDGET, gpu: bool = False) -> tuple[list[str], list[str]]:
    """The files to run, the nearest first, and those left out for want of time."""
    seconds = costs()
    best: dict[str, tuple] = {}
    for path in paths:
        for test, rank in ranks(path).items():
            if test.startswith("tests/gpu/") == gpu:
                best[test] = min(rank, best.get(test, rank))
    order = sorted(best, key=lambda test: (best[test], seconds.get(test, UNKNOWN), test))
    examples = [path for path in paths if path.endswith(".py") and not path.startswith("tests/")]
    taken = [path for path in examples if not gpu and ">>>" in files()[path].read_text()]
    left, spent = [], 0.0
    for test in order:
        cost = seconds.get(test, UNKNOWN)
        fits = spent + cost <= budget or test in paths  # what was asked for runs
        (taken if fits else left).append(test)
        spent += cost if fits else 0
    if order and len(left) == len(order):  # the nearest, if there is no time for any
        taken.append(order[0])
        left.remove(order[0])
    return taken, left


def selection(paths: list[str]) -> list[str]:
    """Pytest's option that leaves out the tests of other pages, where pages alone are asked for."""
    if not paths or not all(path.endswith(".md") for path in paths):
        return []
    return ["-k", " or ".join(["not .md", *(path.removeprefix("docs/") for path in paths)])]


class Seconds:
    """What tests take on one core, with what they start: all instances together, and how many there are."""

    def __init__(self) -> None:
        self.told: dict[str, dict[str, tuple[float, int]]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        begin = sum(os.times()[:4])
        result = yield
        file, _, test = item.nodeid.partition("[")[0].partition("::")
        seconds, count = self.told.setdefault(file, {}).get(test, (0.0, 0))
        self.told[file][test] = seconds + sum(os.times()[:4]) - begin, count + 1
        return result

    def lines(self) -> Iterator[str]:
        """A file's tests of a tenth of a second and more, in a line."""
        for file, tests in sorted(self.told.items()):
            told = {test: (round(took, 1), n) for test, (took, n) in sorted(tests.items()) if took >= 0.1}
            yield f'"{file}": {json.dumps(told)}'


def measure() -> int:
    """Run all instances of what is not slow, and write what each test took."""
    seconds = Seconds()
    SECONDS.write_text("{}")
    status = pytest.main(["-q", "-m", "not slow and not gpu", "tests"], plugins=[seconds])
    SECONDS.write_text("{\n" + ",\n".join(seconds.lines()) + "\n}\n")
    return status


def in_repository(given: str) -> list[str]:
    """The files of a path, or of all in a folder."""
    path = os.path.relpath(Path(given).resolve(), ROOT)
    found = [file for file in files() if file == path or file.startswith(f"{path}/")]
    if not found:
        raise SystemExit(f"{given} is no source, test or page")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.of", description="Run the tests that concern files."
    )
    parser.add_argument("paths", nargs="*", help="sources, tests or pages, or folders of them")
    parser.add_argument("--list", action="store_true", help="print what would run, and run nothing")
    parser.add_argument("--seconds", type=float, default=BUDGET, help="of two cores together: %(default)s")
    parser.add_argument("--gpu", action="store_true", help="tests of tests/gpu instead")
    parser.add_argument("--measure", action="store_true", help=f"run everything; write {SECONDS.name}")
    options = parser.parse_args()
    if options.measure:
        return measure()
    paths = [file for path in options.paths for file in in_repository(path)]
    taken, left = chosen(paths, options.seconds, options.gpu)
    print("\n".join(taken), flush=True)
    if left:
        print(f"and no time for {len(left)} more: {', '.join(left)}", flush=True)
    if options.list or not taken:
        return 0
    marks = "gpu and not two_gpus" if options.gpu else "not slow and not gpu"
    processes = ["-n", "0"] if options.gpu else ["-n", "2", "--dist", "worksteal"]
    command = [sys.executable, "-m", "pytest", "-q", "-m", marks, *processes, *selection(paths), *taken]
    return subprocess.run(command, cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())
