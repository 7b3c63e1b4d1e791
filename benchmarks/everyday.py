"""`python -m benchmarks.everyday [--gpu] [--json FILE]`: integers, matrices, groups, windows, statistics.

Each row is a function of `ozaki` beside what people use for it: NumPy or CuPy, SciPy, pandas, flox, and
Polars where that is installed. They take turns in one process on the same data; seconds are medians on a
CPU, and on a GPU the least.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import ozaki
from benchmarks.dgemm import versions
from benchmarks.int8_cpu import in_turns
from benchmarks.linalg import seconds
from benchmarks.timing import publish
from multiword.runtime.parallel import thread_count

TURNS = 5

VALUES, GROUPS = 10**7, (10, 1000, 10**5, 10**6)
"""Of sums by group."""

SERIES, WINDOWS = 10**6, (100, 10_000)
"""Of windows along a series; statistics are those of as many numbers."""

Works = dict[str, Callable[[], Any]]
"""What is timed, by whose it is; "ozaki" is ours."""


def integers(xp: Any) -> Iterator[tuple[str, Works]]:
    """Exact products of integers. Beside 63 bits stands what wraps around."""
    rng = xp.random.default_rng(1)
    for n in (1024, 4096) if xp is not np else (1024,):
        for bits in (20, 63):
            a, b = (rng.integers(-(2**bits), 2**bits - 1, (n, n), np.int64) for _ in range(2))
            options: dict[str, Any] = {"dtype": np.int64, "overflow": "raise" if bits < 26 else "wrap"}
            works = {xp.__name__: partial(xp.matmul, a, b), "ozaki": partial(ozaki.matmul, a, b, **options)}
            works["ozaki, float64"] = partial(ozaki.accurate_dgemm, a.astype(float), b.astype(float))
            yield f"matmul of int64, {bits} bits, {n}", works
        for name, p in (("2³¹ − 1", 2**31 - 1), ("2⁶³ − 1", 2**63 - 1)):
            yield f"matmul modulo {name}, {n}", {"ozaki": partial(ozaki.matmul, a % p, b % p, mod=p)}


def matrices(xp: Any) -> Iterator[tuple[str, Works]]:
    """Symmetric products and what is made of them, contractions, residuals."""
    rng = xp.random.default_rng(2)
    for n in (2048, 4096, 8192) if xp is not np else (1024, 2048):
        x = rng.standard_normal((n, n))
        works = {"ozaki": partial(ozaki.gram, x), "ozaki, full": partial(ozaki.matmul, x.T.copy(), x)}
        yield f"gram, {n}", {xp.__name__: partial(xp.matmul, x.T, x), **works}
    x = rng.standard_normal((1000, 1000))
    for name in ("cov", "corrcoef"):
        yield f"{name}, 1000", {xp.__name__: partial(getattr(xp, name), x), "ozaki": partial(_of(name), x)}
    y = rng.standard_normal((1000, 100))
    works: Works = {"ozaki": partial(ozaki.cdist_squared, y, y)}
    if xp is np:  # CuPy's needs a library more
        works["scipy"] = partial(import_module("scipy.spatial.distance").cdist, y, y, "sqeuclidean")
    yield "cdist_squared, 1000 × 1000 × 100", works
    operands = "ij,jk,kl->il", *(rng.standard_normal((500, 500)) for _ in range(3))
    native = partial(xp.einsum, *operands, optimize=True)
    yield "einsum of three matrices, 500", {xp.__name__: native, "ozaki": partial(ozaki.einsum, *operands)}
    a, right = rng.standard_normal((2000, 2000)), rng.standard_normal(2000)
    works = {xp.__name__: lambda: right - a @ right, "ozaki": partial(ozaki.residual, a, right, right)}
    yield "residual, 2000", works


def _of(name: str) -> Callable[..., Any]:
    return getattr(ozaki, name)


def groups(xp: Any) -> Iterator[tuple[str, Works]]:
    """Sums of numbers by group, in an order that is none."""
    rng = xp.random.default_rng(3)
    values = rng.standard_normal(VALUES)
    for count in GROUPS:
        labels = rng.integers(0, count, VALUES)
        works: Works = {xp.__name__: partial(xp.bincount, labels, values, count)}
        works["ozaki"] = partial(ozaki.group_sum, values, labels, count)
        if xp is np:
            works |= _frames("sum", values, labels)
        yield f"group_sum, 10⁷ numbers, {count} groups", works
    labels = rng.integers(0, 1000, VALUES)
    for name in ("mean", "var"):
        works = {"ozaki": partial(_of(f"group_{name}"), values, labels, 1000)}
        if xp is np:
            works |= _frames(name, values, labels)
        yield f"group_{name}, 10⁷ numbers, 1000 groups", works
    yield from _several_columns(xp, values, labels)


def _frames(name: str, values: np.ndarray, labels: np.ndarray) -> Works:
    """A reduction by group of the libraries of tables."""
    table = import_module("pandas").DataFrame({"x": values, "k": labels})
    works: Works = {
        "pandas": lambda: getattr(table.groupby("k")["x"], name)(),
        "flox": partial(import_module("flox").groupby_reduce, values, labels, func=name),
    }
    if find_spec("polars"):
        pl = import_module("polars")
        frame, expression = pl.DataFrame({"x": values, "k": labels}), getattr(pl.col("x"), name)()
        works["polars"] = lambda: frame.group_by("k").agg(expression)
    return works


def _several_columns(xp: Any, values: Any, labels: Any) -> Iterator[tuple[str, Works]]:
    """Weighted means and covariances by group; what pandas has no function for takes two sums."""
    weights = xp.abs(values[::-1]) + 1
    works: Works = {"ozaki": partial(ozaki.group_average, values, labels, 1000, weights)}
    counted = partial(xp.bincount, labels, minlength=1000)
    works[xp.__name__] = lambda: counted(values * weights) / counted(weights)
    columns = xp.stack([values, values[::-1], weights])[:, : VALUES // 10]
    of_columns: Works = {"ozaki": partial(ozaki.group_cov, columns, labels[: VALUES // 10], 1000)}
    if xp is np:
        table = import_module("pandas").DataFrame({"x": values, "w": weights, "k": labels})

        def average() -> Any:
            sums = table.assign(x=table["x"] * table["w"]).groupby("k").sum()
            return sums["x"] / sums["w"]

        works["pandas"] = average
        of_pandas = import_module("pandas").DataFrame(columns.T).groupby(labels[: VALUES // 10])
        of_columns["pandas"] = of_pandas.cov
    yield "group_average, 10⁷ numbers, 1000 groups", works
    yield "group_cov, 3 × 10⁶ numbers, 1000 groups", of_columns


def windows(xp: Any) -> Iterator[tuple[str, Works]]:
    """Windows along a series. Differences of running sums are wrong where numbers cancel."""
    x = xp.random.default_rng(4).standard_normal(SERIES)

    def by_differences(n: int) -> Any:
        sums = xp.cumsum(x)
        return (sums[n:] - sums[:-n]) / n

    for n in WINDOWS:
        for name in ("mean", "var"):
            works: Works = {"ozaki": partial(_of(f"rolling_{name}"), x, n)}
            if name == "mean":
                works[xp.__name__] = partial(by_differences, n)
            if xp is np:
                series = import_module("pandas").Series(x)
                works["pandas"] = lambda s=series, n=n, name=name: getattr(s.rolling(n), name)()
                if name == "mean":
                    works["scipy"] = partial(import_module("scipy.ndimage").uniform_filter1d, x, n)
                if find_spec("polars"):
                    column = import_module("polars").Series(x)
                    works["polars"] = partial(getattr(column, f"rolling_{name}"), n)
            yield f"rolling_{name}, 10⁶ numbers, windows of {n}", works


def statistics(xp: Any) -> Iterator[tuple[str, Works]]:
    """Weights, higher moments, and a regression with standard errors."""
    rng = xp.random.default_rng(5)
    x, w = rng.standard_normal(SERIES), rng.random(SERIES) + 0.1
    for name, ours, theirs in (
        ("average, weights", partial(ozaki.average, x, 0, w), partial(xp.average, x, 0, w)),
        ("var, weights", partial(ozaki.var, x, aweights=w), partial(xp.cov, x, aweights=w, ddof=0)),
    ):
        yield f"{name}, 10⁶ numbers", {xp.__name__: theirs, "ozaki": ours}
    for name in ("skew", "kurtosis"):
        works: Works = {"ozaki": partial(_of(name), x)}
        if xp is np:
            works["scipy"] = partial(getattr(import_module("scipy.stats"), name), x)
            works["pandas"] = getattr(import_module("pandas").Series(x), name)
        yield f"{name}, 10⁶ numbers", works
    if xp is np:  # its proofs are a CPU's
        table = import_module("examples.regression_table")
        design, y = table.LONGLEY[:, 1:], table.LONGLEY[:, 0]
        works = {"ozaki": partial(table.regression, design, y), "numpy": partial(_regression, design, y)}
        yield "regression table, Longley's 16 rows, 7 coefficients", works


def _regression(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and standard errors by NumPy, without proofs."""
    x = np.column_stack([np.ones(len(x)), x])
    coefficients, *_ = np.linalg.lstsq(x, y)
    rest = y - x @ coefficients
    inverse = np.linalg.inv(np.linalg.qr(x, mode="r"))
    return coefficients, np.linalg.norm(inverse, axis=1) * np.sqrt(rest @ rest / (len(x) - x.shape[1]))


def measure(name: str, works: Works, xp: Any) -> dict[str, Any]:
    """Time a row in turns, on a CPU as `benchmarks.int8_cpu` does."""
    if xp is np:
        record = {"row": name, "seconds": in_turns(works)}
    else:
        for work in works.values():
            work()
        times = [{whose: seconds(work, xp) for whose, work in works.items()} for _ in range(TURNS)]
        record = {"row": name, "seconds": {whose: min(t[whose] for t in times) for whose in works}}
    print(record, flush=True)
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    xp: Any = np
    if arguments.gpu:
        import cupy as xp
    parts = integers, matrices, groups, windows, statistics
    record = {
        "date": date.today().isoformat(),
        "command": "python -m benchmarks.everyday" + " --gpu" * arguments.gpu,
        "environment": {**versions(xp), "threads": thread_count()},
        "unit": "seconds, the median of turns" if xp is np else f"seconds, the least of {TURNS} turns",
        "results": [measure(*row, xp) for part in parts for row in part(xp)],
    }
    publish(record, arguments.json)


if __name__ == "__main__":
    main()
