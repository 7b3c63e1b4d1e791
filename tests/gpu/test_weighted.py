"""Weighted means and variances, sums of products by group and convolutions on a GPU have the CPU's bits."""

import numpy as np
import pytest

import ozaki
from ozaki.sums import convolution, table, weighted
from ozaki.sums.exact import moments
from tests.gpu.same import same_on_the_gpu
from tests.gpu.test_sums import SHAPES, Counting

pytestmark = pytest.mark.gpu

DTYPES = ["float64", "float32", "float16", "complex128", "complex64", "int64"]


@pytest.fixture
def on_host(monkeypatch):
    """How many results of CuPy's arrays have exact sums, from which the host makes them."""
    found, exact, of_sums = [], table.exact_sums, weighted._of_sums

    def counted(summands, reduced):
        if not isinstance(summands[0].factors[0], np.ndarray):
            found.append(summands[0].factors[0].shape)
        return exact(summands, reduced)

    def weighed(parts, *arguments):
        if not isinstance(parts[0], np.ndarray):
            found.append(parts[0].shape)
        return of_sums(parts, *arguments)

    monkeypatch.setattr(table, "exact_sums", counted)
    monkeypatch.setattr(weighted, "_of_sums", weighed)
    return found


def drawn(shape, dtype):
    """Numbers of a dtype."""
    rng = np.random.default_rng(len(shape))
    x = 5 * rng.standard_normal(shape) + 2
    return (x + 1j * rng.standard_normal(shape) if dtype[0] == "c" else x).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_means_and_variances_are_decided_by_one_kernel(cupy, on_host, shape, dtype):
    """Long and short rows and columns, of one block and of several; a weight for each number, or each row."""
    rng = np.random.default_rng(1)
    x, w, f = (
        drawn(shape, dtype),
        rng.random(shape) + 0.01,
        rng.integers(0, 5, shape) + (np.arange(shape[1]) == 0),
    )
    f[0] += 1
    axes = (1, None) if len(x) == 1 and dtype != "float64" else (0, 1, None)  # the host has a column a number
    for y in (x, x[:, ::-1], np.asfortranarray(x)):
        for axis in axes:
            same_on_the_gpu(lambda x, w, axis=axis: ozaki.average(x, axis, w), y, w.astype(np.float32))
            same_on_the_gpu(lambda x, w, axis=axis: ozaki.average(x, axis, w), y, f)
            for ddof in (0, 1, -3, 10**6):
                same_on_the_gpu(lambda x, w, a=axis, d=ddof: ozaki.var(x, a, ddof=d, aweights=w), y, w)
    same_on_the_gpu(lambda x, w: ozaki.average(x, 0, w - 0.4), x, w[:, 0])
    same_on_the_gpu(lambda x, w: ozaki.average(x, 1, w), x, w[0])
    same_on_the_gpu(lambda x, w: ozaki.average(x, 0, 0 * w + 0.3), x, w)  # of two numbers many are ties
    assert not on_host
    for axis in axes:  # roots that are ties, of two numbers again, are left to the host
        same_on_the_gpu(lambda x, f, a=axis: ozaki.std(x, a, ddof=1, fweights=f), x, f)


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_weights_that_are_not_ordinary(cupy, dtype):
    """Zeros of either sign, equal numbers, ties, subnormal numbers, wide ranges, Inf and NaN."""
    rng = np.random.default_rng(0)
    ordinary, w = rng.standard_normal((40, 60)), rng.random((40, 60))
    some = rng.random(ordinary.shape) < 0.02
    cases = [
        (np.where(some, 0.0, -0.0), w - 0.5),
        (np.full((3, 5), 1e-30), w[:3, :5]),
        (1e8 + ordinary, w * 1e-20),
        (ordinary * 2.0**-1040, w),
        (np.ldexp(ordinary, rng.integers(-60, 60, ordinary.shape)), w),
        (ordinary, np.ldexp(w, rng.integers(-60, 60, ordinary.shape))),
        (np.where(some, np.nan, ordinary), w),
        (np.where(some, np.inf, ordinary), w - 0.5),
        (np.where(some, np.where(w < 0.5, np.inf, -np.inf), ordinary), w - 0.1),
        (ordinary, np.where(some, np.inf, w)),
        (ordinary, np.where(some, np.nan, w)),
        (1 + rng.integers(0, 2, (50, 9)) * 2.0**-52, np.ones((50, 9))),
        (np.ldexp(rng.integers(-3, 4, (50, 9)).astype(float), -1074), w[:40, :9].repeat(2, axis=0)[:50]),
    ]
    for x, weights in cases:
        with np.errstate(all="ignore"):
            y = x.astype(dtype) * (1 if dtype[0] != "c" else 1 - 2j)
        for axis in (0, 1, None):
            same_on_the_gpu(lambda x, w, axis=axis: ozaki.average(x, axis, w), y, weights)
            for ddof in (0, 1, 0.5):
                same_on_the_gpu(
                    lambda x, w, a=axis, d=ddof: ozaki.var(x, a, ddof=d, aweights=w), y, abs(weights)
                )
    for x in (np.ones((3, 4)), cupy.ones((3, 4))):
        for call in (lambda x, w: ozaki.average(x, 0, w), lambda x, w: ozaki.var(x, 0, aweights=abs(w) * 0)):
            with pytest.raises(ZeroDivisionError, match="sum to zero"):
                call(
                    x, x * [[1], [-2], [1]] if isinstance(x, np.ndarray) else x * cupy.array([[1], [-2], [1]])
                )


