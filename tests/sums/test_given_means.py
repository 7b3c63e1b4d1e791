"""What reductions take beside axes: means that are given, corrections, starts and sums of weights."""

from fractions import Fraction

import numpy as np
import pytest

import ozaki
from tests.oracle import nearest, nearest_root

RNG = np.random.default_rng(5)
NAMES = "var", "std", "nanvar", "nanstd"
X = RNG.standard_normal((7, 5)) * 2.0 ** RNG.integers(-80, 80, (7, 5))


def exactly(z):
    """Real and imaginary part."""
    if isinstance(z, int | np.integer | np.bool_):
        return Fraction(int(z)), Fraction(0)
    return Fraction(float(np.real(z))), Fraction(float(np.imag(z)))


def about(name, column, mean, ddof=0):
    """Σ|x − m|²/(n − ddof) of what counts, or its root, rounded once."""
    pairs = [(exactly(x), exactly(m)) for x, m in zip(column, mean, strict=True) if not np.isnan(x)]
    total = sum((a - c) ** 2 + (b - d) ** 2 for (a, b), (c, d) in pairs)
    return (nearest_root if name.endswith("std") else nearest)(total / (len(pairs) - Fraction(ddof)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ddof", [0, 1, 0.5, -2])
@pytest.mark.parametrize(
    ("x", "mean"),
    [
        (X, np.mean(X, axis=0)),
        (X, 1e30),
        (X.astype(np.float32), 0.1),
        (RNG.integers(-(2**62), 2**62, (7, 5)), 0.5),
        (X > 0, 0.5),
        (X * (1 + 2j), np.mean(X, axis=0) * (1 - 1j)),
        (X * 1j, 3.0),
        (X, np.full((7, 5), 1 + 1j)),
    ],
    ids=["means", "far", "float32", "integers", "booleans", "complex", "real mean", "complex mean"],
)
def test_variances_about_given_means_are_rounded_once(name, ddof, x, mean):
    result = getattr(ozaki, name)(x, axis=0, mean=mean, correction=ddof, dtype=np.float64)
    given = np.broadcast_to(mean, x.shape)
    assert result.tolist() == [about(name, x[:, i], given[:, i], ddof) for i in range(5)]


@pytest.mark.parametrize("name", NAMES)
def test_what_does_not_count_has_no_difference_from_a_given_mean(name):
    where, x = RNG.random(X.shape) < 0.6, X.copy()
    where[:2] = True
    if name.startswith("nan"):
        x[0, 1] = x[3, 3] = np.nan
    result = getattr(ozaki, name)(x, axis=0, mean=7.0, where=where)
    masked = np.where(where, x, np.nan)
    assert result.tolist() == [about(name, masked[:, i], np.full(7, 7.0)) for i in range(5)]


def test_few_numbers_about_a_given_mean_are_as_numpys():
    for name in NAMES:
        function, native = getattr(ozaki, name), getattr(np, name)
        for x, options in (([], {}), ([1.0], {"ddof": 1}), ([3.0], {"ddof": 1}), ([1.0, 2.0], {"ddof": 2.5})):
            with np.errstate(all="ignore"), pytest.warns(RuntimeWarning):
                expected = native(np.array(x), mean=1.0, **options)
            assert np.array_equal(function(np.array(x), mean=1.0, **options), expected, equal_nan=True)
        assert np.isnan(function(np.array([1.0, np.inf]), mean=1.0))


def test_means_and_corrections_that_do_not_fit_are_refused():
    for function in (ozaki.var, ozaki.std, ozaki.nanvar, ozaki.nanstd):
        with pytest.raises(ValueError, match="simultaneously"):
            function(X, ddof=1, correction=0)
        with pytest.raises(ValueError, match="mean must broadcast to x"):
            function(X, mean=np.ones((2, 7, 5)))
        with pytest.raises(TypeError, match="mean"):
            function(X, mean="1")
        assert function(X, correction=1).tolist() == function(X, ddof=1).tolist()


def test_a_sum_without_nan_begins_with_what_is_given():
    x = np.array([[1e100, np.nan, 1.0], [np.nan, np.nan, np.nan]])
    assert ozaki.nansum(x, axis=1, initial=-1e100).tolist() == [1.0, -1e100]
    assert ozaki.nansum(x, axis=1, initial=np.array([0.5, 2.0])).tolist() == [1e100, 2.0]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
def test_averages_are_returned_with_the_sums_of_their_weights(axis, keepdims):
    for weights in (None, np.abs(X), np.arange(1, 8) if axis == 0 else None):
        mean, total = ozaki.average(X, axis, weights, keepdims, returned=True)
        assert mean.tolist() == ozaki.average(X, axis, weights, keepdims).tolist()
        along = np.ones(X.shape) if weights is None else weights if np.ndim(weights) == 2 else None
        along = np.repeat(np.arange(1.0, 8)[:, None], 5, axis=1) if along is None else along
        assert total.tolist() == ozaki.sum(along, axis=axis, keepdims=keepdims).tolist()
        assert np.shape(total) == np.shape(mean)
    mean, total = ozaki.average([1, 2, 3], weights=[1, 1, 2], returned=True)
    assert (mean, total, total.dtype) == (2.25, 4.0, np.float64)


@pytest.mark.parametrize("rowvar", [True, False])
@pytest.mark.parametrize("name", ["cov", "corrcoef"])
def test_covariances_of_two_arrays_are_those_of_both_together(name, rowvar):
    of, m = getattr(ozaki, name), X if rowvar else X.T
    first, second = (m[:3], m[3:]) if rowvar else (m[:, :3], m[:, 3:])
    assert of(first, second, rowvar=rowvar).tobytes() == of(m, rowvar=rowvar).tobytes()
    assert of(X[0], X[1], rowvar=rowvar).tobytes() == of(X[:2]).tobytes()
    assert of(m, X[:1], rowvar=rowvar).tobytes() == of(np.vstack([X, X[:1]])).tobytes()
    with pytest.raises(ValueError, match="as many observations"):
        of(X[0], X[1, 1:])
