"""Covariances and correlations of Dask arrays: the bits of the whole, for any chunks."""

import numpy as np
import pytest

import ozaki

da = pytest.importorskip("dask.array")

pytestmark = pytest.mark.usefixtures("dask_in_this_thread")


@pytest.mark.parametrize("name", ["cov", "corrcoef"])
def test_the_bits_of_the_whole(name):
    """Of large means, of variables that are constant, of an Inf, and of integers."""
    rng, function = np.random.default_rng(1), getattr(ozaki, name)
    x = rng.standard_normal((6, 25)) * np.exp2(rng.integers(-300, 300, (6, 1))) + 1e9
    x[2], x[3, 4] = 7.0, np.inf
    for y, chunks in ((x, (4, 9)), (x, (6, 25)), (rng.integers(-99, 99, (3, 25)), (2, 10)), (x[0], 6)):
        lazy, expected = function(da.from_array(y, chunks=chunks)), function(y)
        found = lazy.compute()
        assert (lazy.shape, lazy.dtype) == (expected.shape, expected.dtype)
        assert found.tobytes() == expected.tobytes()
    found = function(da.from_array(x.T, chunks=5), da.from_array(x[:2].T, chunks=4), rowvar=False)
    assert found.compute().tobytes() == function(x.T, x[:2].T, rowvar=False).tobytes()


@pytest.mark.parametrize("name", ["cov", "corrcoef"])
def test_weights(name):
    rng, function = np.random.default_rng(3), getattr(ozaki, name)
    x = rng.standard_normal((4, 25)) * np.exp2(rng.integers(-300, 300, (4, 1))) + 1e9
    x[2], x[3, 4] = 7.0, np.inf
    counts, trust = rng.integers(0, 4, 25), rng.random(25)
    for weights in (
        {"fweights": counts},
        {"fweights": counts, "aweights": trust},
        {"aweights": np.where(trust > 0.9, np.inf, trust)},
        {"fweights": counts, "aweights": trust * 2.0**1020},
        {"aweights": trust, **({"ddof": 1000} if name == "cov" else {})},
    ):
        expected = function(x, **weights)
        lazy = {n: da.from_array(w, chunks=7) if n != "ddof" else w for n, w in weights.items()}
        for given, chunks in ((weights, (3, 9)), (lazy, (4, 25))):
            found = function(da.from_array(x, chunks=chunks), **given)
            assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
            assert found.compute().tobytes() == expected.tobytes()


def test_options_and_invalid_arguments():
    x = np.random.default_rng(2).standard_normal((3, 8))
    lazy = da.from_array(x, chunks=3)
    for options in ({"ddof": 0}, {"ddof": 8}, {"accuracy": "exact"}):
        assert ozaki.cov(lazy, **options).compute().tobytes() == ozaki.cov(x, **options).tobytes()
    for call, error, message in (
        (lambda: ozaki.cov(lazy[None]), ValueError, "x must be a matrix"),
        (lambda: ozaki.cov(lazy, lazy[:, :3]), ValueError, "as many observations"),
        (lambda: ozaki.cov(lazy * 1j), TypeError, "x must be real"),
        (lambda: ozaki.cov(lazy, fweights=np.ones(7, int)), RuntimeError, "incompatible numbers of samples"),
        (lambda: ozaki.cov(lazy, aweights=x), RuntimeError, "cannot handle multidimensional aweights"),
        (lambda: ozaki.cov(lazy, fweights=x[0]).compute(), TypeError, "fweights must be integers"),
        (lambda: ozaki.cov(lazy, aweights=-abs(x[0])).compute(), ValueError, "aweights must not be negative"),
        (lambda: ozaki.corrcoef(lazy, aweights=np.zeros(8)).compute(), ZeroDivisionError, "sum to zero"),
        (lambda: ozaki.cov(lazy, accuracy="good"), ValueError, "accuracy"),
        (lambda: ozaki.cov(lazy[:, lazy[0] > 0]), ValueError, "unknown sizes"),
    ):
        with pytest.raises(error, match=message):
            call()
