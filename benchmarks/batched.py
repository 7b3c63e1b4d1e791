"""Batches of small half and half-complex products on a GPU, against cuBLAS and the roofline.

    python benchmarks/batched.py tune    --out multiword/batched/gpu/choices.json
    python benchmarks/batched.py compare --out benchmarks/results/batched_h200.json
    python benchmarks/batched.py report  benchmarks/results/batched_h200.json

`tune` measures every tuning at every size and writes the choices that `batched_matmul` makes.
`compare` times the function as it chooses, for the sizes and batches of Abdelfattah, Tomov and
Dongarra's Figs. 10 to 19 and more. Times are of kernels, from the replay of CUDA graphs; operands
rotate among as many sets as it takes to exceed the L2 cache (at most 16), and "in L2" is the same
with one set. C is written, not read, unless it says otherwise. Half-complex cuBLAS is four products
of planes that are taken as given. Beside each batch stands a kernel that reads the same A and B and
writes as much as C without computing anything, and for all of them one that does nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.batched_timing import (
    Operands,
    heading,
    launcher,
    replayed,
    time_empty,
    time_mover,
    time_planar,
    time_tuning,
)
from benchmarks.batched_tuning import REGIMES, tune
from benchmarks.timing import compact
from multiword.batched import batched_matmul, least_seconds
from multiword.batched.gpu.plans import Tuning, choose
from multiword.batched.gpu.storage import lay_out

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
SMALLEST = (*range(1, 17), 20, 24, 28, 31, 32, 64, 100, 128)
MORE = (20, 24, 32, 48, 64, 100, 128, 200, 256)

COMPARED = {
    "Figs. 10a, 11 (real, square)": ("real square", (1000,), SQUARE),
    "Figs. 10b, 11 (real, rank-16)": ("real rank-16", (1000,), UPDATES),
    "Figs. 12a, 13 (half-complex, square)": ("complex square", (1000,), SQUARE),
    "Figs. 12b, 13 (half-complex, rank-16)": ("complex rank-16", (1000,), UPDATES),
    "Fig. 14 (real, small batches)": ("real square", (10, 100), SMALL_BATCHES),
    "Fig. 15 (half-complex, small batches)": ("complex square", (10, 100), SMALL_BATCHES),
    "Fig. 18 (real, extremely small)": ("real square", (10000, 100000), SMALLEST),
    "Fig. 19 (half-complex, extremely small)": ("complex square", (10000, 100000), SMALLEST),
    "More batches (real, rank-16)": ("real rank-16", (10, 100, 10000), MORE),
    "More batches (half-complex, rank-16)": ("complex rank-16", (10, 100, 10000), MORE),
}
"""Figures of the paper: regime, batches and sizes."""


OPTIONS: dict[str, dict[str, Any]] = {
    "β = 1": {"beta": 1},
    "Aᵀ": {"trans_a": "T"},
    "Bᵀ": {"trans_b": "T"},
    "AᵀBᵀ": {"trans_a": "T", "trans_b": "T"},
    "Aᴴ": {"trans_a": "C"},
    "one B for all": {"one_b": True},
}
"""What a call may ask for beside the plain product."""


def compare(out: Path) -> None:
    """Time the function as it chooses, cuBLAS, planar cuBLAS and the floors; write and print them."""
    record = heading("compare") | {"bandwidth": BANDWIDTH, "empty": time_empty(), "figures": {}}
    for figure, (name, batches, sizes) in COMPARED.items():
        rows = [row for batch in batches for n in sorted(sizes) if (row := compare_size(name, n, batch))]
        record["figures"][figure] = rows
    record["options"] = [
        row | {"kind": name.split()[0], "option": title}
        for name in ("real square", "complex square")
        for title, options in OPTIONS.items()
        for n in (7, 8, 16, 20, 32, 64, 100, 128)
        if (title != "Aᴴ" or name.startswith("complex")) and (row := compare_size(name, n, 1000, options))
    ]
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


def compare_size(
    name: str, n: int, batch: int, options: dict[str, Any] | None = None
) -> dict[str, Any] | None:
    """One row of a table: seconds for a batch, or None if it takes too much memory."""
    is_complex = name.startswith("complex")
    shape = (n, n, 16 if name.endswith("16") else n)
    if 6 * (1 + is_complex) * batch * n * n > 12 << 30:
        return None
    operands = Operands(*shape, batch, is_complex, options)
    row = {"n": n, "k": shape[2], "batch": batch, "ours": time_tuning(operands, None, 9)}
    row["cublas"] = time_planar(operands, 9) if is_complex else time_tuning(operands, Tuning("cublas"), 9)
    problem = operands.problems()[0]
    row["kernel"] = choose(lay_out(problem, problem.out).case).kernel
    reads_c = bool(operands.options["beta"])
    layout = "interleaved" if is_complex else "real"
    row["bound"] = least_seconds(*shape, batch, layout, bandwidth=BANDWIDTH, read_c=reads_c)
    if options and "one_b" in options:
        row["bound"] = operands.bytes / BANDWIDTH
    if not reads_c:
        row["mover"] = time_mover(operands)
    if operands.count > 3:  # the same operands again and again: they stay in the L2 cache
        row["warm"] = replayed([launcher(problem, None)], 9)
    return row


def report(record: dict[str, Any]) -> None:
    """Print the tables: times, parts of what memory and launches allow, speed against cuBLAS."""
    from rich.console import Console
    from rich.table import Table

    console = Console(width=110)
    tables = record["figures"] | {"Options, batch 1000": record["options"]}
    for title, rows in tables.items():
        heads = (
            "n",
            "k",
            "batch",
            "kernel",
            "ours µs",
            "cuBLAS µs",
            "×",
            "bound µs",
            "moving µs",
            "of floor",
            "L2",
        )
        table = Table(*heads, title=title)
        for row in rows:
            ours, cublas, bound, mover = (
                1e6 * row.get(x, math.nan) for x in ("ours", "cublas", "bound", "mover")
            )
            floor = max(row["bound"], record["empty"])
            table.add_row(
                *(
                    row.get("option", str(row["n"])),
                    f"{row['n']}, {row['k']}",
                    str(row["batch"]),
                    row["kernel"],
                ),
                *(f"{ours:.2f}", f"{cublas:.2f}", f"{cublas / ours:.2f}", f"{bound:.2f}", f"{mover:.2f}"),
                f"{100 * floor / row['ours']:.0f} %",
                f"{100 * floor / row['warm']:.0f} %" if "warm" in row else "",
            )
        console.print(table)
    print(
        f"empty kernel: {record['empty'] * 1e6:.2f} µs; a call: {record['python_microseconds_per_call']} µs"
    )
    for title, rows in tables.items():
        slower = [(r["n"], r["k"], r["batch"]) for r in rows if r["ours"] > 1.03 * r["cublas"]]
        if slower:
            print(f"{title}: slower than cuBLAS by more than 3 % at (n, k, batch) = {slower}")


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
    arguments = parser.parse_args()
    if arguments.command == "tune":
        sizes = tuple(arguments.sizes)
        tune(arguments.out, arguments.budget, arguments.regimes, sizes, arguments.again)
    elif arguments.command == "compare":
        compare(arguments.out)
    else:
        report(json.loads(arguments.results.read_text()))


if __name__ == "__main__":
    main()
