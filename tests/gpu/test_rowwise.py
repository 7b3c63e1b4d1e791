"""Functions of rows have the CPU's bits on a GPU, by kernels and without."""

import numpy as np
import pytest

import ozaki
from ozaki.rowwise import cuda, standardized_cuda
from ozaki.rowwise.api import safe_softmax
from ozaki.rowwise.slopes_cuda import softmax_slope
from ozaki.rowwise.standardized import (
    Averages,
    channel_slopes,
    standardized,
    standardized_channels,
    standardized_rows,
)
from tests.gpu.same import same_on_the_gpu
from tests.rowwise.definitions import DEFINITIONS, POSITIVE
from tests.rowwise.test_cuda import KINDS, rows
from tests.rowwise.test_norms_cuda import NORMS, cancelling
from tests.rowwise.test_slopes_cuda import expected_slope, gradients
from tests.rowwise.test_standardized_cuda import affine, changed, expected_slopes, moved, numbers, same

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", sorted(DEFINITIONS))
def test_rows_of_every_kind_and_length(name, dtype):
    rng = np.random.default_rng(1)
    function, x = getattr(ozaki, name), rows(rng, "float64")
    x = (np.abs(x) if name in POSITIVE else x).astype(dtype)
    same_on_the_gpu(function, x, axis=1)
    same_on_the_gpu(function, np.asfortranarray(x), axis=0)
    for shape in (
        (1, 1),
        (90, 7),
        (900, 32),
        (257, 700),
        (2, 70_000),
        (260, 4096),
        (260, 4097),
        (130, 8192),
        (130, 8193),
        (3, 20_001),
        (1, 50_000),
        (30_000, 3),
    ):
        same_on_the_gpu(function, rng.exponential(3, shape).astype(dtype), axis=1)


@pytest.mark.parametrize("name", KINDS)
def test_rows_that_enclosures_leave_in_doubt_are_computed_by_kernels(name, monkeypatch):
    """With ends that are far apart most rows are; as they are, a few of many."""
    rng, function, text = np.random.default_rng(6), getattr(ozaki, name), cuda.quick_source
    for shape in ((20_000, 768), (100_000, 20), (700, 8192), (40_000, 300)):
        same_on_the_gpu(function, rng.standard_normal(shape).astype(np.float32), axis=1)
    error = "#define MARGIN (20 + ADDED)"
    assert text("softmax", 32, 24).count(error) == 1
    monkeypatch.setattr(cuda, "quick_source", lambda *a: text(*a).replace(error, "#define MARGIN (1 << 23)"))
    monkeypatch.setattr(cuda, "_kernel", cuda._kernel.__wrapped__)
    for shape in ((1000, 768), (10_000, 20), (5, 3), (300, 2000), (20, 8000)):
        same_on_the_gpu(function, rng.standard_normal(shape).astype(np.float32), axis=1)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((20_000, 768), 1), ((300, 70), 0), ((9, 30, 40), (2, 0)), ((3, 8193), 1), ((9, 8192), 1)],
)
@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_weights_and_biases(name, shape, axis, dtype):
    """Of the last axis, of the first and of two; and of rows that one kernel does not take."""
    rng, function = np.random.default_rng(7), getattr(ozaki, name)
    x, axes = (rng.standard_normal(shape) + 100).astype(dtype), sorted(np.atleast_1d(axis))
    weight, bias = (rng.standard_normal([shape[a] for a in axes]).astype(dtype) for _ in range(2))
    same_on_the_gpu(lambda x, w: function(x, axis, w), x, weight)
    if name == "layer_norm":
        same_on_the_gpu(lambda x, w, b: function(x, axis, w, b), x, weight, bias)
        same_on_the_gpu(lambda x, b: function(x, axis, None, b, eps=0.0), x, bias)


@pytest.mark.parametrize("kind", NORMS)
def test_norms_in_doubt_are_decided_by_exact_sums(kind):
    """Among others: only layer_norm and its scale have a mean of numbers that cancel."""
    rng = np.random.default_rng(8)
    x = np.vstack([cancelling(rng, 50), rng.standard_normal((300, 60)).astype(np.float32)])
    same_on_the_gpu(NORMS[kind], x, axis=1, eps=1e-5)


@pytest.mark.parametrize("shape", [(300, 60), (70, 768), (9, 8192), (5, 8193)])
def test_standardized_rows(cupy, shape):
    """With the means and scales of layer norms, and the weight and bias that they are given."""
    rng = np.random.default_rng(9)
    x = rng.integers(-3, 4, shape).astype(np.float32)
    x[::3], x[1] = rng.standard_normal(x[::3].shape) + 100, 0
    x[2, 0] = np.inf
    weight, bias = (rng.standard_normal(shape[1]).astype(np.float32) for _ in range(2))
    there = standardized(cupy.asarray(x[None]), 1e-5)
    for found, expected in zip(there, standardized(x[None], 1e-5), strict=True):
        assert (found is None) == (expected is None)
        assert found is None or found.get().tobytes() == expected.tobytes()
    rows = standardized_rows(*map(cupy.asarray, (x,)), 1e-5, cupy.asarray(weight), cupy.asarray(bias))
    assert (rows is None) == (shape[1] > cuda.MOST_IN_REGISTERS)
    if rows is not None:
        assert rows.y.get().tobytes() == ozaki.layer_norm(x, 1, weight, bias).tobytes()


