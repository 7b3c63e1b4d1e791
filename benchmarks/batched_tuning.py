"""Measuring every tuning of `batched_matmul` at every size, on this machine's GPU."""

from __future__ import annotations

import itertools
import json
import math
import multiprocessing
import os
import time
from pathlib import Path
from typing import Any

from benchmarks.batched_timing import Operands, heading, time_tuning
from benchmarks.timing import compact
from multiword.batched.gpu.kernels import compiled
from multiword.batched.gpu.plans import Tuning, regime
from multiword.batched.gpu.storage import lay_out
from tests.multiword.batched.cases import sample_case

TUNED_BYTES = 400 << 20
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
    *(Tuning("plain", t, c) for t, c in ((64, 4096), (128, 4096), (128, 8192), (256, 16384))),
    *(Tuning("plain", t, 1, direct=True) for t in (64, 128, 256)),
]
SHAPES = {8: [(1, 1)], 16: [(1, 1), (1, 2)], 32: [(1, 1), (1, 2), (2, 2)], 64: [(1, 2), (2, 2), (2, 4)]}
"""Tensor-core tiles of a warp, for sizes up to the key."""

STAGED = {
    32: ((64, 4096), (64, 8192), (64, 16384), (128, 4096), (128, 8192), (128, 16384), (256, 16384)),
    64: ((64, 4096), (128, 4096), (128, 8192), (128, 16384), (256, 16384), (128, 32768), (256, 32768)),
    256: ((128, 1), (256, 1), (512, 1)),
}
"""Threads, and bytes that a block takes at once, for sizes up to the key."""

DIRECT = ((32, 1), (64, 1), (128, 1), (256, 1), (128, 8192), (256, 16384))

TILED = [
    Tuning("tiled", *(128, 8192, *x[:6]), persistent=x[6])
    for x in (
        *((1, 1, 2, 2, 2, 3, 0), (2, 2, 2, 2, 2, 3, 0), (2, 2, 2, 2, 1, 2, 0), (1, 2, 4, 2, 2, 2, 0)),
        *((2, 2, 2, 2, 4, 2, 0), (2, 4, 2, 2, 2, 3, 0), (2, 4, 4, 2, 2, 3, 0), (4, 2, 2, 4, 2, 3, 0)),
        *((4, 4, 2, 2, 2, 3, 0), (4, 4, 2, 2, 4, 3, 2), (4, 4, 2, 4, 2, 4, 1), (4, 4, 2, 4, 4, 3, 1)),
        *((4, 4, 2, 4, 2, 4, 0), (4, 4, 2, 2, 2, 4, 2), (1, 5, 7, 1, 4, 2, 0), (2, 5, 7, 1, 2, 3, 0)),
    )
]


def candidates(n: int, is_complex: bool, rank: bool) -> list[Tuning]:
    """The tunings worth measuring at a size."""
    parts = 2 if is_complex else 1
    found = [] if is_complex else [Tuning("cublas")]
    if parts * n <= 16:
        found += PLAIN
    if n <= (128 if is_complex else 256):
        shapes = SHAPES[next((x for x in SHAPES if n <= x), 64)] if n <= 64 else [(2, 2), (2, 4), (4, 2)]
        if is_complex and 16 < n <= 24:
            shapes = [*shapes[:2], (2, 3)]
        if is_complex and 24 < n <= 32:
            shapes = [*shapes[:3], (2, 4)]
        staged = STAGED[next(x for x in STAGED if n <= x)]
        found += [Tuning("resident", *x, *shape) for shape in shapes for x in staged]
        if n <= 64:
            found += [Tuning("resident", *x, *shape, direct=True) for shape in shapes[:2] for x in DIRECT]
            found += [Tuning("resident", t, 1, *shape, direct=True) for shape in shapes[2:] for t in (32, 64)]
    if n > 24 or rank:
        found += TILED if n > 48 else TILED[:4]
    return found + (fitted(n, is_complex) if n > 88 and not rank else [])


