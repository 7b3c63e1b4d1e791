"""Compiled forms of the steps: the bits of NumPy's, in threads and forks, and without numba none at all."""

import itertools
import os
import re
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ozaki
from multiword.runtime import compiled
from multiword.runtime.arrays import real_parts
from multiword.runtime.forking import finalize
from ozaki.scaling.statistics import row_statistics
from tests.cells import cells
from tests.matrices import FACES, KINDS, matrices
from tests.oracle import same

FIXTURES = [HealthCheck.function_scoped_fixture]
needs_numba = pytest.mark.skipif(not compiled.compiles(), reason="no numba")


@needs_numba
def test_numpys_forms_end_with_their_block():
    def used():
        return compiled.compiled("ozaki.scaling.statistics_numba") is not None

    with compiled.numpy_forms():
        with pytest.raises(KeyError), compiled.numpy_forms():
            raise KeyError
        assert not used()
    assert used()


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
@cells(shape=[(150, 300, 170), (700, 130, 40), (3, 5000, 2)], dtype=FACES)
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
def test_24_threads_at_first_use():
    """None of them finds compiled code: each compiles or waits, and all get the same bits."""
    code = """
import threading
from concurrent.futures import ThreadPoolExecutor
import numpy as np, ozaki

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
def test_only_what_is_called_is_compiled():
    code = """
import numpy as np, ozaki
from multiword.runtime.jit import DECLARED
ozaki.matmul(np.ones((8, 8)), np.ones((8, 8)))
print({x.__name__ for x in DECLARED if x.overloads}, len(DECLARED) > 4)
"""
    assert run(code) == "{'multiply_stack'} True"


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
@pytest.mark.parametrize(
    ("wait", "call"),
    [
        (0, "accurate_dgemm(a, a)"),
        pytest.param(0.005, "sum(a)", marks=pytest.mark.slow),
        pytest.param(0.1, "accurate_dgemm(a, a)", marks=pytest.mark.slow),
        (0.7, "sum(a)"),
    ],
)
def test_a_fork_while_another_thread_imports_or_compiles(wait, call):
    code = f"""
import os, threading, time
import numpy as np, ozaki

a = np.random.default_rng(0).standard_normal((9, 9))
thread = threading.Thread(target=lambda: ozaki.{call})
thread.start()
time.sleep({wait})
child = os.fork()
if not child:
    ozaki.{call}
    os._exit(0)
thread.join()
assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=200)


