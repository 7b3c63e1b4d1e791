"""Sums that come again: the checks before their launch are left away, and nothing else."""

import numpy as np
import pytest

import ozaki
from ozaki.sums import repeated
from tests.oracle import same

pytestmark = pytest.mark.gpu


@pytest.fixture
def cupy():
    repeated._known.clear()
    return pytest.importorskip("cupy")


def arrays(rng, dtype, i):
    """Three arrays of one layout, of other numbers each time: wide, with NaN, cancelling."""
    x = rng.standard_normal((3, 40, 6, 50)) * 10.0 ** rng.integers(-3 * i, 3 * i + 1, (3, 40, 6, 50))
    if i == 3:
        x[0, 5, 2, 7] = np.nan
    if i == 4:
        x[0, :, :, 25:] = -x[0, :, :, :25]
    return [y.astype(dtype) if dtype != "complex128" else y + 1j * y[::-1] for y in x]


CALLS = {
    "sum": lambda xp, x, y: ozaki.sum(x),
    "sum of an axis": lambda xp, x, y: ozaki.sum(x, 1),
    "sum of axes, kept": lambda xp, x, y: ozaki.sum(x, axis=(0, 2), keepdims=True),
    "sum of the last": lambda xp, x, y: ozaki.sum(x, axis=-1),
    "sum of a view": lambda xp, x, y: ozaki.sum(x[::2, :, ::-1], axis=0),
    "mean": lambda xp, x, y: ozaki.mean(x),
    "mean of an axis": lambda xp, x, y: ozaki.mean(x, axis=0),
    "norm": lambda xp, x, y: ozaki.norm(x.ravel()),
    "norm of an axis": lambda xp, x, y: ozaki.norm(x, axis=2),
    "dot": lambda xp, x, y: ozaki.dot(x.ravel(), y.ravel()),
    "dot with itself": lambda xp, x, y: ozaki.dot(x.ravel(), x.ravel()),
    "dot of one object": lambda xp, x, y: (lambda z: ozaki.dot(z, z))(x.ravel()),
    "dot of an axis": lambda xp, x, y: ozaki.dot(x, y, axis=0),
    "vdot": lambda xp, x, y: ozaki.vdot(x, y),
    "where": lambda xp, x, y: ozaki.sum(x, where=x.real > 0),
    "initial": lambda xp, x, y: ozaki.sum(x, initial=x[0, 0, 0]),
    "out": lambda xp, x, y: ozaki.sum(x, axis=0, out=xp.empty((6, 50), x.dtype)),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "float16", "int64"])
def test_each_call_has_the_bits_of_its_own_numbers(cupy, dtype):
    rng = np.random.default_rng(1)
    with np.errstate(all="ignore"):
        for i in range(6):
            x, y, _ = arrays(rng, dtype if dtype != "int64" else "float64", i)
            x, y = (z.astype(dtype) if dtype == "int64" and i < 3 else z for z in (x, y))
            on_device = cupy.asarray(x), cupy.asarray(y)
            for name, call in CALLS.items():
                assert same(cupy.asarray(call(cupy, *on_device)).get(), call(np, x, y)), (name, i)
    assert len(repeated._known) >= 6


def test_large_sums_that_blocks_share(cupy):
    rng = np.random.default_rng(2)
    for i in range(4):
        x = rng.standard_normal(3_000_001) * 10.0**i
        assert same(ozaki.sum(cupy.asarray(x)).get(), ozaki.sum(x))
        y = x[:3_000_000].reshape(3, -1)
        assert same(ozaki.sum(cupy.asarray(y), axis=1).get(), ozaki.sum(y, axis=1))


def test_errors_are_those_of_a_first_call(cupy):
    x = cupy.ones((3, 4))
    for _ in range(3):
        assert ozaki.sum(x, axis=1).shape == (3,)
        assert ozaki.sum(x, 1, keepdims=True).shape == (3, 1)
    for arguments, options in (
        ((x, "1"), {}),
        ((x,), {"axis": 1.0}),
        ((x, 2), {}),
        ((x,), {"keepdim": True}),
    ):
        with pytest.raises((TypeError, ValueError)):
            ozaki.sum(*arguments, **options)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        try:
            with pytest.raises(ValueError, match="CUDA graph of your own"):
                ozaki.sum(x, axis=1)
        finally:
            stream.end_capture()


def test_layouts_are_told_apart(cupy):
    memory = np.random.default_rng(3).standard_normal(4000)
    on_device = cupy.asarray(memory)

    def views(x):
        yield x[:1000]
        yield x[1:1001]
        yield x[:2000:2]
        yield x[999::-1]
        yield x[:1000].reshape(10, 100).T
        yield x[:1000].view(np.float32)
        yield x[:1000].view(np.complex128)
        yield x[:0]

    for _ in range(3):
        for here, there in zip(views(memory), views(on_device), strict=True):
            assert same(ozaki.sum(there).get(), ozaki.sum(here))
            assert same(ozaki.sum(there, axis=0).get(), ozaki.sum(here, axis=0))
        on_device *= 0.5
        memory *= 0.5


def test_a_view_of_itself_is_no_example_for_others(cupy):
    rng = np.random.default_rng(5)
    x, y, z = rng.standard_normal((3, 30, 30))
    u, v, w = map(cupy.asarray, (x, y, z))
    for _ in range(3):
        assert same(ozaki.dot(u.ravel(), u.ravel()[:]).get(), ozaki.dot(x.ravel(), x.ravel()))
        assert same(ozaki.dot(u.ravel(), v.ravel()).get(), ozaki.dot(x.ravel(), y.ravel()))
        assert same(ozaki.dot(w, w.T, axis=0).get(), ozaki.dot(z, z.T, axis=0))
        assert same(ozaki.dot(u, v.T, axis=0).get(), ozaki.dot(x, y.T, axis=0))
        assert same(ozaki.vdot(v, v[:]).get(), ozaki.vdot(y, y))
        assert same(ozaki.vdot(v, w).get(), ozaki.vdot(y, z))
