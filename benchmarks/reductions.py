"""Correctly rounded sums and dot products: how fast, beside the native routines, math.fsum and xsum.

    OPENBLAS_NUM_THREADS=1 python benchmarks/reductions.py cpu --json benchmarks/results/reductions_cpu.json
    python benchmarks/reductions.py gpu --json benchmarks/results/reductions_h200.json

`cpu` takes the fastest of several runs of each, all in turn: vectors of 1 to 10**8 elements beside
`np.sum`, `math.fsum` (of a list, up to 10**6) and, where it is installed, PyPI's `xsum` (Neal's large
superaccumulator), then other reductions of 10**6; the first call of a process, and the memory that a sum of
10**8 allocates. `gpu` takes the median of
groups of calls between two events, at 10**8 elements, and counts the bytes read (of short rows and
running sums also those written); the copy that it is compared with reads and writes as many bytes
again, all of which are counted. Results are compared with `math.fsum` (cpu) or with the host's
(gpu) on the way.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.timing import events
from ozaki.sums import api as oz
from ozaki.sums.cumulative import cumsum
from ozaki.sums.exactsum import ExactSum
from ozaki.sums.statistics import var
from ozaki.sums.textbook import near_sum

CPU_ELEMENTS = 10**6
CPU_SIZES = [10**e for e in range(9)]
RUN: dict[str, Any] = {"check": True, "capture_output": True, "text": True}
GPU_ELEMENTS = 10**8


Calls = dict[str, Callable[[], Any] | None]


def fastest(*groups: Calls, rounds: int = 6, runs: int = 3) -> list[dict[str, float]]:
    """Seconds of the fastest run of each; in rounds, so that what else the machine does hits all alike."""
    times: list[dict[str, float]] = [{} for _ in groups]
    for _ in range(rounds):
        for calls, found in zip(groups, times, strict=True):
            for name, call in calls.items():
                for _ in range(runs if call else 0):
                    start = time.perf_counter()
                    call()
                    elapsed = time.perf_counter() - start
                    found[name] = min(elapsed, found.get(name, elapsed))
    return times


def wild(n: int) -> np.ndarray:
    """Numbers of any exponent, made without many temporaries."""
    rng = np.random.default_rng(1)
    return np.ldexp(rng.standard_normal(n), rng.integers(-1000, 1000, n, np.int32))


def vectors(n: int) -> dict[str, np.ndarray]:
    """Vectors by name, of n elements."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal(n)
    half = np.ldexp(rng.standard_normal(n // 2), rng.integers(-150, 150, n // 2))
    return {
        "normal": x,
        "uniform (0,1)": rng.random(n),
        "exp(4·normal)": np.exp(4 * x),
        "whole exponent range": wild(n),
        "cancels to 0": rng.permutation(np.concatenate([half, -half])),
    }


def matrices(n: int) -> dict[str, tuple[np.ndarray, int]]:
    """Matrices of n elements and axes to sum over, by name."""
    x = np.random.default_rng(2).standard_normal(n)
    found = {}
    for columns in (2, 10, 100, 1000, n // 10):
        c = x.reshape(-1, columns)
        for order, matrix in (("", c), (", Fortran order", np.asfortranarray(c))):
            for axis in (0, 1):
                found[f"sum, {c.shape[0]}×{c.shape[1]}, axis {axis}{order}"] = matrix, axis
    return found


def xsum_of(x: np.ndarray) -> Callable[[], Any] | None:
    """Neal's large superaccumulator, from PyPI, if it is installed."""
    try:
        import xsum
    except ImportError:
        return None

    def rounded_sum() -> float:
        total = xsum.xsum_large_accumulator()
        xsum.xsum_add(total, x)
        return xsum.xsum_round(total)

    return rounded_sum


def sizes() -> list[dict[str, Any]]:
    """Sums of 1 to 10**8 numbers, normal and of wild exponents."""
    rows = []
    for size in CPU_SIZES:
        for kind in ("normal", "whole exponent range"):
            x = np.random.default_rng(1).standard_normal(size) if kind == "normal" else wild(size)
            name, few = f"sum of {size:_}, {kind}", size <= 10**6
            values = x.tolist() if few else []
            calls: Calls = {
                "ours": partial(oz.sum, x),
                "native": partial(np.sum, x),
                "fsum": partial(math.fsum, values) if few else None,
                "xsum": xsum_of(x),
            }
            assert not few or oz.sum(x) == math.fsum(values), name
            (found,) = fastest(calls, rounds=3 if size > 10**6 else 6, runs=max(1, min(100, 10**5 // size)))
            rows.append({"what": name, **found, "ns_per_element": found["ours"] / size * 1e9})
    return rows


FIRST_CALL = """
import time
import numpy as np
import ozaki

x = np.random.default_rng(1).standard_normal(10**6)
start = time.process_time()
ozaki.{}
print(time.process_time() - start)
"""


def first_calls() -> dict[str, float]:
    """Processor time of the first call in a process, with imports and compilation: the least of three."""
    calls = "sum(x)", "dot(x, x[::-1])", "sum(x.reshape(1000, 1000), axis=0)"
    return {
        call: min(
            float(subprocess.run([sys.executable, "-c", FIRST_CALL.format(call)], **RUN).stdout)
            for _ in range(3)
        )
        for call in calls
    }


def allocated() -> int:
    """The most bytes that a sum of 10**8 numbers has allocated at a time."""
    x = np.ones(10**8)
    oz.sum(x)
    tracemalloc.start()
    oz.sum(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def cpu() -> list[dict[str, Any]]:
    return [*sizes(), *reductions()]


def reductions() -> list[dict[str, Any]]:
    """Reductions of 10**6 numbers of every kind."""
    n = CPU_ELEMENTS
    ours: Calls = {}
    native: Calls = {}
    for name, x in vectors(n).items():
        assert oz.sum(x) == math.fsum(x), name
        ours[f"sum, {name}"], native[f"sum, {name}"] = partial(oz.sum, x), partial(np.sum, x)
    for name, (x, axis) in matrices(n).items():
        assert oz.sum(x, axis=axis)[0] == math.fsum(x.take(0, axis=1 - axis)), name
        ours[name], native[name] = partial(oz.sum, x, axis=axis), partial(np.sum, x, axis=axis)
    x, y = vectors(n)["normal"], vectors(n)["uniform (0,1)"]
    single = x.astype(np.float32)
    pairs: dict[str, tuple[Callable, Callable | None]] = {
        "sum, float32": (lambda: oz.sum(single), lambda: np.sum(single)),
        "mean": (lambda: oz.mean(x), lambda: np.mean(x)),
        "dot": (lambda: oz.dot(x, y), lambda: np.dot(x, y)),
        "norm": (lambda: oz.norm(x), lambda: np.linalg.norm(x)),
        "var": (lambda: var(x), lambda: np.var(x)),
        "near_sum": (lambda: near_sum(x), None),
        "cumsum": (lambda: cumsum(x), lambda: np.cumsum(x)),
        "ExactSum.add": (lambda: ExactSum().add(x), None),
    }
    ours |= {name: pair[0] for name, pair in pairs.items()}
    native |= {name: pair[1] for name, pair in pairs.items()}
    fsums: Calls = {f"sum, {name}": partial(math.fsum, x.tolist()) for name, x in vectors(n).items()}
    xsums: Calls = {f"sum, {name}": xsum_of(x) for name, x in vectors(n).items()}
    times, native_times, fsum, xsum = fastest(ours, native, fsums, xsums)
    return [
        {
            "what": name,
            "ours": seconds,
            "native": native_times.get(name),
            "fsum": fsum.get(name),
            "xsum": xsum.get(name),
            "ns_per_element": seconds / n * 1e9,
        }
        for name, seconds in times.items()
    ]


def gpu() -> list[dict[str, Any]]:
    import cupy

    def seconds(call: Callable[[], Any], group: int = 10, groups: int = 9) -> float:
        """Median over groups of back-to-back calls."""
        return float(np.median([events(call, group) for _ in range(groups + 1)][1:]))

    n = GPU_ELEMENTS
    rng = cupy.random.default_rng(1)
    x, y, target = rng.standard_normal(n), rng.standard_normal(n), cupy.empty(n)
    copy = 2 * x.nbytes / seconds(lambda: cupy.copyto(target, x))
    single, other, half = x.astype(np.float32), y.astype(np.float32), x.astype(np.float16)
    z = (x[: n // 2] + 1j * y[: n // 2]).astype(np.complex128)
    rows = [{"what": "copy", "bytes_per_second": copy, "of_copy": 1.0}]
    cases: dict[str, tuple[Callable, Callable | None, int]] = {
        "sum": (lambda: oz.sum(x), lambda: cupy.sum(x), x.nbytes),
        "dot": (lambda: oz.dot(x, y), lambda: cupy.dot(x, y), 2 * x.nbytes),
        "norm": (lambda: oz.norm(x), lambda: cupy.linalg.norm(x), x.nbytes),
        "mean": (lambda: oz.mean(x), lambda: cupy.mean(x), x.nbytes),
        "sum, float32": (lambda: oz.sum(single), lambda: cupy.sum(single), single.nbytes),
        "dot, float32": (lambda: oz.dot(single, other), lambda: cupy.dot(single, other), 2 * single.nbytes),
        "norm, float32": (lambda: oz.norm(single), lambda: cupy.linalg.norm(single), single.nbytes),
        "sum, float16": (lambda: oz.sum(half), lambda: cupy.sum(half), half.nbytes),
        "sum, complex128": (lambda: oz.sum(z), lambda: cupy.sum(z), z.nbytes),
        "norm, complex128": (lambda: oz.norm(z), lambda: cupy.linalg.norm(z), z.nbytes),
    }
    square = {"": x.reshape(10_000, 10_000), ", float32": single.reshape(10_000, 10_000)}
    square[", complex128"] = z.reshape(5_000, 10_000)
    for kind, matrix in square.items():
        for axis in (0, 1):
            for name in ("sum", "mean", "norm"):
                native_of = cupy.linalg.norm if name == "norm" else getattr(cupy, name)
                ours, native = (
                    partial(getattr(oz, name), matrix, axis=axis),
                    partial(native_of, matrix, axis=axis),
                )
                cases[f"{name}, axis {axis}{kind}"] = ours, native, matrix.nbytes
    for axis in (0, 1):
        ours = partial(oz.dot, square[""], y.reshape(10_000, 10_000), axis=axis)
        cases[f"dot, axis {axis}"] = ours, None, 2 * x.nbytes
    for columns in (2, 3, 4, 8, 10, 16, 32, 100, 1000):
        thin = x[: min(n, 10**7 * columns) // columns * columns].reshape(-1, columns)
        ours, native = partial(oz.sum, thin, axis=1), partial(cupy.sum, thin, axis=1)
        cases[f"sum, {len(thin):_}×{columns}, axis 1"] = ours, native, thin.nbytes + 8 * len(thin)
    for columns in (2, 10, 100):
        thin = x.reshape(-1, columns)
        ours, native = partial(oz.sum, thin, axis=0), partial(cupy.sum, thin, axis=0)
        cases[f"sum, {len(thin):_}×{columns}, axis 0"] = ours, native, thin.nbytes
    short = x[: 10**7]
    cases["cumsum of 10**7"] = partial(cumsum, short), partial(cupy.cumsum, short), 2 * short.nbytes
    for name, (ours, native, size) in cases.items():
        # The native sums along short or strided axes take up to tens of milliseconds.
        time_ours, time_native = seconds(ours), native and seconds(native, 2, 3)
        rows.append(rate(name, time_ours, size, copy) | {"native": time_native})
    part = 10**7
    assert bool((oz.sum(square[""], axis=0)[:9].get() == oz.sum(square[""][:, :9].get(), axis=0)).all())
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
    if where == "cpu":
        found["threads of BLAS"] = os.environ.get("OPENBLAS_NUM_THREADS", "all")
        for package in ("numba", "xsum"):
            with suppress(PackageNotFoundError):
                found[package] = version(package)
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
        threads = "OPENBLAS_NUM_THREADS=1" if os.environ.get("OPENBLAS_NUM_THREADS") == "1" else ""
        record = {
            "date": str(date.today()),
            "command": f"{threads} python benchmarks/reductions.py {arguments.where}".strip(),
            "environment": environment(arguments.where),
            "elements": CPU_ELEMENTS if arguments.where == "cpu" else GPU_ELEMENTS,
            "seconds": rows,
        }
        if arguments.where == "cpu":
            record |= {"first_call_seconds": first_calls(), "bytes_for_sum_of_1e8": allocated()}
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
