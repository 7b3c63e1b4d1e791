"""Batches of small half and half-complex products on a GPU, against cuBLAS and the roofline.

    python benchmarks/batched.py tune    --out multiword/batched/choices.json
    python benchmarks/batched.py compare --out benchmarks/results/batched_h200.json
    python benchmarks/batched.py report  benchmarks/results/batched_h200.json --plot FIGURE.png

`tune` measures every blocking at every size and writes the choices that `batched_matmul` makes.
`compare` times the function as it chooses, for the sizes and batches of Abdelfattah, Tomov and
Dongarra's Figs. 10 to 19. Times are of kernels, from the replay of CUDA graphs; operands rotate
among as many sets as it takes to exceed the L2 cache (at most 16), and "in L2" is the same with one set.
C is written, not read. Half-complex cuBLAS is four products of planes that are taken as given.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.batched_timing import Operands, compact, heading, replayed, time_planar, time_way
from benchmarks.batched_tuning import REGIMES, tune
from multiword.batched import _device as device
from multiword.batched import batched_matmul, least_seconds
from multiword.batched._plans import Blocking

BANDWIDTH = 4.2e12
"""Bytes per second of a copy within the H200's memory, read and write."""

# fmt: off
SQUARE = (
    *(*range(2, 33, 2), 7, 15, 17, 31, 33, 40, 48, 50, 56, 63, 64, 72, 80, 96, 100, 101),
    *(112, 127, 128, 144, 160, 192, 200, 224, 255, 256),
)
# fmt: on
UPDATES = (*range(48, 129, 16), 50, 63, 100, 101, 160, 200, 255, 256)
SMALL_BATCHES = (4, 8, 11, 16, 21, 24, 32, 33, 48, 64, 96, 100, 128, 192, 256)
SMALLEST = (*range(1, 17), 20, 24, 28, 32, 64, 100, 128)

COMPARED = {
    "Figs. 10a, 11 (real, square)": ("real square", (1000,), SQUARE),
    "Figs. 10b, 11 (real, rank-16)": ("real rank-16", (1000,), UPDATES),
    "Figs. 12a, 13 (half-complex, square)": ("complex square", (1000,), SQUARE),
    "Figs. 12b, 13 (half-complex, rank-16)": ("complex rank-16", (1000,), UPDATES),
    "Fig. 14 (real, small batches)": ("real square", (10, 100), SMALL_BATCHES),
    "Fig. 15 (half-complex, small batches)": ("complex square", (10, 100), SMALL_BATCHES),
    "Fig. 18 (real, extremely small)": ("real square", (10000, 100000), SMALLEST),
    "Fig. 19 (half-complex, extremely small)": ("complex square", (10000, 100000), SMALLEST),
}
"""Figures of the paper: regime, batches and sizes."""


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


def report(record: dict[str, Any]) -> None:
    """Print the tables: time, achieved part of what memory allows, speed against cuBLAS."""
    from rich.console import Console
    from rich.table import Table

    console = Console(width=100)
    for figure, rows in record["figures"].items():
        heads = ("n", "k", "batch", "way", "ours µs", "cuBLAS µs", "×", "bound µs", "of bound", "in L2")
        table = Table(*heads, title=figure)
        for row in rows:
            ours, cublas, bound = (row[key] * 1e6 for key in ("ours", "cublas", "bound"))
            table.add_row(
                *(str(row["n"]), str(row["k"]), str(row["batch"]), row["way"]),
                *(f"{ours:.2f}", f"{cublas:.2f}", f"{cublas / ours:.2f}"),
                *(f"{bound:.2f}", f"{100 * bound / ours:.0f} %"),
                f"{100 * row['bound'] / row['warm']:.0f} %" if "warm" in row else "",
            )
        console.print(table)
    print(f"Python's part of a call: {record['python_microseconds_per_call']} µs")
    for figure, rows in record["figures"].items():
        slower = [(r["n"], r["k"], r["batch"]) for r in rows if r["ours"] > 1.03 * r["cublas"]]
        if slower:
            print(f"{figure}: slower than cuBLAS by more than 3 % at (n, k, batch) = {slower}")


def draw(axis: Any, name: str, rows: list[dict[str, Any]]) -> None:
    """Achieved flops of one figure, cuBLAS's, and what memory allows."""
    flops = 8 if "complex" in name else 2
    curves = (("ours", "C0.", "this library"), ("cublas", "C1.", "cuBLAS"), ("bound", "k", "memory bound"))
    for batch, line in zip(sorted({r["batch"] for r in rows}), ("-", "--"), strict=False):
        part = [r for r in rows if r["batch"] == batch]
        work = np.array([flops * r["n"] ** 2 * r["k"] * batch for r in part])
        for key, style, label in curves:
            rate = work / np.array([r[key] for r in part]) / 1e12
            axis.plot([r["n"] for r in part], rate, style + line, label=f"{label}, batch {batch}")
    axis.set(title=name, xlabel="n", ylabel="Tflop/s", xscale="log", yscale="log")
    axis.legend(fontsize=7)


def plot(record: dict[str, Any], path: Path) -> None:
    """All figures side by side in one picture."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 4, figsize=(20, 9))
    for axis, (name, rows) in zip(axes.flat, record["figures"].items(), strict=True):
        draw(axis, name, rows)
    figure.suptitle(f"Batched half and half-complex products, {record['device']}, {record['date']}")
    figure.tight_layout()
    figure.savefig(path, dpi=70)


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
    command.add_argument("--regimes", nargs="+", choices=REGIMES, default=list(REGIMES))
    command.add_argument("--sizes", type=int, nargs=2, default=(1, 256), help="from, to")
    command.add_argument("--again", action="store_true", help="also what OUT has already")
    command = commands.add_parser("report")
    command.add_argument("results", type=Path)
    command.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "tune":
        sizes = tuple(arguments.sizes)
        tune(arguments.out, arguments.budget, arguments.regimes, sizes, arguments.again)
    elif arguments.command == "compare":
        compare(arguments.out)
    else:
        record = json.loads(arguments.results.read_text())
        report(record)
        if arguments.plot:
            plot(record, arguments.plot)


if __name__ == "__main__":
    main()
