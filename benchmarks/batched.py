"""Batches of small half and half-complex products on a GPU, against cuBLAS and the roofline.

    python benchmarks/batched.py tune    --out multiword/batched/choices.json
    python benchmarks/batched.py compare --out benchmarks/results/batched_h200.json
    python benchmarks/batched.py report  benchmarks/results/batched_h200.json --plots DIRECTORY

`tune` measures every blocking at every size and writes the choices that `batched_matmul` makes.
`compare` times the function as it chooses, with the tables and figures of Abdelfattah, Tomov and
Dongarra (Figs. 10 to 19) in mind. Times are of kernels, from the replay of CUDA graphs; operands
rotate among as many sets as it takes to exceed the L2 cache (at most 16). C is written, not read.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import math
import multiprocessing
import os
import re
import sys
import time
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from multiword.batched import HalfComplex, batched_matmul, least_seconds
from multiword.batched import _device as device
from multiword.batched._choices import regime
from multiword.batched._plans import Blocking
from multiword.batched._problem import check_problem

BANDWIDTH = 4.2e12
"""Bytes per second of a copy within the H200's memory, read and write."""

CACHE_BYTES = 150 << 20
TUNED_BYTES = 600 << 20
"""Larger batches are tuned by a part of them that fills this much memory."""

BATCHES = (10, 100, 1000, 10000)
SIZES = (
    *range(1, 34),
    *(
        34,
        36,
        40,
        44,
        47,
        48,
        50,
        52,
        56,
        60,
        63,
        64,
        65,
        72,
        80,
        81,
        88,
        96,
        100,
        101,
        104,
        112,
        120,
        127,
        128,
    ),
    *(129, 144, 150, 160, 176, 191, 192, 200, 224, 225, 240, 250, 255, 256),
)
PLAIN = [
    Blocking("plain", t, c) for t, c in ((64, 4096), (128, 4096), (128, 8192), (128, 16384), (256, 16384))
]
WHOLE_SHAPES = {
    16: ((1, 1), (1, 2)),
    32: ((1, 1), (1, 2), (2, 2)),
    64: ((1, 2), (2, 2), (2, 4)),
    256: ((2, 2), (2, 4), (4, 2)),
}
TILED = [
    Blocking("tiled", tile_m=m, tile_n=n, warps_m=wm, warps_n=wn, steps=s, stages=g)
    for m, n, wm, wn, s, g in (
        *((1, 1, 2, 2, 2, 3), (2, 2, 2, 2, 2, 3), (2, 2, 2, 2, 4, 2), (2, 4, 2, 2, 2, 3)),
        *((4, 4, 2, 2, 2, 3), (2, 4, 4, 2, 2, 3), (1, 2, 4, 2, 2, 2), (2, 2, 2, 2, 1, 2)),
        *((4, 2, 2, 4, 4, 2), (4, 2, 2, 4, 2, 3), (4, 4, 2, 2, 4, 2), (1, 5, 7, 1, 4, 2), (1, 5, 5, 1, 4, 2)),
    )
]


def candidates(n: int, is_complex: bool, rank: bool) -> list[Blocking]:
    """The blockings worth measuring at a size."""
    parts = 2 if is_complex else 1
    found = [Blocking("cublas")]
    if parts * n <= 16:
        found += PLAIN
    if n <= (128 if is_complex else 256):
        bound = next(x for x in WHOLE_SHAPES if n <= x)
        chunks = (4096, 6144, 8192, 16384, 32768) if n <= 64 else (1,)
        threads = (64, 128, 256) if n <= 32 else (128, 256)
        if n > 64:
            threads = (128, 256, 512)
        found += [
            Blocking("whole", t, c, *shape)
            for t, c, shape in itertools.product(threads, chunks, WHOLE_SHAPES[bound])
            if (c, t) not in ((4096, 256), (32768, 64))
        ]
    if n > 24 or rank:
        found += TILED if n > 48 else TILED[:2] + TILED[6:8]
    return found


@cache
def drawn() -> Any:
    """A million random halves."""
    import cupy

    return cupy.random.standard_normal(1 << 20, dtype=cupy.float32).astype(cupy.float16)


