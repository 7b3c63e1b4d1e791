"""The release: one version everywhere, and a wheel that works where there is no checkout."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PACKAGES = ("multiword", "ozaki")

SMOKE = """
import json
import pkgutil
from importlib import import_module
from pathlib import Path

import numpy as np

import multiword
import ozaki
import ozaki.linalg.verified
from multiword.runtime.kernels import KERNELS

root = Path(ozaki.__file__).parents[1]
assert root == Path(multiword.__file__).parents[1] and "site-packages" in root.parts, root
for package in (multiword, ozaki):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        optional = ".torch", ".jax", ".dask", "ozaki.cupy"
        if not any(part in module.name for part in ("__main__", "_numba", *optional)):
            import_module(module.name)
a = np.array([[1e16, 1.0, -1e16]])
assert ozaki.matmul(a, np.ones((3, 1))) == 1.0 == ozaki.sum(a)
assert ozaki.group_sum(a[0], np.array([0, 1, 0]), 2).tolist() == [0, 1]
assert ozaki.linalg.solve(2 * np.eye(2), np.ones(2)).tolist() == [0.5, 0.5]
assert ozaki.linalg.verified.solve(np.eye(2), np.ones(2)).bound.max() == 0
assert multiword.matmul(np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32)).trace() == 2
print(ozaki.__version__)
print(sorted(name for name, kernel in KERNELS.items() if kernel.source))
tables = *root.glob("multiword/**/*.json"), *root.glob("ozaki/**/*.json")
print([len(json.loads(path.read_text())) > 0 for path in tables])
"""


def files_of_packages():
    """Everything beneath the packages but what Python makes there."""
    paths = (path for package in PACKAGES for path in (ROOT / package).rglob("*"))
    return {str(p.relative_to(ROOT)) for p in paths if p.is_file() and "__pycache__" not in p.parts}


def test_one_version():
    """In `pyproject.toml`, the citation, and the change log, whose latest release it is."""
    citation = (ROOT / "CITATION.cff").read_text()
    version, date = re.findall(r"^## \[(\d[^]]*)\] - (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)[0]
    assert PROJECT["version"] == version
    assert f"\nversion: {version}\n" in citation
    assert f"\ndate-released: {date}\n" in citation


def test_change_log_has_the_form_that_it_names():
    """Of Keep a Changelog: what is unreleased, then releases from new to old, in its sections."""
    text = (ROOT / "CHANGELOG.md").read_text()
    heads = re.findall(r"^## (.*)$", text, re.M)
    assert heads[0] == "[Unreleased]"
    releases = [re.fullmatch(r"\[(\d+)\.(\d+)\.(\d+)\] - \d{4}-\d\d-\d\d", head) for head in heads[1:]]
    assert all(releases)
    numbers = [tuple(map(int, release.groups())) for release in releases]
    assert numbers == sorted(set(numbers), reverse=True)
    sections = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    for release in re.split(r"^## .*$", text, flags=re.M)[1:]:
        found = re.findall(r"^### (.*)$", release, re.M)
        assert set(found) <= sections
        assert len(set(found)) == len(found)


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A fresh environment, and the sdist and the wheel of that, built there."""
    folder = tmp_path_factory.mktemp("release")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "environment")
    python = next(path for path in folder.glob("environment/*/python*") if path.is_file())
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--python", python)
    run(*pip, "install", "--no-compile", "hatchling")
    run(python, "-m", "hatchling", "build", "-t", "sdist", "-d", folder, cwd=ROOT)
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.glob("*/pyproject.toml")
    run(python, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=source.parent)
    (wheel,) = folder.glob("*.whl")
    return pip, python, sdist, wheel


@pytest.mark.slow
def test_the_release_has_every_file_and_works_without_the_checkout(built, tmp_path):
    """Where nothing but the dependencies is installed: the packages, their tables, every kernel's source."""
    pip, python, sdist, wheel = built
    expected = files_of_packages()
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert packed == expected
    with tarfile.open(sdist) as archive:
        source = {name.partition("/")[2] for name in archive.getnames()}
    assert source >= expected | {"README.md", "LICENSE", "CITATION.cff", "CHANGELOG.md", "tests/golden.json"}

    run(*pip, "install", "--no-compile", wheel)
    version, kernels, tables = run(python, "-I", "-c", SMOKE, cwd=tmp_path).splitlines()
    assert version == PROJECT["version"]
    sources = (p.read_text() for package in PACKAGES for p in (ROOT / package).rglob("*.py"))
    text = "".join(sources)
    declared = set(re.findall(r'\b(?:Kernel|_reconstructing)\(\s*"(\w+)"', text))
    assert len(declared) > 10
    assert declared == set(re.findall(r"\w+", kernels))
    assert tables == "[True, True, True]"
    assert run(python, "-I", "-m", "ozaki", "--version", cwd=tmp_path).split()[-1] == version
