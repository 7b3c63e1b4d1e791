"""Which way is fastest: measured choices, as data."""

from __future__ import annotations

import json
import math
from functools import cache
from importlib import resources
from typing import Any

from multiword.batched._plans import Blocking, Case

WAYS = ("plain", "whole", "tiled", "cublas")


@cache
def table() -> dict[str, Any]:
    """The measurements that choices are made from, as `benchmarks/batched.py tune` wrote them."""
    return json.loads((resources.files(__package__) / "choices.json").read_text())


@cache
def _blockings() -> tuple[Blocking, ...]:
    return tuple(Blocking(**x) for x in table()["blockings"])


def regime(m: int, n: int, k: int, is_complex: bool) -> tuple[str, float, bool]:
    """Return the table that a shape belongs to, its size there, and whether rows are aligned.

    A product is a "rank-16" update if its inner dimension is much the smallest, otherwise
    "square". cuBLAS is slow where rows are not whole multiples of 16 bytes.

    >>> regime(100, 100, 16, False)
    ('real rank-16', 100.0, False)
    """
    kind = "complex" if is_complex else "real"
    aligned = n % 8 == 0 and k % 8 == 0
    if 3 * k <= min(m, n):
        return f"{kind} rank-16", math.sqrt(m * n), aligned
    return f"{kind} square", round((m * n * k) ** (1 / 3), 6), aligned


def choose(case: Case) -> Blocking:
    """Return the blocking measured fastest at the nearest size and batch.

    It is what is best on the device of the table; on any device the result is right.
    """
    return nearest(*regime(case.m, case.n, case.k, case.complex), case.batch)


@cache
def nearest(name: str, size: float, aligned: bool, batch: int) -> Blocking:
    """Return the choice at the table's nearest size of the same alignment and nearest batch."""
    rows = [row for row in table()["choices"][name] if (row["n"] % 8 == 0) == aligned] or table()["choices"][
        name
    ]
    row = min(rows, key=lambda x: abs(math.log(x["n"] / size)))
    batches = table()["batches"]
    column = min(range(len(batches)), key=lambda i: abs(math.log(batches[i] / max(1, batch))))
    return _blockings()[row["best"][column]]
