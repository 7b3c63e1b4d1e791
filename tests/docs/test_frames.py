"""Groups of data frames, by the lines of the pages: missing keys and numbers, any order, any partitions."""

import ast
from collections import namedtuple
from doctest import DocTestParser
from fractions import Fraction
from functools import reduce
from textwrap import dedent
from types import SimpleNamespace

import numpy as np
import pytest

import ozaki
from ozaki.definition.rounding import nearest
from tests.docs.test_docs import DOCS, examples, run_examples

RNG = np.random.default_rng(12)
KEYS = [None if k % 9 == 0 else f"key {k}" for k in RNG.integers(0, 300, 2000)]
NUMBERS = np.ldexp(RNG.standard_normal(2000), RNG.integers(-99, 99, 2000))
NUMBERS[RNG.random(2000) < 0.1] = np.nan
ORDER = RNG.permutation(2000)


def exact_sums():
    """By key, the sums of what is there."""
    sums: dict[str | None, Fraction] = {}
    for key, x in zip(KEYS, NUMBERS.tolist(), strict=True):
        sums[key] = sums.get(key, Fraction(0)) + (Fraction(0) if np.isnan(x) else Fraction(x))
    return {key: nearest(x) for key, x in sums.items()}


def sums_by(codes, names, x):
    """By name, the last one being that of missing keys."""
    found = ozaki.group_nansum(x, codes, len(names))
    return dict(zip(names, found.tolist(), strict=True))


def test_pandas():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"key": KEYS, "x": NUMBERS})
    for frame in (table, table.iloc[ORDER], pd.concat([table[:700], table[700:]])):
        x = frame["x"].to_numpy()
        codes, names = pd.factorize(frame["key"], use_na_sentinel=False)
        names = [None if pd.isna(name) else name for name in names]
        assert sums_by(codes, names, x) == exact_sums()
        keys = frame["key"].astype("category").cat
        codes = np.where(keys.codes < 0, len(keys.categories), keys.codes)
        assert sums_by(codes, [*keys.categories, None], x) == exact_sums()


def test_polars():
    pl = pytest.importorskip("polars")
    table = pl.DataFrame({"key": KEYS, "x": NUMBERS}).with_columns(pl.col("x").fill_nan(None))
    for frame in (table, table[ORDER], pl.concat([table[:700], table[700:]], rechunk=False)):
        names = frame["key"].drop_nulls().unique(maintain_order=True)
        codes = frame["key"].cast(pl.Enum(names)).to_physical().fill_null(len(names)).to_numpy()
        assert sums_by(codes, [*names, None], frame["x"].to_numpy()) == exact_sums()


def test_polars_examples_run():
    pytest.importorskip("polars")
    codes = examples(DOCS / "data.md", "{.python .polars}")
    run_examples(DOCS / "data.md", [">>> import ozaki\n", *codes], "data")


def aggregation(dd):
    """What the page on clusters makes with `dd.Aggregation`."""
    code, *_ = examples(DOCS / "clusters.md", "{.python .pyarrow}")
    (made,) = (e.source for e in DocTestParser().get_examples(dedent(code)) if "dd.Aggregation" in e.source)
    names = {"dd": dd, "ozaki": ozaki, "reduce": reduce}
    exec(compile(ast.parse(made), "clusters.md", "exec"), names)
    return names["exact"]


@pytest.mark.parametrize("partitions", [1, 3, 40])
def test_the_steps_of_an_aggregation(partitions):
    """As Dask takes them, which needs pyarrow for its dataframes: `test_dask_dataframes`."""
    pd = pytest.importorskip("pandas")
    exact = aggregation(SimpleNamespace(Aggregation=namedtuple("Aggregation", "name chunk agg finalize")))
    table = pd.DataFrame({"key": KEYS, "x": NUMBERS})
    parts = [table.iloc[i::partitions] for i in range(partitions)]
    chunks = pd.concat([exact.chunk(part.groupby("key", dropna=False)["x"]) for part in parts])
    found = exact.finalize(exact.agg(chunks.groupby(level=0, dropna=False)))
    assert found.dtype == np.float64
    assert {None if pd.isna(k) else k: x for k, x in found.items()} == exact_sums()


@pytest.mark.parametrize("partitions", [1, 3, 40])
def test_dask_dataframes(partitions):
    pytest.importorskip("pyarrow")
    import dask.dataframe as dd
    import pandas as pd

    lazy = dd.from_pandas(pd.DataFrame({"key": KEYS, "x": NUMBERS}), npartitions=partitions)
    found = lazy.groupby("key", dropna=False)["x"].agg(aggregation(dd)).compute()
    assert {None if pd.isna(k) else k: x for k, x in found.items()} == exact_sums()


def test_dask_dataframe_examples_run():
    pytest.importorskip("pyarrow")
    codes = examples(DOCS / "clusters.md", "{.python .pyarrow}")
    run_examples(DOCS / "clusters.md", [">>> import ozaki\n", *codes], "clusters")
