"""`python -m benchmarks.normwise`: accuracy "normwise" on a GPU beside the native routine and "fp64".

For each size: seconds of a call among many that are queued, and of one alone, of the native product, of
"fp64", of "normwise", and of a CUDA graph that the caller has captured around "normwise"; and the host's
seconds for a call behind other work, and whether that was still under way when the calls returned.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from datetime import date
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.dgemm import FACES, draw, versions
from benchmarks.timing import settled

BUSY, CALLS = 10, 20
"""Products of 8192 that keep the device busy for 0.2 s on an H200, and calls that are queued behind them."""

ROUNDS = 4
"""Of timing: "normwise" and "fp64" take nearly as long as each other."""


def graph_of(work):
    """A CUDA graph of a call on a stream of its own; the result is kept."""
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        work()
        stream.synchronize()
        stream.begin_capture()
        result = work()
        graph = stream.end_capture()
    return graph, result


def host_seconds(work, busy):
    """The host's seconds for a call behind other work, and whether that outlasted all calls."""
    import cupy

    cupy.cuda.Device().synchronize()
    done, times = cupy.cuda.Event(disable_timing=True), []
    for _ in range(BUSY):
        busy()
    done.record()
    for _ in range(CALLS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    queued = not done.done
    cupy.cuda.Device().synchronize()
    return median(times), queued


def measure(dtype, n, large):
    """The row of one size."""
    import cupy

    rng = cupy.random.default_rng(1)
    a, b = (draw(cupy, rng, "normal", (n, n), dtype) for _ in range(2))
    own = {"float64": "fp64", "complex128": "fp64"}.get(dtype, "fp32")
    ours = {name: partial(FACES[dtype], a, b, accuracy=name) for name in (own, "normwise")}
    for work in ours.values():
        for _ in range(3):
            work()
    graph, result = graph_of(ours["normwise"])
    works = {"native": partial(cupy.matmul, a, b), **ours, "caller's graph": graph.launch}
    times = {name: {"queued": q, "alone": alone} for name, (q, alone) in settled(works, ROUNDS).items()}
    same = bool((result == ours["normwise"]()).all())
    host, queued = host_seconds(ours["normwise"], partial(cupy.matmul, large, large))
    found = {"dtype": dtype, "n": n, "seconds": times, "host": host, "did not wait": queued, "same": same}
    ratios = {name: times["native"]["queued"] / x["queued"] for name, x in times.items()}
    print(
        f"{dtype:<11}{n:<7}"
        + "  ".join(f"{name} {x['queued'] * 1e6:.4g} µs ({ratios[name]:.3g})" for name, x in times.items())
        + f"  host {host * 1e6:.3g} µs{'' if queued else ', which waited'}{'' if same else ', OTHER BITS'}",
        flush=True,
    )
    return found


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.normwise", description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[128, 256, 512, 1024, 2048, 4096, 8192])
    parser.add_argument("--dtypes", nargs="+", default=["float64"], choices=list(FACES))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    import cupy

    large = cupy.ones((8192, 8192))
    results = [measure(dtype, n, large) for dtype in options.dtypes for n in options.sizes]
    if options.json:
        command = f"python -m benchmarks.normwise {shlex.join(sys.argv[1:])}".strip()
        head = {"date": f"{date.today()}", "command": command, **versions(cupy)}
        options.json.write_text(json.dumps({**head, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
