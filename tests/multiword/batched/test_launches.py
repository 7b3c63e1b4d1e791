"""The launch cache of GPU calls, with a stand-in for CuPy: addresses without memory behind them."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from multiword.batched.gpu import launches
from multiword.batched.gpu.launches import cache, key_of, relaunch
from multiword.tuning import LAUNCHES_CACHED

OPTIONS = (1.0, 0.0, False, False, "fp32")


class Array:
    """The attributes of `cupy.ndarray` that count here."""

    def __init__(self, address, shape=(10, 4, 4), strides=None, device=0):
        self.data = SimpleNamespace(ptr=address, device_id=device)
        self.shape, self.dtype, self.itemsize = shape, np.dtype(np.float16), 2
        self.strides = strides or tuple(2 * int(np.prod(shape[i + 1 :])) for i in range(len(shape)))


@pytest.fixture(autouse=True)
def cupy(monkeypatch):
    made = SimpleNamespace(
        ndarray=Array,
        cuda=SimpleNamespace(runtime=SimpleNamespace(getDevice=lambda: 0)),
        empty=lambda shape, word: Array(1 << 20, shape),
    )
    monkeypatch.setitem(sys.modules, "cupy", made)
    launches._launches.clear()
    yield made
    launches._launches.clear()


def call(*addresses, c=None, out=0, transposed=False):
    a, b = (SimpleNamespace(address=x) for x in addresses)
    places = {"c": None if c is None else SimpleNamespace(address=c), "out": SimpleNamespace(address=out)}
    problem = SimpleNamespace(stored_shape=(10, 4, 4), word=np.dtype(np.float16))
    return SimpleNamespace(a=a, b=b, **places, problem=problem, transposed=transposed)


def test_only_the_alignment_of_addresses_counts():
    def key(address, **other):
        return key_of(Array(address, **other), Array(4096), None, None, OPTIONS)

    assert key(1024) == key(2048)
    assert key(1024) != key(1026)
    assert key(1024) != key(1024, strides=(32, 2, 8))
    assert key(1024, device=1) is None
    assert key(1024) != key_of(Array(1024), Array(4096), Array(8192), None, OPTIONS)
    assert key_of([Array(0)], Array(0), None, None, OPTIONS) is None
    assert key_of(np.ones(3), Array(0), None, None, OPTIONS) is None
    assert key_of(Array(0), Array(0), None, None, (np.array(2.0),)) is None
    c = Array(512)
    assert key_of(Array(0), Array(0), c, c, OPTIONS) != key_of(Array(0), Array(0), c, Array(1024), OPTIONS)


def test_a_call_is_repeated_with_other_addresses():
    done = []
    a, b = Array(1024), Array(4096)
    key = key_of(a, b, None, None, OPTIONS)
    assert relaunch(key, a, b, None, None) is None
    cache(key, call(1024, 4096), lambda *x: done.append(x), a, b, None, None)
    x, y = Array(2048), Array(8192)
    result = relaunch(key, x, y, None, None)
    assert done == [(x, y, result, result)]


def test_numpy_arrays_need_no_driver(cupy):
    """CuPy may be imported on a machine without a GPU, whose runtime then raises."""
    cupy.cuda.runtime.getDevice = None
    assert key_of(np.ones(3), np.ones(3), None, None, OPTIONS) is None


def test_a_transposed_call_takes_b_first():
    done = []
    a, b, out = Array(1024), Array(4096), Array(8192, strides=(32, 2, 8))
    key = key_of(a, b, None, out, OPTIONS)
    cache(key, call(4096, 1024, out=8192, transposed=True), lambda *x: done.append(x), a, b, None, out)
    assert relaunch(key, a, b, None, out) is out
    assert done == [(b, a, out, out)]


def test_a_transposed_square_is_no_plain_one():
    """What x·x by columns launched serves x·y by columns, whose operands are two."""
    done = []
    x, y, out = Array(1024), Array(4096), Array(8192, strides=(32, 2, 8))
    key = key_of(x, x, None, out, OPTIONS)
    cache(key, call(1024, 1024, out=8192, transposed=True), lambda *x: done.append(x), x, x, None, out)
    assert key == key_of(x, y, None, out, OPTIONS)
    assert relaunch(key, x, y, None, out) is out
    assert done == [(y, x, out, out)]


def test_calls_with_copied_operands_are_not_cached():
    a, b, c, out = (Array(x) for x in (1024, 4096, 8192, 16384))
    key = key_of(a, b, c, out, OPTIONS)
    for where in (
        call(1, 4096, c=8192, out=16384),
        call(1024, 4096, c=1, out=16384),
        call(1024, 4096, c=8192),
    ):
        cache(key, where, None, a, b, c, out)
    assert not launches._launches


def test_overlapping_results_are_planned_anew():
    a, b, c, out = (Array(x) for x in (1024, 4096, 8192, 16384))
    key = key_of(a, b, c, out, OPTIONS)
    cache(key, call(1024, 4096, c=8192, out=16384), lambda *x: None, a, b, c, out)
    assert relaunch(key, a, b, c, out) is out
    for low in (1024 - 304, 1024, 1024 + 304, 4096 + 16):
        assert relaunch(key, a, b, c, Array(low)) is None
    assert relaunch(key, a, b, c, Array(8192 + 32)) is None
    assert relaunch(key, a, b, c, Array(1024 + 320)).data.ptr == 1344
    inplace = key_of(a, b, c, c, OPTIONS)
    cache(inplace, call(1024, 4096, c=8192, out=8192), lambda *x: None, a, b, c, c)
    assert relaunch(inplace, a, b, c, c) is c


def test_memory_is_bounded():
    a, b = Array(1024), Array(4096)
    for alpha in range(LAUNCHES_CACHED + 10):
        cache(key_of(a, b, None, None, (alpha,)), call(1024, 4096), None, a, b, None, None)
    assert 0 < len(launches._launches) <= LAUNCHES_CACHED