def run(code, **environment):
    """The output of a process of its own."""
    call = [sys.executable, "-W", "ignore", "-c", code]
    process = subprocess.run(call, env=os.environ | environment, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr
    return process.stdout.strip()


PRODUCT = """
import numpy as np, ozaki
a = np.random.default_rng(2).standard_normal((20, 20))
print(ozaki.accurate_dgemm(a, a).tobytes().hex())
"""
NUMBERS = """
import ozaki.random
print(ozaki.random.default_rng(7).integers(-(1 << 62), 1 << 62, 40).tobytes().hex())
"""
"""Of one small compiled function, where a product has three: each takes seconds to compile."""

READY = """
from multiword.runtime.jit import DECLARED
for function in DECLARED: function.ready()
"""
"""Compiles the functions of all modules that are imported."""

THREE = (
    """
import numpy as np, ozaki.rounding.digits, ozaki.random
import ozaki.residues.split_numba
x = ozaki.random.default_rng(7).integers(-(1 << 62), 1 << 62, (3, 40))
print(ozaki.rounding.digits.round_digits(x, 50, -70).tobytes().hex())
"""
    + READY
)
"""Three small ones, of which two are called."""


@pytest.fixture(scope="module")
def expected():
    """What PRODUCT, NUMBERS and THREE print, with the compiled code that there is."""
    return {code: run(code) for code in (PRODUCT, NUMBERS, THREE)}


@pytest.mark.parametrize("missing", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_no_bit_changes_without_numba(tmp_path, missing, expected):
    """It is not installed, or told not to compile."""
    (tmp_path / "numba.py").write_text("raise ImportError('no numba')")
    environment = {"PYTHONPATH": f"{tmp_path}:{os.getcwd()}"} if missing else {"NUMBA_DISABLE_JIT": "1"}
    assert run(PRODUCT, **environment) == expected[PRODUCT]


def test_a_numba_that_fails_says_so(tmp_path):
    """What comes up while it is imported or compiles, a handler's TimeoutError say, is not swallowed."""
    (tmp_path / "numba.py").write_text("raise TimeoutError('from a handler')")
    with pytest.raises(AssertionError, match="TimeoutError: from a handler"):
        run(PRODUCT, PYTHONPATH=f"{tmp_path}:{os.getcwd()}")


@needs_numba
@pytest.mark.parametrize(
    ("seconds", "call"),
    [
        pytest.param(0.02, "sum(np.ones((99, 99)), axis=0)", marks=pytest.mark.slow),
        pytest.param(0.3, "matmul(np.eye(9), np.eye(9))", marks=pytest.mark.slow),
        (0.7, "sum(np.ones((99, 99)), axis=0)"),
        pytest.param(1.2, "matmul(np.eye(9), np.eye(9))", marks=pytest.mark.slow),
    ],
)
def test_interrupted_compilations_leave_every_function_working(tmp_path, call, seconds):
    """A handler's exception, whatever it is, reaches the caller, and the next call finds all in order."""
    code = f"""
import signal
import numpy as np, ozaki
class Interrupted(RuntimeError): pass
def handler(*_): raise Interrupted
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, {seconds})
try:
    ozaki.{call}
    signal.setitimer(signal.ITIMER_REAL, 0)
except Interrupted:
    print("interrupted")
print(ozaki.{call}.tobytes() == np.{call}.tobytes())
"""
    assert run(code, NUMBA_CACHE_DIR=str(tmp_path)).split()[-1] == "True"


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory):
    """A folder with the compiled code of THREE."""
    folder = tmp_path_factory.mktemp("code")
    run(THREE, NUMBA_CACHE_DIR=str(folder))
    return folder


@pytest.fixture
def files(tmp_path, compiled_once):
    """A copy of it in `tmp_path`: the file of `round_digits`."""
    shutil.copytree(compiled_once, tmp_path, dirs_exist_ok=True)
    (found,) = tmp_path.glob("*/*round_digits*")
    return found


FROM_DISK = """
from numba.core import compiler
def compile_extra(*_, **__): raise SystemExit("compiled anew")
compiler.compile_extra = compile_extra
"""


@needs_numba
class TestFiles:
    def test_another_process_finds_them(self, tmp_path, files, expected):
        assert run(FROM_DISK + THREE, NUMBA_CACHE_DIR=str(tmp_path)) == expected[THREE]

    def test_settings_that_change_no_code_find_them(self, tmp_path, files, expected):
        changed = {"NUMBA_NUM_THREADS": "1", "NUMBA_THREADING_LAYER": "workqueue"}
        assert run(FROM_DISK + THREE, NUMBA_CACHE_DIR=str(tmp_path), **changed) == expected[THREE]

    def test_settings_that_change_code_keep_files_of_their_own(self, tmp_path):
        """Beside the others, which stay."""
        code = "import ozaki.random.philox_numba" + READY
        for changed in ({}, {"NUMBA_OPT": "2"}):
            run(code, NUMBA_CACHE_DIR=str(tmp_path), **changed)
        names = [path.name.rsplit("-", 1)[0] for path in tmp_path.rglob("*.ozaki")]
        assert names
        assert all(names.count(name) == 2 for name in names)

    def test_damaged_and_stale_ones_are_replaced(self, tmp_path, files, expected):
        """Short, overwritten and stale ones; an empty one is as short as can be."""
        damages = (lambda x: b"", lambda x: x[:-99] + bytes(99), lambda x: bytes(32) + x[32:])
        paths = sorted(tmp_path.glob("*/*"))
        assert files in paths
        assert len(paths) >= len(damages)
        for path, damaged in zip(paths, itertools.cycle(damages), strict=False):
            path.write_bytes(damaged(path.read_bytes()))
        assert run(THREE, NUMBA_CACHE_DIR=str(tmp_path)) == expected[THREE]
        assert run(FROM_DISK + THREE, NUMBA_CACHE_DIR=str(tmp_path)) == expected[THREE]

    @pytest.mark.slow
    def test_where_none_can_be_written_all_is_compiled(self, expected):
        assert run(NUMBERS, NUMBA_CACHE_DIR="/dev/null/folder") == expected[NUMBERS]

    @pytest.mark.slow
    def test_a_full_disk_leaves_none(self, tmp_path, expected):
        limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))"
        assert run(limit + NUMBERS, NUMBA_CACHE_DIR=str(tmp_path)) == expected[NUMBERS]
        assert not list(tmp_path.glob("*/*"))

    @pytest.mark.slow
    def test_four_processes_at_once(self, tmp_path, expected):
        with ThreadPoolExecutor(4) as pool:
            found = set(pool.map(lambda _: run(NUMBERS, NUMBA_CACHE_DIR=str(tmp_path)), range(4)))
        assert found == {expected[NUMBERS]}
        assert {path.suffix for path in tmp_path.glob("*/*")} == {".ozaki"}

    def test_an_edit_recompiles_what_imports_it_alone(self, tmp_path):
        """In a copy of the packages, whose files say when they were written."""
        for package in ("multiword", "ozaki"):
            shutil.copytree(package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))

        def written(*edited):
            """The modules, of two, whose functions are compiled once more after comments have changed."""
            for name in edited:
                with (tmp_path / name).open("a") as file:
                    file.write("# another comment\n")
            before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("code/*/*.ozaki")}
            run(
                "import ozaki.random.philox_numba, ozaki.residues.split_numba" + READY,
                NUMBA_CACHE_DIR=str(tmp_path / "code"),
                PYTHONPATH=str(tmp_path),
                PYTHONSAFEPATH="1",
            )
            after = {path: path.stat().st_mtime_ns for path in tmp_path.glob("code/*/*.ozaki")}
            return {path.name.split("_numba.")[0] for path in after if after[path] != before.get(path)}

        everything = written()
        assert everything == {"ozaki.random.philox", "ozaki.residues.split"}
        edited = ("ozaki/cli/command.py", "ozaki/__init__.py", "ozaki/residues/split_numba.py")
        assert written(*edited) == {"ozaki.residues.split"}
        assert written("multiword/runtime/jit.py") == everything

    def test_their_names_are_portable(self):
        """Windows has no file called <locals>."""
        from multiword.runtime.jit import _Files

        def local(): ...

        codegen = SimpleNamespace(magic_tuple=tuple)
        (path, *_), (other, *_) = (_Files(local, variant)._paths(codegen) for variant in "ab")
        assert re.fullmatch(r"[\w.]+\.locals\.local-[0-9a-f]{16}\.ozaki", path.name)
        assert path != other


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_what_ends_with_an_object_does_not_in_a_fork():
    """A child lacks its parent's other threads, and with them the objects of their `threading.local`."""
    ended, local, done = [], threading.local(), threading.Event()
    there = threading.Event()

    class Owned:
        pass

    def work():
        local.x = Owned()
        finalize(local.x, ended.append, 1)
        there.set()
        done.wait()

    thread = threading.Thread(target=work)
    thread.start()
    there.wait()
    if not (child := os.fork()):
        os._exit(len(ended))
    assert os.waitpid(child, 0)[1] == 0
    assert not ended
    done.set()
    thread.join()
    assert ended == [1]
