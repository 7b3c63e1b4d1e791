"""Elementary functions on one core or a GPU: time beside NumPy's or CuPy's, and whose last digit is wrong.

    python -m benchmarks.elementary --json benchmarks/results/elementary_cpu.json
    python -m benchmarks.elementary --gpu --json benchmarks/results/functions_h200.json

On a CPU 10⁶ numbers a function in one thread: processor time, ours and theirs in turns, the least of some. On
a GPU 10⁸ numbers, calls one after another, their median. A result of another library counts as wrong where
its bits are not those of the exact value, rounded once; that is `ozaki`'s, which are compared with exact
values elsewhere (`tests.exhaustive`, tests/elementary).
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import ozaki
from benchmarks.dgemm import versions
from benchmarks.timing import events, publish, settled
from multiword.runtime.arrays import import_cupy

COUNT, ON_GPU, TURNS = 10**6, 10**8, 5

WIDE, UNIT, POSITIVE = (-20.0, 20.0), (-1.0, 1.0), (2.0**-30, 1000.0)
RANGES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("log", "log2", "log10", "sqrt", "rsqrt", "pow"), POSITIVE),
    **dict.fromkeys(("asin", "acos", "atanh", "log1p"), (-0.999, 0.999)),
    **dict.fromkeys(("sin", "cos", "tan"), (-100.0, 100.0)),
    **dict.fromkeys(("tanh", "erf", "erfc", "expm1"), (-5.0, 5.0)),
    "acosh": (1.0, 1000.0),
    "logit": (0.001, 0.999),
}
"""Where arguments are drawn, evenly; elsewhere in WIDE."""
NUMPYS = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh"}
NUMPYS |= {"atanh": "arctanh", "atan2": "arctan2", "pow": "power"}


def theirs(name: str) -> dict[str, Callable[..., Any]]:
    """Return NumPy's and PyTorch's functions of that name, of arrays."""
    import torch

    found = {"numpy": getattr(np, NUMPYS.get(name, name), None)}
    of_tensors = getattr(torch, name, None) or getattr(torch.nn.functional, name, None)
    if of_tensors is not None:
        found["torch"] = lambda *x: of_tensors(*map(torch.from_numpy, x)).numpy()
    return {library: function for library, function in found.items() if function is not None}


def processor() -> str:
    """Return the processor's name, on Linux."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next(line.partition(": ")[2] for line in lines if line.startswith("model name"))


def seconds(work: Callable[[], Any]) -> float:
    """Return the processor time that this thread spends on a call."""
    start = time.thread_time()
    work()
    return time.thread_time() - start


def arguments(name: str, rng: Any, count: int, dtype: type) -> list[Any]:
    """Return random arguments of a function, of the generator's kind of arrays."""
    bounds = [RANGES.get(name, WIDE), WIDE if name != "pow" else (-5.0, 5.0)]
    ends = bounds[: len(ozaki.public.PUBLIC[name].arrays)]
    return [(rng.random(count) * (high - low) + low).astype(dtype) for low, high in ends]


def measured(name: str, dtype: type) -> dict[str, Any]:
    """Return a function's time, and by library time and share of wrong results."""
    x = arguments(name, np.random.default_rng(0), COUNT, dtype)
    works = {"ozaki": getattr(ozaki, name), **theirs(name)}
    with np.errstate(all="ignore"):
        values = {library: work(*x) for library, work in works.items()}
        turns = [{k: seconds(lambda w=w: w(*x)) for k, w in works.items()} for _ in range(TURNS)]
    row: dict[str, Any] = {"function": name, "dtype": np.dtype(dtype).name}
    for library in works:
        row[f"{library} ns"] = round(min(t[library] for t in turns) * 1e9 / COUNT, 2)
        if library != "ozaki":
            same = (values[library] == values["ozaki"]) | (np.isnan(values["ozaki"]))
            row[f"{library} wrong"] = float((~same).mean())
    return row


def kernel_seconds(work: Callable[[], Any]) -> float:
    """Return the median seconds of the kernel that a call launches, by events around it."""
    import cupy

    from ozaki.elementary import cuda

    launch, spent = cuda._launch, list[float]()

    def timed(*arguments: Any) -> None:
        spent.append(events(lambda: launch(*arguments)))

    cuda._launch = timed
    try:
        for _ in range(15):
            work()
            cupy.cuda.Device().synchronize()
    finally:
        cuda._launch = launch
    return median(spent)


def measured_on_gpu(name: str, dtype: type) -> dict[str, Any]:
    """Return a function's time and its kernel's; CuPy's, and its share of wrong results, where it has one."""
    import cupy
    from cupyx.scipy import special

    x = arguments(name, cupy.random.default_rng(0), ON_GPU, dtype)
    ours, cupys = getattr(ozaki, name), getattr(cupy, NUMPYS.get(name, name), getattr(special, name, None))
    works = {"ozaki": lambda: ours(*x)} | ({"cupy": lambda: cupys(*x)} if cupys else {})
    row: dict[str, Any] = {"function": name, "dtype": np.dtype(dtype).name}
    row |= {f"{library} µs": round(queued * 1e6) for library, (queued, _) in settled(works).items()}
    row["kernel µs"] = round(kernel_seconds(works["ozaki"]) * 1e6)
    if cupys:
        value = ours(*x)
        row["cupy wrong"] = float(((cupys(*x) != value) & ~cupy.isnan(value)).mean())
    print(row, flush=True)
    return row


def on_one_core() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the rows of a CPU, and its environment."""
    import torch

    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    names = [n for n in ozaki.elementary.NAMES if theirs(n)]
    rows = [measured(name, dtype) for dtype in (np.float32, np.float64) for name in names]
    return rows, {"numpy": np.__version__, "torch": torch.__version__, "cpu": processor()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", action="store_true", help="on a GPU, beside CuPy's")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    command = "python -m benchmarks.elementary"
    if options.gpu:
        names = ozaki.elementary.NAMES
        rows = [measured_on_gpu(name, dtype) for dtype in (np.float32, np.float64) for name in names]
        command, environment = f"{command} --gpu", versions(import_cupy())
    else:
        rows, environment = on_one_core()
    record = {"date": date.today().isoformat(), "command": command, "environment": environment}
    publish(record | {"results": rows}, options.json)


if __name__ == "__main__":
    main()
