"""Sums by group for flox against exact references, whatever the chunks and the way they are merged."""

import numpy as np
import pytest

from tests.cells import cells
from tests.oracle import FORMATS
from tests.reductions import REFERENCES

da = pytest.importorskip("dask.array")
flox = pytest.importorskip("flox")

from ozaki.dask.flox import NAMES, aggregation  # noqa: E402

LABELS = np.random.default_rng(1).integers(0, 5, 60)


def exactly(name, rows, labels, groups, dtype):
    """The references, rounded once; variances with ddof 1."""
    options, fmt = {"ddof": 1} if name.endswith(("var", "std")) else {}, FORMATS[np.dtype(dtype)]
    return [[REFERENCES[name](row[labels == g], fmt, **options)[0] for g in range(groups)] for row in rows]


@cells(
    name=NAMES,
    dtype=["float64", "float32", "int64"],
    method=["map-reduce", "cohorts", None, "in memory"],
)
def test_groups_that_span_chunks_are_rounded_once(name, dtype, method):
    rng = np.random.default_rng(2)
    spread = 2.0 ** rng.integers(-40, 40, (3, 60)) if dtype != "int64" else 2**40
    x = (rng.standard_normal((3, 60)) * spread).astype(dtype)
    if name.startswith("nan") and dtype != "int64":
        x[:, ::4] = np.nan
    want = exactly(name, x, LABELS, 5, "float32" if dtype == "float32" else "float64")
    given = x if method == "in memory" else da.from_array(x, chunks=(2, 7))
    options = {"method": method} if given is not x else {}
    if name.endswith(("var", "std")):
        options["finalize_kwargs"] = {"ddof": 1}
    got, _ = flox.groupby_reduce(given, LABELS, func=aggregation(name), **options)
    assert got.dtype == (dtype if dtype != "int64" or name.endswith("sum") else "float64")
    assert np.asarray(got).tolist() == want


@pytest.mark.parametrize("expected", [None, np.arange(6)])
@pytest.mark.parametrize("name", ["sum", "mean"])
def test_labels_in_chunks_some_of_them_missing(name, expected):
    x, labels = (
        np.ldexp(np.random.default_rng(3).standard_normal((2, 60)), np.arange(60)),
        LABELS.astype(float),
    )
    labels[:14] = labels[33] = np.nan  # two chunks, and one label
    named = ~np.isnan(labels)
    want = exactly(name, x[:, named], labels[named], 5, "float64")
    chunks = da.from_array(x, chunks=(1, 7)), da.from_array(labels, chunks=7)
    options = {} if expected is None else {"expected_groups": expected, "fill_value": np.nan}
    got, groups = flox.groupby_reduce(*chunks, func=aggregation(name), **options)
    assert np.asarray(groups).tolist() == list(range(5 if expected is None else 6))
    assert got.compute()[:, :5].tolist() == want
    assert np.isnan(got.compute()[:, 5:]).all()


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="unknown reduction 'median'; known are sum, mean, "):
        aggregation("median")