def words(shape: tuple[int, ...]) -> Any:
    """Random halves, repeated as often as it takes."""
    import cupy

    return cupy.resize(drawn(), shape)


class Operands:
    """Several sets of the same kind, together larger than the cache."""

    def __init__(self, m: int, n: int, k: int, batch: int, is_complex: bool) -> None:
        pair = (2,) if is_complex else ()
        size = 2 * (1 + is_complex) * batch * (m * k + k * n + m * n)
        self.count = max(1, min(16, math.ceil(CACHE_BYTES / size)))
        shapes = ((m, k), (k, n), (m, n))
        self.sets = [[words((batch, *s, *pair)) for s in shapes] for _ in range(self.count)]
        self.complex = is_complex

    def problems(self) -> list[Any]:
        wrap = HalfComplex if self.complex else (lambda x: x)
        return [
            check_problem(wrap(a), wrap(b), 1, 0, None, False, False, "fp32", wrap(c))
            for a, b, c in self.sets
        ]

    def planar(self) -> list[list[Any]]:
        """Four real products for every set, on planes."""
        import cupy

        result = []
        for a, b, c in self.sets:
            (ar, ai), (br, bi), (cr, ci) = (
                [cupy.ascontiguousarray(x[..., i]) for i in (0, 1)] for x in (a, b, c)
            )
            terms = ((1, 0, ar, br, cr), (-1, 1, ai, bi, cr), (1, 0, ar, bi, ci), (1, 1, ai, br, ci))
            result.append(
                [
                    check_problem(x, y, alpha, beta, z, False, False, "fp32", z)
                    for alpha, beta, x, y, z in terms
                ]
            )
        return result


def replayed(launches: list[Any], repeats: int, least: int = 12) -> float:
    """Seconds for one launch: the median replay of a graph of all of them, in turn."""
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)
    count = len(launches) * math.ceil(least / len(launches))
    with stream:
        for launch in launches:
            launch()
        stream.synchronize()
        stream.begin_capture()
        for i in range(count):
            launches[i % len(launches)]()
        graph = stream.end_capture()
        graph.launch()
        times = []
        for _ in range(repeats):
            start, end = cupy.cuda.Event(), cupy.cuda.Event()
            start.record()
            graph.launch()
            end.record()
            end.synchronize()
            times.append(cupy.cuda.get_elapsed_time(start, end) / count * 1e-3)
    return float(np.median(times))


def time_way(operands: Operands, blocking: Blocking | None, repeats: int = 3) -> float:
    """Seconds of one blocking, or infinity if it does not fit."""
    launches = [lambda p=p: device.multiply(p, blocking) for p in operands.problems()]
    return replayed(launches, repeats, 12 if operands.count > 1 else 2)


def time_planar(operands: Operands, repeats: int = 3) -> float:
    """Seconds of a half-complex product as four cuBLAS products of planes."""
    cublas = Blocking("cublas")
    return replayed(
        [lambda four=f: [device.multiply(p, cublas) for p in four] for f in operands.planar()], repeats
    )


def shapes_of(name: str) -> list[tuple[int, int, int]]:
    sizes = [n for n in SIZES if n >= 2] if name.endswith("16") else SIZES
    return [(n, n, 16 if name.endswith("16") else n) for n in sizes]


REGIMES = ("real square", "real rank-16", "complex square", "complex rank-16")


def compile_all(part: list[tuple[str, int, int, int]]) -> None:
    """Compile a share of the kernels, into the cache on disk."""
    for name, m, n, k in part:
        is_complex = name.startswith("complex")
        problem = (
            Operands(m, n, k, 1000, is_complex).problems()[0]
            if m * n < 400
            else Operands(m, n, k, 2, is_complex).problems()[0]
        )
        call = device.place(problem, problem.out)
        for blocking in candidates(m, is_complex, name.endswith("16")):
            if blocking.way != "cublas":
                device.compiled(call.case, blocking)


def tuning_shapes(name: str) -> list[tuple[int, int, int]]:
    return [s for s in shapes_of(name) if regime(*s, False)[0].endswith(name.split()[1])]


