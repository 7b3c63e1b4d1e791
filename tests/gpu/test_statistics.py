"""Moments and rolling sums on a GPU, whose bits are the CPU's, and what they leave to the host."""

import numpy as np
import pytest

import ozaki
from ozaki.sums import central, rolling
from ozaki.sums.exact import windows_cuda
from tests.gpu.same import same_on_the_gpu
from tests.sums.test_rolling import ROLLING

pytestmark = pytest.mark.gpu

FLOATS = ["float64", "float32", "float16"]
SHAPES = [(1, 1), (5, 3), (9_000, 4), (4, 9_000), (300, 70), (2, 20_001)]
MOMENTS = {
    "skew": ozaki.skew,
    "kurtosis": ozaki.kurtosis,
    **{f"moment {k}": lambda x, k=k, **options: ozaki.moment(x, k, **options) for k in (2, 3, 4)},
}


@pytest.fixture
def on_host(monkeypatch):
    """How many columns of moments, and results of windows, the host computes of CuPy's arrays."""
    found = []
    rounded, complete = central._rounded, rolling._complete

    def counted(x, *arguments):
        if not isinstance(x, np.ndarray):
            found.append(x.shape[1])
        return rounded(x, *arguments)

    def completed(x, *arguments):
        if not isinstance(x, np.ndarray):
            found.append(int((~arguments[-1]).sum()))
        return complete(x, *arguments)

    monkeypatch.setattr(central, "_rounded", counted)
    monkeypatch.setattr(rolling, "_complete", completed)
    return found


@pytest.mark.parametrize("name", MOMENTS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_moments_are_decided_by_one_kernel(cupy, on_host, shape, dtype, name):
    """Long and short rows and columns, by one block and by several; far from zero on average, too."""
    x = (np.random.default_rng(len(dtype)).standard_normal(shape)).astype(dtype)
    for y in (x, x[:, ::-1] + 3, np.asfortranarray(np.round(2 * x))):
        for axis in (0, 1, None):
            options = {} if name.startswith("moment") else {"bias": axis == 0}
            same_on_the_gpu(MOMENTS[name], y, axis=axis, **options)
    assert sum(on_host) <= x.size // 1000  # of few float16 numbers, ties


@pytest.mark.parametrize("name", MOMENTS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_moments_of_what_is_not_ordinary(cupy, name, dtype):
    rng = np.random.default_rng(0)
    ordinary = rng.standard_normal((30, 60))
    cases = [
        np.zeros((3, 5)),
        np.full((3, 5), 1e-3),
        1e6 + ordinary,
        ordinary * 2.0 ** (-140 if dtype == "float32" else -1060 if dtype == "float64" else -18),
        np.ldexp(ordinary, rng.integers(-60, 60, ordinary.shape)),
        np.where(rng.random(ordinary.shape) < 0.1, np.nan, ordinary),
        np.where(rng.random(ordinary.shape) < 0.02, np.inf, ordinary),
        ordinary[:, :2],
        ordinary[:3],
        np.ldexp(ordinary[:2], [[600], [-600]]),
        np.round(ordinary),
    ]
    for x in cases:
        with np.errstate(all="ignore"):
            y = x.astype(dtype)
        for axis in (0, 1, None):
            for target in (None, np.float64, np.float32):
                same_on_the_gpu(MOMENTS[name], y, axis=axis, dtype=target)


def test_moments_of_integers_and_about_numbers(cupy):
    x = np.random.default_rng(0).integers(-9, 9, (40, 7))
    for name, function in MOMENTS.items():
        same_on_the_gpu(function, x, axis=0)
        same_on_the_gpu(function, x.astype(np.int8), axis=1, keepdims=True)
        if name.startswith("moment"):
            same_on_the_gpu(function, x, axis=0, center=1.5)
    for k in (0, 1, 6):
        same_on_the_gpu(ozaki.moment, x, order=k)


@pytest.mark.parametrize("name", ROLLING)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("shape", "window"),
    [((1,), 1), ((1000,), 100), ((30_001,), 100), ((3, 5000), 3000), ((9_000, 3), 5), ((500, 40), 50)],
    ids=str,
)
def test_windows_are_decided_by_kernels(cupy, on_host, shape, window, dtype, name):
    """Short and long rows and windows; far from zero, too."""
    x = np.random.default_rng(window).standard_normal(shape).astype(dtype)
    for y in (x, x + 3):
        for axis in range(x.ndim):
            same_on_the_gpu(ROLLING[name], y, window=window, axis=axis, min_count=1, center=axis == 0)
    assert not on_host or name == "std"  # of two numbers, half their difference, which may be a tie
    same_on_the_gpu(ROLLING[name], np.round(x), window=window)


def test_windows_of_many_numbers(cupy, on_host):
    """Of 20 million windows: parts of other lengths; windows longer than parts, from sums of chunks."""
    x = np.random.default_rng(0).standard_normal(100_000)
    long = np.tile(x, 200)
    for name in ("sum", "var"):
        for window in (100, 30_000, 1_000_000):
            found = ROLLING[name](cupy.asarray(long), window)
            expected = ROLLING[name](long[:1_200_000], window)
            assert found[: len(expected)].get().tobytes() == expected.tobytes()
            again = found.reshape(200, -1)[12:].view(cupy.int64)  # the numbers repeat themselves
            assert bool((again == again[:1]).all())
    assert not on_host


@pytest.mark.parametrize("name", ROLLING)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int32"])
def test_windows_of_what_is_not_ordinary(cupy, monkeypatch, name, dtype):
    """All sizes, whose digits lie in memory; −0, Inf, NaN and subnormal numbers; what is left to the host."""
    monkeypatch.setattr(windows_cuda, "SCRATCH", 1 << 20)
    monkeypatch.setattr(windows_cuda, "_SHORTEST", 1)  # threads take several parts
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 40) if dtype == "float16" else (2, 300))
    cases = [
        np.ldexp(x, rng.integers(-1000, 900, x.shape)),
        np.where(rng.random(x.shape) < 0.5, -0.0, np.round(x)),
        np.where(rng.random(x.shape) < 0.3, np.nan, 1e9 + x),
        np.where(rng.random(x.shape) < 0.01, rng.choice([np.inf, -np.inf, np.nan], x.shape), x),
        x * (2.0**-1070 if dtype == "float64" else 2.0**-145 if dtype == "float32" else 2.0**-20),
        x[:, :0],
        x[:0],
    ]
    for case in cases:
        with np.errstate(all="ignore"):
            y = np.nan_to_num(case * 1e3, posinf=0, neginf=0) if dtype == "int32" else case
            y = np.clip(y, -1e9, 1e9).astype(dtype) if dtype == "int32" else y.astype(dtype)
        for window, least in ((1, 0), (7, 3), (280, 0), (10**9, 1)):
            same_on_the_gpu(ROLLING[name], y, window=window, min_count=least, center=window == 7)
