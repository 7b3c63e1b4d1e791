"""Shared fixtures: the GPU, where there is one, and hypothesis's profile.

With POISON=1 in the environment CuPy's memory comes filled with NaN, and with -1 for integers: what
reads memory that nothing has written shows in a result.
"""

import gc
import os
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

from multiword.engines import ENGINES
from multiword.runtime.compiled import numpy_forms
from tests.shares import mark_others

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the GPU is for the other tests, too


GPU = Path(__file__).with_name("gpu")

settings.register_profile("ci", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("ci")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect without Python's search for cycles, which takes a third of the time and finds none."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def searched_once():
    """What the tests of a file leave is searched for cycles once, and not with every later search again."""
    yield
    gc.collect()
    gc.freeze()


@cache
def count_gpus() -> int | str:
    """How many GPUs there are to test on, or why none."""
    try:
        import cupy

        return cupy.cuda.runtime.getDeviceCount()
    except Exception as error:
        return f"no GPU: {type(error).__name__}: {error}"


def pytest_ignore_collect(collection_path):
    """Some 6,000 tests that would be skipped take their time, too."""
    return True if collection_path == GPU and isinstance(count_gpus(), str) else None


def pytest_terminal_summary(terminalreporter):
    if isinstance(count_gpus(), str):
        terminalreporter.write_line(f"tests/gpu is not run unless it is named: {count_gpus()}")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Say what is slow before pytest selects by marks, and what has no GPU to run on."""
    mark_others(items)
    marked = [item for item in items if "gpu" in item.keywords]
    found = count_gpus() if marked else 0
    for item in marked:
        if isinstance(found, str):
            item.add_marker(pytest.mark.skip(reason=found))
        elif "two_gpus" in item.keywords and found < 2:
            item.add_marker(pytest.mark.skip(reason="needs two GPUs"))


@pytest.fixture(scope="module")
def modular():
    """The engine of `tests.modular`, registered: an engine of a word that the packages do not have."""
    ENGINES["modular"] = "tests.modular:Modular"
    yield
    del ENGINES["modular"]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """CUDA kernels on a CPU, each of which a file's tests compile once."""
    from tests.residues.emulated import Emulation

    return Emulation(tmp_path_factory.mktemp("kernels"))


@pytest.fixture
def emulated(monkeypatch, compiled):
    """A stand-in for a GPU whose kernels are `compiled`."""
    return compiled.install(monkeypatch)


@pytest.fixture
def without_numba():
    """Returns a function that calls another one in NumPy's forms."""

    def run(function, *arguments, **options):
        with numpy_forms():
            return function(*arguments, **options)

    return run


@pytest.fixture
def dask_in_this_thread():
    """Dask computes in the thread that asks it to."""
    import dask

    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(scope="session", autouse=True)
def poisoned_memory():
    if not os.environ.get("POISON"):
        yield
        return
    import cupy

    pool = cupy.get_default_memory_pool()

    def malloc(size):
        memory = pool.malloc(size)
        if size:
            memory.memset_async(0xFF, size, cupy.cuda.get_current_stream())
        return memory

    cupy.cuda.set_allocator(malloc)
    yield
    cupy.cuda.set_allocator(pool.malloc)
