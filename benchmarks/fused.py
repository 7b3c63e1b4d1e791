"""`python -m benchmarks.fused`: products of residues, reduced in the kernel, against cuBLAS's int32 products.

Every residue is compared with an exact product in float64. Times are of replayed graphs. Reconstruction
is from int32 products and from residues; whole products are calls queued one after another.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

import ozaki
from benchmarks.dgemm import versions
from benchmarks.timing import compact, events, settled
from multiword.engines import fused, get_engine, machine, residues
from multiword.engines.cublas import Cublas
from multiword.engines.moduli import residue_system
from multiword.formats import FORMATS
from ozaki.residues.reconstruct import reconstruct

SHAPES = (
    *((n, n, n, 1) for n in (256, 512, 1024, 2048, 4096, 8192)),
    *((16384, 320, 16384, 1), (8192, 64, 8192, 1)),
    *(
        (16, 16, 16, 1000),
        (64, 64, 64, 1000),
        (128, 128, 128, 256),
        (256, 256, 256, 100),
        (512, 512, 512, 32),
    ),
)
"""m, k, n, and products in a stack."""

TILES = {
    "large": fused.LARGE,
    "middle": fused.MIDDLE,
    "small": fused.SMALL,
    "hopper": fused.HOPPER,
    "group 16": replace(fused.HOPPER, group=16),
    "hopper alone": fused.HOPPER_ALONE,
}


def seconds(work, repeats=7):
    """Median seconds of a call, of several in a graph."""
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        work()
        stream.synchronize()
        first = events(work)
        inner = max(1, min(20, int(2e-3 / first)))
        stream.begin_capture(cupy.cuda.runtime.streamCaptureModeThreadLocal)
        for _ in range(inner):
            work()
        graph = stream.end_capture()
        count = max(1, min(20, int(20e-3 / first / inner)))
        times = [events(lambda: graph.launch(stream), count) for _ in range(repeats + 1)]
    return median(times[1:]) / inner


def check(a, bt, moduli, found):
    """Every residue, against float64 products, which are exact."""
    import cupy

    for image in range(len(a)):
        p = moduli[image % len(moduli)]
        for i in range(0, a.shape[1], 64):
            part = slice(i, i + 64)
            exact = cupy.matmul(a[image, part].astype(float), bt[image, part].astype(float).swapaxes(1, 2))
            low = exact - p * cupy.rint(exact / p)
            low[low == 128] = -128
            if not bool((low == found[image, part]).all()):
                return False
    return True


def cublas_products(engine, a, bt, out):
    """As the scheme multiplies: one batch of moduli, or of the products of a stack."""
    if a.shape[1] == 1:
        engine.multiply("int8", a[:, 0], bt[:, 0], out=out[:, 0])
    else:
        for left, right, target in zip(a, bt, out, strict=True):
            engine.multiply("int8", left, right, out=target)


def measure(shape, tiles):
    """One shape: cuBLAS's products, the kernel with every tile, and both reconstructions."""
    import cupy

    m, k, n, stack = shape
    system = residue_system("int8", 109.2, k)
    moduli, engine = system.moduli, get_engine("cublas")
    rng = cupy.random.default_rng(0)
    count, padded = len(moduli), -(-k // 16) * 16
    a, bt = (rng.integers(-99, 100, (count, stack, r, padded), dtype=np.int8) for r in (m, n))
    wide = cupy.empty((count, stack, m, n), np.int32)
    found = cupy.empty((count, stack, m, n), np.int8)
    row = {"shape": shape, "moduli": count}
    row["products, cublas"] = seconds(lambda: cublas_products(engine, a, bt, wide))
    row["tiles"] = {}
    for name in tiles:
        found.fill(77)
        try:
            residues.launch(a, bt, moduli, found, False, tile=TILES[name])
            if not check(a, bt, moduli, found):
                row["tiles"][name] = None
                print("WRONG", shape, name, flush=True)
                continue
            row["tiles"][name] = seconds(
                lambda t=TILES[name]: residues.launch(a, bt, moduli, found, False, tile=t)
            )
        except Exception as error:
            print("FAILED", shape, name, error, flush=True)
            cupy.cuda.runtime.deviceSynchronize()
    residues.launch(a, bt, moduli, found, False, tile=fused.LARGE)
    scales = cupy.zeros(stack * m, np.int32), cupy.zeros((stack, n) if stack > 1 else n, np.int32)
    out = cupy.empty((stack * m, n))
    for name, y in (("reconstruction, int32", wide), ("reconstruction, residues", found)):
        y = y.reshape(1, count, stack * m, n)
        row[name] = seconds(lambda y=y: reconstruct(y, system, scales, FORMATS["fp64"], out))
    return row


def products(shape):
    """Whole products: native, with cuBLAS's products, and reduced in the kernel at any size."""
    import cupy

    cupy.get_default_memory_pool().free_all_blocks()
    (m, k, n, stack), rng = shape, cupy.random.default_rng(0)
    a, b = rng.standard_normal((stack, m, k)), rng.standard_normal((stack, k, n))
    if stack == 1:
        a, b = a[0], b[0]
    engines = {"whole, cublas": Cublas(), "whole, reduced": Cublas(fused=True)}
    works = {name: partial(ozaki.matmul, a, b, engine=engine) for name, engine in engines.items()}
    first, second = (work() for work in works.values())
    if not bool((first == second).all()):
        raise AssertionError("the engines' bits differ")
    times = settled({"whole, native": lambda: cupy.matmul(a, b), **works})
    return {name: queued for name, (queued, _) in times.items()}


def main():
    import cupy

    parser = argparse.ArgumentParser(prog="python -m benchmarks.fused", description=__doc__.split("\n")[0])
    parser.add_argument("--shapes", type=int, nargs="+", help="which of the shapes, by number")
    parser.add_argument("--tiles", nargs="+", default=list(TILES))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    machine.known_machines()[machine.device_name("cublas")]["longest_reduced"] = 1 << 40
    rows = []
    for shape in SHAPES if arguments.shapes is None else [SHAPES[i] for i in arguments.shapes]:
        rows.append(row := measure(shape, arguments.tiles) | products(shape))
        times = " ".join(f"{x} {1e6 * t:.1f}" for x, t in row.items() if isinstance(t, float))
        tiles = " ".join(f"{x} {1e6 * t:.1f}" for x, t in row["tiles"].items() if t)
        print(shape, times, "; tiles:", tiles, flush=True)
    if arguments.json:
        report = {
            "date": date.today().isoformat(),
            "command": "python -m benchmarks.fused " + shlex.join(sys.argv[1:]),
            **versions(cupy),
            "results": rows,
        }
        arguments.json.write_text(compact(report))


if __name__ == "__main__":
    main()
