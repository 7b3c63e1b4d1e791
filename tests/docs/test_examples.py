"""Every example runs as its reader runs it, prints what it found and draws its figure."""

import importlib.util
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))


def run(path, folder, *options):
    packages = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": packages, "MPLBACKEND": "Agg", "COLUMNS": "80"}
    environment["OPENBLAS_NUM_THREADS"] = "1"  # more would only get in each other's way in small products
    if "--gpu" not in options:  # what a GPU's libraries warn of is not ours
        environment["PYTHONWARNINGS"] = "error"
    return subprocess.run(
        [sys.executable, str(path), "--output", str(folder / "figures"), *options],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def check(path, folder, *options):
    done = run(path, folder, *options)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert {x.name for x in folder.iterdir()} == {"figures"}  # nothing is left anywhere else
    figures = list((folder / "figures").iterdir())
    assert figures
    for figure in figures:
        assert figure.stem.startswith(path.stem)
        assert figure.read_bytes().startswith(b"\x89PNG")
        assert figure.stat().st_size > 10_000
    return done.stdout


def form(output):
    """What a script prints, with the numbers and fingerprints, which may differ, left out."""
    plain = re.sub(r"\b[0-9a-f]{16}\b", "fingerprint", output)
    return re.sub(r"[-+]?\d+(\.\d+)?(e[-+]\d+)?", "#", plain).split()


@cache
def tutorials():
    """`docs/tutorials.py`, which made the pages from the scripts."""
    spec = importlib.util.spec_from_file_location("tutorials", ROOT / "docs" / "tutorials.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


QUICK = "01"


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=() if path.stem[:2] == QUICK else pytest.mark.slow)
        for path in EXAMPLES
    ],
)
def test_example_runs_and_prints_what_its_tutorial_shows(path, tmp_path):
    pytest.importorskip("matplotlib")
    if "import dask" in path.read_text():
        pytest.importorskip("dask.array")
    output = tutorials().printed(check(path, tmp_path))
    assert form(output) == form(tutorials().shown(path)), f"run python docs/tutorials.py {path.stem[:2]}"


def test_examples_say_how_to_run_them_and_from_which_paper():
    assert EXAMPLES
    for path in EXAMPLES:
        docstring = path.read_text().split('"""')[1]
        assert f"python examples/{path.name} [--output DIR] [--gpu]\n" in docstring, path.name
