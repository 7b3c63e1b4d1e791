"""Sums by group of Dask arrays: the bits of the whole, for any chunks."""

import ml_dtypes
import numpy as np
import pytest

import ozaki
from ozaki.public import PUBLIC
from tests.cells import cells
from tests.dask.test_reductions import check, numbers

da = pytest.importorskip("dask.array")

pytestmark = pytest.mark.usefixtures("dask_in_this_thread")

NAMES = [name for name in PUBLIC if name.startswith("group_") and name != "group_cov" and PUBLIC[name].dask]
DTYPES = [np.dtype(t) for t in ("f2", ml_dtypes.bfloat16, "f4", "f8", "c8", "c16", ">f8", "i4", "?")]
CHUNKS = [(4, 14), (3, 5), ((1, 3), (0, 13, 1))]
LABELS = np.random.default_rng(4).integers(0, 4, 14)


def arrays_of(name, x):
    """The arrays before the labels, and what comes after the number of groups."""
    if name == "group_average":
        return [x], [np.arange(1.0, 1 + x.shape[-1])]
    return {"group_dot": [x, x[::-1]], "group_count": []}.get(name, [x]), []


@cells(name=NAMES, dtype=DTYPES)
def test_the_bits_of_the_whole(name, dtype):
    x, function = np.ascontiguousarray(numbers(dtype)[..., 2].T), getattr(ozaki, name)
    whole, more = arrays_of(name, x)
    expected = function(*whole, LABELS, 5, *more)
    for chunks in CHUNKS:
        lazy = [da.from_array(y, chunks=chunks) for y in whole]
        for labels in (LABELS, da.from_array(LABELS, chunks=6))[not whole :]:
            check(function(*lazy, labels, 5, *more), expected)
    row, labels = [da.from_array(y[0], chunks=3) for y in whole], da.from_array(LABELS, chunks=4)
    check(function(*row, labels, 5, *more, split_every=2), function(*(y[0] for y in whole), LABELS, 5, *more))


@cells(dtype=[t for t in DTYPES if t.kind != "c"])
def test_covariances(dtype):
    x = np.ascontiguousarray(numbers(dtype)[..., 2].T)
    for chunks in CHUNKS:
        lazy = da.from_array(x, chunks=chunks)
        for labels in (LABELS, da.from_array(LABELS, chunks=6)):
            check(ozaki.group_cov(lazy, labels, 5), ozaki.group_cov(x, LABELS, 5))
        table = ozaki.group_cov(lazy.T, LABELS, 5, ddof=0, rowvar=False, split_every=2)
        check(table, ozaki.group_cov(x, LABELS, 5, ddof=0))
    check(ozaki.group_cov(lazy[0], LABELS, 5, "f4"), ozaki.group_cov(x[0], LABELS, 5, "f4"))
    check(ozaki.group_cov(x, da.from_array(LABELS, chunks=4), 5), ozaki.group_cov(x, LABELS, 5))


@pytest.mark.parametrize("name", ["group_nansum", "group_nanmean", "group_nanvar", "group_nanstd"])
@pytest.mark.parametrize("dtype", ["f4", "c16", "i4"])
def test_numbers_without_nan(name, dtype):
    """In some chunks alone, or in all of a group."""
    rng, function = np.random.default_rng(8), getattr(ozaki, name)
    x = 5 * rng.standard_normal((3, 14))
    if dtype != "i4":
        x[(rng.random(x.shape) < 0.3) | (LABELS == 2)] = np.nan
    x = x.astype(dtype)
    options = [
        {},
        {"min_count": 0},
        {"min_count": 3},
        *([{"ddof": 1}] if name[-3:] in ("var", "std") else []),
    ]
    for chunks in ((1, 3), (2, (0, 5, 9))):
        lazy = da.from_array(x, chunks=chunks)
        for given in options:
            check(function(lazy, LABELS, 5, **given), function(x, LABELS, 5, **given))


