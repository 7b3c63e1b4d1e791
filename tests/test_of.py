"""`python -m tests.of` finds what concerns a file: by what it uses, by folders, within its time."""

import subprocess
import sys

import pytest

from tests import of
from tests.imports import ROOT, distances, files, home, used


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("ozaki.sum", "ozaki/sums/api.py"),
        ("ozaki.linalg.solve", "ozaki/linalg/functions.py"),
        ("ozaki.sums.exact", "ozaki/sums/exact/__init__.py"),
        ("ozaki.sums.api.sum", "ozaki/sums/api.py"),
        ("multiword.batched_matmul", "multiword/batched/api.py"),
        ("ozaki.no_such_name", "ozaki/__init__.py"),
        ("numpy.sum", None),
    ],
)
def test_names_are_at_home_where_they_are_defined(name, path):
    assert home(name) == path


@pytest.mark.parametrize(
    ("path", "other"),
    [
        ("ozaki/execution/in_floats.py", "ozaki/execution/across_numba.py"),  # named in a string
        ("ozaki/sums/exact/extraction.cuh", "ozaki/sums/exact/fixed_point.cuh"),  # included
        ("ozaki/certificate/pairwise.py", "ozaki/certificate/pairwise.cu"),
        ("tests/golden.py", "tests/golden.json"),
    ],
)
def test_files_use_what_they_import_include_and_name(path, other):
    assert other in used(path)
    assert distances(other)[path] == 1


def test_every_module_has_tests_that_concern_it():
    sources = [path for path in files() if path.startswith(("ozaki/", "multiword/"))]
    assert not [path for path in sources if not of.ranks(path)]


@pytest.mark.parametrize(
    ("path", "first"),
    [
        ("ozaki/mukunoki.py", ["ozaki/mukunoki.py", "tests/test_mukunoki.py"]),
        ("ozaki/linalg/rotations.py", ["tests/linalg/test_spectral.py"]),
        ("tests/sums/test_groups.py", ["tests/sums/test_groups.py"]),
        ("docs/guarantees.md", ["tests/docs/test_docs.py"]),
    ],
)
def test_the_nearest_come_first(path, first):
    taken, _ = of.chosen([path])
    assert taken[: len(first)] == first


def test_there_is_time_for_what_is_taken():
    seconds = of.costs()
    taken, left = of.chosen(["multiword/runtime/arrays.py", "ozaki/api.py"])
    tests = [path for path in taken if of.is_test(path)]
    assert sum(seconds.get(path, of.UNKNOWN) for path in tests) <= of.BUDGET
    assert left
    assert not set(left) & set(taken)
    assert not [path for path in (*taken, *left) if path.startswith("tests/gpu/")]
    on_a_gpu, _ = of.chosen(["ozaki/sums/exact/reduction.cu"], gpu=True)
    assert "tests/gpu/test_sums.py" in on_a_gpu


def test_a_page_leaves_the_tests_of_others_out():
    assert of.selection(["docs/inputs.md", "README.md"]) == ["-k", "not .md or inputs.md or README.md"]
    assert of.selection(["docs/inputs.md", "ozaki/api.py"]) == []


def test_the_command_runs_what_it_prints():
    path = "tests/multiword/runtime/test_status.py"
    command = [sys.executable, "-m", "tests.of", "--seconds", "0", path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    assert lines[:2] == [path, "and no time for 1 more: tests/test_assertions.py"]
    assert "passed" in lines[-1]


def test_a_file_that_is_not_there_is_refused():
    with pytest.raises(SystemExit, match="is no source, test or page"):
        of.in_repository("no/such/file.py")
