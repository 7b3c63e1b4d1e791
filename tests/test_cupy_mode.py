"""CuPy's mode without a GPU: which calls it replaces, on arrays of CuPy's in the memory of the host.

What CuPy itself then asks of a GPU, and the products, tests/gpu/test_cupy_mode.py runs on one.
"""

import ctypes
import sys
import threading

import numpy as np
import pytest

cupy = pytest.importorskip("cupy")

import ozaki  # noqa: E402
import ozaki.cupy  # noqa: E402
from ozaki.cupy import Calls, _sites, emulated  # noqa: E402


def on_device(array):
    """A CuPy array in the memory of a NumPy one."""
    array = np.ascontiguousarray(array)
    memory = cupy.cuda.UnownedMemory(array.ctypes.data, array.nbytes, array, 0)
    return cupy.ndarray(array.shape, array.dtype, cupy.cuda.MemoryPointer(memory, 0))


def on_host(array):
    size = (ctypes.c_byte * array.data.mem.size).from_address(array.data.mem.ptr)
    return np.ndarray(array.shape, array.dtype, size, array.data.ptr - array.data.mem.ptr, array.strides)


@pytest.fixture(autouse=True)
def products_on_the_host(monkeypatch):
    def multiply(call, a, b, accuracy):
        return on_device(ozaki.matmul(on_host(a), on_host(b), accuracy=accuracy))

    monkeypatch.setattr(ozaki.cupy, "_multiply", multiply)


@pytest.fixture(autouse=True)
def nothing_stays_patched():
    def state():
        return [(vars(owner).get(name), getattr(owner, name)) for owner, name, *_ in _sites()]

    before = state()
    yield
    assert state() == before


