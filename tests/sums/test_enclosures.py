"""Sums of some thousand numbers or products, and of longer vectors, which enclosures mostly decide."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ozaki
from multiword.formats import FORMATS
from ozaki.definition import sums as definition
from ozaki.sums import table
from ozaki.sums.exact import rows
from ozaki.sums.exact import vectors as vectors_of_sums
from ozaki.tuning import COPIED_TERMS
from tests.oracle import real_dot, real_sum

KINDS = {
    "uniform": lambda r, n: r.random(n),
    "normal": lambda r, n: r.standard_normal(n),
    "integers": lambda r, n: r.integers(-9, 10, n).astype(float),
    "wild": lambda r, n: np.ldexp(r.standard_normal(n), r.integers(-1074, 1023, n)),
    "moderate": lambda r, n: np.ldexp(r.standard_normal(n), r.integers(-60, 60, n)),
    "huge": lambda r, n: r.uniform(1, 1.79, n) * 1e308,
    "subnormal": lambda r, n: r.integers(-99, 100, n) * 2.0**-1074,
    "cancelling": lambda r, n: np.resize(np.concatenate([x := r.standard_normal(max(1, n // 2)), -x]), n),
    "one large": lambda r, n: np.where(np.arange(n) == n // 2, 2.0**40, r.standard_normal(n)),
    "halves of the last place": lambda r, n: np.where(np.arange(n) == 0, 1.0, 2.0**-53 / max(1, n - 1)),
}


def vectors(kind, other, n, seed):
    r = np.random.default_rng(seed)
    return KINDS[kind](r, n), KINDS[other](r, n)


def total(x, y=None):
    y = np.ones(len(x)) if y is None else y
    return sum(Fraction(a) * Fraction(b) for a, b in zip(x.tolist(), y.tolist(), strict=True))


def nearest(value):
    """The float64 number nearest to a fraction, which is not beyond the largest."""
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


sizes = st.one_of(st.integers(1, 40), st.sampled_from([63, 64, 65, 128, 1000, 2049]))


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(list(KINDS)), st.sampled_from(list(KINDS)), sizes, st.integers(0, 2**32))
@pytest.mark.parametrize("raising", [False, True])
def test_sums_of_few_numbers(raising, kind, other, n, seed):
    """Ties, zeros, and what overflows or underflows; whatever NumPy's error state."""
    x, y = vectors(kind, other, n, seed)
    exact, products, count = total(x), total(x, y), Fraction(1, n)
    with np.errstate(all="raise" if raising else "warn"):
        found = ozaki.sum(x), ozaki.mean(x), ozaki.dot(x, y)
    assert found == (nearest(exact), nearest(exact * count), nearest(products))
    assert not np.signbit(found[0]) or exact < 0
    with np.errstate(over="ignore"):
        single = x.astype(np.float32)
    if np.isfinite(single).all():
        assert float(ozaki.sum(single, dtype=np.float64)) == nearest(total(single.astype(float)))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("n", [16, 255, 256, 1000, 1024])
