"""The sign of a sum of zeros, against rational arithmetic, in every form of the sums."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import ozaki
import ozaki.linalg
from tests.cells import cells
from tests.gpu.same import same_on_the_gpu
from tests.oracle import real_dot, rounded

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
INTEGERS = ["i8", "u8", "i4"]
PAIRS = [*itertools.product(INTEGERS, repeat=2), *itertools.product(INTEGERS, ["f8", "f2"]), ("i1", BFLOAT16)]
TARGETS = {np.dtype(np.float64): (53, -1022, 1023), BFLOAT16: (8, -126, 127)}


def zeros(rng, dtype, shape):
    """Zeros of both signs, and numbers of both, as far as the dtype has them; wide ones in 64 bits."""
    values = np.array([0, 0, 1, 3, 2**31, 2**40 + 1] if "8" in str(dtype) else [0, 0, 1, 3])
    x = rng.choice(values, shape).astype(dtype)
    return x if str(dtype)[0] == "u" else (-x if str(dtype)[0] == "i" else x * -1).astype(dtype)


def cases(dtypes, shape):
    """Vectors whose products are zero, by the signs of either factor."""
    rng = np.random.default_rng(7)
    x, y = (zeros(rng, dtype, shape) for dtype in dtypes)
    where = rng.random(shape) < 0.5
    x[where], y[~where] = 0, 0
    yield x, y
    yield np.abs(x), y
    yield np.abs(x), np.abs(y)
    if dtypes[1] not in INTEGERS:
        y = np.full(shape, -0.0).astype(dtypes[1])
        yield x, y
        yield np.abs(x), y


@cells(dtypes=PAIRS, shape=[(1,), (7,), (2500,), (2, 3), (2, 1200)])
def test_dots_of_zeros(dtypes, shape):
    for x, y in cases(dtypes, shape):
        columns = zip(x.reshape(shape[0], -1).T, y.reshape(shape[0], -1).T, strict=True)
        exact = [real_dot([(1, *column)]) for column in columns]
        for target, fmt in TARGETS.items():
            wanted = [rounded(n, e, fmt) if decided is None else decided for n, e, decided in exact]
            expected = np.array(wanted).astype(target).reshape(shape[1:])
            for pair in ((x, y), (y, x)):
                got = np.asarray(ozaki.dot(*pair, dtype=target, axis=0))
                assert got.tobytes() == expected.tobytes()


def test_accumulated_products_of_integers():
    for x, y in cases(("i1", "i2"), (40, 3)):
        total = ozaki.ExactSum(shape=3).add_products(x, y).round()
        assert total.tobytes() == np.zeros(3).tobytes()
    assert np.signbit(ozaki.ExactSum().add_products(np.float32([0]), np.int8([-1])).round())


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(1,), (5000,), (700, 5), (2, 3000)], ids=str)
@pytest.mark.parametrize("dtypes", PAIRS, ids=lambda p: " ".join(map(str, p)))
def test_dots_of_zeros_on_the_gpu(dtypes, shape):
    for x, y in cases(dtypes, shape):
        for target in TARGETS:
            same_on_the_gpu(lambda a, b, t=target: ozaki.dot(a, b, dtype=t, axis=0), x, y)


def test_running_sums_of_bfloat16_with_nan_do_not_warn():
    for special in (np.nan, np.inf, -np.inf):
        x = np.array([1, special, 2], ml_dtypes.bfloat16)
        expected = np.array([1, special, special], ml_dtypes.bfloat16)
        assert ozaki.cumsum(x).tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", [BFLOAT16, *map(np.dtype, ("f2", "f4", "f8", "c8", "c16"))], ids=str)
def test_a_mean_without_nan_is_that_of_the_other_numbers(dtype):
    for values in itertools.product([-0.0, 0.0, np.nan], repeat=3):
        x = np.array([complex(v, v) for v in values]) if dtype.kind == "c" else np.array(values)
        others = x[~np.isnan(x)].astype(dtype)
        if others.size:
            for mean in (ozaki.nanmean(x.astype(dtype)), ozaki.mean(x.astype(dtype), where=~np.isnan(x))):
                assert mean.tobytes() == ozaki.mean(others).tobytes(), values


TINY = np.array([-(2.0**-1074), 0.0, 0.0, 0.0])


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("function", "x"),
    [
        (ozaki.linalg.det, np.diag([-(2.0**-600), 2.0**-600])),
        (lambda x: ozaki.linalg.slogdet(x)[1], np.eye(2)),
        (lambda x: ozaki.sum(x, initial=-0.0), np.array([-0.0])),
        (lambda x: ozaki.sum(x, axis=0, initial=np.array(-0.0)), np.full((3, 2), -0.0)),
        (ozaki.mean, TINY),
        (ozaki.nanmean, np.array([-0.0, np.nan])),
        (lambda x: ozaki.average(x, weights=x * 0 + 1), TINY),
        (lambda x: ozaki.group_sum(x, x.astype(int), 1), np.full(3, -0.0)),
    ],
)
def test_results_of_no_axes_keep_their_sign_on_a_gpu(function, x):
    same_on_the_gpu(function, x)