RNG = np.random.default_rng(5)
A, B, V = RNG.standard_normal((4, 3)), RNG.standard_normal((3, 5)), RNG.standard_normal(3)
STACK = RNG.standard_normal((2, 4, 3))
CALLS = {
    "@": (lambda xp, a, b: a @ b, A, B, "matmul"),
    "@ of a stack": (lambda xp, a, b: a @ b, STACK, B, "matmul"),
    "@ of vectors": (lambda xp, a, b: a @ b, V, V, "matmul"),
    "matmul": (lambda xp, a, b: xp.matmul(a, b), A, V, "matmul"),
    "NumPy's matmul": (lambda xp, a, b: np.matmul(a, b), A, B, "matmul"),
    "linalg.matrix_power": (lambda xp, a, b: xp.linalg.matrix_power(a, 3), A[:3], B, "matmul"),
    "dot": (lambda xp, a, b: xp.dot(a, b), A, B, "dot"),
    "dot of a stack": (lambda xp, a, b: a.dot(b), STACK, B, "dot"),
    "NumPy's dot": (lambda xp, a, b: np.dot(a, b), A, V, "dot"),
    "tensordot": (lambda xp, a, b: xp.tensordot(a, b, 1), STACK[:1, :1], B, "tensordot"),
    "inner": (lambda xp, a, b: xp.inner(a, b), V, V, "tensordot"),
    "vdot": (lambda xp, a, b: xp.vdot(a, b), V, V, "tensordot"),
    "integers": (lambda xp, a, b: a.dot(b), A, B, "dot"),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_are_replaced(name):
    call, a, b, function = CALLS[name]
    with emulated() as calls:
        result = call(cupy, on_device(a), on_device(b))
    assert {c.function for c in calls} == {function}
    np.testing.assert_allclose(on_host(result), call(np, a, b), rtol=1e-14)
    assert isinstance(result, cupy.ndarray)


def test_out_is_filled(monkeypatch):
    filled = []
    monkeypatch.setattr(
        cupy.ndarray, "__setitem__", lambda out, key, x: filled.append((out, x)), raising=False
    )
    a, b, out = on_device(A), on_device(B), on_device(np.empty((4, 5)))
    with emulated():
        assert a.dot(b, out) is out
        assert cupy.matmul(a, b, out=out) is out
    assert all(where is out and np.allclose(on_host(x), A @ B) for where, x in filled)
    assert len(filled) == 2


def native(call):
    """Whether a call reaches CuPy itself, which has no GPU here."""
    try:
        call()
    except (ImportError, RuntimeError, ValueError, TypeError):
        return True
    return False


LEFT_ALONE = {
    "float32": lambda: on_device(A.astype("f4")) @ on_device(B.astype("f4")),
    "small": lambda: on_device(A[:2]) @ on_device(B),
    "other shapes": lambda: on_device(A) @ on_device(A),
    "another dtype of out": lambda: on_device(A).dot(on_device(B), on_device(np.empty((4, 5), "f4"))),
    "another shape of out": lambda: on_device(A).dot(on_device(B), on_device(np.empty((4, 4)))),
    "NumPy's arrays": lambda: on_device(A) @ B,
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_what_is_left_alone(name):
    with emulated(minimum=4 * 3 * 5) as calls:
        assert native(LEFT_ALONE[name])
    assert calls == []


def test_dtypes_on_request():
    with emulated(dtypes=("float32", np.complex64)) as calls:
        for dtype in (np.float32, np.complex64):
            on_device(A.astype(dtype)) @ on_device(B.astype(dtype))
        assert native(lambda: on_device(A) @ on_device(B))
    assert [c.dtype for c in calls] == ["float32", "complex64"]


def test_calls_are_listed():
    with emulated("exact") as calls:
        for _ in range(3):
            on_device(STACK) @ on_device(B)
        on_device(A).dot(on_device(V))
    assert [(c.function, c.shapes, c.dtype, c.products) for c in calls] == [
        ("matmul", ((2, 4, 3), (3, 5)), "float64", 6),
        ("dot", ((4, 3), (3, 1)), "float64", 1),
    ]
    assert str(calls).splitlines()[1].split()[:5] == ["matmul", "2x4x3", "3x5", "float64", "6"]
    assert str(Calls()).startswith("function")


def test_other_threads_and_the_outside_are_native():
    a, b, seen = on_device(A), on_device(B), []
    with emulated() as calls:
        worker = threading.Thread(target=lambda: seen.append(native(lambda: a @ b)))
        worker.start()
        worker.join()
    assert seen == [True]
    assert native(lambda: a @ b)
    assert calls == []


def test_blocks_nest_and_interleave():
    a, b = on_device(A), on_device(B)
    first, second = emulated(30), emulated()
    outer, inner = first.__enter__(), second.__enter__()
    a @ b
    first.__exit__(None, None, None)
    a @ b
    second.__exit__(None, None, None)
    assert native(lambda: a @ b)
    assert (len(outer), inner[0].products) == (0, 2)


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt, SystemExit])
def test_nothing_stays_patched_after(error):
    with pytest.raises(error), emulated():
        raise error
    assert "dot" not in vars(cupy.ndarray)
    assert native(lambda: on_device(A) @ on_device(B))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"accuracy": "best"}, ValueError, "accuracy must be"),
        ({"minimum": 1e6}, TypeError, "integer"),
        ({"dtypes": "float16"}, TypeError, "dtypes must be one or several of .*, got 'float16'"),
        ({"dtypes": ["float64", "int64"]}, TypeError, "dtypes must be one or several of"),
    ],
)
def test_options_are_checked(options, error, message):
    with pytest.raises(error, match=message), emulated(**options):
        pass


def test_scripts_run_in_the_mode(tmp_path, monkeypatch, capsys):
    """The script imports this module for its arrays, and knows nothing of the mode."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "from tests.test_cupy_mode import A, B, on_device\n"
        "print(sys.argv[1:], (on_device(A) @ on_device(B)).shape, __name__)\n"
        "sys.exit()\n"
    )
    monkeypatch.setenv("OZAKI_CUPY", "40")
    before = list(sys.argv)
    calls = ozaki.cupy.run(str(script), "--fast")
    assert sys.argv == before
    assert capsys.readouterr().out == "['--fast'] (4, 5) __main__\n"
    assert [c.products for c in calls] == [1]
    assert ozaki.cupy.run(str(script), minimum=60, dtypes=("float64", "float32"), accuracy="exact")
    monkeypatch.setenv("OZAKI_CUPY", "forty")
    with pytest.raises(ValueError, match=r"accuracy must be .* got 'forty'"):
        ozaki.cupy.run(str(script))
