"""Compiled forms of the steps: the bits of NumPy's, in threads and forks, and without numba none at all."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ozaki
from multiword.runtime import compiled
from multiword.runtime.arrays import real_parts
from ozaki.scaling.statistics import row_statistics
from tests.cases import FACES, KINDS, matrices
from tests.exact import same

FIXTURES = [HealthCheck.function_scoped_fixture]
needs_numba = pytest.mark.skipif(
    compiled.compiled("ozaki.scaling.statistics_numba") is None, reason="no numba"
)


@needs_numba
@settings(suppress_health_check=FIXTURES, max_examples=40, deadline=None)
@given(
    st.sampled_from(KINDS),
    st.tuples(st.integers(1, 30), st.integers(129, 400), st.integers(1, 90)),
    st.sampled_from(list(FACES)),
    st.one_of(st.sampled_from(["fp64", "fp32", "normwise", "exact"]), st.integers(1, 90)),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_the_pipeline_has_the_same_bits(without_numba, kind, shape, dtype, accuracy, turned, seed):
    m, k, n = shape
    a, b = matrices(kind, m, k + k % 2 if kind == "cancelling" else k, n, seed)
    with np.errstate(over="ignore"):
        a, b = ((x * (1 + 1j) if dtype.startswith("c") else x).astype(dtype) for x in (a, b))
    if turned:
        a, b = np.asfortranarray(a), np.asfortranarray(b)
    options = {"accuracy": accuracy, "alpha": 3.0, "beta": -1.0, "c": np.ones((len(a), b.shape[1]), dtype)}
    found = FACES[dtype](a, b, **options)
    assert same(found, without_numba(FACES[dtype], a, b, **options))


@needs_numba
@pytest.mark.parametrize("dtype", FACES)
@pytest.mark.parametrize("shape", [(150, 300, 170), (700, 130, 40), (3, 5000, 2)], ids=str)
def test_blocks_and_special_numbers(without_numba, shape, dtype):
    """More than a block of rows, with an Inf, a NaN, zeros, subnormal numbers and results that overflow."""
    rng = np.random.default_rng(0)
    m, k, n = shape
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    a[0, 0], a[m // 2, -1], b[-1, 0] = np.inf, np.nan, -np.inf
    a[1] *= 1e-44
    b[:, 1] *= 1e38 if dtype in ("float32", "complex64") else 1e300
    a[2], b[k // 2] = 0, 0
    with np.errstate(over="ignore", invalid="ignore"):
        a, b = ((x + 1j * x[::-1] if dtype.startswith("c") else x).astype(dtype) for x in (a, b))
    for accuracy in ("fp64", "normwise", "exact"):
        found = FACES[dtype](a, b, accuracy=accuracy)
        assert same(found, without_numba(FACES[dtype], a, b, accuracy=accuracy))


@needs_numba
@settings(suppress_health_check=FIXTURES, deadline=None)
@given(
    st.lists(st.lists(st.complex_numbers(), min_size=4, max_size=4), min_size=1, max_size=5), st.booleans()
)
def test_statistics_of_any_numbers(without_numba, rows, real):
    x = np.array(rows)
    parts = [x.real] if real else real_parts(x)
    found, expected = row_statistics(parts), without_numba(row_statistics, parts)
    for name in ("exponent", "total", "square", "counts"):
        assert np.array_equal(getattr(found, name), getattr(expected, name))


@needs_numba
@pytest.mark.parametrize("patience", [0.0, 0.002])
def test_24_threads_at_first_use(patience):
    """None of them finds compiled code: each compiles, waits or takes NumPy's, and all get the same bits."""
    code = f"""
import threading
from concurrent.futures import ThreadPoolExecutor
import numpy as np, ozaki
from multiword.runtime import compiled

compiled.patience = {patience}
a = np.random.default_rng(0).standard_normal((12, 12))
start = threading.Barrier(24)

def work(_):
    start.wait()
    return ozaki.accurate_dgemm(a, a).tobytes(), ozaki.matmul(np.stack([a] * 40), a).tobytes()

with ThreadPoolExecutor(24) as pool:
    assert len(set(pool.map(work, range(24)))) == 1
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


@needs_numba
def test_stacks_and_large_products_in_24_threads():
    """What is shared out among threads waits for no thread that waits for it."""
    rng = np.random.default_rng(1)
    stack, a = rng.standard_normal((600, 16, 16)), rng.standard_normal((300, 300))
    tall = rng.standard_normal((5, 70_000, 2))
    expected = [ozaki.matmul(x, y) for x, y in ((stack, stack), (a, a), (tall, np.ones((2, 1))))]
    start = threading.Barrier(24)

    def work(i):
        start.wait()
        x, y = ((stack, stack), (a, a), (tall, np.ones((2, 1))))[i % 3]
        return same(ozaki.matmul(x, y), expected[i % 3])

    with ThreadPoolExecutor(24) as pool:
        assert all(pool.map(work, range(24)))


@needs_numba
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("wait", [0, 0.7])
def test_a_fork_while_another_thread_compiles(wait):
    code = f"""