def test_means_and_norms_near_powers_of_two(without_numba, n, sign):
    """Below a power of two numbers lie half as far apart as above; means also half way between two."""
    steps = {0, 1, 2, n // 4, n // 2 - 1, n // 2, n // 2 + 1, n, 3 * n // 2, 2 * n}
    for step in steps:
        for spacing in (-(2.0**-53), 2.0**-52):
            x = sign * np.ones(n)
            x[n // 3] *= 1 + step * spacing
            assert without_numba(ozaki.mean, x) == nearest(total(x) / n)
            square, found = total(x, x), float(without_numba(ozaki.norm, x))
            below, above = ((Fraction(found) + Fraction(np.nextafter(found, to))) / 2 for to in (0, 99))
            assert below**2 <= square <= above**2


LONG = {
    **KINDS,
    "rising": lambda r, n: np.ldexp(r.standard_normal(n), np.arange(n) % 2000 - 1000),
    "alternating blocks": lambda r, n: np.ldexp(r.standard_normal(n), 800 * (np.arange(n) // 2048 % 2) - 400),
    "one wild block": lambda r, n: np.ldexp(
        r.standard_normal(n), np.where(np.arange(n) // 2048 == 1, r.integers(-1074, 1000, n), 0)
    ),
    "nearly halfway": lambda r, n: (
        np.where(np.arange(n) == 9, 1.0, np.where(np.arange(n) == n - 1, 2.0**-53, 0.0))
        + np.where(np.arange(n) == 3000, 2.0**-1000, 0.0)
    ),
}


@pytest.mark.parametrize("kind", LONG)
def test_sums_of_more_numbers(without_numba, kind):
    """Added up in a window first, and exactly only where the rounding is not certain from that."""
    n, other = COPIED_TERMS + 1000, ("uniform", "wild", "subnormal")[len(kind) % 3]
    x, y = LONG[kind](np.random.default_rng(4), n), LONG[other](np.random.default_rng(5), n)
    (total, e, _), (products, f, _) = real_sum(x), real_dot([(1, x, y)])
    exact, products = total * Fraction(2) ** e, products * Fraction(2) ** f
    expected = nearest(exact), nearest(exact / n), nearest(products)
    for work in (lambda f, *given: f(*given), without_numba):
        assert (work(ozaki.sum, x), work(ozaki.mean, x), work(ozaki.dot, x, y)) == expected
        assert work(ozaki.ExactSum().add, x).fractions() == [exact]
        assert work(ozaki.ExactSum().add_products, x, y).fractions() == [products]


def tiny_errors(n):
    """x, y and Σ x·y: rounded products of which the half cancels the other; what they leave underflows."""
    one, rounded = 1 + 2.0**-52, 1 + 2.0**-51
    x = np.repeat([one * 2.0**-500, -rounded * 2.0**-490], n)
    y = np.repeat([one * 2.0**-480, 2.0**-490], n)
    return x, y, n * 2.0**-1074 / 2**10


@pytest.mark.parametrize("n", [1 << 11, 1 << 15])
def test_products_whose_errors_are_no_float64(without_numba, n):
    x, y, total = tiny_errors(n)
    assert ozaki.dot(x, y) == without_numba(ozaki.dot, x, y) == total
    for pair, axis in (((np.tile(x, (9, 1)), y), -1), ((np.tile(x[:, None], 9), y[:, None]), 0)):
        assert (ozaki.dot(*pair, axis=axis) == total).all()


DEFINED = {
    "sum": definition.rounded_sum,
    "mean": lambda x, target: definition.rounded_sum(x, target, len(x)),
    "norm": definition.rounded_norm,
    "rms": lambda x, target: definition.rounded_norm(x, target, len(x)),
    "var": lambda x, target: definition.rounded_variance(x, target=target),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", DEFINED)
def test_rows_with_inf_and_nan_are_not_added_up_again(monkeypatch, name, dtype):
    """However many they are: data with gaps are ordinary data."""
    x = np.random.default_rng(3).standard_normal((40, 300)).astype(dtype)
    x[::2, 7], x[1::4, 5], x[3::8, 6], x[3, 5] = np.nan, np.inf, -np.inf, np.inf
    target = FORMATS["fp64" if dtype is np.float64 else "fp32"]
    monkeypatch.setattr(rows, "rounded_tiles", None)
    monkeypatch.setattr(table, "exact_sums", None)
    for axis, lines in ((1, x), (0, x.T)):
        expected = np.array([DEFINED[name](line.tolist(), target) for line in lines], dtype)
        assert np.array_equal(getattr(ozaki, name)(x, axis=axis), expected, equal_nan=True)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_long_vectors_with_inf_and_nan(monkeypatch, special):
    x = np.random.default_rng(4).standard_normal(200_000)
    x[[5, 150_000]] = special
    assert np.isnan(ozaki.var(x))
    monkeypatch.setattr(vectors_of_sums._Outside, "add", None)
    for function, value in ((ozaki.sum, special), (ozaki.norm, abs(special))):
        assert np.array_equal(function(x), value, equal_nan=True)
    assert np.array_equal(ozaki.dot(x, -x), -abs(special), equal_nan=True)
