"""`python -m benchmarks.energy --json FILE`: joules a product on a GPU, native and ours.

Each routine is called again and again for some seconds; the joules are the difference of the device's own
counter (NVML, which counts the whole board), divided by the number of calls. Native and ours take turns.
Needs nvidia-ml-py.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from datetime import date
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.dgemm import FACES, draw, versions

SECONDS, TURNS = 1.0, 3
"""The counter moves about ten times a second; how long each routine runs in a turn."""


def joules(work, read) -> tuple[float, float]:
    """(joules, seconds) of a call among many."""
    import cupy

    work()
    cupy.cuda.Device().synchronize()
    start = time.perf_counter()
    for _ in range(3):
        work()
    cupy.cuda.Device().synchronize()
    batch = max(1, int(0.05 / (time.perf_counter() - start) * 3))  # 0.05 s in the queue
    before, start, calls = read(), time.perf_counter(), 0
    while time.perf_counter() - start < SECONDS:
        for _ in range(batch):
            work()
        cupy.cuda.Device().synchronize()
        calls += batch
    used, seconds = read() - before, time.perf_counter() - start
    return used / calls, seconds / calls


def measure(dtype, n, read):
    """One row: medians over the turns."""
    import cupy

    rng = cupy.random.default_rng(1)
    a, b = (draw(cupy, rng, "normal", (n, n), dtype) for _ in range(2))
    product = FACES[dtype]
    ways = {
        "native": partial(cupy.matmul, a, b),
        "ours": partial(product, a, b),
        "normwise": partial(product, a, b, accuracy="normwise"),
    }
    turns = {name: [] for name in ways}
    for _ in range(TURNS):
        for name, work in ways.items():
            turns[name].append(joules(work, read))
    row = {"dtype": dtype, "n": n}
    for name, found in turns.items():
        used, seconds = (median(x) for x in zip(*found, strict=True))
        row[name] = {"joules": used, "seconds": seconds, "watts": used / seconds}
    row["ratio"] = row["native"]["joules"] / row["ours"]["joules"]
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[4096, 8192, 16384])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()

    import cupy
    import pynvml

    pynvml.nvmlInit()
    device = pynvml.nvmlDeviceGetHandleByIndex(cupy.cuda.Device().id)

    def read() -> float:
        return pynvml.nvmlDeviceGetTotalEnergyConsumption(device) / 1e3

    results = []
    for dtype in ("float64", "float32"):
        for n in arguments.sizes:
            results.append(measure(dtype, n, read))
            print(json.dumps(results[-1]), flush=True)
    if arguments.json:
        record = {
            "date": date.today().isoformat(),
            **versions(cupy),
            "command": "python -m benchmarks.energy",
        }
        record |= {"seconds": SECONDS, "turns": TURNS, "results": results}
        arguments.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
