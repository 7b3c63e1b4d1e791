"""Modules can be imported first, in whatever order, and by two threads at once."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

EACH_FIRST = """
import pkgutil, sys
import numpy, numba, dask.array, cupy
import multiword, ozaki

names = [x.name for p in (multiword, ozaki) for x in pkgutil.walk_packages(p.__path__, p.__name__ + ".")]
optional = "ozaki.torch", "ozaki.jax", "ozaki.cupy"
names = [x for x in names if not x.endswith("__main__") and not x.startswith(optional)]
assert len(names) > 150
for name in names:
    for loaded in list(sys.modules):
        if loaded.partition(".")[0] in ("multiword", "ozaki"):
            del sys.modules[loaded]
    try:
        __import__(name)
    except Exception as error:
        raise AssertionError(f"import {name}") from error
"""

AT_ONCE = """
import sys, threading
sys.setswitchinterval(1e-6)
start, failed = threading.Barrier(2), []

def load(name):
    start.wait()
    try:
        __import__(name)
    except BaseException as error:
        failed.append(error)

threads = [threading.Thread(target=load, args=(name,)) for name in sys.argv[1:]]
for x in threads: x.start()
for x in threads: x.join()
import multiword, ozaki
assert not failed and ozaki.sum([1.0, 2.0]) == 3, failed
"""


def test_every_module_can_be_the_first():
    pytest.importorskip("cupy")
    subprocess.run([sys.executable, "-W", "ignore", "-c", EACH_FIRST], check=True, timeout=600)


@pytest.mark.parametrize("other", ["multiword", "ozaki"])
def test_two_threads_may_import(other):
    """The packages; of their submodules, CPython itself may give a thread one that is half imported."""
    subprocess.run([sys.executable, "-c", AT_ONCE, "ozaki", other], check=True, timeout=100)


@pytest.mark.whole
@pytest.mark.parametrize("name", sorted(path.stem for path in Path(__file__).parent.glob("gpu/test_*.py")))
def test_tests_for_gpus_can_be_imported(name):
    """Without a GPU they are not collected."""
    names = vars(import_module(f"tests.gpu.{name}"))
    assert any(each.startswith("test_") for each in names)