def tune(out: Path, budget: float, skipped: tuple[int, int]) -> None:
    """Measure every blocking everywhere and write the fastest; sizes skipped keep their choices."""
    import cupy

    every = [(name, *s) for name in REGIMES for s in tuning_shapes(name)]
    old = json.loads(out.read_text()) if skipped[1] else {"choices": {}, "blockings": []}
    known = {(name, row["n"]) for name, rows in old["choices"].items() for row in rows}
    every = [x for x in every if x[:2] not in known or not skipped[0] <= x[1] <= skipped[1]]
    began = time.time()
    workers = min(16, os.cpu_count() or 1)
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        pool.map(compile_all, [every[i :: 4 * workers] for i in range(4 * workers)], chunksize=1)
    print(f"compiled in {time.time() - began:.0f} s", flush=True)
    blockings = [Blocking(**x) for x in old["blockings"]]
    choices: dict[str, list[dict[str, Any]]] = {name: old["choices"].get(name, []) for name in REGIMES}
    # Sizes in an order that covers the range evenly, in case time runs out.
    order = [x for step in range(4) for x in every[step::4]]
    for name, m, n, k in order:
        if time.time() - began > budget:
            print("out of time at", name, m, flush=True)
            break
        row = tune_size(name, m, n, k, blockings)
        choices[name] = [x for x in choices[name] if x["n"] != row["n"]] + [row]
    for rows in choices.values():
        rows.sort(key=lambda row: row["n"])
    record = heading("tune") | {
        "batches": BATCHES,
        "blockings": [changed(x) for x in blockings],
        "choices": choices,
    }
    out.write_text(compact(record))
    print(f"tuned {sum(map(len, choices.values()))} sizes in {time.time() - began:.0f} s", cupy.__version__)


