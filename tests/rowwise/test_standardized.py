"""Channels are standardized as layer norms of rows are, and their sums are exact, rounded once."""

from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest

from multiword.runtime.compiled import numpy_forms
from ozaki.elementary.rounding import nearest
from ozaki.rowwise import standardized as module
from ozaki.rowwise.standardized import (
    Averages,
    channel_slopes,
    channel_sums,
    standardized,
    standardized_channels,
)
from tests.rowwise.definitions import function, layer_norm, rounded

SHAPES = (3, 4, 5), (1, 6, 8), (2, 3, 70), (40, 2, 7), (1, 3, 300), (16, 2, 1)


def numbers(kind, shape, dtype=np.float32):
    rng = np.random.default_rng([ord(kind[0]), *shape])
    x = rng.standard_normal(shape)
    if kind == "far":  # from zero: what is left of a number less the mean has few bits
        x = x * 2.0**-10 + 2.0**9
    elif kind == "wide":
        x = x * np.exp2(rng.uniform(-140, 60, shape))
    elif kind == "integers":  # means, deviations and sums are ties now and then
        x = rng.integers(-2, 3, shape) * 1.0
    elif kind == "equal":
        x = np.full(shape, 0.1)
    return x.astype(dtype)


def rows_of(x):
    return [[float(v) for v in x[:, c].ravel()] for c in range(x.shape[1])]


def to(dtype, x):
    return nearest(x, np.dtype(dtype)) if x else 0.0


def variance(row):
    mean = sum(map(Fraction, row)) / len(row)
    return sum((Fraction(x) - mean) ** 2 for x in row) / (len(row) - 1)


def inverse_deviation(row, eps):
    mean = rounded(sum(map(Fraction, row)) / len(row))
    square = rounded(sum(Fraction(x - mean) ** 2 for x in row) / len(row)) + eps
    return function("rsqrt", square)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["normal", "far", "wide", "integers", "equal"])
@pytest.mark.parametrize("shape", SHAPES)
def test_channels(shape, kind, dtype):
    x, eps = numbers(kind, shape, dtype), 1e-5
    found = standardized(x, eps, variance=True)
    rows = rows_of(x)
    expected = [np.array(layer_norm(row, eps)).astype(dtype).tolist() for row in rows]
    assert rows_of(found.y) == expected
    assert found.mean.tolist() == [to(dtype, sum(map(Fraction, row)) / len(row)) for row in rows]
    assert found.scale.tolist() == [float(dtype(inverse_deviation(row, eps))) for row in rows]
    assert found.variance.tolist() == [to(dtype, variance(row)) for row in rows]
    assert {a.dtype for a in found} == {np.dtype(dtype)}


@pytest.mark.parametrize("kind", ["normal", "wide", "integers"])
@pytest.mark.parametrize("shape", SHAPES)
def test_sums(shape, kind):
    x, y = numbers(kind, shape), numbers(kind, shape)[::-1].copy()
    rows, products = rows_of(x), zip(rows_of(x), rows_of(y), strict=True)
    assert channel_sums(x).tolist() == [to(np.float32, sum(map(Fraction, row))) for row in rows]
    assert channel_sums(x, y).tolist() == [
        to(np.float32, sum(Fraction(a) * Fraction(b) for a, b in zip(*pair, strict=True)))
        for pair in products
    ]


def of_channels(shape, count):
    rng = np.random.default_rng(shape)
    return rng.standard_normal((count, shape[1])).astype(np.float32)


@pytest.mark.parametrize("kind", ["normal", "far", "wide", "integers"])
@pytest.mark.parametrize("shape", SHAPES)
def test_weights_biases_and_averages(shape, kind):
    """Products, sums and averages are each rounded to float32."""
    pytest.importorskip("numba")
    x, (weight, bias, *old) = numbers(kind, shape), of_channels(shape, 4)
    plain, share = standardized(x, 1e-5, variance=True), np.float32(0.1)
    for given in ((weight, bias), (weight, None), (None, bias), (None, None)):
        averages = [a.copy() for a in old]
        found = standardized_channels(x, 1e-5, *given, Averages(*averages, 0.1))
        expected = plain.y if given[0] is None else plain.y * weight[:, None]
        expected = expected if given[1] is None else expected + bias[:, None]
        assert found.y.tobytes() == expected.tobytes()
        for a, before, now in zip(averages, old, (plain.mean, plain.variance), strict=True):
            assert a.tobytes() == (before * np.float32(0.9) + now * share).tobytes()


