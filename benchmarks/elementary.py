"""Elementary functions on one core: time beside NumPy's, and whose last digit is wrong how often.

    python -m benchmarks.elementary --json benchmarks/results/elementary_cpu.json

10⁶ numbers a function in one thread: processor time, ours and theirs in turns, the least of some. A result
of NumPy's or PyTorch's counts as wrong where its bits are not those of the exact value, rounded once; that is
`ozaki`'s, which are compared with exact values elsewhere (`tests.exhaustive`, tests/elementary).
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch

import ozaki
from benchmarks.timing import publish

COUNT, TURNS = 10**6, 5

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


def measured(name: str, dtype: type) -> dict[str, Any]:
    """Return a function's time, and by library time and share of wrong results."""
    rng, low_high = np.random.default_rng(0), RANGES.get(name, WIDE)
    count = len(ozaki.public.PUBLIC[name].arrays)
    bounds = [low_high, WIDE if name != "pow" else (-5.0, 5.0)][:count]
    x = [rng.uniform(*ends, COUNT).astype(dtype) for ends in bounds]
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    names = [n for n in ozaki.elementary.NAMES if theirs(n)]
    rows = [measured(name, dtype) for dtype in (np.float32, np.float64) for name in names]
    record = {
        "date": date.today().isoformat(),
        "command": "python -m benchmarks.elementary --json benchmarks/results/elementary_cpu.json",
        "environment": {"numpy": np.__version__, "torch": torch.__version__, "cpu": processor()},
        "results": rows,
    }
    publish(record, options.json)


if __name__ == "__main__":
    main()
