"""Correctly rounded sums and dot products: how fast, beside the native routines and math.fsum.

    python benchmarks/reductions.py cpu --json benchmarks/results/reductions_cpu.json
    python benchmarks/reductions.py gpu --json benchmarks/results/reductions_h200.json

`cpu` takes the fastest of several runs, ns per element. `gpu` takes the median of groups of calls
between two events, at 10**8 elements, and counts the bytes read; the copy that it is compared with
reads and writes as many bytes again, all of which are counted. Every result is compared with
`math.fsum` (cpu) or with the host's result (gpu) on the way.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ozaki import _reductions as oz
from ozaki._cumulative import cumsum
from ozaki._exactsum import ExactSum
from ozaki._summation import near_sum

CPU_ELEMENTS = 10**6
GPU_ELEMENTS = 10**8


def fastest(call: Callable[[], Any], runs: int = 15) -> float:
    """Seconds of the fastest run."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def vectors(n: int) -> dict[str, np.ndarray]:
    """Vectors by name, of n elements."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal(n)
    half = np.ldexp(rng.standard_normal(n // 2), rng.integers(-150, 150, n // 2))
    return {
        "normal": x,
        "uniform (0,1)": rng.random(n),
        "exp(4·normal)": np.exp(4 * x),
        "whole exponent range": np.ldexp(x, rng.integers(-1000, 1000, n)),
        "cancels to 0": rng.permutation(np.concatenate([half, -half])),
    }


def cpu() -> list[dict[str, Any]]:
    n = CPU_ELEMENTS
    rows = []
    for name, x in vectors(n).items():
        assert oz.sum(x) == math.fsum(x), name
        native = fastest(lambda x=x: np.sum(x))
        fsum = fastest(lambda x=x: math.fsum(x), 3)
        ours = fastest(lambda x=x: oz.sum(x))
        rows.append({"what": f"sum, {name}", "ours": ours, "native": native, "fsum": fsum})
    x, y = vectors(n)["normal"], vectors(n)["uniform (0,1)"]
    fsum = fastest(lambda: math.fsum(x), 3)
    square, thin = x.reshape(1000, 1000), x.reshape(-1, 10)
    single = x.astype(np.float32)
    pairs: dict[str, tuple[Callable, Callable | None]] = {
        "sum, float32": (lambda: oz.sum(single), lambda: np.sum(single)),
        "sum, 1000×1000, axis 0": (lambda: oz.sum(square, axis=0), lambda: np.sum(square, axis=0)),
        "sum, 1000×1000, axis 1": (lambda: oz.sum(square, axis=1), lambda: np.sum(square, axis=1)),
        "sum, 100000×10, axis 0": (lambda: oz.sum(thin, axis=0), lambda: np.sum(thin, axis=0)),
        "sum, 100000×10, axis 1": (lambda: oz.sum(thin, axis=1), lambda: np.sum(thin, axis=1)),
        "mean": (lambda: oz.mean(x), lambda: np.mean(x)),
        "dot": (lambda: oz.dot(x, y), lambda: np.dot(x, y)),
        "norm": (lambda: oz.norm(x), lambda: np.linalg.norm(x)),
        "near_sum": (lambda: near_sum(x), None),
        "cumsum": (lambda: cumsum(x), lambda: np.cumsum(x)),
        "ExactSum.add": (lambda: ExactSum().add(x), None),
    }
    for name, (ours, native) in pairs.items():
        rows.append({"what": name, "ours": fastest(ours), "native": native and fastest(native), "fsum": fsum})
    for row in rows:
        row |= {"ns_per_element": row["ours"] / n * 1e9, "fsum_over_ours": row["fsum"] / row["ours"]}
    return rows


def gpu() -> list[dict[str, Any]]:
    import cupy

    def seconds(call: Callable[[], Any], group: int = 10, groups: int = 9) -> float:
        """Median over groups of back-to-back calls."""
        times = []
        for _ in range(groups + 1):
            start, stop = cupy.cuda.Event(), cupy.cuda.Event()
            start.record()
            for _ in range(group):
                call()
            stop.record()
            stop.synchronize()
            times.append(cupy.cuda.get_elapsed_time(start, stop) / 1e3 / group)
        return float(np.median(times[1:]))

    n = GPU_ELEMENTS
    rng = cupy.random.default_rng(1)
    x, y, target = rng.standard_normal(n), rng.standard_normal(n), cupy.empty(n)
    copy = 2 * x.nbytes / seconds(lambda: cupy.copyto(target, x))
    single, half = x.astype(np.float32), x.astype(np.float16)
    z = (x[: n // 2] + 1j * y[: n // 2]).astype(np.complex128)
    square, thin = x.reshape(10_000, 10_000), x.reshape(-1, 10)
    rows = [{"what": "copy", "bytes_per_second": copy, "of_copy": 1.0}]
    cases: dict[str, tuple[Callable, Callable | None, int]] = {
        "sum": (lambda: oz.sum(x), lambda: cupy.sum(x), x.nbytes),
        "dot": (lambda: oz.dot(x, y), lambda: cupy.dot(x, y), 2 * x.nbytes),
        "sum, float32": (lambda: oz.sum(single), lambda: cupy.sum(single), single.nbytes),
        "dot, float32": (lambda: oz.dot(single, single), lambda: cupy.dot(single, single), single.nbytes),
        "sum, float16": (lambda: oz.sum(half), lambda: cupy.sum(half), half.nbytes),
        "sum, complex128": (lambda: oz.sum(z), lambda: cupy.sum(z), z.nbytes),
        "sum, axis 1": (lambda: oz.sum(square, axis=1), lambda: cupy.sum(square, axis=1), x.nbytes),
        "sum, axis 0": (lambda: oz.sum(square, axis=0), lambda: cupy.sum(square, axis=0), x.nbytes),
        "sum, 10**7 × 10, axis 1": (lambda: oz.sum(thin, axis=1), lambda: cupy.sum(thin, axis=1), x.nbytes),
        "dot, axis 0": (lambda: oz.dot(square, square, axis=0), None, x.nbytes),
        "norm": (lambda: oz.norm(x), lambda: cupy.linalg.norm(x), x.nbytes),
        "mean": (lambda: oz.mean(x), lambda: cupy.mean(x), x.nbytes),
    }
    for name, (ours, native, size) in cases.items():
        time_ours, time_native = seconds(ours), native and seconds(native)
        rows.append(rate(name, time_ours, size, copy) | {"native": time_native})
    part = 10**7
    host = x[:part].get()
    assert float(oz.sum(x[:part])) == math.fsum(host)
    assert float(oz.dot(x[:part], y[:part])) == oz.dot(host, y[:part].get())
    for name, data in vectors(part).items():
        on_device = cupy.asarray(data)
        assert float(oz.sum(on_device)) == oz.sum(data), name
        time_ours = seconds(lambda x=on_device: oz.sum(x), 5, 3)
        rows.append(rate(f"sum of 10**7, {name}", time_ours, data.nbytes, copy))
    return rows


def rate(what: str, seconds: float, size: int, copy: float) -> dict[str, Any]:
    return {
        "what": what,
        "ours": seconds,
        "bytes_per_second": size / seconds,
        "of_copy": size / seconds / copy,
    }


def show(rows: list[dict[str, Any]]) -> None:
    names = [key for key in rows[-1] if key != "what"]
    table = Table("what", *names)
    for row in rows:
        table.add_row(row["what"], *(f"{row[k]:.4g}" if row.get(k) is not None else "" for k in names))
    Console(width=130).print(table)


def environment(where: str) -> dict[str, Any]:
    found = {"numpy": np.__version__, "python": platform.python_version(), "machine": platform.machine()}
    found["cores"] = str(os.cpu_count())
    if where == "gpu":
        import cupy

        found |= {"cupy": cupy.__version__, "runtime": cupy.cuda.runtime.runtimeGetVersion()}
        found["device"] = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("where", choices=("cpu", "gpu"))
    parser.add_argument("--json", type=Path, help="write the results here")
    arguments = parser.parse_args()
    rows = cpu() if arguments.where == "cpu" else gpu()
    show(rows)
    if arguments.json:
        record = {
            "date": str(date.today()),
            "command": f"python benchmarks/reductions.py {arguments.where}",
            "environment": environment(arguments.where),
            "elements": CPU_ELEMENTS if arguments.where == "cpu" else GPU_ELEMENTS,
            "seconds": rows,
        }
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