@pytest.mark.parametrize("kind", ["normal", "wide", "integers"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("given", [(True, True), (True, False), (False, True), (False, False)])
def test_slopes(shape, kind, given):
    """All operations are rounded to float32, sums are exact; whether or not a rounding is in doubt."""
    pytest.importorskip("numba")
    x, g = numbers(kind, shape), numbers(kind, shape)[::-1].copy()
    weight, mean, scale = of_channels(shape, 3)
    if not given[0]:
        weight = None
    if not given[1]:
        mean = None
    with np.errstate(all="ignore"):
        h = g if weight is None else g * weight[:, None]
        y = x if mean is None else (x - mean[:, None]) * scale[:, None]
        n, product, total = np.float32(x[:, 0].size), channel_sums(h, y), channel_sums(h)
        of_x = ((h - (total / n)[:, None]) - y * (product / n)[:, None]) * scale[:, None]
        expected = of_x, channel_sums(g, y), channel_sums(g)
    found = [channel_slopes(g, x, weight, mean, scale)]
    loops = module._loops(x)
    with patch.object(module, "_loops", lambda _: DOUBTFUL_SUMS(loops)):
        found.append(channel_slopes(g, x, weight, mean, scale))
    for slopes in found:
        for a, b in zip(slopes, expected, strict=True):
            np.testing.assert_array_equal(a, b)
            assert (np.signbit(a) == np.signbit(b))[~np.isnan(b)].all()


class DOUBTFUL_SUMS:
    """Loops that decide every second sum."""

    def __init__(self, loops):
        self.loops, self.slopes = loops, loops.slopes

    def slope_sums(self, g, x, weight, mean, scale, sums, *scratch):
        self.loops.slope_sums(g, x, weight, mean, scale, sums, *scratch)
        sums[:, ::2] = np.nan
        return True


def test_no_number_is_left_to_chance():
    """A loop that leaves every channel in doubt, and one that leaves none, have the bits of NumPy's forms."""
    pytest.importorskip("numba")
    x = numbers("normal", (4, 9, 50))
    x[0, 1, 2], x[1, 2, 3], x[:, 3] = np.inf, np.nan, 0.0
    with np.errstate(all="ignore"):
        for eps in (1e-5, 0.0):
            found = standardized(x, eps, True)
            with numpy_forms():
                expected = standardized(x, eps, True)
            with patch.object(module, "_loops", lambda _: DOUBTFUL):
                doubtful = standardized(x, eps, True)
            for a, b, c in zip(found, expected, doubtful, strict=True):
                np.testing.assert_array_equal(a.view(np.int32), b.view(np.int32))
                np.testing.assert_array_equal(c.view(np.int32), b.view(np.int32))


class DOUBTFUL:
    """Loops that decide nothing."""

    @staticmethod
    def standardize(eps, x, weight, bias, y, moments, doubt, d, row):
        y[...] = moments[...] = np.nan
        doubt[...] = 1
        return len(doubt)


def test_most_channels_are_decided_at_once():
    pytest.importorskip("numba")
    x = numbers("normal", (16, 8, 100))
    with patch.object(module, "_exactly", side_effect=AssertionError):
        standardized(x, 1e-5)
    with patch.object(module, "_summed", side_effect=AssertionError):
        channel_sums(x, x)


def test_a_channel_that_plain_float64_would_round_wrong():
    """Found among 10⁹ numbers; the error of one of its sixteen thousand is what the bound allows for."""
    x = np.random.default_rng(62).standard_normal((64, 1 << 14)).astype(np.float32)[None, 28:29]
    with numpy_forms():
        expected = standardized(x, 1e-5)
    assert standardized(x, 1e-5).y.tobytes() == expected.y.tobytes()


def test_what_lies_beside_a_tie():
    """What decides is less than float64 can tell: of a sum, and of the squares that a variance is made of."""
    x = np.array([1, 2.0**-24, 2.0**-60, 2.0**-120, -(2.0**-60)], np.float32)
    assert channel_sums(x[None, None]) == 1 + 2.0**-23
    x = np.array([1, -1, 2.0**-12, -(2.0**-12), 2.0**-30, -(2.0**-30), 0, 0, 0], np.float32)
    assert standardized(x[None, None], 1e-5, variance=True).variance == (1 + 2.0**-23) / 4
