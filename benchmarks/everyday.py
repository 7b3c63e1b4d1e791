"""`python -m benchmarks.everyday [--gpu] [--json FILE]`: integers, Gram matrices, einsum, sums by group.

Each row is a function of `ozaki` beside what people use for it: NumPy or CuPy, SciPy, pandas and flox. They
take turns in one process on the same data; seconds are medians on a CPU, and on a GPU the least.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from importlib import import_module
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
        p = 2**31 - 1
        yield f"matmul modulo 2³¹ − 1, {n}", {"ozaki": partial(ozaki.matmul, a % p, b % p, mod=p)}


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
            works["pandas"], works["flox"] = _pandas("sum", values, labels), _flox("sum", values, labels)
        yield f"group_sum, 10⁷ numbers, {count} groups", works
    labels = rng.integers(0, 1000, VALUES)
    for name in ("mean", "var"):
        works = {"ozaki": partial(_of(f"group_{name}"), values, labels, 1000)}
        if xp is np:
            works = {"pandas": _pandas(name, values, labels), "flox": _flox(name, values, labels)} | works
        yield f"group_{name}, 10⁷ numbers, 1000 groups", works


def _pandas(name: str, values: np.ndarray, labels: np.ndarray) -> Callable[[], Any]:
    table = import_module("pandas").DataFrame({"x": values, "k": labels})
    return lambda: getattr(table.groupby("k")["x"], name)()


def _flox(name: str, values: np.ndarray, labels: np.ndarray) -> Callable[[], Any]:
    return partial(import_module("flox").groupby_reduce, values, labels, func=name)


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
    rows = [row for part in (integers, matrices, groups) for row in part(xp)]
    record = {
        "date": date.today().isoformat(),
        "command": "python -m benchmarks.everyday" + " --gpu" * arguments.gpu,
        "environment": {**versions(xp), "threads": thread_count()},
        "unit": "seconds, the median of turns" if xp is np else f"seconds, the least of {TURNS} turns",
        "results": [measure(*row, xp) for row in rows],
    }
    publish(record, arguments.json)


if __name__ == "__main__":
    main()