def tune_size(name: str, m: int, n: int, k: int, blockings: list[Blocking]) -> dict[str, Any]:
    """The fastest blocking for every batch, with its time and cuBLAS's in microseconds."""
    is_complex = name.startswith("complex")
    best, times, library = [], [], []
    for batch in BATCHES:
        represented = min(batch, TUNED_BYTES // (6 * (1 + is_complex) * m * n))
        operands = Operands(m, n, k, represented, is_complex)
        measured = {
            x: time_way(operands, x) for x in distinct(operands, candidates(m, is_complex, name[-2:] == "16"))
        }
        # A second look at those within a tenth of the best, against noise.
        close = [x for x, t in measured.items() if t < 1.1 * min(measured.values())]
        for blocking in close[:6] if len(close) > 1 else []:
            measured[blocking] = min(measured[blocking], time_way(operands, blocking, 7))
        chosen = min(measured, key=lambda x: measured[x])
        if chosen not in blockings:
            blockings.append(chosen)
        best.append(blockings.index(chosen))
        times.append(round(measured[chosen] * 1e6, 2))
        library.append(round(measured[Blocking("cublas")] * 1e6, 2))
    return {"n": n, "best": best, "microseconds": times, "cublas": library}


def distinct(operands: Operands, blockings: list[Blocking]) -> list[Blocking]:
    """Those that fit, and that do not come to the same launch."""
    problem = operands.problems()[0]
    case = device.place(problem, problem.out).case
    plans = {x: None if x.way == "cublas" else device.compiled(case, x)[1] for x in blockings}
    seen = {plan: x for x, plan in reversed(plans.items()) if plan is not None}
    return [blockings[0], *reversed(seen.values())]


def changed(blocking: Blocking) -> dict[str, Any]:
    """The fields that differ from the defaults."""
    default = vars(Blocking(blocking.way))
    return {"way": blocking.way} | {k: v for k, v in vars(blocking).items() if v != default[k]}


COMPARED = {
    "Figs. 10a, 11 (real, square)": (
        "real square",
        [1000],
        (
            *range(2, 33, 2),
            7,
            15,
            17,
            31,
            33,
            40,
            48,
            50,
            56,
            63,
            64,
            72,
            80,
            96,
            100,
            101,
            112,
            127,
            128,
            160,
            200,
            255,
            256,
        ),
    ),
    "Figs. 10b, 11 (real, rank-16)": (
        "real rank-16",
        [1000],
        (*range(48, 129, 16), 50, 63, 100, 101, 160, 200, 255, 256),
    ),
    "Figs. 12a, 13 (half-complex, square)": (
        "complex square",
        [1000],
        (
            *range(2, 33, 2),
            7,
            15,
            17,
            31,
            33,
            40,
            48,
            50,
            56,
            63,
            64,
            72,
            80,
            96,
            100,
            101,
            128,
            160,
            200,
            255,
            256,
        ),
    ),
    "Figs. 12b, 13 (half-complex, rank-16)": (
        "complex rank-16",
        [1000],
        (*range(48, 129, 16), 50, 63, 100, 101, 160, 200, 255, 256),
    ),
    "Fig. 14 (real, small batches)": (
        "real square",
        [10, 100],
        (4, 8, 11, 16, 21, 24, 32, 33, 48, 64, 96, 100, 128, 192, 256),
    ),
    "Fig. 15 (half-complex, small batches)": (
        "complex square",
        [10, 100],
        (4, 8, 11, 16, 21, 24, 32, 33, 48, 64, 96, 100, 128, 192, 256),
    ),
    "Fig. 18 (real, extremely small, large batches)": (
        "real square",
        [10000, 100000],
        (*range(1, 17), 20, 24, 28, 32, 64, 128),
    ),
    "Fig. 19 (half-complex, extremely small, large batches)": (
        "complex square",
        [10000, 100000],
        (*range(1, 17), 20, 24, 28, 32, 64, 100),
    ),
}
"""Figure of the paper: its regime, batches and sizes."""


def compare(out: Path) -> None:
    """Time the function as it chooses, cuBLAS, and planar cuBLAS; write and print them."""
    record = heading("compare") | {"bandwidth": BANDWIDTH, "figures": {}}
    for figure, (name, batches, sizes) in COMPARED.items():
        rows = [row for batch in batches for n in sorted(sizes) if (row := compare_size(name, n, batch))]
        record["figures"][figure] = rows
    record["python_microseconds_per_call"] = python_cost()
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(compact(record))
    report(record)


def python_cost() -> float:
    """Microseconds of Python for one call of the public function, launch included."""
    import cupy

    a, b, c = Operands(16, 16, 16, 100, False).sets[0]
    batched_matmul(a, b, out=c)
    cupy.cuda.runtime.deviceSynchronize()
    began = time.perf_counter()
    for _ in range(500):
        batched_matmul(a, b, out=c)
    return round((time.perf_counter() - began) / 500 * 1e6, 1)


def compare_size(name: str, n: int, batch: int) -> dict[str, Any] | None:
    is_complex = name.startswith("complex")
    shape = (n, n, 16 if name.endswith("16") else n)
    if 6 * (1 + is_complex) * batch * n * n > 12 << 30:
        return None
    operands = Operands(*shape, batch, is_complex)
    ours = time_way(operands, None, 9)
    row = {"n": n, "k": shape[2], "batch": batch, "ours": ours}
    row["cublas"] = time_planar(operands, 9) if is_complex else time_way(operands, Blocking("cublas"), 9)
    problem = operands.problems()[0]
    row["way"] = device.choose(device.place(problem, problem.out).case).way
    layout = "interleaved" if is_complex else "real"
    row["bound"] = least_seconds(*shape, batch, layout, bandwidth=BANDWIDTH, read_c=False)
    if operands.count > 3:  # the same operands again and again: they stay in the L2 cache
        row["warm"] = replayed([lambda: device.multiply(problem)], 9)
    return row


def heading(command: str) -> dict[str, Any]:
    """What a result file says of itself."""
    import cupy
    from cupy.cuda import runtime

    from multiword.engines import _libcublas as lib
    from multiword.engines._cublas import current_handle

    version = ctypes.c_int()
    lib.routine("cublasGetVersion_v2")(current_handle(), ctypes.byref(version))
    return {
        "command": f"python benchmarks/batched.py {command}",
        "date": str(date.today()),
        "device": runtime.getDeviceProperties(0)["name"].decode(),
        "driver": runtime.driverGetVersion(),
        "cublas": version.value,
        "cupy": cupy.__version__,
        "unit": "seconds for one batch, kernels alone (graph replay)"
        if command == "compare"
        else "microseconds",
    }


def compact(record: dict[str, Any]) -> str:
    """JSON with one row to a line."""
    text = json.dumps(record, indent=1)
    return re.sub(r"\{[^{}]*\}|\[[^\[\]{}]*\]", lambda m: re.sub(r"\s*\n\s*", " ", m.group()), text) + "\n"


def report(record: dict[str, Any]) -> None:
    """Print the tables: time, achieved part of what memory allows, speed against cuBLAS."""
    from rich.console import Console
    from rich.table import Table

    console = Console(width=100)
    for figure, rows in record["figures"].items():
        table = Table(
            "n", "k", "batch", "way", "ours µs", "cuBLAS µs", "×", "bound µs", "of bound", title=figure
        )
        for row in rows:
            table.add_row(
                *(str(row["n"]), str(row["k"]), str(row["batch"]), row["way"]),
                *(
                    f"{row['ours'] * 1e6:.2f}",
                    f"{row['cublas'] * 1e6:.2f}",
                    f"{row['cublas'] / row['ours']:.2f}",
                ),
                *(f"{row['bound'] * 1e6:.2f}", f"{100 * row['bound'] / row['ours']:.0f} %"),
                f"{100 * row['bound'] / row['warm']:.0f} %" if "warm" in row else "",
            )
        console.print(table)
    print(f"Python's part of a call: {record['python_microseconds_per_call']} µs")
    slower = [r for rows in record["figures"].values() for r in rows if r["ours"] > 1.03 * r["cublas"]]
    console.print(f"slower than cuBLAS by more than 3 %: {[(r['n'], r['k'], r['batch']) for r in slower]}")


def plots(record: dict[str, Any], directory: Path) -> None:
    """One picture for each figure: achieved flops, cuBLAS's, and what memory allows."""
    import matplotlib.pyplot as plt

    directory.mkdir(parents=True, exist_ok=True)
    names = list(record["figures"])
    figure, axes = plt.subplots(2, 4, figsize=(20, 9))
    for axis, name in zip(axes.flat, names, strict=True):
        rows = record["figures"][name]
        flops = 8 if "complex" in name else 2
        for batch, style in zip(sorted({r["batch"] for r in rows}), ("-", "--"), strict=False):
            part = [r for r in rows if r["batch"] == batch]
            sizes = [r["n"] for r in part]
            work = np.array([flops * r["n"] ** 2 * r["k"] * batch for r in part])
            for key, colour, label in (
                ("ours", "C0", "this library"),
                ("cublas", "C1", "cuBLAS"),
                ("bound", "0.6", "memory bound"),
            ):
                rate = work / np.array([r[key] for r in part]) / 1e12
                axis.plot(
                    sizes,
                    rate,
                    style,
                    color=colour,
                    marker="." if key != "bound" else None,
                    label=f"{label}, batch {batch}",
                )
        axis.set(title=name, xlabel="n", ylabel="Tflop/s", xscale="log", yscale="log")
        axis.legend(fontsize=7)
    figure.suptitle(f"Batched half and half-complex products, {record['device']}, {record['date']}")
    figure.tight_layout()
    figure.savefig(directory / "batched.png", dpi=70)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("compare")
    command.add_argument("--out", type=Path, required=True)
    command = commands.add_parser("tune")
    command.add_argument("--out", type=Path, required=True)
    command.add_argument("--budget", type=float, default=math.inf, help="seconds after which tuning stops")
    command.add_argument("--skip", type=int, nargs=2, default=(0, 0), help="keep what OUT has in this range")
    command = commands.add_parser("report")
    command.add_argument("results", type=Path)
    command.add_argument("--plots", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "tune":
        tune(arguments.out, arguments.budget, tuple(arguments.skip))
    elif arguments.command == "compare":
        compare(arguments.out)
    else:
        record = json.loads(arguments.results.read_text())
        report(record)
        if arguments.plots:
            plots(record, arguments.plots)


if __name__ == "__main__":
    main()
