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


def test_options_and_invalid_arguments():
    x = np.random.default_rng(2).standard_normal((3, 8))
    lazy = da.from_array(x, chunks=3)
    for options in ({"ddof": 0}, {"ddof": 8}, {"accuracy": "exact"}):
        assert ozaki.cov(lazy, **options).compute().tobytes() == ozaki.cov(x, **options).tobytes()
    for call, error, message in (
        (lambda: ozaki.cov(lazy[None]), ValueError, "x must be a matrix"),
        (lambda: ozaki.cov(lazy, lazy[:, :3]), ValueError, "as many observations"),
        (lambda: ozaki.cov(lazy * 1j), TypeError, "x must be real"),
        (lambda: ozaki.cov(lazy, fweights=np.ones(8, int)), TypeError, "fweights"),
        (lambda: ozaki.cov(lazy, accuracy="good"), ValueError, "accuracy"),
        (lambda: ozaki.cov(lazy[:, lazy[0] > 0]), ValueError, "unknown sizes"),
    ):
        with pytest.raises(error, match=message):
            call()