def test_options():
    x = np.random.default_rng(5).standard_normal((2, 14))
    lazy = da.from_array(x, chunks=(1, 4))
    check(ozaki.group_var(lazy, LABELS, 4, ddof=1), ozaki.group_var(x, LABELS, 4, ddof=1))
    check(ozaki.group_sum(lazy, LABELS, 4, "f4"), ozaki.group_sum(x, LABELS, 4, "f4"))
    check(ozaki.group_dot(lazy, x[0], LABELS, 4), ozaki.group_dot(x, x[0], LABELS, 4))
    w = x * x
    check(ozaki.group_average(lazy, LABELS, 4, da.from_array(w, 5)), ozaki.group_average(x, LABELS, 4, w))
    nothing = da.from_array(x[:, :0], chunks=2)
    check(ozaki.group_mean(nothing, LABELS[:0], 3), ozaki.group_mean(x[:, :0], LABELS[:0], 3))


def test_chunks_of_unknown_sizes():
    """Of two columns of one frame, from which the same rows have been chosen."""
    x, chosen = np.random.default_rng(6).standard_normal(14), np.arange(14) % 3 > 0
    rows = da.from_array(chosen, chunks=4)
    values, labels = (da.from_array(y, chunks=4)[rows] for y in (x, LABELS))
    found = ozaki.group_sum(values, labels, 4).compute()
    assert found.tobytes() == ozaki.group_sum(x[chosen], LABELS[chosen], 4).tobytes()
    table = da.stack([values, values * values], axis=1, allow_unknown_chunksizes=True)
    both = np.stack([x[chosen], x[chosen] ** 2])
    lazy = ozaki.group_cov(table, labels, 4, rowvar=False)
    assert lazy.compute().tobytes() == ozaki.group_cov(both, LABELS[chosen], 4).tobytes()
    for other in (LABELS[chosen], da.from_array(LABELS[chosen], chunks=3)):
        with pytest.raises(ValueError, match="values has chunks of unknown sizes"):
            ozaki.group_sum(values, other, 4)
    with pytest.raises(ValueError, match="labels has chunks of unknown sizes"):
        ozaki.group_sum(da.from_array(x, chunks=3), labels, 4)
    with pytest.raises(ValueError, match="as many as labels"):
        ozaki.group_sum(values, da.from_array(LABELS, chunks=4)[~rows], 4).compute()


def test_invalid_arguments():
    x = da.ones((2, 6), chunks=2)
    for call, error, message in (
        (lambda: ozaki.group_sum(x, np.zeros(5, int), 2), ValueError, r"shape \(..., 5\)"),
        (lambda: ozaki.group_sum(x, np.zeros(6), 2), TypeError, "labels must be integers"),
        (lambda: ozaki.group_sum(x, da.zeros(6), 2), TypeError, "labels must be integers"),
        (lambda: ozaki.group_sum(x, np.zeros(6, int), -1), ValueError, "num_groups must be"),
        (lambda: ozaki.group_sum(x.sum(), np.zeros(6, int), 2), ValueError, "got a number"),
        (lambda: ozaki.group_var(x, np.zeros(6, int), 2, ddof="a"), TypeError, "ddof"),
        (lambda: ozaki.group_sum(x, np.full(6, 2), 2).compute(), ValueError, "labels must be from 0"),
        (lambda: ozaki.group_count(x[0], 2), TypeError, "labels must be integers"),
        (lambda: ozaki.group_nansum(x, np.zeros(6, int), 2, min_count=-1), ValueError, "min_count must"),
        (lambda: ozaki.group_average(x, np.zeros(6, int), 2, 1j * x), TypeError, "weights must be real"),
        (lambda: ozaki.group_average(x[0], np.zeros(6, int), 2, x), ValueError, "weights must broadcast"),
        (lambda: ozaki.group_average(x, np.zeros(6, int), 2, 0 * x).compute(), ZeroDivisionError, "zero"),
        (lambda: ozaki.group_cov(1j * x, np.zeros(6, int), 2), TypeError, "values must be real"),
        (lambda: ozaki.group_cov(x[None], np.zeros(6, int), 2), ValueError, "a matrix or a vector"),
    ):
        with pytest.raises(error, match=message):
            call()