@pytest.mark.parametrize("dtype", DTYPES)
def test_weighted_means_and_products_by_group_are_one_launch(cupy, dtype, monkeypatch):
    rng, n = np.random.default_rng(8), 5000
    x, w = drawn((n,), dtype), rng.random(n)
    monkeypatch.setattr(moments, "_by_group", counting := Counting(moments._by_group))
    for many, labels in ((100, rng.integers(0, 99, n)), (1, np.zeros(n, int)), (n + 7, np.arange(n))):
        for weights in (w, rng.integers(1, 9, n), w.astype(np.float32)):
            same_on_the_gpu(lambda x, g, w, n=many: ozaki.group_average(x, g, n, w), x, labels, weights)
            same_on_the_gpu(lambda x, w, g, n=many: ozaki.group_dot(x, w, g, n), x, weights, labels)
    assert counting.calls > 0
    assert not counting.refused
    y = np.where(rng.random(n) < 0.1, [np.inf, -np.inf, np.nan, -0.0] * (n // 4), rng.standard_normal(n))
    labels = rng.integers(0, 300, n)
    same_on_the_gpu(lambda x, g, w: ozaki.group_average(x, g, 300, w), y, labels, w)
    same_on_the_gpu(lambda x, w, g: ozaki.group_dot(x, w, g, 300), y, w, labels)
    same_on_the_gpu(lambda x, w, g: ozaki.group_dot(x, w, g, 300), y * 0, w - 0.5, labels)
    with pytest.raises(ZeroDivisionError):
        ozaki.group_average(cupy.full(9, cupy.nan), cupy.arange(9) % 3, 3, cupy.zeros(9))


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d[0] != "c"])
def test_covariances_by_group_are_one_launch_a_variable(cupy, dtype, monkeypatch):
    rng, n = np.random.default_rng(9), 5000
    x = drawn((4, n), dtype)
    monkeypatch.setattr(moments, "_by_group", counting := Counting(moments._by_group))
    for many, labels in (
        (100, rng.integers(0, 99, n)),
        (1, np.zeros(n, int)),
        (n + 7, np.arange(n)),
        (5 * n, np.arange(n)),
    ):
        for ddof in (0, 1, 60, -3):
            same_on_the_gpu(lambda x, g, n=many, d=ddof: ozaki.group_cov(x, g, n, ddof=d), x, labels)
    assert counting.calls == 4 * 4 * 4
    assert not counting.refused
    labels = rng.integers(0, 300, n)
    same_on_the_gpu(lambda x, g: ozaki.group_cov(x, g, 300, ddof=0.5), x, labels)
    same_on_the_gpu(lambda x, g: ozaki.group_cov(x.T, g, 300, rowvar=False), x[:, ::-1], labels)
    y = np.where(rng.random(n) < 0.01, [np.inf, -np.inf, np.nan, -0.0] * (n // 4), rng.standard_normal(n))
    z = np.ldexp(rng.standard_normal(n), rng.integers(-60, 60, n))  # left to exact sums
    same_on_the_gpu(lambda x, g: ozaki.group_cov(x, g, 300), np.stack([y, z, y * 2.0**-1060, y * 0]), labels)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "complex128"])
def test_convolutions_take_two_sums_at_most(cupy, dtype, monkeypatch):
    """Of numbers one, of all windows, and one more for ends that are zeros."""
    calls, rng = [], np.random.default_rng(3)
    dot = convolution.dot
    monkeypatch.setattr(convolution, "dot", lambda *a, **o: (calls.append(a), dot(*a, **o))[1])
    for n, m in ((1000, 30), (40, 40), (7, 300)):
        x, y = drawn((n,), dtype), drawn((m,), dtype)
        for mode in ("full", "same", "valid"):
            for f in (ozaki.convolve, ozaki.correlate):
                host = f(x, y, mode)
                calls.clear()
                back = f(cupy.asarray(x), cupy.asarray(y), mode).get()
                assert back.tobytes() == host.tobytes()
                assert len(calls) == 1
        x[: n // 2] = -0.0
        same_on_the_gpu(lambda x, y: ozaki.convolve(x, y), x, y)
        same_on_the_gpu(
            lambda x, y: ozaki.convolve(x, y), x, np.where(rng.random(m) < 0.1, np.inf, y).astype(dtype)
        )


@pytest.mark.parametrize("shape", [(4, 5000), (5000, 4), (9, 100_003)])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_nan_inf_and_zeros_among_columns(shape, dtype):
    """What needs no digits of a superaccumulator, beside what does."""
    rng = np.random.default_rng(5)
    special = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-30], shape)
    for share in (0.1, 0.6, 1.0):
        x = np.where(rng.random(shape) < share, special, rng.standard_normal(shape)).astype(dtype)
        for axis in (0, 1):
            same_on_the_gpu(ozaki.sum, x, axis=axis)
            same_on_the_gpu(ozaki.mean, x, axis=axis)
            same_on_the_gpu(lambda x, y, axis=axis: ozaki.dot(x, y, axis=axis), x, x[::-1].copy())
    same_on_the_gpu(ozaki.gmean, rng.standard_normal(shape).astype(dtype), axis=1)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_short_rows_have_a_thread_each(name, dtype):
    rng = np.random.default_rng(6)
    for shape in ((5000, 1), (40_001, 4), (4097, 31), (300_000, 2)):
        x = (3 * rng.standard_normal(shape)).astype(dtype)
        x[::7] = np.round(x[::7])
        x[5::11, 0] = -np.inf
        x[3::101] = np.nan
        x[4::103] = np.inf
        same_on_the_gpu(getattr(ozaki, name), x, axis=1)
        same_on_the_gpu(getattr(ozaki, name), x.T.copy(), axis=0)
