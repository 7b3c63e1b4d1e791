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
    """The texts that are launched: False for the first, True for the longer one."""
    found = []

    def kernel(name, of_single, last, _device):
        def run(_grid, _block, arguments):
            *x, out, flags, undecided, n = arguments
            assert out.size == n
            found.append(last)
            bits = np.unpackbits(flags.view(np.uint8), bitorder="little")[:n].astype(bool)
            live = np.flatnonzero(bits) if last else np.arange(n)
            values, doubt = np.empty(len(live), out.dtype), np.empty(len(live), np.uint8)
            evaluate._run(name, of_single, last)(*(np.asarray(a)[live] for a in x), values, doubt)
            out[live] = values
            left = np.zeros(32 * len(flags), np.uint8)
            left[live] = doubt
            flags.view(np.uint8)[:] = np.packbits(left, bitorder="little")
            undecided[int(last)] |= doubt.any()

        return run

    def empty(shape, dtype):
        return np.full(shape, -1).astype(dtype)  # memory as it comes

    names = ("asarray", "flatnonzero", "unpackbits")
    there = SimpleNamespace(empty=empty, **{name: getattr(np, name) for name in names})
    monkeypatch.setattr(DeviceArray, "get", lambda x: np.asarray(x), raising=False)
    monkeypatch.setattr(cuda, "import_cupy", lambda: there)
    monkeypatch.setattr(cuda, "Readback", Written)
    monkeypatch.setattr(graphs, "capturing", lambda: False)
    monkeypatch.setattr(cuda, "_processors", lambda _: 1)
    monkeypatch.setattr(cuda, "_kernel", kernel)
    monkeypatch.setattr(DeviceArray, "data", SimpleNamespace(device_id=0))
    monkeypatch.setattr(Written, "waits", 0)
    return found


FIRST, LONGER = False, True


@pytest.mark.parametrize(
    ("x", "texts", "waits"),
    [
        ([0.0, 1.0, 2.0], [FIRST], 1),
        ([-320.0, 0.5], [FIRST, LONGER], 2),  # a subnormal result
        (np.tile([23.0, -320.0, 1.0], 11), [FIRST, LONGER], 2),  # and ties, which integers decide
        (np.append(np.linspace(0, 1, 5000), [23.0, -320.0]), [FIRST, LONGER], 1),
        ([], [], 0),
    ],
    ids=["decided", "longer", "integers", "many", "none"],
)
def test_texts_that_are_launched(launched, x, texts, waits):
    x = np.asarray(x).view(DeviceArray)
    out = np.empty_like(x)
    cuda.evaluate("exp10", [x], out, evaluate.by_integers)
    assert np.asarray(out).tobytes() == ozaki.exp10(np.asarray(x)).tobytes()
    assert (launched, Written.waits) == (texts, waits)


def test_nothing_waits_where_the_longer_text_decides_all(launched):
    x = np.linspace(-200, 800, 3001, dtype=np.float32).view(DeviceArray)
    out = np.empty_like(x)
    cuda.evaluate("exp", [x], out, None)
    assert np.asarray(out).tobytes() == ozaki.exp(np.asarray(x)).tobytes()
    assert (launched, Written.waits) == ([FIRST, LONGER], 0)


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


def test_nothing_is_launched_in_a_callers_graph(launched, monkeypatch):
    monkeypatch.setattr(graphs, "capturing", lambda: True)
    with pytest.raises(ValueError, match="a CUDA graph of your own"):
        cuda.evaluate("exp", [np.ones(3)], np.ones(3), evaluate.by_integers)
    assert not launched
