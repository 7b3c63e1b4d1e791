"""Sums by group without NaN, and weighted means: the bits of the reductions of each group's own numbers."""

import numpy as np
import pytest

import ozaki

RNG = np.random.default_rng(21)
LABELS = RNG.integers(0, 6, 80)
LABELS[LABELS == 4] = 1
SKIPPING = {name: getattr(ozaki, f"group_nan{name}") for name in ("sum", "mean", "var", "std")}


def numbers(dtype):
    x = (RNG.standard_normal((3, 80)) * 2.0 ** RNG.integers(-20, 20, 80)).astype(dtype)
    if x.dtype.kind != "i":
        x[:, ::7], x[1, LABELS == 2], x[2, 5] = np.nan, np.nan, np.inf
    return x


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128, np.int64])
@pytest.mark.parametrize("name", SKIPPING)
def test_groups_have_the_bits_of_their_numbers(name, dtype):
    x = numbers(dtype)
    for ddof in (0, 1, 3) if name in ("var", "std") else (None,):
        options = {} if ddof is None else {"ddof": ddof}
        for least in (0, 1, 12):
            found = SKIPPING[name](x, LABELS, 6, min_count=least, **options)
            for row, results in zip(x, found, strict=True):
                for group, result in enumerate(results):
                    part = row[group == LABELS]
                    part = part if dtype is np.int64 else part[~np.isnan(part)]
                    alone = getattr(ozaki, f"nan{name}")(part, dtype=found.dtype, **options)
                    expected = np.asarray(np.nan if part.size < least else alone, found.dtype)
                    assert np.array_equal(result, expected, equal_nan=True), (group, least)


def test_few_numbers_are_as_pandas_has_them():
    pandas = pytest.importorskip("pandas")
    x = numbers(np.float64)[0]
    grouped = pandas.Series(x).groupby(LABELS)
    for least in (0, 1, 12, 20):
        expected = grouped.sum(min_count=least).to_numpy()
        assert np.allclose(
            ozaki.group_nansum(x, LABELS, 6, min_count=least)[[0, 1, 2, 3, 5]], expected, equal_nan=True
        )
    assert np.isnan(ozaki.group_nanmean(x, LABELS, 6)[4])
    assert ozaki.group_nansum(x, LABELS, 6)[4] == 0
    assert ozaki.group_nansum(np.arange(80), LABELS, 6).dtype == np.int64
    with pytest.raises(ValueError, match="min_count"):
        ozaki.group_nansum(x, LABELS, 6, min_count=-1)
    with pytest.raises(TypeError, match="dtype must hold NaN for min_count=1, got int64"):
        ozaki.group_nansum(LABELS, LABELS, 6, np.int64, min_count=1)
    with pytest.raises(ValueError, match="labels must be from 0"):
        ozaki.group_nansum(x, LABELS, 3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
def test_weighted_means_are_those_of_each_group(dtype):
    x = np.nan_to_num(numbers(dtype), posinf=2.0)
    for weights in (RNG.random(80), RNG.integers(1, 5, (3, 80)), RNG.random((3, 1))):
        found = ozaki.group_average(x, LABELS, 6, weights)
        every = np.broadcast_to(weights, x.shape)
        for i in range(3):
            for group in (0, 1, 2, 3, 5):
                of = group == LABELS
                assert found[i, group] == ozaki.average(x[i, of], weights=every[i, of])
        assert np.isnan(found[:, 4]).all()
    with pytest.raises(ZeroDivisionError):
        ozaki.group_average(x, LABELS, 6, np.where(LABELS == 3, 0.0, 1.0))
    for bad, error in (
        (np.ones(3), ValueError),
        (np.ones(80) * 1j, TypeError),
        (np.ones((2, 3, 80)), ValueError),
    ):
        with pytest.raises(error, match="weights"):
            ozaki.group_average(x, LABELS, 6, bad)


def test_a_complex_mean_of_nothing_is_nan_in_both_parts():
    """As that of `group_mean`, and on a GPU: zero divided by zero."""
    x, labels, bits = np.array([1 + 2j, 3j]), np.array([0, 0]), np.array([complex(np.nan, np.nan)]).tobytes()
    assert ozaki.group_average(x, labels, 2, np.ones(2))[1:].tobytes() == bits
    assert ozaki.group_mean(x, labels, 2)[1:].tobytes() == bits
    lazy = pytest.importorskip("dask.array").from_array(x, chunks=1)
    assert ozaki.group_average(lazy, labels, 2, np.ones(2)).compute()[1:].tobytes() == bits
