"""Groups of data frames, by the lines of the page on data: missing keys, missing numbers, any order."""

from fractions import Fraction

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
