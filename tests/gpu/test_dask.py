"""Dask arrays with chunks on a GPU: the CPU's bits, and results that stay there."""

import numpy as np
import pytest

import ozaki
from tests.fuzz.draw import difference
from tests.reductions import ONE_ARRAY
from tests.scaling.test_equilibration import graded
from tests.sums.test_reductions import wide

da = pytest.importorskip("dask.array")

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("dask_in_this_thread")]


def on_device(cupy, x, chunks):
    return da.from_array(cupy.asarray(x), chunks=chunks, asarray=False)


def check(cupy, lazy, expected):
    assert isinstance(lazy._meta, cupy.ndarray)
    found = lazy.compute()
    assert isinstance(found, cupy.ndarray)
    assert (found.dtype, found.shape) == (expected.dtype, np.shape(expected))
    assert difference(found.get(), np.asarray(expected)) is None


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16", "i4"])
def test_reductions(cupy, dtype):
    rng = np.random.default_rng(0)
    x = wide(rng, (300, 7, 5), 5 if dtype in ("f2", "i4") else 20)
    x = (x + 1j * x[::-1] if dtype[0] == "c" else x * (100 if dtype == "i4" else 1)).astype(dtype)
    if dtype != "i4":
        x[3, 2, 1], x[5, 1, 1] = np.nan, np.inf
    for name in ONE_ARRAY:
        function = getattr(ozaki, name)
        for axis in (None, 0, (0, 2)):
            check(cupy, function(on_device(cupy, x, (70, 3, 5)), axis=axis), function(x, axis=axis))
    lazy = on_device(cupy, x, (70, 3, 5))
    check(cupy, ozaki.dot(lazy, lazy.rechunk((40, 7, 5)), axis=0), ozaki.dot(x, x, axis=0))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16", "i8"])
def test_running_sums(cupy, dtype):
    rng = np.random.default_rng(2)
    x = wide(rng, (300, 7, 5), 5 if dtype == "f2" else 200 if dtype in ("f8", "c16") else 20)
    x = (x + 1j * x[::-1] if dtype[0] == "c" else x * (2.0**40 if dtype == "i8" else 1)).astype(dtype)
    if dtype != "i8":
        x[:, 0], x[203, 2, 1], x[5, 1, 1], x[209, 1, 1] = -0.0, np.nan, np.inf, -np.inf
    for axis in (None, 0, 1):
        for target in (None, np.complex128 if dtype[0] == "c" else np.float64):
            lazy = ozaki.cumsum(on_device(cupy, x, ((70, 0, 130, 100), 3, 5)), axis=axis, dtype=target)
            check(cupy, lazy, ozaki.cumsum(x, axis=axis, dtype=target))
    largest = np.finfo(float).max
    far = np.concatenate([np.full(20, largest), [1.0], -np.full(20, largest)])
    for chunk in (1, 15, 21):
        check(cupy, ozaki.cumsum(on_device(cupy, far, chunk)), ozaki.cumsum(far))


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_products(cupy, dtype):
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((90, 130)), rng.standard_normal((130, 70))
    if dtype[0] == "c":
        a, b = a + 1j * a[::-1], b - 1j * b[::-1]
    a, b = a.astype(dtype), b.astype(dtype)
    rows = a.copy()
    rows[3, 4], rows[7, 100], rows[9] = np.inf, np.nan, 0
    wide = (a * np.exp(4 * rng.standard_normal(a.shape))).astype(dtype)
    for left in (a, rows, wide):
        for accuracy in (None, "normwise", "exact", 40, 200):
            lazy = ozaki.matmul(
                on_device(cupy, left, (40, 33)), on_device(cupy, b, (50, 70)), accuracy=accuracy
            )
            check(cupy, lazy, ozaki.matmul(left, b, accuracy=accuracy))
    for kind in ("linear", "random", "zeros"):
        a, b = graded(kind, (90, 130, 70), np.dtype(dtype).name)
        for chunks in ((40, 33), (50, 70)), ((90, 130), (130, 30)):
            lazy = ozaki.matmul(*(on_device(cupy, x, of_x) for x, of_x in zip((a, b), chunks, strict=True)))
            check(cupy, lazy, ozaki.matmul(a, b))


def test_products_of_integers(cupy):
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-(2**63), 2**63 - 1, shape) for shape in ((60, 90), (90, 50)))
    small = a >> 40, b >> 40
    x, y = (on_device(cupy, z, 40) for z in (a, b))
    for options in ({"dtype": np.int64, "overflow": "wrap"}, {"mod": 2**31 - 1}, {"mod": 2**63 - 1}):
        check(cupy, ozaki.matmul(x, y, **options), ozaki.matmul(a, b, **options))
    check(cupy, ozaki.matmul(x >> 40, y >> 40, dtype=np.int64), ozaki.matmul(*small, dtype=np.int64))
    a[:], b[:] = 1, 1
    a[41, 80] = b[80, 7] = 2**40
    with pytest.raises(OverflowError, match=rf"\(41, 7\) of the product is {2**80 + 89},"):
        ozaki.matmul(on_device(cupy, a, 40), on_device(cupy, b, 40), dtype=np.int64).compute()


def test_covariances_by_group(cupy):
    rng = np.random.default_rng(6)
    x, labels = rng.standard_normal((3, 500)), rng.integers(0, 6, 500)
    lazy = ozaki.group_cov(on_device(cupy, x, (2, 90)), on_device(cupy, labels, 200), 7)
    check(cupy, lazy, ozaki.group_cov(x, labels, 7))


def test_kinds_of_chunks_do_not_mix(cupy):
    x = np.ones((4, 4))
    with pytest.raises(TypeError, match="NumPy"):
        ozaki.matmul(on_device(cupy, x, 2), da.from_array(x, chunks=2))
    with pytest.raises(TypeError, match="NumPy"):
        ozaki.dot(on_device(cupy, x, 2), da.from_array(x, chunks=2))


@pytest.mark.two_gpus
def test_a_worker_a_gpu(cupy):
    pytest.importorskip("distributed")
    from benchmarks.two_gpus import larger, measured

    for measure in (measured, larger):
        rows = measure(512, 2, ("fp64", "normwise", "exact"))["results"]
        assert all(row["same bits"] for row in rows), rows
