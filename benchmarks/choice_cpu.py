"""`python -m benchmarks.choice_cpu`: the rates by which a CPU chooses between int8 words and fp64 words.

Products of random shapes, in one thread, on fp64 words and on every kernel of int8 words, in turns; of each
the least time of its thread, which other programs disturb least. Each engine's times are fitted, relative to
themselves, by `multiword.engines.int8_cpu.engine.terms`. Printed are the rates, and by how much the choice
that they make is slower than the best one.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

import ozaki
from multiword.engines.int8_cpu.engine import terms
from multiword.engines.int8_cpu.kernels import KERNELS, available_kernels
from ozaki.tuning import LARGEST_IN_FLOATS

DTYPES = ("float64", "complex128", "float32")
MOST = 1 << 26
"""Multiplications of a product."""


def shapes(rng: np.random.Generator, count: int) -> list[tuple[int, ...]]:
    """Shapes (m, k, n) whose sizes spread evenly over octaves, too large for the kernel of tiny products."""
    drawn = (tuple(int(x) for x in 2 ** rng.uniform(1, 11, 3)) for _ in range(20 * count))
    return [shape for shape in drawn if LARGEST_IN_FLOATS < np.prod(shape) < MOST][:count]


def as_real(shape: tuple[int, ...], dtype: str) -> tuple[int, ...]:
    """The real product that a product is: a complex one has rows of 2k numbers and 2n columns of them."""
    m, k, n = shape
    return (m, 2 * k, 2 * n) if dtype.startswith("complex") else shape


def least_times(shape: tuple[int, ...], dtype: str, seconds: float) -> dict[str, float]:
    """Seconds of a product on every engine."""
    m, k, n = shape
    rng = np.random.default_rng(m)
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    if dtype.startswith("complex"):
        a, b = a + 1j * a[::-1], b - 1j * b[::-1]
    a, b = a.astype(dtype), b.astype(dtype)
    engines = {"fp64": "host"} | {x.name: f"int8_cpu:{x.name}" for x in available_kernels()}
    least = dict.fromkeys(engines, np.inf)
    until = time.monotonic() + seconds
    turns = 0
    while turns < 3 or time.monotonic() < until:
        for name, engine in engines.items():
            start = time.thread_time()
            ozaki.matmul(a, b, engine=engine)
            least[name] = min(least[name], time.thread_time() - start)
        turns += 1
    return least


def fitted(rows: list[dict], name: str) -> list[float]:
    """Nonnegative rates whose sums of terms are nearest to an engine's times, relative to these."""
    t = np.array([row["seconds"][name] for row in rows])
    x = np.array([terms(KERNELS.get(name), row["shape"]) for row in rows], float)
    return [float(f"{rate:.2g}") for rate in nnls(x / t[:, None], np.ones(len(t)))[0]]


def losses(rows: list[dict], rates: dict[str, list[float]], name: str) -> np.ndarray:
    """By how much the choice between a kernel and fp64 words is slower than the better one."""
    lost = []
    for row in rows:
        of = {x: float(np.dot(rates[x], terms(KERNELS.get(x), row["shape"]))) for x in (name, "fp64")}
        both = [row["seconds"][x] for x in of]
        lost.append(row["seconds"][min(of, key=lambda x: of[x])] / min(both) - 1)
    return np.array(lost)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.choice_cpu", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--shapes", type=int, default=80, help="of each dtype")
    parser.add_argument("--seconds", type=float, default=0.5, help="for a shape")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        rows = [
            {"dtype": dtype, "shape": as_real(shape, dtype)}
            | {"seconds": least_times(shape, dtype, arguments.seconds)}
            for shape in shapes(np.random.default_rng(0), arguments.shapes)
            for dtype in DTYPES
        ]
    for dtypes in (("float64", "complex128"), ("float32",)):
        of_dtypes = [row for row in rows if row["dtype"] in dtypes]
        rates = {name: fitted(of_dtypes, name) for name in rows[0]["seconds"]}
        for name, rate in rates.items():
            print(f'    "{name}": {tuple(rate)},')
        for name in list(rates)[1:]:
            lost = losses(of_dtypes, rates, name)
            print(f"{name}, {dtypes}: beyond 5 % {np.mean(lost > 0.05):.0%}, at worst {lost.max():.0%}")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
