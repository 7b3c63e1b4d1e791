"""Which way is fastest: measured choices, as data."""

from __future__ import annotations

import json
import math
from functools import cache
from importlib import resources
from typing import Any

from multiword.batched.plans import Blocking, Case

WAYS = ("plain", "whole", "tiled", "cublas")


@cache
def table() -> dict[str, Any]:
    """The measurements that choices are made from, as `benchmarks/batched.py tune` wrote them."""
    return json.loads((resources.files(__package__) / "choices.json").read_text())


@cache
def _blockings() -> tuple[Blocking, ...]:
    return tuple(Blocking(**x) for x in table()["blockings"])


def regime(m: int, n: int, k: int, is_complex: bool) -> tuple[str, float, int]:
    """Return the table that a shape belongs to, its size there, and the alignment of its rows.

    A product is a "rank-16" update if its inner dimension is much the smallest, otherwise
    "square". Rows of 8, 2 or 1 halves at a time: cuBLAS and the kernels are slower in that order.

    >>> regime(100, 100, 16, False)
    ('real rank-16', 100.0, 2)
    """
    kind = "complex" if is_complex else "real"
    aligned = alignment(n) if alignment(n) < alignment(k) else alignment(k)
    if 3 * k <= min(m, n):
        return f"{kind} rank-16", math.sqrt(m * n), aligned
    return f"{kind} square", round((m * n * k) ** (1 / 3), 6), aligned


def alignment(n: int) -> int:
    """8, 2 or 1: how many halves at a time a row of n can be taken."""
    return 8 if n % 8 == 0 else 2 if n % 2 == 0 else 1


def choose(case: Case) -> Blocking:
    """Return the blocking measured fastest at the nearest size and batch.

    It is what is best on the device of the table; on any device the result is right.
    """
    return nearest(*regime(case.m, case.n, case.k, case.complex), case.batch)


@cache
def nearest(name: str, size: float, aligned: int, batch: int) -> Blocking:
    """Return the choice at the table's nearest size of the same alignment and nearest batch."""
    every = table()["choices"][name]
    rows = [row for row in every if alignment(row["n"]) == aligned] or every
    row = min(rows, key=lambda x: abs(math.log(x["n"] / size)))
    batches = table()["batches"][: len(row["best"])]
    column = min(range(len(batches)), key=lambda i: abs(math.log(batches[i] / max(1, batch))))
    return _blockings()[row["best"][column]]
