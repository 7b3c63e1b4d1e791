"""Every example runs as its reader runs it, prints what it found and draws its figure."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))


def run(path, folder, *options):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg", "COLUMNS": "80"}
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


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_and_prints_what_its_tutorial_shows(path, tmp_path):
    pytest.importorskip("matplotlib")
    spec = importlib.util.spec_from_file_location("tutorials", ROOT / "docs" / "tutorials.py")
    tutorials = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tutorials)
    output = tutorials.printed(check(path, tmp_path))
    assert form(output) == form(tutorials.shown(path)), f"run python docs/tutorials.py {path.stem[:2]}"


@pytest.mark.gpu
@pytest.mark.parametrize(
    "path", [p for p in EXAMPLES if '"--gpu"' in p.read_text()], ids=lambda path: path.stem
)
def test_example_runs_on_the_gpu_with_the_same_bits(path, tmp_path):
    pytest.importorskip("cupy")
    pytest.importorskip("matplotlib")
    for folder in ("host", "gpu"):
        (tmp_path / folder).mkdir()
    host = check(path, tmp_path / "host")
    device = check(path, tmp_path / "gpu", "--gpu")
    if path.stem.startswith("01"):
        assert host.split("fingerprint")[1].splitlines()[0] == device.split("fingerprint")[1].splitlines()[0]
    if path.stem.startswith("02"):
        lines = device.split("accurate_dgemm")[1].splitlines()[1:9]
        assert len({line.split()[-1] for line in lines}) == 1


def test_examples_say_how_to_run_them_and_from_which_paper():
    assert EXAMPLES
    for path in EXAMPLES:
        docstring = path.read_text().split('"""')[1]
        assert f"python examples/{path.name} [--output DIR]" in docstring, path.name