def fitted(n: int, is_complex: bool) -> list[Tuning]:
    """Tiled tunings by a model: cycles of a multiprocessor for each instruction, edges included."""
    wide = 8 if is_complex else 16
    ranked = []
    for m, k, wm, wn in itertools.product((1, 2, 3, 4), (4, 5, 6, 7), range(1, 9), range(1, 6)):
        # Warps that the registers of a multiprocessor hold: 8·m·k for sums, and about 70 more
        if m * k <= 20 and 4 <= wm * wn <= min(14, 65536 // 32 // (8 * m * k + 70)):
            rows, columns = 16 * m * wm, wide * k * wn
            covered = math.ceil(n / rows) * rows * math.ceil(n / columns) * columns
            # Shared memory: 4 cycles for 16 rows of A, 2 for 16 real columns of B; the tensor cores take 2.1.
            busy = max(2.1, (4 * m + 2 * k) / (2 * m * k))
            # 32 bytes for each row and real column of a step, at 24 bytes a cycle from the L2 cache
            real = 16 * k * wn
            fetched = 32 / 24 * (rows + real) / (rows / 16 * real / 8)
            ranked.append((covered / n**2 * (busy + fetched), m, k, wm, wn))
    return [
        Tuning("tiled", 128, 8192, m, k, wm, wn, steps, stages, persistent=blocks * max(1, 8 // (wm * wn)))
        for _, m, k, wm, wn in sorted(ranked)[: 6 if n > 128 else 4]
        for steps, stages, blocks in ((2, 3, 0), (2, 4, 1), (4, 3, 1))
    ]


def compile_all(shape: tuple[str, int, int, int]) -> None:
    """Compile the kernels of a shape, into the cache on disk; nothing runs on the GPU."""
    name, m, n, k = shape
    is_complex = name.startswith("complex")
    case = sample_case(m, n, k, complex=is_complex)
    for tuning in candidates(m, is_complex, name.endswith("16")):
        if tuning.kernel != "cublas":
            compiled(case, tuning)


def tuning_shapes(name: str) -> list[tuple[int, int, int]]:
    """The shapes that a regime's table is measured at."""
    shapes = [(n, n, 16 if name.endswith("16") else n) for n in SIZES]
    return [s for s in shapes if regime(*s, name.startswith("complex"))[0] == name]


def tune(out: Path, budget: float, regimes: list[str], sizes: tuple[int, int], again: bool) -> None:
    """Measure every tuning and write the fastest; what OUT has of other regimes and sizes is kept."""
    import cupy

    old = json.loads(out.read_text()) if out.exists() else {"choices": {}, "tunings": []}
    rows = {(name, row["n"]): row for name in old["choices"] for row in old["choices"][name]}
    every = [(name, *s) for name in regimes for s in tuning_shapes(name) if sizes[0] <= s[0] <= sizes[1]]
    if not again:
        every = [x for x in every if len(rows.get(x[:2], {"best": ()})["best"]) < len(batches_of(x[1]))]
    began = time.time()
    tunings = [Tuning(**x) for x in old["tunings"]]
    # Sizes in an order that covers the range evenly, in case time runs out.
    order = [x for step in range(4) for x in every[step::4]]
    with multiprocessing.get_context("spawn").Pool(min(15, os.cpu_count() or 1)) as pool:
        # Compiled ahead by the pool, timed here as they come.
        for (name, m, n, k), _ in zip(order, pool.imap(compile_all, order), strict=True):
            if time.time() - began > budget:
                print("out of time at", name, m, flush=True)
                break
            rows[name, n] = tune_size(name, m, n, k, tunings, rows.get((name, n)), again)
    choices = {name: [rows[key] for key in sorted(rows) if key[0] == name] for name in REGIMES}
    record = heading("tune") | {
        "batches": BATCHES,
        "tunings": [changed(x) for x in tunings],
        "choices": choices,
    }
    out.write_text(compact(record))
    print(f"tuned {len(every)} sizes in {time.time() - began:.0f} s", cupy.__version__)


def batches_of(n: int) -> tuple[int, ...]:
    return BATCHES if n <= 32 else BATCHES[:-1]


def tune_size(
    name: str,
    m: int,
    n: int,
    k: int,
    tunings: list[Tuning],
    row: dict[str, Any] | None,
    again: bool = False,
) -> dict[str, Any]:
    """The fastest tuning for every batch that `row` lacks, with its time and cuBLAS's in microseconds.

    Those that were the fastest before are measured again with the others.
    """
    is_complex = name.startswith("complex")
    former = [tunings[i] for i in row["best"]] if row else []
    every = list(dict.fromkeys([*candidates(m, is_complex, name.endswith("16")), *former]))
    if row is None or again:
        row = {"n": n, "best": [], "microseconds": [], "cublas": []}
    best, times, library = row["best"], row["microseconds"], row["cublas"]
    done: dict[int, dict[Tuning, float]] = {}
    for batch in batches_of(n)[len(best) :]:
        represented = min(batch, TUNED_BYTES // (6 * (1 + is_complex) * m * n))
        operands = Operands(m, n, k, represented, is_complex)
        measured = done.get(represented) or {x: time_tuning(operands, x) for x in distinct(operands, every)}
        done[represented] = measured
        # A second look at those within a tenth of the best, against noise.
        close = [x for x, t in measured.items() if t < 1.1 * min(measured.values())]
        for tuning in close[:6] if len(close) > 1 else []:
            measured[tuning] = min(measured[tuning], time_tuning(operands, tuning, 7))
        chosen = min(measured, key=lambda x: measured[x])
        if chosen not in tunings:
            tunings.append(chosen)
        best.append(tunings.index(chosen))
        times.append(round(measured[chosen] * 1e6, 2))
        if not is_complex:  # cuBLAS has real products only
            library.append(round(measured[Tuning("cublas")] * 1e6, 2))
    return row


def distinct(operands: Operands, tunings: list[Tuning]) -> list[Tuning]:
    """Those that fit, and that do not come to the same launch."""
    problem = operands.problems()[0]
    case = lay_out(problem, problem.out).case
    plans = {x: None if x.kernel == "cublas" else compiled(case, x)[1] for x in tunings}
    seen = {plan: x for x, plan in reversed(plans.items()) if plan is not None}
    return [*(x for x in tunings if x.kernel == "cublas"), *reversed(seen.values())]


def changed(tuning: Tuning) -> dict[str, Any]:
    """The fields that differ from the defaults."""
    default = vars(Tuning(tuning.kernel))
    return {"kernel": tuning.kernel} | {k: v for k, v in vars(tuning).items() if v != default[k]}
