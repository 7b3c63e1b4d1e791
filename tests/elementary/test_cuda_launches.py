"""What is launched on a GPU for a function of an array, and what is waited for, without a GPU.

`tests/gpu/test_elementary.py` compares the bits on one.
"""

from types import SimpleNamespace

import numpy as np
import pytest

import ozaki
from multiword.runtime import graphs
from ozaki.elementary import cuda, evaluate
from tests.standin import DeviceArray


class Written:
    """Numbers that kernels write to the host's memory: their address is the memory itself."""

    waits = 0

    def __init__(self, count, dtype):
        self.address = np.zeros(count, dtype)

    def send(self):
        """Nothing is under way."""

    def look(self):
        Written.waits += 1
        return self.address


@pytest.fixture
def launched(monkeypatch):
    """The kernels that are launched: whether they leave nothing undecided."""
    found = []

    def kernel(name, of_single, decided, _device):
        def run(_grid, _block, arguments):
            *x, out, n = arguments[: len(arguments) if decided else -2]
            assert out.size == n
            found.append(decided)
            x = [np.asarray(a) for a in x]
            values, doubt = np.empty(n, out.dtype), np.empty(n, np.uint8)
            evaluate._run(name, of_single, False)(*x, values, doubt)
            left = np.flatnonzero(doubt)
            again, still = np.empty(len(left), out.dtype), np.empty(len(left), np.uint8)
            evaluate._run(name, of_single, True)(*(a[left] for a in x), again, still)
            values[left], doubt[left] = again, still
            out[:] = values
            if decided:
                assert not still.any()
                return
            flags, undecided = arguments[-2:]
            bits = np.packbits(np.pad(doubt, (0, -n % 32)), bitorder="little")
            if not isinstance(flags, np.uint64):  # a null pointer
                flags.view(np.uint8)[:] |= bits
            undecided[0] |= doubt.any()

        return run

    def zeros(shape, dtype):
        return np.zeros(shape, dtype).view(DeviceArray)

    def flatnonzero(x):
        return np.flatnonzero(x).view(DeviceArray)

    there = SimpleNamespace(zeros=zeros, asarray=np.asarray, flatnonzero=flatnonzero)
    monkeypatch.setattr(DeviceArray, "get", lambda x: np.asarray(x), raising=False)
    monkeypatch.setattr(cuda, "import_cupy", lambda: there)
    monkeypatch.setattr(cuda, "Readback", Written)
    monkeypatch.setattr(graphs, "capturing", lambda: False)
    monkeypatch.setattr(cuda, "_processors", lambda _: 1)
    monkeypatch.setattr(cuda, "_kernel", kernel)
    place = property(lambda x: SimpleNamespace(device_id=0, ptr=x.ctypes.data))
    monkeypatch.setattr(DeviceArray, "data", place)
    monkeypatch.setattr(Written, "waits", 0)
    return found


@pytest.mark.parametrize(
    ("x", "kernels"),
    [
        ([0.0, 1.0, 2.0], 1),
        ([-320.0, 0.5], 1),  # a subnormal result, for the longer text
        (np.tile([23.0, -320.0, 1.0], 11), 2),  # and ties, which integers decide; another tells where
        ([], 0),
    ],
    ids=["decided", "longer", "integers", "none"],
)
def test_kernels_are_launched_and_waited_for(launched, x, kernels):
    x = np.asarray(x).view(DeviceArray)
    out = np.empty_like(x)
    cuda.evaluate("exp10", [x], out, evaluate.by_integers)
    assert np.asarray(out).tobytes() == ozaki.exp10(np.asarray(x)).tobytes()
    assert (launched, Written.waits) == ([False] * kernels, kernels)


def test_nothing_waits_where_the_longer_text_decides_all(launched):
    x = np.linspace(-200, 800, 3001, dtype=np.float32).view(DeviceArray)
    out = np.empty_like(x)
    cuda.evaluate("exp", [x], out, None)
    assert np.asarray(out).tobytes() == ozaki.exp(np.asarray(x)).tobytes()
    assert (launched, Written.waits) == ([True], 0)


@pytest.mark.parametrize(
    ("name", "arguments", "dtype", "options", "waits"),
    [
        ("exp", 1, np.float32, {}, False),
        ("exp", 1, np.float64, {}, True),
        ("hypot", 2, np.float32, {}, True),
        ("exp'0", 1, np.float32, {"waits": True}, True),
        ("gelu'0", 1, np.float32, {"waits": False}, False),
    ],
)
def test_what_waits(monkeypatch, name, arguments, dtype, options, waits):
    asked = []
    monkeypatch.setattr(evaluate, "is_cupy", lambda x: True)
    monkeypatch.setattr(cuda, "evaluate", lambda name, x, out, otherwise: asked.append(otherwise))
    evaluate.evaluate(name, [np.ones(3, dtype)] * arguments, np.ones(3, dtype), **options)
    assert asked == [evaluate.by_integers if waits else None]


def test_the_argument_may_be_the_result(launched):
    x = np.tile([23.0, -320.0, 1.0], 11).view(DeviceArray)
    expected = ozaki.exp10(np.asarray(x))
    cuda.evaluate("exp10", [x], x, evaluate.by_integers)
    assert np.asarray(x).tobytes() == expected.tobytes()
    assert (launched, Written.waits) == ([False], 1)


def test_nothing_is_launched_in_a_callers_graph(launched, monkeypatch):
    monkeypatch.setattr(graphs, "capturing", lambda: True)
    with pytest.raises(ValueError, match="a CUDA graph of your own"):
        cuda.evaluate("exp", [np.ones(3)], np.ones(3), evaluate.by_integers)
    assert not launched
