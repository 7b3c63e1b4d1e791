"""`python -m benchmarks.products_cpu`: products of every size on a CPU, with compiled code and without.

Rows are square products of normal numbers, stacks of 1000 of them, and products with a short or thin factor.
NumPy, python-flint where that is installed and does not take seconds, and ours take turns in one process;
times are the least of many, so that other work on the machine shows least; all is compiled before. The first
calls are those of processes of their own, one that compiles and one that finds the code on disk.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import ozaki
from benchmarks.dgemm import versions
from multiword.runtime.compiled import numpy_forms
from multiword.runtime.parallel import thread_count

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
STACKS = (2, 4, 8, 16, 32, 64)
STACK = 1000
ROW_BY_ROW = (
    *((1_000_000, 3, 3), (100_000, 8, 8), (100_000, 16, 16)),
    *((1000, 1000, 1), (4000, 4000, 1), (4000, 4000, 4), (1, 4000, 4000), (1, 1_000_000, 1)),
)

BURST = 1e-3
"""Seconds of calls of one kind in a row: what it needs is in the caches then."""

FIRST_CALL = """
import time, numpy, ozaki
a = numpy.random.default_rng(0).standard_normal(({n}, {n}))
start = time.perf_counter()
ozaki.accurate_dgemm(a, a)
print(time.perf_counter() - start)
"""
"""The seconds of the first call of a process."""


def without_numba(work: Callable[[], object]) -> Callable[[], object]:
    """The same in NumPy's form."""

    def run() -> None:
        with numpy_forms():
            work()

    return run


def least(works: dict[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """The least time of each in some turns, which take that many seconds."""
    times = {name: float("inf") for name in works}
    for work in works.values():
        work()
    start = time.perf_counter()
    turns = 0
    while turns < 3 or time.perf_counter() - start < seconds:
        for name, work in works.items():
            turn = begin = time.perf_counter()
            while begin - turn < BURST:
                work()
                end = time.perf_counter()
                times[name], begin = min(times[name], end - begin), end
        turns += 1
    return times


def ball_product(a: np.ndarray, b: np.ndarray) -> dict[str, Callable[[], object]]:
    """python-flint's product at 120 bits."""
    try:
        import flint
    except ImportError:
        return {}
    x, y = (flint.arb_mat(z.tolist()) for z in (a, b))

    def work() -> None:
        before, flint.ctx.prec = flint.ctx.prec, 120
        try:
            x * y
        finally:
            flint.ctx.prec = before

    return {"arb_mat": work}


def measure(stack: int, sizes: tuple[int, int, int], seconds: float) -> dict[str, object]:
    """One row: the times of all."""
    (m, k, n), rng = sizes, np.random.default_rng(sizes[-1])
    a, b = (rng.standard_normal((stack, *shape) if stack > 1 else shape) for shape in ((m, k), (k, n)))
    product = ozaki.matmul if stack > 1 else ozaki.accurate_dgemm
    works: dict[str, Callable[[], object]] = {
        "native": lambda: np.matmul(a, b),
        "ours": lambda: product(a, b),
        "ours, NumPy": without_numba(lambda: product(a, b)),
        "exact": lambda: product(a, b, accuracy="exact"),
    }
    if stack == 1 and max(sizes) <= 128:
        works |= ball_product(a, b)
    return {"stack": stack, "shape": sizes, "seconds": least(works, seconds)}


def first_calls(n: int) -> dict[str, float]:
    """What the first product of a process takes: of the first of all, and of one that finds compiled code."""
    call = [sys.executable, "-c", FIRST_CALL.format(n=n)]
    with TemporaryDirectory() as folder:
        environment = os.environ | {"NUMBA_CACHE_DIR": folder}
        runs = [subprocess.run(call, env=environment, check=True, capture_output=True) for _ in range(2)]
    return {"n": n, **dict(zip(("compiling", "loading"), [float(x.stdout) for x in runs], strict=True))}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.products_cpu", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="for each row")
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--stacks", type=int, nargs="*", default=STACKS, help="sizes of the matrices")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = []
    square = [(1, n) for n in arguments.sizes] + [(STACK, n) for n in arguments.stacks]
    for stack, sizes in [*((stack, (n, n, n)) for stack, n in square), *((1, sizes) for sizes in ROW_BY_ROW)]:
        rows.append(row := measure(stack, sizes, arguments.seconds))
        print(row, flush=True)
    try:
        import numba
    except ImportError:
        sys.exit("this compares with compiled code: pip install numba")
    asked = os.environ.get("OMP_NUM_THREADS")
    threads = f"OMP_NUM_THREADS={asked} " if asked else ""
    report = {
        "date": date.today().isoformat(),
        "command": f"{threads}python -m benchmarks.products_cpu {shlex.join(sys.argv[1:])}",
        **versions(np),
        "numba": numba.__version__,
        "threads": thread_count(),
        "first_calls": [first_calls(n) for n in (8, 200, 512)],
        "results": rows,
    }
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
