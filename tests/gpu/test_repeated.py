"""Calls that come again: their checks are left away, and nothing else."""

import numpy as np
import pytest

import ozaki
from ozaki.execution import cache, repeated
from tests.matrices import FACES, KINDS, in_dtype, matrices
from tests.oracle import same

pytestmark = pytest.mark.gpu

SHAPE = (40, 36, 44)


@pytest.fixture
def cupy():
    cache.forget()
    repeated._known.clear()
    return pytest.importorskip("cupy")


@pytest.mark.parametrize("dtype", FACES)
def test_each_call_has_the_bits_of_its_own_data(cupy, dtype):
    for seed, kind in enumerate((*KINDS, *KINDS)):
        a, b = in_dtype(*matrices(kind, *SHAPE, seed=seed), dtype)
        if seed % 5 == 3:
            a[seed % 40, 0] = np.nan
        x, y = cupy.asarray(a), cupy.asarray(b)
        for multiply, options in (
            (FACES[dtype], {}),
            (ozaki.matmul, {}),
            (FACES[dtype], {"accuracy": "normwise"}),
        ):
            assert same(multiply(x, y, **options).get(), multiply(a, b, **options)), kind
    assert len(repeated._known) == 3


@pytest.mark.parametrize("dtype", FACES)
def test_prepared_operands(cupy, dtype):
    multiply = FACES[dtype]
    for kind in ("uniform", "wide6", "sparse"):
        a, b = in_dtype(*matrices(kind, *SHAPE), dtype)
        for seed, other in enumerate(("uniform", "uniform", "wide6", "sparse", "uniform")):
            x, y = in_dtype(*matrices(other, *SHAPE, seed=seed), dtype)
            if seed == 0:
                left, right = ozaki.prepare(cupy.asarray(a)), ozaki.prepare(cupy.asarray(b), "right")
                known = len(repeated._known)
            assert same(multiply(left, cupy.asarray(y)).get(), multiply(a, y))
            assert same(multiply(cupy.asarray(x), right).get(), multiply(x, b))
            assert same(multiply(left, right).get(), multiply(a, b))
            with pytest.raises(ValueError, match="prepared as"):
                multiply(right, left)
        assert 0 < len(repeated._known) - known <= 3


def test_stacks(cupy):
    for seed, kind in enumerate(("uniform", "uniform", "wide20", "graded", "sparse", "uniform")):
        a, b = (
            np.stack(x) for x in zip(*(matrices(kind, *SHAPE, seed=seed + i) for i in range(20)), strict=True)
        )
        assert same(ozaki.matmul(cupy.asarray(a), cupy.asarray(b)).get(), ozaki.matmul(a, b)), kind
    assert len(repeated._known) == 1


def test_errors_are_those_of_a_first_call(cupy):
    x = cupy.ones((5, 5))
    y = cupy.ones((5, 5))
    for _ in range(3):
        ozaki.accurate_dgemm(x, y)
        ozaki.matmul(x, y, accuracy="normwise")
    for options in (
        {"accuracy": ""},
        {"accuracy": "fp65"},
        {"accuracy": None},
        {"engine": "host"},
        {"workspace": -1},
        {"scheme": "x"},
        {"out": np.empty((5, 5))},
        {"out": cupy.empty((5, 4))},
        {"out": cupy.empty((5, 5), np.float32)},
        {"out": cupy.empty((5, 5)), "accuracy": ""},
        {"out": [[0.0] * 5] * 5},
    ):
        with pytest.raises((TypeError, ValueError)):
            ozaki.accurate_dgemm(x, y, **options)
    with pytest.raises(ValueError, match="inner dimensions"):
        ozaki.accurate_dgemm(x, y[:4])
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        try:
            with pytest.raises(ValueError, match="accuracy must be"):
                ozaki.accurate_dgemm(x, y)
        finally:
            stream.end_capture()


def test_layouts_that_share_memory_or_differ_are_told_apart(cupy):
    rng = np.random.default_rng(0)
    memory = rng.standard_normal(3000)
    on_device = cupy.asarray(memory)

    def views(x):
        square = x[:400].reshape(20, 20)
        yield square, x[400:800].reshape(20, 20)
        yield square, x[800:1200].reshape(20, 20).T
        yield square.T, x[400:800].reshape(20, 20)
        yield square, square.T
        yield square, x[200:600].reshape(20, 20)
        yield x[1:401].reshape(20, 20), x[1000:1400].reshape(20, 20)
        yield x[:1600].reshape(40, 40)[::2, ::2], x[1700:2100].reshape(20, 20)
        yield square[::-1], x[1700:2100].reshape(20, 20)

    for _ in range(3):
        for here, there in zip(views(memory), views(on_device), strict=True):
            assert same(ozaki.matmul(*there).get(), ozaki.matmul(*here))
        on_device *= -1.0
        memory *= -1.0


def test_what_is_forgotten_is_captured_anew(cupy):
    a, b = matrices("uniform", *SHAPE)
    x, y, expected = cupy.asarray(a), cupy.asarray(b), ozaki.matmul(a, b)
    for i in range(12):
        if i % 4 == 3:
            cache.forget()
        assert same(ozaki.matmul(x, y).get(), expected)
    assert len(repeated._known) == 1


@pytest.mark.two_gpus
def test_arrays_on_another_device_than_the_current_one(cupy):
    for seed in range(4):
        a, b = matrices("uniform", *SHAPE, seed=seed)
        with cupy.cuda.Device(1):
            x, y = cupy.asarray(a), cupy.asarray(b)
        result = ozaki.matmul(x, y)
        assert result.device.id == 1
        assert same(result.get(), ozaki.matmul(a, b))
        total = ozaki.sum(x)
        assert total.device.id == 1
        assert same(total.get(), ozaki.sum(a))


def test_stacks_of_which_some_need_more_bits(cupy):
    for seed in range(4):
        kinds = ["uniform"] * 17 + ["sparse", "wide20", "graded"]
        pairs = [matrices(kind, *SHAPE, seed=seed + i) for i, kind in enumerate(kinds)]
        a, b = (np.stack(x) for x in zip(*pairs, strict=True))
        assert same(ozaki.matmul(cupy.asarray(a), cupy.asarray(b)).get(), ozaki.matmul(a, b))
