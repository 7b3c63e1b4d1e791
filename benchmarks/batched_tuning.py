"""Measuring every blocking of `batched_matmul` at every size, on this machine's GPU."""

from __future__ import annotations

import itertools
import json
import math
import multiprocessing
import os
import time
from pathlib import Path
from typing import Any

from benchmarks.batched_timing import Operands, compact, heading, time_way
from multiword.batched import _device as device
from multiword.batched._choices import regime
from multiword.batched._plans import Blocking

TUNED_BYTES = 600 << 20
"""Larger batches are tuned by a part of them that fills this much memory."""

REGIMES = ("real square", "real rank-16", "complex square", "complex rank-16")

BATCHES = (10, 100, 1000, 10000, 100000)
"""The last one for sizes up to 32 only."""

# fmt: off
SIZES = (
    *range(1, 34),
    *(34, 36, 40, 44, 47, 48, 50, 52, 56, 60, 63, 64, 65, 72, 80, 81, 88, 96, 100, 101, 104),
    *(112, 120, 127, 128, 129, 144, 150, 160, 176, 191, 192, 200, 224, 225, 240, 250, 255, 256),
)
# fmt: on
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
    return found + (fitted(n, is_complex) if n > 88 and not rank else [])


def fitted(n: int, is_complex: bool) -> list[Blocking]:
    """Tiled blockings whose tiles cover n × n with little to spare and that reuse much in registers."""
    wide = 8 if is_complex else 16
    ranked = []
    for m, k, wm, wn in itertools.product((2, 3, 4), (4, 5, 6, 7), range(1, 9), range(1, 6)):
        if m * k <= 16 and 4 <= wm * wn <= 8:
            rows, columns = 16 * m * wm, wide * k * wn
            covered = math.ceil(n / rows) * rows * math.ceil(n / columns) * columns
            # Shared-memory cycles for each instruction: 4 for 16 rows of A, 2 for 16 real columns of B.
            reads = (4 * m + 2 * k) / (2 * m * k)
            # Rows and columns of operands that a block fetches for each entry of its tile
            fetched = (rows + columns) / (rows * columns) * 16
            ranked.append((covered / n**2 * (0.5 + reads + fetched), m, k, wm, wn))
    return [
        Blocking("tiled", tile_m=m, tile_n=k, warps_m=wm, warps_n=wn, steps=steps, stages=stages)
        for _, m, k, wm, wn in sorted(ranked)[:5]
        for steps, stages in ((2, 3), (4, 2))
    ]


def compile_all(part: list[tuple[str, int, int, int]]) -> None:
    """Compile a share of the kernels, into the cache on disk."""
    for name, m, n, k in part:
        is_complex = name.startswith("complex")
        distinct(Operands(m, n, k, 2, is_complex), candidates(m, is_complex, name.endswith("16")))


def tuning_shapes(name: str) -> list[tuple[int, int, int]]:
    """The shapes that a regime's table is measured at."""
    shapes = [(n, n, 16 if name.endswith("16") else n) for n in SIZES]
    return [s for s in shapes if regime(*s, name.startswith("complex"))[0] == name]


def tune(out: Path, budget: float, regimes: list[str], sizes: tuple[int, int], again: bool) -> None:
    """Measure every blocking and write the fastest; what OUT has of other regimes and sizes is kept."""
    import cupy

    old = json.loads(out.read_text()) if out.exists() else {"choices": {}, "blockings": []}
    rows = {(name, row["n"]): row for name in old["choices"] for row in old["choices"][name]}
    every = [(name, *s) for name in regimes for s in tuning_shapes(name) if sizes[0] <= s[0] <= sizes[1]]
    if not again:
        every = [x for x in every if len(rows.get(x[:2], {"best": ()})["best"]) < len(batches_of(x[1]))]
    began = time.time()
    workers = min(16, os.cpu_count() or 1)
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        pool.map(compile_all, [every[i :: 4 * workers] for i in range(4 * workers)], chunksize=1)
    print(f"compiled in {time.time() - began:.0f} s", flush=True)
    blockings = [Blocking(**x) for x in old["blockings"]]
    # Sizes in an order that covers the range evenly, in case time runs out.
    order = [x for step in range(4) for x in every[step::4]]
    for name, m, n, k in order:
        if time.time() - began > budget:
            print("out of time at", name, m, flush=True)
            break
        rows[name, n] = tune_size(name, m, n, k, blockings, None if again else rows.get((name, n)))
    choices = {name: [rows[key] for key in sorted(rows) if key[0] == name] for name in REGIMES}
    record = heading("tune") | {
        "batches": BATCHES,
        "blockings": [changed(x) for x in blockings],
        "choices": choices,
    }
    out.write_text(compact(record))
    print(f"tuned {len(every)} sizes in {time.time() - began:.0f} s", cupy.__version__)


def batches_of(n: int) -> tuple[int, ...]:
    return BATCHES if n <= 32 else BATCHES[:-1]


def tune_size(
    name: str, m: int, n: int, k: int, blockings: list[Blocking], row: dict[str, Any] | None
) -> dict[str, Any]:
    """The fastest blocking for every batch that `row` lacks, with its time and cuBLAS's in microseconds."""
    is_complex = name.startswith("complex")
    row = row or {"n": n, "best": [], "microseconds": [], "cublas": []}
    best, times, library = row["best"], row["microseconds"], row["cublas"]
    for batch in batches_of(n)[len(best) :]:
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
    return row


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