@pytest.mark.parametrize("shape", [(70, 60), (1000, 3), (3000, 1024), (90, 8192)])
def test_derivatives_of_softmax(cupy, shape):
    y, g = gradients(np.random.default_rng(2), *shape)
    found, expected = softmax_slope(cupy.asarray(y), cupy.asarray(g)).get(), expected_slope(y, g)
    nan = np.isnan(expected)
    assert (np.isnan(found) == nan).all()
    assert found[~nan].tobytes() == expected[~nan].tobytes()


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("shape", [(3, 40, 10), (7, 300, 1), (4, 64, 3000), (2, 5, 100_001), (1, 30, 9000)])
def test_standardized_channels(cupy, shape, opened, monkeypatch):
    """With their derivatives, by quick sums, and by exact ones, which make 0 of sums of −0 alone."""
    if opened:
        text = standardized_cuda.source
        monkeypatch.setattr(standardized_cuda, "source", lambda *a, **given: changed(text(*a, **given)))
        monkeypatch.setattr(standardized_cuda, "_kernel", standardized_cuda._kernel.__wrapped__)
    rng = np.random.default_rng([*shape])
    x, g = (numbers(rng, shape) if shape[1] == 40 else channels_of(rng, shape) for _ in range(2))
    weight, bias = rng.standard_normal((2, shape[1])).astype(np.float32)
    y, *moments = standardized(x, 1e-5, True)
    arrays = [cupy.asarray(a) for a in (x, g, weight, bias)]
    averages = [cupy.full(shape[1], 0.3, np.float32) for _ in range(2)]
    found, *others = standardized_channels(arrays[0], 1e-5, *arrays[2:], Averages(*averages, 0.1))
    before = np.full((2, shape[1]), 0.3, np.float32)
    for one, other in zip(averages, moved(before, 0.1, [others[i].get() for i in (0, 2)]), strict=True):
        assert same(one.get(), other)
    assert same(found.get(), affine(y, weight, bias), not opened)
    for one, other in zip(others, moments, strict=True):
        assert same(one.get(), other, not opened)
    for w in (weight, None):
        slopes = channel_slopes(arrays[1], arrays[0], None if w is None else arrays[2], *others[:2])
        for one, other in zip(slopes, expected_slopes(g, x, w, *moments[:2]), strict=True):
            assert same(one.get(), other, not opened)


def channels_of(rng, shape):
    """Channels of ordinary numbers, some far from zero, some of small integers, and one of equal numbers."""
    x = rng.standard_normal(shape)
    x[:, ::3] += 100
    x[:, 1::3] = np.rint(x[:, 1::3])
    x[:, 0] = 0.1
    return x.astype(np.float32)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", KINDS)
def test_long_rows_in_parts(name, dtype):
    """Of one part, of several and of as many as a GPU takes, in rows and in columns."""
    rng, function = np.random.default_rng(3), getattr(ozaki, name)
    for shape in ((1, 100_000), (3, 300_001), (1, 10_000_000), (700, 5000), (133, 9001)):
        x = (rng.standard_normal(shape) * 30).astype(dtype)
        same_on_the_gpu(function, x, axis=1)
        if x.size < 10_000_000:
            same_on_the_gpu(function, np.asfortranarray(x), axis=1)
            same_on_the_gpu(function, np.ascontiguousarray(x.T), axis=0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", KINDS)
def test_long_rows_of_every_kind(name, dtype):
    """NaN, Inf and the largest number in one part or in two."""
    rng, function = np.random.default_rng(4), getattr(ozaki, name)
    x = rng.standard_normal((12, 40_000)).astype(dtype)
    x[0, -1], x[1, 20_000], x[2, :2] = np.nan, np.inf, (np.inf, -np.inf)
    x[3], x[4, 1:], x[5, ::2], x[6, :-1] = -np.inf, -np.inf, -np.inf, -np.inf
    x[7, [5, 39_000]], x[8], x[9], x[9, 7] = 9.0, 0.5, -6e4, 3.0
    x[10], x[11, [0, -1]] = rng.integers(-2, 3, 40_000), (np.nan, np.inf)
    same_on_the_gpu(function, x, axis=1)
    same_on_the_gpu(function, x[:, ::-1], axis=1)
    if name == "softmax":
        same_on_the_gpu(safe_softmax, x, axis=1)
        same_on_the_gpu(safe_softmax, x[:, :900], axis=1)


@pytest.mark.parametrize("name", KINDS)
def test_many_long_rows_are_enclosed(name):
    """And those that are in doubt computed again."""
    rng, function = np.random.default_rng(7), getattr(ozaki, name)
    for shape in ((700, 9000), (540, 50_257)):
        x = rng.standard_normal(shape).astype(np.float32)
        x[3, 5], x[4, 8999], x[5], x[6, 1:] = np.nan, np.inf, -np.inf, -np.inf
        same_on_the_gpu(function, x, axis=1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(900, 40), (5, 30_000)])
@pytest.mark.parametrize("name", KINDS)
def test_integers_decide_what_texts_and_words_of_sums_leave_open(name, shape, dtype, monkeypatch):
    """With all in doubt: powers and logarithms; and with units so large that most sums lose bits."""
    text = cuda.source

    def doubting(*arguments):
        found = text(*arguments).replace("UNIT = 158", "UNIT = 60")
        for x in ("exp(x, largest, e)", "log(sum, l)"):
            for of in ("quick", "longer"):
                found = found.replace(f"{of}_{x}", f"({of}_{x}, true)")
        return found

    monkeypatch.setattr(cuda, "source", doubting)
    monkeypatch.setattr(cuda, "_kernel", cuda._kernel.__wrapped__)
    x = (np.random.default_rng(4).standard_normal(shape) * 9).astype(dtype)
    same_on_the_gpu(getattr(ozaki, name), x, axis=1)
