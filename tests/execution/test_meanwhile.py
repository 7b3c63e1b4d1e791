"""Calls in NumPy's forms while another thread compiles: the bits, and what is compiled when."""

import os
import threading

import numpy as np
import pytest

import ozaki
from multiword.runtime import meanwhile
from multiword.runtime.compiled import NONE, PRESENT, NotCompiled, allowed, compiled, compiles
from multiword.runtime.parallel import in_threads
from tests.execution.test_compiled import FROM_DISK, run

needs_numba = pytest.mark.skipif(not compiles(), reason="no numba")

FIRST = """
import numpy as np, ozaki, ozaki.linalg
from multiword.runtime.jit import DECLARED
from multiword.runtime.meanwhile import finish

def there():
    return sorted(x.__name__.split("_avx")[0] for x in DECLARED if x.overloads)

rng = np.random.default_rng(3)
a, b = rng.standard_normal((2, {n}, {n}))
"""

BITS = "print(r.tobytes().hex())"


@pytest.fixture
def on(monkeypatch):
    """Calls may take NumPy's forms, which other tests may not."""
    monkeypatch.setattr(meanwhile, "enabled", True)
    monkeypatch.setattr(meanwhile, "_running", {})
    monkeypatch.setattr(meanwhile, "_begun", set())


class Function:
    """What `jit` declares, but for the compiler: it is there as soon as it may be."""

    def __init__(self, error=None):
        self.there, self.may_end, self.error = False, threading.Event(), error

    def compile(self):
        self.may_end.wait()
        if self.error is not None:
            raise self.error
        self.there = True

    def __call__(self):
        if not self.there:
            meanwhile.left_to_background(self, self.compile, lambda: False)
            self.compile()
        return "compiled"


def form_of(function):
    return meanwhile.meanwhile(lambda: "NumPy" if allowed.value == NONE else function())


@needs_numba
@pytest.mark.parametrize(
    ("n", "call"),
    [
        (8, "ozaki.matmul(a, b)"),
        (70, "ozaki.matmul(a, b)"),
        pytest.param(70, "ozaki.matmul(a + 1j * b, b)", marks=pytest.mark.slow),
        pytest.param(70, "ozaki.linalg.solve(a, b)", marks=pytest.mark.slow),
        pytest.param(70, "ozaki.linalg.det(a)", marks=pytest.mark.slow),
    ],
)
def test_the_first_call_has_the_bits_of_later_ones(tmp_path, n, call):
    """It waits for no compilation; what another thread has compiled is on disk when the process has ended."""
    first = FIRST.format(n=n)
    cold = run(f"{first}\nr = {call}; print(there()); {BITS}", NUMBA_CACHE_DIR=str(tmp_path))
    warm = run(f"{FROM_DISK}{first}\nr = {call}; print(there()); {BITS}", NUMBA_CACHE_DIR=str(tmp_path))
    assert cold.split("\n")[0] == "[]"
    assert warm.split("\n")[0] != "[]"
    assert cold.split("\n")[1] == warm.split("\n")[1]


@needs_numba
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_in_the_meantime(tmp_path):
    """It waits for the compilation, and the child finds the code."""
    code = (
        FIRST.format(n=8)
        + """
import os, time
from multiword.runtime.forking import is_loading
r = ozaki.matmul(a, b)
while not is_loading() and not there():
    time.sleep(0.001)
child = os.fork()
if not child:
    same = (ozaki.matmul(a, b) == r).all()
    os._exit(not (same and there()))
print(os.waitpid(child, 0)[1])
"""
    )
    assert run(code, NUMBA_CACHE_DIR=str(tmp_path)) == "0"


def test_a_call_takes_compiled_code_once_it_is_there(on):
    function = Function()
    assert [form_of(function) for _ in range(3)] == ["NumPy"] * 3
    function.may_end.set()
    meanwhile.finish()
    assert form_of(function) == "compiled"


def test_what_is_on_disk_is_loaded_at_once(on):
    with allowed.within(PRESENT):
        meanwhile.left_to_background("loaded", pytest.fail, lambda: True)
        with pytest.raises(NotCompiled):
            meanwhile.left_to_background("not there", lambda: None, lambda: False)


def test_later_calls_wait_where_earlier_ones_have_taken_long(on, monkeypatch):
    function = Function()
    assert form_of(function) == "NumPy"
    monkeypatch.setattr(meanwhile, "_spent", 2 * meanwhile.MOST_SECONDS)
    threading.Timer(0.1, function.may_end.set).start()
    assert form_of(function) == "compiled"


def test_another_compilation_begins_with_no_time_spent(on, monkeypatch):
    monkeypatch.setattr(meanwhile, "_spent", 2 * meanwhile.MOST_SECONDS)
    function = Function()
    assert form_of(function) == "NumPy"
    assert meanwhile._spent < meanwhile.MOST_SECONDS
    function.may_end.set()
    meanwhile.finish()


def test_what_cannot_be_compiled_says_so(on):
    """The first call is none the wiser; the next one raises."""
    function = Function(ValueError("no such type"))
    function.may_end.set()
    assert form_of(function) == "NumPy"
    meanwhile.finish()
    with pytest.raises(ValueError, match="no such type"):
        form_of(function)


def test_threads_that_share_work_use_the_same_forms():
    found, both = [], threading.Barrier(2)

    def share():
        both.wait(10)
        found.append(compiled("ozaki.scaling.statistics_numba"))

    with allowed.within(NONE):
        in_threads(share, 1, lambda: None)
    assert found == [None, None]


@needs_numba
def test_large_products_and_named_executors_wait(on, monkeypatch):
    """In which compiled code pays at once, or has been asked for."""
    seen = []
    monkeypatch.setattr("ozaki.execution.executors.meanwhile", lambda work, *of: seen.append(work(*of)))
    a = np.ones((40, 40))
    ozaki.matmul(a, a)
    assert len(seen) == 1
    with ozaki.executor("steps"):
        ozaki.matmul(a, a)
    monkeypatch.setattr("ozaki.execution.executors.LARGEST_IN_NUMPY", 1000)
    ozaki.matmul(a, a)
    assert len(seen) == 1
