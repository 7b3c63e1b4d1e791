"""`python -m benchmarks.small_calls [--json FILE]`: small products, stacks of them and sums on a GPU.

Microseconds of a call, one after another in a loop that is waited for at its end, and of one that is waited
for alone: mostly the host's time. Medians of several loops, native and ours in turns, on random data.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

import ozaki
from benchmarks.dgemm import versions
from benchmarks.timing import publish

LOOPS = 7
"""Loops of which the median counts."""


def loop(work: Callable[[], Any], calls: int) -> tuple[float, float]:
    """Microseconds of a call in a loop, and of one that is waited for."""
    import cupy

    wait = cupy.cuda.Device().synchronize
    wait()
    start = time.perf_counter()
    for _ in range(calls):
        work()
    wait()
    middle = time.perf_counter()
    for _ in range(calls):
        work()
        wait()
    return (middle - start) / calls * 1e6, (time.perf_counter() - middle) / calls * 1e6


def timed(works: dict[str, Callable[[], Any]], calls: int) -> dict[str, Any]:
    """Medians for each of the works, which take turns."""
    for work in works.values():
        for _ in range(5):
            work()
    rounds = [{name: loop(work, calls) for name, work in works.items()} for _ in range(LOOPS)]
    return {
        name: dict(zip(("loop", "alone"), (median(x[name][i] for x in rounds) for i in (0, 1)), strict=True))
        for name in works
    }


def products() -> Iterator[tuple[str, dict[str, Callable[[], Any]], int]]:
    """Products of matrices, and stacks of them: ordinary data, and such as need wider integers."""
    import cupy

    rng = cupy.random.default_rng(1)
    for stack, n in [(1, n) for n in (8, 32, 64, 128, 256, 512)] + [(4, 64), (15, 64), (1000, 8), (1000, 16)]:
        a, b = rng.standard_normal((2, stack, n, n)) if stack > 1 else rng.standard_normal((2, n, n))
        works = {"native": lambda a=a, b=b: a @ b, "ours": lambda a=a, b=b: ozaki.matmul(a, b)}
        yield f"{stack} × {n}²" if stack > 1 else f"{n}²", works, 200
    for stack, n in ((1000, 32), (1000, 64), (256, 128), (100, 256)):
        a, b = rng.standard_normal((2, stack, n, n))
        works = {"native": lambda a=a, b=b: a @ b, "ours": lambda a=a, b=b: ozaki.matmul(a, b)}
        yield f"{stack} × {n}²", works, 50
    for stack in (1, 16, 100, 1000):
        x, y = rng.standard_normal((2, stack, 32, 32))
        last = cupy.eye(4)[3]  # of transforms
        kinds = {
            f"{stack} × 32², half zeros": [z * (rng.random(z.shape) < 0.5) for z in (x, y)],
            f"{stack} × 32², φ = 2": [z * cupy.exp(2 * rng.standard_normal(z.shape)) for z in (x, y)],
            f"{stack} × 4², transforms": [
                cupy.concatenate([z[:, :3, :4], cupy.tile(last, (stack, 1, 1))], 1) for z in (x, y)
            ],
        }
        for name, (a, b) in kinds.items():
            a, b = (a, b) if stack > 1 else (a[0], b[0])
            works = {"native": lambda a=a, b=b: a @ b, "ours": lambda a=a, b=b: ozaki.matmul(a, b)}
            yield name.removeprefix("1 × "), works, 50


def sums() -> Iterator[tuple[str, dict[str, Callable[[], Any]], int]]:
    """Sums and dot products."""
    import cupy

    rng = cupy.random.default_rng(2)
    x, large, matrix = (
        rng.standard_normal(1000),
        rng.standard_normal(16_000_000),
        rng.standard_normal((4000, 4000)),
    )
    yield "sum of 1,000", {"native": lambda: cupy.sum(x), "ours": lambda: ozaki.sum(x)}, 200
    yield "dot product of 1,000", {"native": lambda: cupy.dot(x, x), "ours": lambda: ozaki.dot(x, x)}, 200
    yield "sum of 16·10⁶", {"native": lambda: cupy.sum(large), "ours": lambda: ozaki.sum(large)}, 100
    for axis in (0, 1):
        works = {
            "native": lambda axis=axis: cupy.sum(matrix, axis),
            "ours": lambda axis=axis: ozaki.sum(matrix, axis),
        }
        yield f"sum of 4000², axis {axis}", works, 100


def main() -> None:
    import cupy

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = []
    for what, works, calls in (*products(), *sums()):
        rows.append({"row": what, **timed(works, calls)})
        print(rows[-1], flush=True)
    record = {
        "date": date.today().isoformat(),
        "command": "python -m benchmarks.small_calls",
        **versions(cupy),
    }
    publish({**record, "results": rows}, arguments.json)


if __name__ == "__main__":
    main()
