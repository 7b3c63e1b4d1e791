"""`python -m benchmarks.steps`: how near each step of an accurate product comes to what the GPU allows.

The steps of ordinary products are captured as graphs, one each, and replayed: their times are the
GPU's alone. An element-wise step is compared with the bytes that it must move (operands and results
once each) at the bandwidth of a copy, the products with the fastest int8 product measured.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from datetime import date
from pathlib import Path

import numpy as np

from benchmarks.dgemm import draw, versions
from benchmarks.timing import events
from multiword.engines import get_engine
from multiword.engines.machine import bandwidth, rates
from multiword.formats import FORMATS
from multiword.runtime.graphs import Recorder, side_by_side
from multiword.runtime.memory import default_workspace
from ozaki.product.factor import Factor
from ozaki.product.pair import Pair
from ozaki.product.request import Request
from ozaki.product.steps import norm_scaled, split_once
from ozaki.scaling.scales import norm_limit

REPLAYS, REPEATS = 20, 9


def steps(a, b):
    """The steps of a product, in order: name, work to capture, bytes that it must move or operations."""
    import cupy

    engine = get_engine("cublas")
    m, k, n = *a.shape, b.shape[1]
    request = Request("fp64", "auto", None, engine, default_workspace(a))
    pair = Pair(Factor(a, 0), Factor(b, 1), request)
    scaled, factors = norm_scaled(pair), (pair.a, pair.b)
    scheme, scales = scaled.scheme, scaled.scales
    words = [scheme.split(x.parts, scales[x.side], x.side, engine.padding) for x in factors]
    products = scheme.multiply(*words, engine, None)
    out = cupy.empty((m, n), a.dtype)
    read = a.nbytes + b.nbytes
    return [
        ("measure", lambda: _measure(Factor(a, 0), Factor(b, 1)), read, 0),
        (
            "split",
            lambda: split_once(Pair(Factor(a, 0), Factor(b, 1), request), scaled),
            read + sum(w.nbytes for w in words),
            0,
        ),
        ("products", lambda: scheme.multiply(*words, engine, None), 0, 2 * m * k * n * scheme.products),
        (
            "reconstruct",
            lambda: scheme.reconstruct(products, scales, out),
            products.nbytes + out.nbytes,
            0,
        ),
    ]


def _measure(a, b):
    limit = norm_limit(FORMATS["fp64"], a.length)
    side_by_side(lambda: a.norm_scales(limit), lambda: b.norm_scales(limit))
    return a, b


def seconds(work, arrays):
    """Median seconds of a replay, of many queued one after another."""
    import cupy

    recorder, graphs = Recorder(), []
    with recorder.warm():
        work()
    with recorder.capture(arrays, graphs):
        kept = work()  # a graph writes to it
    stream = cupy.cuda.get_current_stream()
    times = [events(lambda: graphs[0].replay(arrays, stream), REPLAYS) for _ in range(REPEATS + 1)]
    del kept
    return float(np.median(times[1:]))


def main():
    import cupy

    parser = argparse.ArgumentParser(prog="python -m benchmarks.steps", description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[512, 1024, 2048, 4096, 8192])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    copy, known = bandwidth("cublas"), rates("cublas", "int8")
    if copy is None or known is None:
        parser.error("this GPU has not been measured: run python -m benchmarks.machine first")
    fastest = max(*known.alone, *known.together)
    rng, rows = cupy.random.default_rng(1), []
    for n in arguments.sizes:
        a, b = (draw(cupy, rng, "normal", (n, n), "float64") for _ in range(2))
        for name, work, nbytes, operations in steps(a, b):
            time = seconds(work, (a, b))
            share = nbytes / copy / time if nbytes else operations / fastest / time
            rows.append(
                {
                    "n": n,
                    "step": name,
                    "seconds": time,
                    "bytes": nbytes,
                    "operations": operations,
                    "share": share,
                }
            )
            print(f"{n:6} {name:<12} {time * 1e6:9.1f} µs  {100 * share:5.1f} %", flush=True)
    if arguments.json:
        report = {
            "date": date.today().isoformat(),
            "command": "python -m benchmarks.steps " + shlex.join(sys.argv[1:]),
            **versions(cupy),
            "bandwidth": copy,
            "int8": fastest,
            "results": rows,
        }
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