import os, threading, time
import numpy as np, ozaki
from multiword.runtime import compiled

compiled.patience = 0.0
a = np.random.default_rng(0).standard_normal((9, 9))
thread = threading.Thread(target=ozaki.accurate_dgemm, args=(a, a))
thread.start()
time.sleep({wait})
child = os.fork()
if not child:
    os._exit(int(len(ozaki.accurate_dgemm(a, a)) != 9))
thread.join()
assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=300)


@pytest.mark.parametrize(
    "failing", ["raise ImportError('no numba')", "raise RuntimeError('broken')", "njit = 0"]
)
def test_a_numba_that_is_not_there_or_fails_changes_no_bit(tmp_path, failing):
    (tmp_path / "numba.py").write_text(failing + "\n")
    a = np.random.default_rng(2).standard_normal((20, 20))
    code = f"""
import sys, warnings
sys.path.insert(0, {str(tmp_path)!r})
import numpy as np, ozaki
from multiword.runtime import compiled
compiled.patience = 0.0
a = np.random.default_rng(2).standard_normal((20, 20))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print(ozaki.accurate_dgemm(a, a).tobytes().hex())
names = {{w.category.__name__ for w in caught}}
assert names == ({{"RuntimeWarning"}} if {("ImportError" not in failing)!r} else set()), names
"""
    run = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=100
    )
    assert run.stdout.strip() == ozaki.accurate_dgemm(a, a).tobytes().hex()


@needs_numba
def test_an_interrupt_leaves_the_next_call_to_compile(monkeypatch):
    def interrupted(module):
        raise KeyboardInterrupt

    monkeypatch.setattr(compiled, "_modules", {})
    with monkeypatch.context() as patch:
        patch.setattr(compiled, "import_module", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ozaki.accurate_dgemm(np.eye(3), np.eye(3))
    assert same(ozaki.accurate_dgemm(np.eye(3), np.eye(3)), np.eye(3))
    assert compiled.compiled("ozaki.execution.small_numba") is not None


@pytest.fixture
def patient(monkeypatch):
    """Nothing is compiled yet, and nothing at once; returns the list of modules that are compiled."""
    found = []

    def load(module):
        found.append(module)
        return import_module(module)

    for name, value in {"patience": 0.05, "_modules": {}, "_missed": {}, "import_module": load}.items():
        monkeypatch.setattr(compiled, name, value)
    return found


def test_a_few_products_compile_nothing():
    code = """
import sys
import numpy as np, ozaki

rng = np.random.default_rng(0)
for _ in range(3):
    for shape in ((8, 8), (100, 100), (300, 300), (40, 8, 8)):
        ozaki.matmul(rng.standard_normal(shape), rng.standard_normal(shape))
assert "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)


@needs_numba
@pytest.mark.parametrize(
    ("shape", "calls", "forms"),
    [((8, 8), 200, "statistics counting small"), ((200, 16, 16), 60, "statistics counting small")]
    + [((300, 300), 300, "statistics counting split reconstruct"), ((1500, 1500), 1, "")],
    ids=str,
)
def test_no_call_waits_for_more_than_one_module(patient, without_numba, shape, calls, forms):
    a = np.random.default_rng(3).standard_normal(shape)
    expected = without_numba(ozaki.matmul, a, a)
    for _ in range(calls):
        before = len(patient)
        assert same(ozaki.matmul(a, a), expected)
        assert len(patient) <= before + 1
    assert {name.split(".")[-1] for name in patient} == {f"{form}_numba" for form in forms.split()}


@needs_numba
def test_what_saves_more_than_a_compilation_is_compiled_at_once(patient):
    assert compiled.compiled("json", 0.9 * compiled.COMPILATION) is None
    assert compiled.compiled("csv", 1.1 * compiled.COMPILATION).__name__ == "csv"
    assert compiled.compiled("json", 0.04) is None
    assert compiled.compiled("json", 0.02) is None
    assert compiled.compiled("json", 0.02).__name__ == "json"
    assert compiled.compiled("csv", 0.0).__name__ == "csv"
    assert patient == ["csv", "json"]
